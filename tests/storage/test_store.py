"""Store: readers follow a file that grows, up to its limit; a commit is whole or nothing."""

from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest
from support.processes import ANSWER, ask, end, start
from support.stored import bare_store, leaves, nodes, page, with_page
from support.texts import SMALL, TINY_LAYOUT, Held, assert_holds, batch, document

import simindex
from simindex import ClosedError, CorruptIndexError, IndexFullError, IndexLockedError, Layout
from simindex.format.keys import doc_id_key
from simindex.storage.environment import WriteTransaction, calls
from simindex.storage.store import Store


@pytest.mark.parametrize("layout", [None, TINY_LAYOUT])
def test_file_grows_under_readers_of_this_and_another_process(tmp_path: Path, layout: Layout | None) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, layout=layout) as index:
        index.insert("first", ["first"])
        other = start(ANSWER, path)
        assert ask(other, "first") == "1 first"
        with simindex.open(path, "r") as reader:
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
with simindex.open(sys.argv[1], "a") as index:
    for line in sys.stdin:
        index.insert_many([(f"{line.strip()}-{n}", [f"{n}"], b"x" * 4000) for n in range(300)])
        print(len(index))
"""


def test_reader_follows_a_file_that_another_process_made_longer(tmp_path: Path) -> None:
    """Every first call of a handle may meet the larger file: a query, stats, and opening a second handle."""
    path = tmp_path / "i"
    simindex.open(path, "x", SMALL).close()
    writer = start(GROW, path)
    readers = [simindex.open(path, "r")]
    calls: list[Callable[[], object]] = [
        lambda: readers[0].query(["7"], 0.9)[0].key,
        lambda: readers[0].stats().documents,
        lambda: readers.append(simindex.open(path, "r")),
        lambda: next(iter(readers[1])),
        lambda: readers[1].refresh(),
    ]
    for number, call in enumerate(calls):
        assert ask(writer, number) == str(300 * (number + 1))
        call()
        assert len(readers[0]) == 300 * (number + 1)
    end(writer)
    with simindex.open(path, "a") as index:
        index.insert("last", ["last"])
        assert readers[0].query(["last"])[0].key == "last"
    for reader in readers:
        reader.close()


def test_iteration_ends_with_an_error_where_a_page_is_damaged(tmp_path: Path) -> None:
    """And never as if the page before were the last. The error says behind which document the page lies."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many((number, [str(number)], {"text": 50 * "x"}) for number in range(200))
    data = tmp_path / "i" / "data.mdb"
    whole = data.read_bytes()
    pages = leaves(whole, "documents")
    assert len(pages) > 3
    for number in pages:
        data.write_bytes(with_page(whole, number))
        first = int.from_bytes(nodes(page(whole, number))[0][0][:8], "big")
        behind = doc_id_key(first - 1).hex() if first else "none"
        message = f"found a damaged one behind key {behind}"
        with simindex.open(tmp_path / "i", "r") as index, pytest.raises(CorruptIndexError, match=message):
            list(index)


def test_full_index_refuses_the_commit_and_stays_intact(tmp_path: Path) -> None:
    path = tmp_path / "i"
    kept: Held = {}
    with simindex.open(path, "x", SMALL, max_bytes=4 << 20, layout=TINY_LAYOUT) as index:

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
    assert not calls.of(store.environment())
    store.close()
