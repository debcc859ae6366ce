"""The one writer: conflicts of keys, and a change that becomes a commit."""

from pathlib import Path
from typing import Any

import pytest
from support.indexes import CAR, FOX
from support.stored import put_all

import simindex
from simindex import Index, KeyExistsError
from simindex.changes.documents import prepare_documents
from simindex.changes.pending import Pending
from simindex.changes.writer import Writer
from simindex.format.keys import encode_key, segment_key, segment_of
from simindex.format.seals import unpack


def test_stored_key_is_refused_and_named(index: Index) -> None:
    for call in (
        lambda: index.insert("fox", CAR),
        lambda: index.insert_many([("new", CAR), ("fox", CAR)]),
        lambda: index.insert_many([("new", CAR), ("new", FOX)]),
        lambda: index.insert_if_new("fox", "entirely different words again"),
    ):
        with pytest.raises(
            KeyExistsError,
            match=r"key '(fox|new)' is in the index already, or twice in the input; on_conflict=",
        ) as caught:
            call()
        assert isinstance(caught.value, KeyError)
    with pytest.raises(KeyExistsError):
        index.insert_many(((number % 25, FOX) for number in range(50)), batch_size=20)
    assert index.remove_many(range(25)) == 20


def stored_ids(index: Index) -> set[int]:
    """Ids that chunks lie under."""
    with index._store.reading() as txn:
        return {segment_of(key) for key, _ in txn.items("segments")}


def changed(index: Index) -> tuple[Writer, Pending]:
    writer = index._session.writer()
    return writer, writer.begin()


def insert_into(
    index: Index, writer: Writer, pending: Pending, items: list[tuple[Any, ...]], on_conflict: str
) -> tuple[int, int, int]:
    documents = prepare_documents(items, index._sketcher)
    with index._store.reading() as txn:
        return writer.insert(pending, index._reader.committed_view(txn), documents, on_conflict)


ITEMS: list[tuple[Any, ...]] = [("fox", FOX, 1), ("a", FOX, 2), ("a", CAR, 3), ("fox", CAR, 4), ("a", FOX, 5)]


@pytest.mark.parametrize(
    ("on_conflict", "counts", "kept"),
    [("skip", (1, 0, 4), {"a": 2}), ("replace", (1, 4, 0), {"fox": 4, "a": 5})],
)
def test_key_that_comes_twice_in_one_call_is_skipped_or_the_last_one_stays(
    index: Index, on_conflict: str, counts: tuple[int, int, int], kept: dict[str, int]
) -> None:
    writer, pending = changed(index)
    assert insert_into(index, writer, pending, ITEMS, on_conflict) == counts
    documents = pending.documents()
    stored = zip(documents.encoded_keys, map(unpack, documents.packed_metadata), strict=True)
    assert dict(stored) == {encode_key(key): metadata for key, metadata in kept.items()}
    assert len(pending.removed) == (on_conflict == "replace")


def test_conflict_that_is_an_error_adds_nothing(index: Index) -> None:
    writer, pending = changed(index)
    with pytest.raises(KeyExistsError) as caught:
        insert_into(index, writer, pending, [("new", CAR), ("fox", FOX)], "error")
    assert caught.value.key == "fox"
    assert (pending.size, pending.by_key) == (0, {})


def test_preparation_stores_nothing_and_can_be_thrown_away(index: Index) -> None:
    writer, pending = changed(index)
    before = writer.manifest
    insert_into(index, writer, pending, [("new", CAR)], "error")
    with index._store.reading() as txn:
        prepared = writer.prepare(pending, index._reader.committed_view(txn))
    assert prepared.manifest.next_number == before.next_number + 1
    assert (writer.manifest, len(index), "new" in index) == (before, 2, False)
    writer.begin()
    assert writer.manifest.segments == before.segments


def test_commit_of_a_change_counts_documents_and_copies(index: Index) -> None:
    writer, pending = changed(index)
    insert_into(index, writer, pending, [("copy", FOX), ("fox", "other words by now")], "replace")
    with index._store.reading() as txn:
        prepared = writer.prepare(pending, index._reader.committed_view(txn))
    index._session.commit(writer, prepared)
    manifest = writer.manifest
    assert (manifest.num_documents, manifest.num_copies, manifest.next_number) == (3, 1, 4)
    assert [match.key for match in index.query(FOX)] == ["copy"]
    index.replace("fox", FOX, {"page": 1})
    index.remove_many(["copy", "car"])
    index.insert("car", CAR)
    assert writer.manifest.num_documents == 2


def test_number_is_never_given_again(index: Index) -> None:
    for _ in range(3):
        index.insert("new", FOX)
        index.remove("new")
    assert index._session.writer().manifest.next_number == 5


def test_writer_removes_chunks_that_no_manifest_names(tmp_path: Path) -> None:
    """What an unfinished merge of an earlier writer leaves."""
    with simindex.open(tmp_path / "i") as index:
        index.insert("fox", FOX)
        live = stored_ids(index)
        put_all(index._store, "segments", {segment_key(n, t, 0): b"x" for n in (7, 9, 300) for t in (0, 3)})
        assert stored_ids(index) == live | {7, 9, 300}
    with simindex.open(tmp_path / "i", "r") as index:
        assert stored_ids(index) == live | {7, 9, 300}
    with simindex.open(tmp_path / "i") as index:
        assert stored_ids(index) == live
        assert [match.key for match in index.query(FOX)] == ["fox"]


def test_writer_counts_again_who_was_removed_before_it_was_opened(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many([(n, f"{n} is a number of its own") for n in range(10)])
        index.remove_many(range(4))
    with simindex.open(tmp_path / "i") as index:
        (segment,) = index._session.writer().manifest.segments
        assert index._session.writer().merges._dead == {segment.id: 4}
