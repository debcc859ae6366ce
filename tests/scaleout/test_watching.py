"""Lost places that are restored by themselves, on hosts without Ray."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.hosts import Cluster

from simindex import SimIndexError, scaleout
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.moving import Watch, restore_place


class Watched(Cluster):
    """A cluster that is watched, with a clock of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "abc", store=str(folder / "store"), durability="store")
        self.away, self.now = set[str](), 0.0
        self.onto = {place: str(folder / place) for place in "bc"}

    def restore(self, uri: str, place: str, onto: Mapping[str, str]) -> Any:
        return restore_place(uri, place, onto, self.call)

    def watch(self, after: float) -> Watch:
        return Watch(
            self.uri, after, self.onto, lambda place: place not in self.away, self.restore, lambda: self.now
        )

    def lose(self, place: str) -> None:
        self.end(place)
        shutil.rmtree(self.folder / place)
        self.away.add(place)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.close()


def test_a_place_that_is_away_too_long_is_restored_with_all_that_was_acknowledged(watched: Watched) -> None:
    watched.insert(0, 60)
    before, old, watch = watched.counts(), Catalog.load(watched.uri), watched.watch(10.0)
    watch.look()
    watched.lose("a")
    for watched.now in (1.0, 5.0, 10.9):
        watch.look()
        assert Catalog.load(watched.uri) == old
    watched.now = 11.0
    watch.look()
    assert watch.restored == ["a"]
    assert Catalog.load(watched.uri).places == {"b": (0, 1), "c": (2, 3)}
    assert watched.counts() == before
    watched.insert(60, 20)
    watched.now = 100.0
    watch.look()
    assert watch.restored == ["a"]
    assert sum(watched.counts().values()) == 80


def test_a_place_that_comes_back_in_time_is_left_alone(watched: Watched) -> None:
    watched.insert(0, 20)
    old, watch = Catalog.load(watched.uri), watched.watch(10.0)
    for watched.now, watched.away in ((0.0, {"a"}), (9.0, {"a"}), (9.5, set()), (12.0, {"a"}), (21.0, {"a"})):
        watch.look()
    assert Catalog.load(watched.uri) == old
    assert watch.restored == []


def test_where_nobody_can_take_it_that_is_said_and_tried_again(watched: Watched) -> None:
    watched.insert(0, 20)
    before, watch = watched.counts(), watched.watch(0.0)
    watched.lose("a")
    watched.away |= {"b", "c"}
    with pytest.raises(SimIndexError, match=r"a is away for 0 seconds, and so are all places .* b, c"):
        watch.look()
    watched.away -= {"b", "c"}
    watch.look()
    assert watch.restored == ["a"]
    assert watched.counts() == before


def test_a_thread_looks_until_it_is_stopped(watched: Watched, recwarn: pytest.WarningsRecorder) -> None:
    watched.insert(0, 20)
    before, watch = watched.counts(), watched.watch(0.01)
    watched.now = 5.0
    watch.start()
    watched.lose("a")
    for _ in range(3_000):
        watched.now += 1.0
        if watch.restored:
            break
        watch._ends.wait(0.01)
    watch.stop()
    watch.stop()
    assert watch.restored == ["a"]
    assert watched.counts() == before
    assert not watch._thread.is_alive()
    assert not recwarn.list


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"restore_after": 5.0}, "expected both or neither"),
        ({"restore_onto": {"b": "/b"}}, "expected both or neither"),
        ({"restore_after": -1.0, "restore_onto": {"b": "/b"}}, "restore_after"),
        ({"restore_after": 5.0, "restore_onto": {"b": "/b"}}, 'durability="store", found "node"'),
    ],
)
def test_what_cannot_be_watched_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    cluster = Cluster(tmp_path)
    with pytest.raises(ValueError, match=message):
        scaleout.open(cluster.uri, **options)
    with pytest.raises(ValueError, match=message):
        scaleout.create(tmp_path / "other", **options)
    assert not (tmp_path / "other").exists()
    cluster.close()
