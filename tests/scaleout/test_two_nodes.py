"""Two nodes of Ray: deduplication writes what one machine does, byte for byte; a lost node is restored."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hosts import rows_of, written
from support.ray_nodes import several_nodes

from simindex import Config, scaleout
from simindex.corpus import deduplicate
from simindex.inputs import BadRowError
from simindex.scaleout import PlaceMissingError, StoreError

TEXTS = [f"a text of the number {n} beside {n // 2}" for n in range(150)]


@pytest.fixture(scope="module")
def two() -> Iterator[Callable[[int], None]]:
    with several_nodes(2) as kill:
        yield kill


@pytest.mark.usefixtures("two")
def test_two_nodes_write_what_one_machine_does(tmp_path: Path) -> None:
    sources = [written(tmp_path / f"{seed}.jsonl", rows_of(seed, 1_500)) for seed in (1, 2)]
    work, steps = tmp_path / "work", list[tuple[str, int, int]]()

    def step(*told: Any) -> None:
        steps.append(told)
        if told[0] == "ranges":
            assert len([path for path in work.glob("*/*/*") if path.is_dir()]) > 4

    given: dict[str, Any] = {"keep": "longest"}  # nothing is noted: so they write the output, too
    expected = deduplicate(sources, tmp_path / "one.jsonl", 0.7, **given)
    more: dict[str, Any] = {"part_bytes": 100_000, "work": work, "on_step": step}
    found = scaleout.deduplicate(sources, tmp_path / "many.jsonl", 0.7, **given, **more)
    assert found[:4] == expected[:4]
    assert expected.removed > 500
    for name in ("{}.jsonl", "{}.jsonl.dedup/removed.jsonl"):
        assert (tmp_path / name.format("many")).read_bytes() == (tmp_path / name.format("one")).read_bytes()
    assert {name: done for name, done, total in steps if done == total}.keys() == {"parts", "ranges"}
    assert not list(work.iterdir())


@pytest.mark.usefixtures("two")
def test_a_bad_row_on_a_node_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    source = tmp_path / "bad.jsonl"
    written(source, rows_of(3, 100))
    source.write_bytes(source.read_bytes() + b'{"id": 7\n')
    with pytest.raises(BadRowError, match=r"bad\.jsonl:101"):
        scaleout.deduplicate([str(source)], tmp_path / "out.jsonl", work=tmp_path / "work", part_bytes=5_000)
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.usefixtures("two")
def test_what_nodes_do_not_have_is_refused_by_create(tmp_path: Path) -> None:
    uri, places = tmp_path / "catalog", {"simindex:0": str(tmp_path / "0")}
    with pytest.raises(PlaceMissingError, match=r"places: .* found simindex:typo, which no node has"):
        scaleout.create(uri, partitions=2, places=places | {"simindex:typo": "/data"})
    with pytest.raises(ValueError, match="places: expected one node with the resource memory, found 3"):
        scaleout.create(uri, partitions=2, places={"memory": "/data"})
    (tmp_path / "file").write_bytes(b"")
    for durability in ("node", "store"):
        with pytest.raises(StoreError, match="file/"):
            scaleout.create(
                uri,
                places=places,
                store=str(tmp_path / "file" / "store"),
                durability=durability,
            )
    assert not uri.exists()
    assert not (tmp_path / "0").exists()


@pytest.mark.usefixtures("two")
def test_what_cannot_be_done_is_refused_before_anything_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, places = tmp_path / "catalog", {"simindex:0": str(tmp_path / "a")}
    scaleout.create(uri, Config(seed=1), partitions=2, places=places).close()
    with pytest.raises(scaleout.PlaceMissingError, match="simindex:nowhere, which no node has"):
        scaleout.move(uri, 1, "simindex:nowhere", "/data")
    with pytest.raises(ValueError, match="expected a catalog with a store"):
        scaleout.backup(uri)
    with pytest.raises(ValueError, match=r"partition: expected 0\.\.1, found 2"):
        scaleout.move(uri, 2, "simindex:1", str(tmp_path))
    (tmp_path / "file").write_bytes(b"")
    blocked = str(tmp_path / "file")
    with pytest.raises(scaleout.PartitionError, match=r"partition 1 at simindex:0 \(.*file") as raised:
        scaleout.move(uri, 1, "simindex:1", str(tmp_path / "b"), store=blocked)
    assert (raised.value.partition, raised.value.place) == (1, "simindex:0")
    with pytest.raises(scaleout.PartitionError, match=r"partition 1 at simindex:1"):
        scaleout.move(uri, 1, "simindex:1", blocked, store=str(tmp_path / "store"))
    with scaleout.open(uri) as index:
        assert {(row.place, row.closed) for row in index.catalog.partitions} == {("simindex:0", None)}
        index.insert_many(enumerate(TEXTS[:20]))
        assert len(index) == 20
    with pytest.raises(ValueError, match="expected a catalog with a store, or store="):
        scaleout.move(uri, 1, "simindex:1", str(tmp_path / "b"))
    monkeypatch.chdir(tmp_path)
    (move,) = scaleout.rebalance(uri, places | {"simindex:1": str(tmp_path / "b")}, store="way")
    assert (tmp_path / "way").is_dir()  # relative to this working directory, not to a host's
    assert (move.partition, move.source, move.target) == (1, "simindex:0", "simindex:1")
    with scaleout.open(uri) as index:
        assert len(index) == 20
        assert index.catalog.places == {"simindex:0": (0,), "simindex:1": (1,)}
        index.stop()


def test_a_lost_node_is_restored_with_all_that_was_acknowledged(
    two: Callable[[int], None], tmp_path: Path
) -> None:
    """The last test here: a node is killed, and its disk is gone with it."""
    uri = tmp_path / "catalog"
    lost, left = (str(tmp_path / name) for name in "01")
    settings: dict[str, Any] = {"partitions": 2, "store": str(tmp_path / "store"), "durability": "store"}
    places = {"simindex:0": lost, "simindex:1": left}
    with scaleout.create(uri, Config(seed=1), places=places, **settings) as index:
        index.insert_many(enumerate(TEXTS[:100]))
        assert index.catalog.places == {"simindex:0": (0,), "simindex:1": (1,)}
        two(0)
        shutil.rmtree(lost)
        with pytest.raises(ValueError, match="onto: expected one place or more"):
            scaleout.restore(uri, "simindex:0", {})
        with pytest.raises(PlaceMissingError, match="simindex:nowhere, which no node has"):
            scaleout.restore(uri, "simindex:0", {"simindex:nowhere": "/data"})
        assert sorted(scaleout.restore(uri, "simindex:0", {"simindex:1": left})) == [0]
    with scaleout.open(uri) as index:
        more = list(enumerate(TEXTS))[100:]
        assert index.insert_many(more, on_conflict="skip") == (50, 0, 0)
        assert index.catalog.places == {"simindex:1": (0, 1)}
        assert sorted(index) == list(range(150))
        assert [match.key for match in index.query(TEXTS[77], 1.0)] == [77]
        index.stop()
