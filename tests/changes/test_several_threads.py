"""A call with several workers stores what one does, commit by commit, and leaves no thread behind."""

import threading
import time
from pathlib import Path
from random import Random

import pytest
from support.faults import broken_off
from support.indexes import SMALL, problems_of
from support.stored import DATABASES

import simindex
from simindex import ClosedError, Index, IndexFullError, Layout

LAYOUTS = [Layout(2, 8, 400), Layout(3, 64, 2_000)]
Stored = dict[tuple[str, bytes], bytes]


def document(name: int, version: int) -> list[str]:
    return [f"{name} {version} {letter}" for letter in "abcdef"]


def stored_in(index: Index) -> Stored:
    """All values of an index but what tells it from another."""
    with index._store.reading() as txn:
        values = {(name, bytes(key)): bytes(value) for name in DATABASES for key, value in txn.items(name)}
        values["main", b"manifest"] = bytes(txn.get("main", b"manifest") or b"")
    return {key: value for key, value in values.items() if key != ("meta", b"config")}


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
    assert not problems_of(index.path)
    index.close()
    return commits


@pytest.mark.parametrize("layout", LAYOUTS, ids=["two", "three"])
def test_commits_store_the_same_with_several_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """With copies, replaced and removed documents, merges, compaction and reopening in between."""
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    alone = commits_of_changes(tmp_path / "one", layout, 1, seed=5)
    assert commits_of_changes(tmp_path / "two", layout, 2, seed=5) == alone


def test_new_documents_are_stored_the_same_with_several_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    stored = []
    for workers in (1, 2):
        with simindex.open(tmp_path / str(workers), "x", SMALL, layout=LAYOUTS[0]) as index:
            items = [(key, document(key % 150, 0)) for key in range(200)]
            report = index.insert_many_if_new(items, 0.9, batch_size=10, workers=workers)
            stored.append((report, stored_in(index)))
            assert not problems_of(index.path)
    assert stored[0] == stored[1]


def items_of(first: int, count: int) -> list[tuple[int, list[str]]]:
    return [(key, document(key, 0)) for key in range(first, first + count)]


def threads_of_calls() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("simindex")}


@pytest.mark.parametrize("failure", [KeyboardInterrupt, IndexFullError])
def test_broken_off_call_leaves_no_thread_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[BaseException]
) -> None:
    before = threads_of_calls()
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUTS[0]) as index:
        with monkeypatch.context() as patch:
            broken_off(patch, "commit", 31, failure("now"))
            with pytest.raises(failure):
                index.insert_many(items_of(0, 400), batch_size=5, workers=2)
        assert threads_of_calls() <= before
        assert len(index) == 150
        index.insert_many(items_of(150, 50), batch_size=5, workers=2)
        assert list(index) == list(range(200))
        assert not problems_of(index.path)


def test_handle_that_is_closed_from_another_thread_ends_the_call(tmp_path: Path) -> None:
    index = simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUTS[0])
    closing: list[threading.Thread] = []
    before = threads_of_calls()

    def close(done: int) -> None:
        if done == 100:
            closing.append(threading.Thread(target=index.close))
            closing[0].start()
            closing[0].join()

    with pytest.raises(ClosedError):
        index.insert_many(items_of(0, 400), batch_size=5, workers=2, progress=close)
    assert threads_of_calls() <= before
    with simindex.open(tmp_path / "i", "r") as reopened:
        assert len(reopened) == 100
        assert not problems_of(reopened.path)
