"""Snapshot: the live segments of one committed state, and which of them are loaded anew."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.indexes import SMALL, insert, problems_of
from support.stored import store_values

import simindex
from simindex import CorruptIndexError, Index, Layout
from simindex.format.layout import SegmentEntry
from simindex.queries.view import Reader
from simindex.segments.directory import Segment
from simindex.storage.environment import ReadTransaction


class Watched(Reader):
    """Notes the segments that it loads."""

    def load(self, txn: ReadTransaction, entry: SegmentEntry) -> Segment:
        loaded.append(entry.id)
        return super().load(txn, entry)


loaded: list[int] = []


@contextmanager
def watched(path: Path, chunk_bytes: int = 1 << 20) -> Iterator[tuple[Index, Watched]]:
    """An index of three segments that merges nothing, and a cache that has loaded nothing yet."""
    with simindex.open(path, "x", SMALL, layout=Layout(64, 8, chunk_bytes)) as index:
        for batch in range(3):
            insert(index, batch)
        loaded.clear()
        yield index, Watched(index._session.scheme)


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
def test_only_new_segments_are_loaded(tmp_path: Path, chunk_bytes: int) -> None:
    with watched(tmp_path / "i", chunk_bytes) as (index, cache):
        with index._store.reading() as txn:
            before = cache.current(txn)
            assert cache.current(txn) is before
        assert loaded == [0, 1, 2] == list(before.segments)
        index._store.commit(lambda txn: txn.put("groups", b"key", b"value"))  # of no manifest
        with index._store.reading() as older:
            same = cache.current(older)
            assert same.transaction_id == older.id > before.transaction_id
            assert (loaded, same.directory) == ([0, 1, 2], before.directory)
            insert(index, 3)
            with index._store.reading() as txn:
                after = cache.current(txn)
                assert loaded == [0, 1, 2, 3] == list(after.segments)
                assert [after.segments[place] for place in range(3)] == list(before.segments.values())
                assert list(cache.current(older).segments) == [0, 1, 2]
                assert list(cache.current(txn).segments) == [0, 1, 2, 3]
        index.compact()
        loaded.clear()
        with index._store.reading() as txn:
            assert len(cache.current(txn).segments) == 1
        assert len(loaded) == 1


def test_documents_that_a_handle_has_inserted_are_taken_over_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its own commits of one document, one after the other; what came in otherwise is read."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert("a", "some words of a text")
        index.insert_many([("b", "words of the second text"), ("c", "words of the third text")])
        index.insert("d", "what the fourth text has of words")
        with monkeypatch.context() as patch:
            patch.setattr(Reader, "load", pytest.fail)
            for key, text in (
                ("e", "and a fifth text behind it"),
                ("f", "then another one that is the last"),
            ):
                index.insert(key, text)
                assert [match.key for match in index.query(text, 0.9)] == [key]
        assert index.query("words of the third text", 0.9)[0].key == "c"
        assert not problems_of(index.path)


@pytest.mark.parametrize("manifest", [None, b""])
def test_index_without_a_manifest_is_damaged(tmp_path: Path, manifest: bytes | None) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert("a", "some words of a text")
    store_values(tmp_path / "i", [("meta", b"manifest", manifest)])
    calls: list[Callable[[Index], object]] = [
        len,
        list,
        lambda index: "a" in index,
        lambda index: index.get("a"),
        lambda index: index.query("some words of a text"),
        lambda index: next(index.pairs(), None),
    ]
    damaged = pytest.raises(
        CorruptIndexError, match="manifest: expected one, found nothing; restore a backup"
    )
    for call in calls:
        with damaged, simindex.open(tmp_path / "i", "r") as index:
            call(index)
    with damaged:  # before anything is written over
        simindex.open(tmp_path / "i")
