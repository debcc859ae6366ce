"""Answers of partitions, put together."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex.format.keys import encode_key
from simindex.queries.matches import Match
from simindex.scaleout.answers import Answered

_MATCH = st.builds(
    Match,
    st.one_of(st.text("ab", max_size=2), st.binary(max_size=1), st.integers(-2, 300)),
    st.sampled_from([None, 0.5, 0.75, 1.0]),
    st.sampled_from([None, 0, 3]),
    st.none() | st.just({"page": 7}),
    st.booleans(),
)
_FOUND = st.dictionaries(st.integers(0, 3), st.lists(_MATCH, max_size=4))


@given(
    parts=st.lists(_FOUND, min_size=1, max_size=3),
    limit=st.none() | st.integers(1, 3),
    by_distance=st.booleans(),
)
def test_matches_of_all_parts_come_in_order_up_to_the_limit(
    parts: list[dict[int, list[Match]]], limit: int | None, by_distance: bool
) -> None:
    def order(match: Match) -> tuple[float, int, bytes]:
        similarity = 0.0 if by_distance else -1.0 if match.similarity is None else match.similarity
        return -similarity, 65 if match.distance is None else match.distance, encode_key(match.key)

    each = [Answered.of(dict(sorted(part.items())), bytes(4)) for part in parts]
    found = Answered.merged(each, limit, by_distance).matches()
    for query, matches in enumerate(found):
        every = [match for part in parts for match in part.get(query, [])]
        assert list(map(order, matches)) == sorted(map(order, every))[:limit]
        assert all(match in every for match in matches)


def merged(parts: list[Answered], is_by_distance: bool) -> list[tuple[list[object], bool, int | None]]:
    carried = [pickle.loads(pickle.dumps(part)) for part in parts]
    found = Answered.merged(carried, None, is_by_distance).matches()
    assert len({id(one) for one in found}) == 3
    return [(list(one), one.truncated, one.candidates) for one in found]


@pytest.mark.parametrize("is_by_distance", [False, True])
def test_answers_without_any_match_keep_limits_and_counts(is_by_distance: bool) -> None:
    """Of what is new most batches have no match at all, and have a short way."""
    nothing = Answered.of({}, bytes(3))
    assert merged([nothing, nothing], is_by_distance) == [([], False, None)] * 3
    cut = merged([Answered.of({}, b"\0\0\1"), Answered.of({}, b"\2\0\0")], is_by_distance)
    assert [truncated for _, truncated, _ in cut] == [True, False, True]
    scanned = [Answered.of({}, bytes(3), np.array(some, dtype=np.uint64)) for some in ([1, 0, 5], [2, 0, 4])]
    assert [candidates for *_, candidates in merged(scanned, is_by_distance)] == [3, 0, 9]
