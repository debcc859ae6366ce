"""Answers of partitions, put together."""

import pickle

import numpy as np
import pytest

from simindex.scaleout.answers import Answered


def merged(parts: list[Answered], is_by_distance: bool) -> list[tuple[list[object], bool, int | None]]:
    carried = [pickle.loads(pickle.dumps(part)) for part in parts]
    found = Answered.merged(carried, None, is_by_distance).matches()
    assert len({id(one) for one in found}) == 3
    return [(list(one), one.truncated, one.candidates) for one in found]


@pytest.mark.parametrize("is_by_distance", [False, True])
def test_answers_without_any_match_keep_limits_and_counts(is_by_distance: bool) -> None:
    """Of what is new most batches have no match at all, and have a short way."""
    nothing = Answered({}, bytes(3))
    assert merged([nothing, nothing], is_by_distance) == [([], False, None)] * 3
    cut = merged([Answered({}, b"\0\0\1"), Answered({}, b"\2\0\0")], is_by_distance)
    assert [truncated for _, truncated, _ in cut] == [True, False, True]
    scanned = [Answered({}, bytes(3), np.array(some, dtype=np.uint64)) for some in ([1, 0, 5], [2, 0, 4])]
    assert [candidates for *_, candidates in merged(scanned, is_by_distance)] == [3, 0, 9]
