"""Store: the map grows by itself, up to its limit, also while a process opens the file; a commit is whole or
nothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest
from support.faults import around
from support.processes import ANSWER, ask, end, printed, start
from support.stored import bare_store, held
from support.texts import BATCH, SMALL, TINY_LAYOUT, Held, assert_holds, batch, document

import simindex
from simindex import ClosedError, CorruptIndexError, IndexFullError, IndexLockedError, Layout, system
from simindex.storage.environment import WriteTransaction
from simindex.storage.store import Store


@pytest.mark.parametrize("layout", [None, TINY_LAYOUT])
def test_map_grows_under_readers_of_this_and_another_process(tmp_path: Path, layout: Layout | None) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, map_bytes=1 << 20, layout=layout) as index:
        index.insert("first", ["first"])
        other = start(ANSWER, path, 1 << 20)
        assert ask(other, "first") == "1 first"
        with simindex.open(path, "r", map_bytes=1 << 20) as reader:
            assert len(reader) == 1
            for number in range(8):
                index.insert_many(
                    [(key, text, b"x" * 4_000) for key, text in batch(number, size=100)], batch_size=50
                )
                assert reader.query(document(number, 7), 0.9)[0].key == f"{number}-7"
                assert ask(other, "first") == f"{1 + 100 * (number + 1)} first"
            assert reader.stats().file_bytes > 3 << 20
            with simindex.open(path, "r") as later:
                assert len(later) == 801
        end(other)


GROW = """
import sys, simindex
with simindex.open(sys.argv[1], "a", map_bytes=1 << 20) as index:
    for line in sys.stdin:
        index.insert_many([(f"{line.strip()}-{n}", [f"{n}"], b"x" * 4000) for n in range(300)])
        print(len(index))
