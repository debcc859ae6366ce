"""Partitions that are backed up, restored elsewhere and moved: nothing acknowledged is lost."""

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.hosts import CONFIG, Cluster

from simindex.maintenance.backup import backup_index
from simindex.maintenance.object_store import FolderObjects
from simindex.scaleout import CatalogChangedError, MissingObjectError, PartitionError, StoreError
from simindex.scaleout.catalog import Catalog, Partition
from simindex.scaleout.moving import move_partition, plan
from simindex.scaleout.partition import Partition as HostPartition


@pytest.fixture(params=["cluster", "durable", "bare"])
def kind(request: pytest.FixtureRequest) -> str:
    """A cluster with a store, one whose commits are there, too, or one that moves by a folder of the call."""
    kind: str = request.param
    return kind


@pytest.fixture
def cluster(kind: str, tmp_path: Path) -> Iterator[Cluster]:
    options: dict[str, Any] = {} if kind == "bare" else {"store": str(tmp_path / "store")}
    with Cluster(tmp_path, **options, durability="store" if kind == "durable" else "node") as cluster:
        yield cluster


def of_kind(*kinds: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", kinds)


def move(cluster: Cluster, number: int, place: str, call: Callable[..., Any] | None = None) -> Catalog:
    """Move a partition, by the store of the catalog where it has one."""
    folder = str(cluster.folder / place)
    return move_partition(cluster.uri, number, place, folder, call or cluster.call, str(cluster.folder))


@of_kind("durable")
def test_a_place_that_was_thought_lost_acknowledges_nothing_any_more(cluster: Cluster) -> None:
    cluster.insert(0, 20)
    old = Catalog.load(cluster.uri)
    cluster.restore("a", "b")
    cluster.counts()  # the new host has opened them
    with pytest.raises(PartitionError, match=r"partition [02] at a .*restored elsewhere, and goes on there"):
        cluster.insert_by(old, bytes(16), range(100, 200))


def lose_all_machines(cluster: Cluster) -> set[Any]:
    """The keys that are found when the folders of both places are gone, and all is restored."""
    for lost, onto in (("b", "a"), ("a", "b")):
        cluster.end(lost)
        shutil.rmtree(cluster.folder / lost)
        cluster.restore(lost, onto)
    return set(cluster.handle())


@of_kind("durable")
def test_a_place_that_was_thought_lost_takes_nothing_from_the_commit_log(cluster: Cluster) -> None:
    cluster.insert(0, 20)
    old = Catalog.load(cluster.uri)
    cluster.restore("a", "b")
    cluster.counts()
    for first in range(100, 140, 10):  # as a driver sends some batches ahead
        with pytest.raises((PartitionError, CatalogChangedError)):
            cluster.insert_by(old, bytes([first]) * 16, range(first, first + 10))
    cluster.insert(200, 20)
    with pytest.raises(CatalogChangedError, match="open the index again"):
        cluster.call(old, "a", "each", {0: (old.backup_uri(0),)}, "back_up")
    assert lose_all_machines(cluster) == {*range(20), *range(200, 220)}


@of_kind("durable")
def test_a_place_that_was_thought_lost_and_begins_anew_takes_nothing_from_the_commit_log(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.insert(0, 20)
    old = Catalog.load(cluster.uri)

    def fail(objects: FolderObjects, name: str, _: bytes) -> bool:
        raise StoreError(objects.uri_of(name), "cannot be reached")

    with monkeypatch.context() as patched:
        patched.setattr(FolderObjects, "create", fail)
        with pytest.raises(PartitionError, match="cannot be reached"):
            cluster.insert_by(old, bytes(16), range(100, 140))
    cluster.end("a")
    cluster.restore("a", "b")
    known = set(cluster.handle())
    cluster.insert(200, 40)
    cluster.end("b")
    with pytest.raises(CatalogChangedError, match=r"partition [02] in .* has it elsewhere"):
        cluster.insert_by(old, bytes([1]) * 16, range(300, 340))
    cluster.insert(240, 40)
    assert lose_all_machines(cluster) == known | {*range(200, 280)}


@of_kind("durable")
def test_a_move_that_stood_still_takes_nothing_from_the_commit_log(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.insert(0, 20)

    def slow(*given: Any, **others: Any) -> Any:
        monkeypatch.undo()
        cluster.restore("a", "b")
        cluster.insert(100, 40)
        return backup_index(*given, **others)

    monkeypatch.setattr("simindex.scaleout.host.backup_index", slow)
    with pytest.raises(PartitionError, match="it was not moved"):  # for the store has later batches
        move(cluster, 0, "b")
    cluster.insert(200, 40)
    assert lose_all_machines(cluster) == {*range(20), *range(100, 140), *range(200, 240)}


@of_kind("cluster")
def test_without_a_backup_it_is_said_what_is_missing(cluster: Cluster) -> None:
    with pytest.raises(PartitionError, match=r"partition 0 at b .*expected a backup, found none") as raised:
        cluster.restore("a", "b")
    assert isinstance(raised.value.reason, MissingObjectError)
    assert (raised.value.partition, raised.value.place) == (0, "b")
    assert Catalog.load(cluster.uri).version == 1


# ---- moving ----


def test_a_partition_moves_and_nothing_else_does(cluster: Cluster) -> None:
    cluster.insert(0, 100)
    before, old = cluster.counts(), Catalog.load(cluster.uri)
    new = move(cluster, 2, "b")
    assert cluster.counts() == before
    assert new == Catalog.load(cluster.uri)
    assert [partition.place for partition in new.partitions] == ["a", "b", "b", "b"]
    assert [p for n, p in enumerate(new.partitions) if n != 2] == [
        p for n, p in enumerate(old.partitions) if n != 2
    ]
    assert sorted(path.name for path in (cluster.folder / "a").iterdir()) == ["00000.simindex"]
    cluster.insert(100, 50)
    assert sum(cluster.counts().values()) == 150
    assert move(cluster, 2, "b") == new
    assert not [path for path in (cluster.folder / "moving").rglob("*") if path.is_file()]


def test_documents_go_in_and_are_found_while_it_moves(cluster: Cluster) -> None:
    cluster.insert(0, 100)
    done, seen, failures = [100], list[int](), list[BaseException]()
    stop = threading.Event()

    def insert() -> None:
        while not stop.is_set():
            cluster.insert(done[0], 7)
            done[0] += 7

    def ask() -> None:
        while not stop.is_set():
            acknowledged = done[0]
            seen.append(sum(cluster.counts().values()) - acknowledged)

    def guarded(work: Any) -> None:
        try:
            work()
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (insert, ask)]
    for thread in threads:
        thread.start()
    try:
        for number, place in ((0, "b"), (1, "a"), (0, "a")):
            move(cluster, number, place)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert min(seen) >= 0  # nothing acknowledged is ever out of sight
    assert sum(cluster.counts().values()) == done[0]


class KilledError(BaseException):
    """The mover is gone: nothing that would follow is done."""


@pytest.mark.parametrize("target", ["b", "a"])
@pytest.mark.parametrize("step", ["let_go", "restore", "remove_left"])
def test_a_move_that_was_killed_is_taken_over_by_the_next_one(
    cluster: Cluster, step: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.insert(0, 50)
    before, replaced = cluster.counts(), Catalog.replace

    def killed(*_: Any) -> Any:
        raise KilledError

    def call(catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
        answer = cluster.call(catalog, place, method, *arguments)
        if method == step:
            monkeypatch.setattr(Catalog, "replace", killed)
            raise KilledError
        return answer

    with pytest.raises(KilledError):
        move(cluster, 0, "b", call)
    monkeypatch.setattr(Catalog, "replace", replaced)
    assert Catalog.load(cluster.uri).partitions[0].closed is not None
    for place in "ab":
        cluster.end(place)
    assert cluster.counts() == before
    with pytest.raises(
        CatalogChangedError, match=r"partition 0 at [ab] .*closed for writing while it is moved"
    ):
        cluster.insert_by(Catalog.load(cluster.uri), bytes(16), range(50, 100))
    moved = move(cluster, 0, target)
    assert (moved.partitions[0].place, moved.partitions[0].closed) == (target, None)
    cluster.insert(100, 50)
    assert set(range(50)) | set(range(100, 150)) <= set(cluster.handle())


@pytest.mark.parametrize("is_opened_again", [True, False])
def test_a_mover_that_stood_still_loses_nothing(cluster: Cluster, is_opened_again: bool) -> None:
    """Nor does a source that is killed during the copy: what comes meanwhile is acknowledged behind it."""
    cluster.insert(0, 50)
    inserting = threading.Thread(target=cluster.insert, args=(50, 100))

    def call(catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
        answer = cluster.call(catalog, place, method, *arguments)
        if method == "restore":  # what follows is the exchange of the catalog
            cluster.end("a")
            inserting.start()
            inserting.join(0.2)
            assert inserting.is_alive()  # no clock opens the partition
            if is_opened_again:
                move(cluster, 0, "a")
                inserting.join()
        return answer

    if is_opened_again:
        with pytest.raises(CatalogChangedError, match="this call was given up"):
            move(cluster, 0, "b", call)
    else:
        move(cluster, 0, "b", call)
    inserting.join()
    assert Catalog.load(cluster.uri).partitions[0].place == ("a" if is_opened_again else "b")
    assert set(cluster.handle()) == set(range(150))


@of_kind("cluster")
def test_a_restore_that_is_repeated_late_takes_nothing_away(cluster: Cluster) -> None:
    cluster.insert(0, 50)
    calls: list[Callable[[], Any]] = []

    def call(catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
        calls.append(lambda: cluster.call(catalog, place, method, *arguments))
        return calls[-1]()

    move(cluster, 0, "b", call)
    cluster.insert(50, 20)
    before = cluster.counts()
    cluster.end("b")
    calls[1]()
    assert cluster.counts() == before
    cluster.insert(70, 10)
    assert set(cluster.handle()) == set(range(80))


@of_kind("cluster")
def test_a_copy_of_another_state_is_refused(cluster: Cluster) -> None:
    cluster.insert(0, 50)

    def call(catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
        answer = cluster.call(catalog, place, method, *arguments)
        return "another" if method == "let_go" else answer

    with pytest.raises(PartitionError, match="partition 0: expected a copy of the state another at b"):
        move(cluster, 0, "b", call)
    cluster.insert(50, 20)
    assert set(cluster.handle()) == set(range(70))


@of_kind("cluster", "bare")
@pytest.mark.parametrize("step", ["let_go", "restore"])
@pytest.mark.parametrize("late", [False, True])
def test_where_a_move_fails_it_stays_and_goes_on(cluster: Cluster, step: str, late: bool) -> None:
    cluster.insert(0, 50)
    before, old = cluster.counts(), Catalog.load(cluster.uri)

    def failing(catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
        if method == step and not late:
            raise OSError(28, "No space left on device")
        answer = cluster.call(catalog, place, method, *arguments)
        if method == step:
            raise OSError(28, "No space left on device")
        return answer

    with pytest.raises(OSError, match="No space left"):
        move(cluster, 0, "b", failing)
    assert Catalog.load(cluster.uri).partitions == old.partitions
    assert cluster.counts() == before
    cluster.insert(50, 20)
    move(cluster, 0, "b")
    assert sum(cluster.counts().values()) == 70


@of_kind("durable")
def test_a_change_whose_batch_is_not_in_the_store_when_its_host_lets_go_is_not_acknowledged(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, call, add = Catalog.load(cluster.uri), bytes(16), HostPartition.add_once

    def fail(objects: FolderObjects, name: str, _: bytes) -> bool:
        raise StoreError(objects.uri_of(name), "no space left", 28)

    def add_and_let_go(partition: HostPartition, *change: Any) -> list[int]:
        answer = add(partition, *change)
        partition.close()  # as a host does that lets it go
        return answer

    cluster.counts()
    with monkeypatch.context() as patched:
        patched.setattr(FolderObjects, "create", fail)
        patched.setattr(HostPartition, "add_once", add_and_let_go)
        with pytest.raises(CatalogChangedError, match=r"partition \d at [ab] .* open the index again"):
            cluster.insert_by(catalog, call, range(5))
    cluster.end("a")
    cluster.end("b")
    cluster.insert_by(catalog, call, range(5))
    before = cluster.counts()
    assert sum(before.values()) == 5
    cluster.end("a")
    shutil.rmtree(cluster.folder / "a")
    cluster.restore("a", "b")
    assert cluster.counts() == before


# ---- plans ----


@pytest.mark.parametrize(
    ("held", "places", "moves"),
    [
        ("aabb", "ab", 0),
        ("aaab", "ab", 1),
        ("aaaabbbb", "abc", 2),
        ("aabbcc", "ab", 2),
        ("aaaaaaaa", "abcdefgh", 7),
        ("aaaaaaaaab", "ab", 4),
        ("abc", "abcd", 0),
    ],
)
def test_a_plan_moves_as_few_as_can_be(held: str, places: str, moves: int) -> None:
    catalog = Catalog(CONFIG, tuple(Partition(place, f"/{n}") for n, place in enumerate(held)))
    found = plan(catalog, places)
    assert len(found) == moves
    rows = list(catalog.partitions)
    for move in found:
        assert rows[move.partition].place == move.source
        rows[move.partition] = replace(rows[move.partition], place=move.target)
    counts = [sum(row.place == place for row in rows) for place in places]
    assert sum(counts) == len(held)
    assert max(counts) - min(counts) <= 1
