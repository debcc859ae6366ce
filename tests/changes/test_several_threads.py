"""A call with several workers stores what one does, commit by commit, and leaves no thread behind."""

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.indexes import SMALL

import simindex
from simindex import ClosedError, CorruptIndexError, Index, IndexFullError, KeyExistsError, Layout, _kernel
from simindex.changes.documents import NewDocuments
from simindex.changes.merges import Merges
from simindex.changes.session import Session
from simindex.parallel import Crew
from simindex.segments.merge import Merge
from simindex.storage.store import Store

LAYOUTS = [Layout(2, 8, 400), Layout(3, 64, 2_000)]
Stored = dict[tuple[str, bytes], bytes]


def document(name: int, version: int) -> list[str]:
    return [f"{name} {version} {letter}" for letter in "abcdef"]


def stored_in(index: Index) -> Stored:
    """All values of an index but what tells it from another."""
    with index._store.reading() as txn:
        names = sorted(txn.sizes())
        values = {(name, bytes(key)): bytes(value) for name in names for key, value in txn.items(name)}
    return {place: value for place, value in values.items() if place != ("meta", b"config")}


def commits_of_changes(path: Path, layout: Layout, workers: int, seed: int) -> list[Stored]:
    """Insert, replace and remove at random, reopen and compact in between; returns all values behind each
    commit."""
    chance, commits, next_key = Random(seed), list[Stored](), 0
    index = simindex.open(path, "x", SMALL, layout=layout)

    def behind_a_commit(_: int) -> None:
        commits.append(stored_in(index))

    for version in range(9):
        size, some = chance.randrange(20, 60), chance.randrange(4, 12)
        keys = [*range(next_key, next_key + size), *chance.sample(range(next_key + 1), min(next_key, 10))]
        next_key += size
        # Some are copies: of one another, and of stored ones.
        items = [(key, document(key % (some * 30) if key % 7 == 0 else key, version % 5)) for key in keys]
        index.insert_many(
            items,
            on_conflict="replace",
            batch_size=some,
            workers=workers,
            progress=behind_a_commit,
        )
        index.remove_many(chance.sample(range(next_key), min(next_key, chance.choice([0, 5, 40]))))
        behind_a_commit(0)
        if version == 4:
            index.compact()
        if version % 3 == 2:
            index.close()
            index = simindex.open(path, "a")
    assert index.check().ok
    index.close()
    return commits


@pytest.fixture
def made_ahead(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that have made a step of a merge ahead."""
    makers: list[str] = []
    make = Merge.make_ahead

    def counted(merge: Merge, *arguments: Any) -> None:
        makers.append(threading.current_thread().name)
        make(merge, *arguments)

    monkeypatch.setattr(Merge, "make_ahead", counted)
    return makers


def done_at_once(crew: Crew, work: Callable[[], object]) -> Future[object]:
    """As if its thread were the faster one always."""
    future = crew._pool.submit(work)
    future.exception()
    return future


def looks_of(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Let batches be looked at ahead, as where pages are missing; what was found of each."""
    found: list[tuple[int, int]] = []
    look = Session.look_ahead

    def watched(session: Session, documents: NewDocuments) -> None:
        look(session, documents)
        found.append(documents.absent_below)

    monkeypatch.setattr(Session, "look_ahead", watched)
    monkeypatch.setattr(_kernel, "pages_missing", lambda: True)
    return found


@pytest.mark.parametrize("layout", LAYOUTS, ids=["two", "three"])
def test_commits_store_the_same_with_several_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_ahead: list[str], layout: Layout
) -> None:
    """With copies, replaced and removed documents, merges, compaction and reopening in between."""
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    alone = commits_of_changes(tmp_path / "one", layout, 1, seed=5)
    assert not made_ahead
    assert commits_of_changes(tmp_path / "two", layout, 2, seed=5) == alone
    monkeypatch.setattr(Crew, "start", done_at_once)
    made_ahead.clear()
    looked = looks_of(monkeypatch)
    assert commits_of_changes(tmp_path / "fast", layout, 2, seed=5) == alone
    assert len(made_ahead) > 50
    assert len({min(below) > 0 for below in looked}) == 2, (
        "of some batches nothing is stored, of some there is"
    )
    assert all(name.startswith("simindex") for name in made_ahead)