"""


def test_reader_follows_a_map_that_another_process_grew(tmp_path: Path) -> None:
    """Every first call of a handle may meet the larger file: a query, stats, and opening a second handle."""
    path = tmp_path / "i"
    simindex.open(path, "x", SMALL, map_bytes=1 << 20).close()
    writer = start(GROW, path)
    readers = [simindex.open(path, "r", map_bytes=1 << 20)]
    calls: list[Callable[[], object]] = [
        lambda: readers[0].query(["7"], 0.9)[0].key,
        lambda: readers[0].stats().documents,
        lambda: readers.append(simindex.open(path, "r", map_bytes=1 << 20)),
        lambda: next(iter(readers[1])),
        lambda: readers[1].refresh(),
    ]
    for number, call in enumerate(calls):
        assert ask(writer, number) == str(300 * (number + 1))
        call()
        assert len(readers[0]) == 300 * (number + 1)
    end(writer)
    with simindex.open(path, "a", map_bytes=1 << 20) as index:
        index.insert("last", ["last"])
        assert readers[0].query(["last"])[0].key == "last"
    for reader in readers:
        reader.close()


@pytest.mark.parametrize("map_bytes", [1 << 20, 1 << 36])
def test_full_index_refuses_the_commit_and_stays_intact(tmp_path: Path, map_bytes: int) -> None:
    path = tmp_path / "i"
    kept: Held = {}
    with simindex.open(path, "x", SMALL, map_bytes=map_bytes, max_bytes=4 << 20, layout=TINY_LAYOUT) as index:

        def fill() -> None:
            for number in range(200):
                index.insert_many([(key, text, b"x" * 2_000) for key, text in batch(number)])
                kept.update(batch(number))

        expected = f"{4 << 20} bytes.*nothing of this commit.*larger max_bytes"
        with pytest.raises(IndexFullError, match=expected):
            fill()
        assert len(kept) > 500
        assert_holds(index, kept)
        with pytest.raises(IndexFullError):
            index.insert("large", ["large"], b"x" * 3_000_000)
        assert_holds(index, kept)
        assert index.stats().file_bytes <= 4 << 20
    with simindex.open(path, max_bytes=8 << 20) as index:
        assert_holds(index, kept)
        index.insert_many([(key, text, b"x" * 2_000) for key, text in batch("more")])
        assert_holds(index, kept | dict(batch("more")))


def test_full_index_is_full_under_a_reader_with_a_larger_map_too(tmp_path: Path) -> None:
    path = tmp_path / "i"
    simindex.open(path, "x", SMALL).close()
    with simindex.open(path, "r") as reader, simindex.open(path, max_bytes=2 << 20) as index:
        with pytest.raises(IndexFullError):
            index.insert("large", ["large"], b"x" * 3_000_000)
        index.insert("small", ["small"])
        assert list(reader) == ["small"]


def test_limit_stays_when_a_reader_is_first_to_open_a_compacted_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL, max_bytes=4 << 20) as index:
        index.insert_many(batch("a"))
        with simindex.open(tmp_path / "i", "r") as reader:
            sync = system.sync_folder

            def sync_and_read(path: Path) -> None:
                sync(path)
                assert len(reader) == BATCH

            monkeypatch.setattr("simindex.storage.replacement.sync_folder", sync_and_read)
            index.compact()
        assert index._store.environment().env.info()["map_size"] <= 4 << 20


def test_transaction_that_does_not_fit_is_rolled_back_whole(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL, max_bytes=2 << 20) as index:
        index.insert("first", ["first"])

        def fill() -> None:
            with index.transaction():
                for number in range(300):
                    index.insert(number, [str(number)], b"x" * 10_000)
                index.remove("first")

        with pytest.raises(IndexFullError):
            fill()
        assert list(index) == ["first"]
        index.insert("second", ["second"])
        assert index.query(["first"])[0].key == "first"
        assert index.query(["second"])[0].key == "second"


def test_commit_runs_again_from_the_start_when_the_map_grows(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i", map_bytes=1 << 20)
    runs = []

    def change(txn: WriteTransaction) -> int:
        runs.append(txn.delete("meta", b"config"))
        for number in range(300):
            txn.put("groups", number.to_bytes(4, "big"), bytes(10_000))
        return len(runs)

    assert store.commit(change) == len(runs) > 1
    assert runs == [True] * len(runs)  # each run meets the state before
    assert len(held(store, "groups")) == 300
    store.close()


def test_closed_store_says_so_and_frees_the_writer_lock(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    with pytest.raises(IndexLockedError):
        Store(tmp_path / "i", "a")
    store.close()
    store.close()
    for call in (store.environment, store.refresh, store.reading().__enter__):
        with pytest.raises(ClosedError, match="the index is closed; open it again"):
            call()
    assert not store.is_abandoned
    Store(tmp_path / "i", "a").close()


def test_errors_of_lmdb_inside_a_transaction_are_translated(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")

    def fail(_: WriteTransaction) -> None:
        raise lmdb.DiskError("Input/output error")

    with pytest.raises(CorruptIndexError, match="damaged pages"), store.reading():
        raise lmdb.CorruptedError("MDB_CORRUPTED")
    with pytest.raises(IndexFullError, match="the disk did not take the commit"):
        store.commit(fail)
    assert store.environment().gate.is_empty
    store.close()


# ---- growth while the file is opened ----


OPEN = "import sys, simindex\nwith simindex.open(sys.argv[1]) as index:\n    "
COMPACT = OPEN + "index.compact()"
LONGER = OPEN + "index.insert_many((n, f'text number {n}', {'much': 'x' * 9000}) for n in range(3000))"


def grow_before(monkeypatch: pytest.MonkeyPatch, step: str, path: Path) -> None:
    """Let another process write before the first run of a step."""
    left = [LONGER]

    def late(read: Callable[..., Any], *arguments: Any) -> Any:
        if left:
            printed(left.pop(), path)
        return read(*arguments)

    around(monkeypatch, step, late)


@pytest.mark.parametrize("step", ["prove the entrance", "open the databases"])
def test_file_that_grows_beyond_the_map_of_its_opener_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert("fox", "the quick brown fox jumps over the lazy dog")
    grow_before(monkeypatch, step, path)
    with simindex.open(path, "r", map_bytes=1 << 20) as index:
        assert len(index) == 3001


def test_file_that_grows_while_a_reader_changes_over_to_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert("fox", "the quick brown fox jumps over the lazy dog")
    with simindex.open(path, "r", map_bytes=1 << 20) as index:
        assert len(index) == 1
        printed(COMPACT, path)
        grow_before(monkeypatch, "open the databases of a new file", path)
        assert len(index) == 3001
