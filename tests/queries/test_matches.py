"""Matches: what a query answers."""

from pathlib import Path
from typing import Any

import pytest
from fingerprints import BOTH, FOX, MINHASH_ONLY, SIMHASH_ONLY

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
        index.insert("rows", Sketch.from_rows(rows))
        index.insert("brought", Sketch.from_rows(rows, fingerprint))

        def figures(matches: Matches) -> dict[Any, tuple[float | None, int | None]]:
            return {key: (similarity, distance) for key, similarity, distance in matches}

        assert figures(index.query_simhash(FOX)) == {"text": (1.0, 0), "bare": (None, 0), "brought": (1.0, 0)}
        assert figures(index.query_simhash(Sketch.from_fingerprint(fingerprint))) == {
            "text": (None, 0),
            "bare": (None, 0),
            "brought": (None, 0),
        }
        assert figures(index.query(FOX)) == {"text": (1.0, 0), "rows": (1.0, None), "brought": (1.0, 0)}
        assert figures(index.query(Sketch.from_rows(rows))) == {
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


def test_matches_are_a_list_with_what_may_be_missing() -> None:
    match = Match("a", 0.5, 3)
    matches = Matches([match], truncated=True, candidates=7)
    assert matches == [match]
    assert (matches.truncated, matches.candidates) == (True, 7)
    assert match == ("a", 0.5, 3)
    assert (Matches(), Matches().truncated, Matches().candidates) == ([], False, None)


def test_matches_take_any_iterable_and_no_other_attribute() -> None:
    matches = Matches(Match(key, None, None) for key in "ab")
    assert [match.key for match in matches] == ["a", "b"]
    with pytest.raises(AttributeError):
        matches.truncatd = True  # type: ignore[attr-defined] # that is what is refused
