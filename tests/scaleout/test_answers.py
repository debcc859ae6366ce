"""Answers of places as columns, and what the driver makes of them."""

import numpy as np
import pytest

from simindex.scaleout.answers import Columns, answers_of


def nothing_found(truncated: bytes, scanned: list[int] | None = None) -> Columns:
    counted = None if scanned is None else np.array(scanned, dtype=np.uint64)
    return Columns([], [], truncated, counted, [], [], [], [], [], None, False)


@pytest.mark.parametrize("is_by_distance", [False, True])
def test_answers_without_any_match_keep_what_else_was_told(is_by_distance: bool) -> None:
    """Of what is new most batches have no match at all, and have a short way."""
    none = answers_of([nothing_found(bytes(3)), nothing_found(bytes(3))], None, is_by_distance)
    assert [(list(one), one.truncated, one.candidates) for one in none] == [([], False, None)] * 3
    cut = answers_of([nothing_found(b"\0\0\1"), nothing_found(b"\2\0\0")], None, is_by_distance)
    assert [one.truncated for one in cut] == [True, False, True]
    scanned = [nothing_found(bytes(3), [1, 0, 5]), nothing_found(bytes(3), [2, 0, 4])]
    assert [one.candidates for one in answers_of(scanned, None, is_by_distance)] == [3, 0, 9]
    assert len({id(one) for one in none}) == 3
