"""Snapshot: the live segments of one committed state, and which of them are loaded anew."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.faults import around, broken_off
from support.indexes import BATCH, SMALL, document, insert, problems_of
from support.stored import store_values

import simindex
from simindex import CorruptIndexError, Index, Layout


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
def test_a_reader_loads_new_segments_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    """One of a handle that sees each commit, and one that sees the commit of its opening."""
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, layout=Layout(64, 8, chunk_bytes)) as index:  # merges nothing
        for batch in range(3):
            insert(index, batch)
        loads = broken_off(monkeypatch, "read a segment")

        def loaded_by(handle: Index, batches: int) -> int:
            """The segments that a handle loads to find these batches; it sees no later ones."""
            before = len(loads)
            answers = handle.query_many([document(batch * BATCH) for batch in range(5)], 0.9)
            assert [len(found) for found in answers] == [1] * batches + [0] * (5 - batches)
            return len(loads) - before

        with simindex.open(path, "r") as reader, simindex.open(path, "r", refresh="manual") as older:
            loaded_by(reader, 3)
            loaded_by(older, 3)
            assert len(loads) == 3 + 3  # at the opening or by the first question
            index.touch(0)
            assert (loaded_by(reader, 3), loaded_by(older, 3)) == (0, 0)
            insert(index, 3)
            assert (loaded_by(reader, 4), loaded_by(older, 3)) == (1, 0)
            index.compact()
            assert loaded_by(reader, 4) == 1


def test_documents_that_a_handle_has_inserted_are_taken_over_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its own commits of one document, one after the other; what came in otherwise is read."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert("a", "some words of a text")
        index.insert_many([("b", "words of the second text"), ("c", "words of the third text")])
        index.insert("d", "what the fourth text has of words")
        with monkeypatch.context() as patch:
            around(patch, "read a segment", pytest.fail)
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
    store_values(tmp_path / "i", [("main", b"manifest", manifest)])
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