def test_what_is_stored_behind_a_look_ahead_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of a document of a later batch, and its key, stored when that batch was looked at."""
    looked = looks_of(monkeypatch)
    monkeypatch.setattr(Crew, "start", done_at_once)
    items = items_of(0, 60)
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUTS[0]) as index:

        def store_another(done: int) -> None:
            if done == 10:
                assert len(looked) == 6
                index.insert("a copy of the 35th", document(35, 0))
                index.insert(45, document(1_000, 0))

        with pytest.raises(KeyExistsError) as failure:
            index.insert_many(items, batch_size=10, workers=2, progress=store_another)
        assert failure.value.args[0] == 45
        assert list(index) == [*range(10), "a copy of the 35th", 45, *range(10, 40)]
        assert index.stats().copies == 1
        assert index.check().ok


def test_new_documents_are_stored_the_same_with_several_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_ahead: list[str]
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    monkeypatch.setattr(Crew, "start", done_at_once)
    stored = []
    for workers in (1, 2):
        assert not made_ahead
        with simindex.open(tmp_path / str(workers), "x", SMALL, layout=LAYOUTS[0]) as index:
            items = [(key, document(key % 150, 0)) for key in range(200)]
            report = index.insert_many_if_new(items, 0.9, batch_size=10, workers=workers)
            stored.append((report, stored_in(index)))
            assert index.check().ok
    assert stored[0] == stored[1]
    assert made_ahead


def items_of(first: int, count: int) -> list[tuple[int, list[str]]]:
    return [(key, document(key, 0)) for key in range(first, first + count)]


def threads_of_calls() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("simindex")]


def test_merges_that_a_commit_begins_are_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bool] = []
    begin = Merges._begin

    def watched(merges: Merges, *arguments: Any) -> Any:
        manifest = begin(merges, *arguments)
        begun.append(merges.under_way[-1] in merges._foreseen)
        return manifest

    monkeypatch.setattr(Merges, "_begin", watched)
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUTS[1]) as index:
        index.insert_many(items_of(0, 300), batch_size=10, workers=2)
    assert len(begun) > 5
    assert all(begun)


def test_failure_of_a_step_made_ahead_comes_out_of_the_commit_that_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits before it stay, it stores nothing, and the merges begin anew behind it."""

    def commits_before_failure(path: Path, workers: int) -> tuple[int, str]:
        steps = itertools.count()
        step = Merge._step

        def failing(merge: Merge) -> Any:
            if next(steps) == 40:
                raise CorruptIndexError("a block is broken")
            return step(merge)

        with simindex.open(path, "x", SMALL, layout=LAYOUTS[0]) as index:
            with monkeypatch.context() as patch:
                patch.setattr(Merge, "_step", failing)
                with pytest.raises(CorruptIndexError) as failure:
                    index.insert_many(items_of(0, 400), batch_size=5, workers=workers)
            stored = len(index)
            assert threads_of_calls() == []
            index.insert_many(items_of(stored, 100), batch_size=5, workers=workers)
            assert list(index) == list(range(stored + 100))
            assert index.check().ok
            return stored, str(failure.value)

    alone = commits_before_failure(tmp_path / "one", 1)
    assert 0 < alone[0] < 400
    # Ahead, the fortieth step comes earlier; the commit that it is raised by stores nothing all the same.
    stored, told = commits_before_failure(tmp_path / "two", 2)
    assert 0 < stored < 400
    assert stored % 5 == 0
    assert told == alone[1]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, IndexFullError])
def test_broken_off_call_leaves_no_thread_and_what_it_merged_ahead_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    commits, commit = itertools.count(), Store.commit

    def broken(store: Store, *arguments: Any) -> Any:
        if next(commits) == 30:
            raise failure("now")
        return commit(store, *arguments)

    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUTS[0]) as index:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "commit", broken)
            with pytest.raises(failure):
                index.insert_many(items_of(0, 400), batch_size=5, workers=2)
        assert threads_of_calls() == []
        assert len(index) == 150
        index.insert_many(items_of(150, 50), batch_size=5, workers=2)
        assert list(index) == list(range(200))
        assert index.check().ok


def test_handle_that_is_closed_from_another_thread_ends_the_call(tmp_path: Path) -> None:
    index = simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUTS[0])
    closing: list[threading.Thread] = []

    def close(done: int) -> None:
        if done == 100:
            closing.append(threading.Thread(target=index.close))
            closing[0].start()
            closing[0].join()

    with pytest.raises(ClosedError):
        index.insert_many(items_of(0, 400), batch_size=5, workers=2, progress=close)
    assert threads_of_calls() == []
    with simindex.open(tmp_path / "i", "r") as again:
        assert len(again) == 100
        assert again.check().ok
