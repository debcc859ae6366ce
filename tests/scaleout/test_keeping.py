"""Backups, a lost place and moves over Ray: two places of one node, an actor each."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from support.ray_nodes import OPTIONS, one_node

from simindex import Config, scaleout

pytestmark = pytest.mark.filterwarnings(
    # Of processes that Ray has started and not waited for, when their handles are collected.
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    OPTIONS["resources"] = {"simindex:a": 1, "simindex:b": 1}
    try:
        with one_node():
            yield
    finally:
        del OPTIONS["resources"]


def items(first: int, count: int) -> list[tuple[int, str]]:
    return [(n, f"a text of the number {n} beside {n // 2}") for n in range(first, first + count)]


def test_nothing_acknowledged_is_lost_with_a_place(tmp_path: Path) -> None:
    uri, places = tmp_path / "catalog", {"simindex:a": str(tmp_path / "a"), "simindex:b": str(tmp_path / "b")}
    store = str(tmp_path / "store")
    settings = {"partitions": 4, "places": places, "store": store, "durability": "store"}
    index = scaleout.create(uri, Config(seed=1), **settings)  # type: ignore[arg-type]
    index.insert_many(items(0, 100))
    reports = scaleout.backup(uri)
    assert index.backup().keys() == reports.keys()
    assert sum(report.documents for report in reports.values()) == 100
    index.insert_many(items(100, 50))

    actor = ray.get_actor(f"{index.catalog.id}/simindex:a", namespace="simindex")
    ray.kill(actor)
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(ValueError, match="onto: expected one place or more"):
        scaleout.restore(uri, "simindex:a", {})
    with pytest.raises(scaleout.PlaceMissingError, match="simindex:nowhere, which no node has"):
        scaleout.restore(uri, "simindex:a", {"simindex:nowhere": "/data"})
    restored = scaleout.restore(uri, "simindex:a", {"simindex:b": places["simindex:b"]})
    assert sorted(restored) == [0, 2]
    with pytest.raises(scaleout.CatalogChangedError, match="open the index again"):
        len(index)
    index = scaleout.open(uri)
    assert len(index) == 150
    assert {match.key for match in index.query("a text of the number 120 beside 60", 0.9)} == {120}

    moves = scaleout.rebalance(uri, places, dry_run=True)
    assert [(move.source, move.target) for move in moves] == [("simindex:b", "simindex:a")] * 2
    assert scaleout.open(uri).catalog.places == {"simindex:b": (0, 1, 2, 3)}
    assert scaleout.rebalance(uri, places) == moves
    index = scaleout.open(uri)
    assert index.insert_many(items(150, 50)) == (50, 0, 0)
    assert {place: len(numbers) for place, numbers in index.catalog.places.items()} == dict.fromkeys(
        places, 2
    )
    assert len(index) == 200
    index.stop()


def test_what_cannot_be_done_is_refused_before_anything_is(tmp_path: Path) -> None:
    uri, places = tmp_path / "catalog", {"simindex:a": str(tmp_path / "a")}
    scaleout.create(uri, Config(seed=1), partitions=2, places=places)
    with pytest.raises(scaleout.PlaceMissingError, match="simindex:nowhere, which no node has"):
        scaleout.move(uri, 1, "simindex:nowhere", "/data")
    with pytest.raises(ValueError, match="expected a catalog with a store"):
        scaleout.backup(uri)
    with pytest.raises(ValueError, match=r"partition: expected 0\.\.1, found 2"):
        scaleout.move(uri, 2, "simindex:b", str(tmp_path))
    (tmp_path / "file").write_bytes(b"")
    blocked = str(tmp_path / "file")
    with pytest.raises(scaleout.PartitionError, match=r"partition 1 at simindex:a \(.*file") as raised:
        scaleout.move(uri, 1, "simindex:b", str(tmp_path / "b"), store=blocked)
    assert (raised.value.partition, raised.value.place) == (1, "simindex:a")
    with pytest.raises(scaleout.PartitionError, match=r"partition 1 at simindex:b"):
        scaleout.move(uri, 1, "simindex:b", blocked, store=str(tmp_path / "store"))
    index = scaleout.open(uri)
    assert {(row.place, row.closed) for row in index.catalog.partitions} == {("simindex:a", None)}
    index.insert_many(items(0, 20))
    assert len(index) == 20
    with pytest.raises(ValueError, match="expected a catalog with a store, or store="):
        scaleout.move(uri, 1, "simindex:b", str(tmp_path / "b"))
    scaleout.move(uri, 1, "simindex:b", str(tmp_path / "b"), store=str(tmp_path / "way"))
    index = scaleout.open(uri)
    assert len(index) == 20
    assert index.catalog.places == {"simindex:a": (0,), "simindex:b": (1,)}
    index.stop()
