"""What a query sees: one snapshot, with the documents of an open transaction on top."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.texts import SMALL

import simindex
from simindex import CorruptIndexError, Index
from simindex.changes import documents
from simindex.format.keys import encode_key, number_key
from simindex.queries import view as view_module
from simindex.queries.view import View
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE

PAGE = ["one", "page", "of", "words"]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Index]:
    """Documents a, b, c under the numbers 0, 1, 2; b was removed."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        for key in "abc":
            index.insert(key, [key, key + "1"], key.upper())
        index.remove("b")
        yield index


def numbers_of(view: View, *keys: str) -> list[int | None]:
    return [None if (found := view.find_key(key)) is None else found[0] for key in keys]


def test_record_of_a_removed_number_is_none_and_of_a_missing_one_damage(three: Index) -> None:
    with three._store.reading() as txn:
        view = three._reader.view(txn)
        assert [None if (record := view.record(n)) is None else record.key for n in range(3)] == [
            "a",
            None,
            "c",
        ]
        assert [view.removed_flags(n) for n in range(3)] == [0, 3, 0]
        assert view.removed_between(0, 3) == {1: 3}
        assert view.removed_between(2, 3) == view.removed_between(0, 1) == {}
        with pytest.raises(CorruptIndexError, match="document 7: expected a record, found none"):
            view.record(7)


def test_record_that_is_gone_without_having_been_removed_is_damage(three: Index) -> None:
    three._store.commit(lambda txn: txn.delete("documents", number_key(2)))
    with three._store.reading() as txn:
        view = three._reader.view(txn)
        with pytest.raises(CorruptIndexError, match="document 2: expected a record"):
            view.find_key("c")
        assert numbers_of(view, "a", "b") == [0, None]


def test_keys_are_found_by_what_is_stored_of_them(three: Index) -> None:
    with three._store.reading() as txn:
        view = three._reader.view(txn)
        assert numbers_of(view, "a", "b", "c", "d") == [0, None, 2, None]
        number, record = view.find_stored("c")
        assert (number, record.key, record.metadata) == (2, "c", "C")
        with pytest.raises(KeyError, match="'b'"):
            view.find_stored("b")


def test_keys_whose_hashes_are_equal_are_told_apart_by_their_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def colliding(encoded: list[bytes]) -> np.ndarray:
        return np.array([len(key) for key in encoded], dtype=np.uint64)

    monkeypatch.setattr(documents, "key_hashes", colliding)
    monkeypatch.setattr(view_module, "key_hashes", colliding)
    monkeypatch.setattr("simindex.index.index.key_hashes", colliding)
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many([(key, [key]) for key in ("a", "b", "c", "long")])
        index.remove("b")
        with index.transaction():
            index.insert("d", ["d"])
            index.replace("a", ["new"])
            with index._store.reading() as txn:
                view = index._reader.view(txn)
                assert numbers_of(view, "a", "b", "c", "d", "e", "long", "none") == [
                    5,
                    None,
                    2,
                    4,
                    None,
                    3,
                    None,
                ]
                keys = [encode_key(key) for key in ("c", "e", "d", "a")]
                found = view.find_keys(keys, colliding(keys))
                assert {place: number for place, (number, _) in found.items()} == {0: 2, 2: 4, 3: 5}
        assert [key in index for key in "abcde"] == [True, False, True, True, False]
        assert index.remove_many(["a", "e"]) == 1


def test_pending_documents_lie_on_top_of_the_snapshot(three: Index) -> None:
    with three.transaction():
        three.insert("d", ["d"])
        three.replace("a", ["new"], "new")
        three.remove("c")
        three.insert("gone", ["gone"])
        three.remove("gone")
        with three._store.reading() as txn:
            view, committed = three._reader.view(txn), three._reader.committed_view(txn)
            assert (view.num_documents, committed.num_documents) == (2, 2)
            assert numbers_of(view, "a", "c", "d", "gone") == [4, None, 3, None]
            assert numbers_of(committed, "a", "c", "d", "gone") == [0, 2, None, None]
            assert [record.key for _, record in view.numbers_from(0, 9)] == ["d", "a"]
            assert [record.key for _, record in committed.numbers_from(0, 9)] == ["a", "c"]
            assert [number for number, _ in view.numbers_from(4, 9)] == [4]
            assert [number for number, _ in view.numbers_from(0, 1)] == [3]
            replaced = view.record(4)
            assert replaced is not None
            assert (replaced.key, replaced.metadata) == ("a", "new")
            assert view.record(0) is view.record(2) is view.record(5) is None
            assert len(view.directory.segments) > len(committed.directory.segments)


def test_documents_with_a_sketch_are_the_leader_and_its_live_copies(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many((number, PAGE) for number in range(60))
        index.insert(60, ["other"])
        index.remove_many(range(3, 50))
        with index._store.reading() as txn:
            view = index._reader.view(txn)
            live = [0, 1, 2, *range(50, 60)]
            for limit in (1, 2, 3, 4, 13, 14, 100):
                assert [number for number, _ in view.documents_with(0, limit)] == live[:limit]
            assert [number for number, _ in view.documents_with(60, 5)] == [60]
            assert (view.group_size(0), view.group_size(60)) == (13, None)
            assert sorted(view.copies_of(0)) == list(range(1, 60))
            assert len(view.copies_of(0, 7)) == 7
    with simindex.open(tmp_path / "i") as index:
        index.remove(0)
        with index._store.reading() as txn:
            view = index._reader.view(txn)
            assert [number for number, _ in view.documents_with(0, 2)] == [1, 2]
            assert not view.sketch_dead(0)
        index.remove_many(range(61))
        with index._store.reading() as txn:
            assert index._reader.view(txn).sketch_dead(0)


def test_sketch_of_a_document_is_the_one_that_was_inserted(tmp_path: Path) -> None:
    config = simindex.Config(num_perm=64, keep_shingles=3)
    sketcher = simindex.Sketcher(config)
    documents = {"page": PAGE, "empty": [], "long": [str(n) for n in range(50)]}
    with simindex.open(tmp_path / "i", "x", config) as index:
        index.insert_many(documents.items())
        with index._store.reading() as txn:
            view = index._reader.view(txn)
            for key, document in documents.items():
                (sketch,) = view.sketch_batch(*view.find_stored(key))
                assert sketch == sketcher.sketch(document)


def test_sketch_of_a_copy_is_its_leaders(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert("first", PAGE)
        index.insert("copy", PAGE)
        index.remove("first")
        with index._store.reading() as txn:
            view = index._reader.view(txn)
            number, record = view.find_stored("copy")
            assert (number, record.leader) == (1, 0)
            batch = view.sketch_batch(number, record)
            assert batch.present.tolist() == [HAS_SIGNATURE | HAS_FINGERPRINT]
            assert list(batch) == [simindex.Sketcher(SMALL).sketch(PAGE)]


def test_sketch_that_is_missing_is_damage(three: Index) -> None:
    with three._store.reading() as txn:
        view = three._reader.view(txn)
        _, record = view.find_stored("a")
        with pytest.raises(CorruptIndexError, match="document 9: expected a stored sketch, found none"):
            view.sketch_batch(9, record)
