"""Matches: what a query answers."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from support.truth import BOTH, FOX, MINHASH_ONLY, SIMHASH_ONLY

import simindex
from simindex import Match, Matches, Sketch, Sketcher


def test_match_has_the_figures_that_both_sides_have(tmp_path: Path) -> None:
    both = Sketcher(BOTH).sketch(FOX)
    fingerprint, rows = both.fingerprint, both.rows
    assert fingerprint is not None
    assert rows is not None
    with simindex.open(tmp_path / "i", "x", BOTH) as index:
        index.insert("text", FOX)
        index.insert("bare", Sketch.from_fingerprint(fingerprint))
        index.insert("rows", Sketch.from_rows(rows, config=BOTH))
        index.insert("brought", Sketch.from_rows(rows, fingerprint, config=BOTH))

        def figures(matches: Matches) -> dict[Any, tuple[float | None, int | None]]:
            for match in matches:
                assert (match.standard_error is None) == (match.similarity is None)
            return {match.key: (match.similarity, match.distance) for match in matches}

        assert figures(index.query_simhash(FOX)) == {"text": (1.0, 0), "bare": (None, 0), "brought": (1.0, 0)}
        assert figures(index.query_simhash(Sketch.from_fingerprint(fingerprint))) == {
            "text": (None, 0),
            "bare": (None, 0),
            "brought": (None, 0),
        }
        assert figures(index.query(FOX)) == {"text": (1.0, 0), "rows": (1.0, None), "brought": (1.0, 0)}
        assert figures(index.query(Sketch.from_rows(rows, config=BOTH))) == {
            "text": (1.0, None),
            "rows": (1.0, None),
            "brought": (1.0, None),
        }
    with simindex.open(tmp_path / "m", "x", MINHASH_ONLY) as index:
        index.insert("text", FOX)
        assert figures(index.query(FOX)) == {"text": (1.0, None)}
    with simindex.open(tmp_path / "s", "x", SIMHASH_ONLY) as index:
        index.insert("text", FOX)
        assert figures(index.query_simhash(FOX)) == {"text": (None, 0)}


def test_match_carries_the_metadata_of_its_document(tmp_path: Path) -> None:
    pages = {"a": {"page": 7, "tags": ["x", b"y"]}, "b": None, "c": "text"}
    with simindex.open(tmp_path / "i", "x", BOTH) as index:
        # Of copies, each with its own.
        index.insert_many((key, FOX, metadata) for key, metadata in pages.items())
        for found in (index.query(FOX), index.query_simhash(FOX), index.nearest(FOX)):
            assert {match.key: match.metadata for match in found} == pages
        assert index.query_key("a")[0].metadata is None
        with index.transaction():
            index.insert("d", FOX, 4)
            assert next(match.metadata for match in index.query(FOX) if match.key == "d") == 4


def test_match_is_frozen_and_slotted_and_hashed_without_its_metadata() -> None:
    match = Match("a", 0.5, 3, {"page": 7})
    assert not hasattr(match, "__dict__")
    with pytest.raises(FrozenInstanceError):
        match.key = "b"  # type: ignore[misc] # that is what is refused
    same, other = Match("a", 0.5, 3, {"page": 7}), Match("a", 0.5, 3, {"page": 8})
    assert match == same
    assert match != other
    assert hash(match) == hash(same) == hash(other)
    assert (match.exact, match.standard_error) == (False, None)


def test_match_of_bytes_and_times_survives_json() -> None:
    seen = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    match = Match(b"a\x00", 0.5, 3, {"seen": seen, "raw": [b"ab", 1.5, None]}, False, 0.04)
    as_dict = match.to_dict()
    assert list(as_dict) == [field.name for field in fields(Match)]
    assert (
        as_dict
        == json.loads(json.dumps(as_dict))
        == {
            "key": {"bytes": "YQA="},
            "similarity": 0.5,
            "distance": 3,
            "metadata": {"seen": "2026-03-01T12:30:00+00:00", "raw": [{"bytes": "YWI="}, 1.5, None]},
            "exact": False,
            "standard_error": 0.04,
        }
    )
    assert Match(7, None, 0).to_dict() == {
        "key": 7,
        "similarity": None,
        "distance": 0,
        "metadata": None,
        "exact": False,
        "standard_error": None,
    }


def test_matches_stay_matches_in_slices_copies_and_pickles() -> None:
    matches = Matches((Match(key, 1.0, None) for key in "abc"), truncated=True, candidates=7)
    copies = (matches[:], matches.copy(), copy.copy(matches), pickle.loads(pickle.dumps(matches)))
    for copied in (*copies, matches[1:], matches[::-1], matches[5:]):
        assert type(copied) is Matches
        assert (copied.truncated, copied.candidates) == (True, 7)
    assert all(copied == matches for copied in copies)
    assert [match.key for match in matches[::-2]] == ["c", "a"]
    assert matches[-1] == Match("c", 1.0, None)
    assert matches.to_dicts() == [match.to_dict() for match in matches]
    assert repr(matches[:1]) == f"Matches([{matches[0]!r}], truncated=True)"
    assert repr(Matches(matches)) == repr(list(matches))
    assert (Matches(), Matches().truncated, Matches().candidates) == ([], False, None)
    with pytest.raises(AttributeError):
        matches.truncatd = True  # type: ignore[attr-defined] # that is what is refused


@pytest.mark.parametrize("order", [*permutations(["metadata", "similarity", "standard_error", "distance"])])
def test_fields_of_a_match_can_be_read_in_any_order(tmp_path: Path, order: tuple[str, ...]) -> None:
    with simindex.open(tmp_path / "i", "x", BOTH) as index:
        index.insert("a", FOX, {"n": 1})
        by_order, by_fields = index.query(FOX)[0], index.query(FOX)[0]
    read = {name: getattr(by_order, name) for name in order}
    assert read == {name: getattr(by_fields, name) for name in read}
    assert by_order == by_fields
    assert 0 < read["standard_error"] < 1


def test_estimate_of_one_has_an_error_and_no_claim_to_be_exact(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", MINHASH_ONLY) as index:
        index.insert("a", FOX)
        match = index.query(FOX)[0]
        assert match.similarity == 1.0
        assert not match.exact
        assert (match.standard_error or 0) > 0.01


def test_answer_can_be_read_when_the_index_has_changed_and_is_closed(tmp_path: Path) -> None:
    """What an answer needs was copied by the query: matches are of the state that was asked."""
    with simindex.open(tmp_path / "i", "x", BOTH) as index:
        index.insert_many((f"k{n}", FOX, {"n": n}) for n in range(3))
        one, many = index.query(FOX), index.query_many([FOX, "nothing alike", FOX])
        index.insert("k0", FOX, {"n": 7}, on_conflict="replace")
        index.remove("k1")
        index.compact()
    expected = [Match(f"k{n}", 1.0, 0, {"n": n}, False, one[0].standard_error) for n in range(3)]
    assert one == expected
    assert many == [expected, [], expected]
    assert pickle.loads(pickle.dumps(many)) == many
    assert copy.deepcopy(one) == one
    assert [match.metadata for match in sorted(one, key=lambda match: str(match.key))] == [
        {"n": n} for n in range(3)
    ]
    with pytest.raises(AttributeError, match="no attribute 'keys'"):
        one[0].keys  # type: ignore[attr-defined] # noqa: B018 - that is what is refused


@pytest.mark.parametrize("limit", [None, 1, 2, 3, 100])
def test_limit_counts_live_documents_alone_copies_or_not(tmp_path: Path, limit: int | None) -> None:
    near = FOX + " and more of it"
    with simindex.open(tmp_path / "i", "x", BOTH) as index:
        for round_ in range(3):
            index.insert_many((f"{round_}-{n}", (FOX, near)[n % 2]) for n in range(30))
        for n in range(0, 30, 2):
            index.remove(f"0-{n}")
        index.insert("1-1", "something quite else", on_conflict="replace")
        live = {key for key in index if key != "1-1"}
        for found in (index.query(FOX, 0.1, limit), *index.query_many([FOX, near], 0.1, limit)):
            assert len(found) == min(limit or 100, len(live))
            assert {match.key for match in found} <= live
            assert [m.similarity for m in found] == sorted((m.similarity for m in found), reverse=True)
        without = index.query_key("2-0", 0.1, limit)
        assert len(without) == min(limit or 100, len(live) - 1)
        assert "2-0" not in {match.key for match in without}
