"""A handle that was open before partitions changed their places says so; a new one goes on."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.hosts import Cluster, catalog_at

from simindex.scaleout import CatalogChangedError, PlaceMissingError, ScaledIndex


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, store=str(tmp_path / "store"), durability="store") as cluster:
        yield cluster


@pytest.fixture
def index(cluster: Cluster) -> ScaledIndex:
    return cluster.handle()


def text(number: int) -> str:
    return f"a text of the number {number} with the words {number * 7} and {number * 11}"


ITEMS = [(number, text(number)) for number in range(200)]

CALLS: dict[str, Callable[[ScaledIndex], object]] = {
    "query": lambda index: [match.key for match in index.query(text(7), 0.9)],
    "query_many": lambda index: [
        [m.key for m in found] for found in index.query_many([text(3), text(4)], 0.9)
    ],
    "query_simhash": lambda index: sorted(match.key for match in index.query_simhash(text(9), 0)),
    "nearest": lambda index: [match.key for match in index.nearest(text(7), 1)],
    "get": lambda index: [index.get(number) is not None for number in range(8)],
    "len": len,
    "iteration": sorted,
    "stats": lambda index: index.stats().documents,
    "status": lambda index: sum(sum(of["documents"].values()) for of in index.status().values()),
    "compact": lambda index: index.compact(),
    "backup": lambda index: sum(report.documents for report in index.backup().values()),
    "touch": lambda index: index.touch(*range(8)),
    "insert": lambda index: index.insert_many([(number, text(number)) for number in range(200, 260)]),
    "insert_if_new": lambda index: index.insert_many_if_new([(300, text(3)), (301, "unlike all others")]),
    "remove": lambda index: index.remove_many(range(40)),
    "expire": lambda index: index.expire(older_than=timedelta(days=1)),
}


def test_every_call_after_a_move_is_refused_until_the_index_is_opened_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    stale = cluster.handle()
    stale.insert_many(ITEMS)
    cluster.move(0, "b")
    with Cluster(tmp_path / "still", store=str(tmp_path / "other"), durability="store") as still:
        expected = still.handle()
        expected.insert_many(ITEMS)
        for name, call in CALLS.items():
            for _ in range(2):
                with pytest.raises(CatalogChangedError, match="open the index again"):
                    call(stale)
            assert call(cluster.handle()) == call(expected), name


def test_batches_under_way_during_a_move_are_stored_once(cluster: Cluster, index: ScaledIndex) -> None:
    def move_once(done: int) -> None:
        if done == 40:
            cluster.move(0, "b")

    with pytest.raises(CatalogChangedError, match="open the index again"):
        index.insert_many(ITEMS, batch_size=10, progress=move_once)
    again = cluster.handle()
    report = again.insert_many(ITEMS, on_conflict="skip")
    assert report.inserted + report.skipped == 200
    assert sorted(again) == list(range(200))


def test_a_lost_place_is_named_until_it_was_restored(cluster: Cluster) -> None:
    away = dict[str, str]()
    index = cluster.handle(away)
    index.insert_many(ITEMS)
    index.backup()
    cluster.end("a")
    shutil.rmtree(cluster.folder / "a")
    away["a"] = "no node has it"
    assert index.query(text(3)).partial == (0, 2)
    answers = index.query_many([text(3), text(4)])
    assert (len(answers), answers.partial) == (2, (0, 2))
    with pytest.raises(PlaceMissingError, match="partitions 0, 2"):
        len(index)
    cluster.restore("a", "b")
    with pytest.raises(CatalogChangedError, match="open the index again"):
        index.query(text(3))
    again = cluster.handle(away)
    assert again.query(text(3)).partial == ()
    assert sorted(again) == list(range(200))


def test_questions_that_no_place_answers_are_as_many(cluster: Cluster) -> None:
    index = cluster.handle({"a": "away", "b": "away, too"})
    answers = index.query_many([text(1), text(2), text(3)])
    assert (list(answers), answers.partial) == ([[], [], []], (0, 1, 2, 3))
    assert answers.missing == {"a": "away", "b": "away, too"}


def test_a_catalog_of_another_index_is_named(cluster: Cluster, index: ScaledIndex) -> None:
    index.insert_many(ITEMS[:20])
    cluster.move(0, "b")
    cluster.end("a")
    Path(cluster.uri).unlink()
    catalog_at(Path(cluster.uri), {"a": cluster.folder / "other"})
    with pytest.raises(
        CatalogChangedError, match=r"expected version 1 of the catalog .* open the index again"
    ):
        len(index)
