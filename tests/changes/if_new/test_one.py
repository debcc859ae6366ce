"""One document: its own key is no match, conflicts, both methods, and refused arguments."""

from pathlib import Path
from typing import Any

import pytest
from support.indexes import CAR, FOX

import simindex
from simindex import Index, KeyExistsError, Sketch

NEAR_FOX = f"{FOX} again"
PLANE = "some plane far above them both, of which nobody on the ground has heard"


def keys_of(found: simindex.Matches) -> list[Any]:
    return [match.key for match in found]


def test_document_of_the_same_key_is_no_match(index: Index) -> None:
    with pytest.raises(KeyExistsError, match="key 'fox' is in the index already"):
        index.insert_if_new("fox", FOX)
    message = 'on_conflict: expected "error", "skip" or "replace", found \'keep\''
    with pytest.raises(ValueError, match=message):
        index.insert_if_new("fox", FOX, on_conflict="keep")  # type: ignore[arg-type]
    assert index.insert_if_new("fox", FOX, on_conflict="skip") == []
    assert keys_of(index.insert_if_new("other", FOX)) == ["fox"]
    assert "other" not in index


def test_page_seen_again_takes_the_place_of_its_older_version(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert("fox", FOX, 1)
        index.insert("car", CAR)
        assert index.insert_if_new("fox", NEAR_FOX, metadata=2, on_conflict="replace") == []
        assert (index["fox"].metadata, len(index)) == (2, 2)
        # Unless another document matches: then the older version stays.
        assert keys_of(index.insert_if_new("fox", CAR, metadata=3, on_conflict="replace")) == ["car"]
        assert index["fox"].metadata == 2
        # What was replaced is no match any more.
        assert index.insert_if_new("fox", PLANE, on_conflict="replace") == []
        assert index.insert_if_new("new", FOX) == []


def test_skip_leaves_the_older_version_and_inserts_what_is_new(index: Index) -> None:
    assert index.insert_if_new("fox", PLANE, metadata=2, on_conflict="skip") == []
    assert index["fox"].metadata == {"page": 1}
    assert index.insert_if_new("plane", PLANE, on_conflict="skip") == []
    assert "plane" in index
    index.remove("plane")


@pytest.mark.parametrize("on_conflict", ["skip", "replace"])
def test_own_key_is_known_inside_a_transaction(tmp_path: Path, on_conflict: Any) -> None:
    with simindex.open(tmp_path / "i") as index, index.transaction():
        assert index.insert_if_new("a", FOX) == []
        assert index.insert_if_new("a", NEAR_FOX, metadata=2, on_conflict=on_conflict) == []
        assert index["a"].metadata == (2 if on_conflict == "replace" else None)
        assert keys_of(index.insert_if_new("b", NEAR_FOX)) == ["a"]
        with pytest.raises(KeyExistsError):
            index.insert_if_new("a", CAR)
        assert len(index) == 1


def test_simhash_compares_fingerprints(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert("zero", Sketch.from_fingerprint(0))
        near, far = Sketch.from_fingerprint(0b11), Sketch.from_fingerprint(0b1111)
        found = index.insert_if_new("near", near, by="simhash")
        assert [(match.key, match.distance) for match in found] == [("zero", 2)]
        assert index.insert_if_new("near", near, by="simhash", max_distance=1) == []
        assert keys_of(index.insert_if_new("far", far, by="simhash", max_distance=2)) == ["near"]


def test_sketch_without_the_half_that_is_compared_is_refused(index: Index) -> None:
    for sketch, by in ((Sketch.from_fingerprint(5), "minhash"), (Sketch.from_rows([1] * 128), "simhash")):
        with pytest.raises(ValueError, match=r"^key 'new': expected .* to compare by, found a sketch that"):
            index.insert_if_new("new", sketch, by=by)  # type: ignore[arg-type] # one of the two
