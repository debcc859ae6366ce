"""What is common among documents: against brute force, for any size of the parts that are counted at once."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex.sketching.common_shingles import (
    CommonShingles,
    OwnShingles,
    common_shingles,
    estimate_without,
)
from simindex.sketching.estimate import KEPT_VALUES

Documents = list[frozenset[int]]
documents_of_few = st.lists(st.frozensets(st.integers(0, 12), max_size=8), max_size=24)


def hashes_of(values: frozenset[int]) -> np.ndarray:
    return np.array(sorted(values), dtype=np.uint64)


def left_of(common: CommonShingles, values: range) -> set[int]:
    return set(values) - set(common.left_in(np.array(values, dtype=np.uint64)).tolist())


@given(documents=documents_of_few, share=st.floats(0.01, 0.99), room=st.integers(1, 2000))
def test_common_shingles_equal_brute_force_for_any_memory(
    documents: Documents, share: float, room: int
) -> None:
    counts = Counter(value for document in documents for value in document)
    expected = {value for value, count in counts.items() if count > 2 and count / len(documents) > share}
    found = common_shingles(lambda: map(hashes_of, documents), share, room)
    assert left_of(found, range(13)) == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize("hundredths", range(1, 100))
def test_shingle_of_just_the_share_is_not_common(hundredths: int) -> None:
    """29 of 100 are 0.29 of them; the product of floats is 28.999999999999996."""
    documents = [frozenset({0, 1} if n < hundredths else {1}) for n in range(100)]
    found = common_shingles(lambda: map(hashes_of, documents), hundredths / 100, 32 * 50)
    assert left_of(found, range(2)) == {1}


@given(documents=documents_of_few, share=st.floats(0.01, 0.99), room=st.integers(1, 2000))
def test_documents_that_kept_a_part_count_up_to_their_largest(
    documents: Documents, share: float, room: int
) -> None:
    kept = [hashes_of(document)[:4] for document in documents]
    expected = set()
    for value in range(13):
        telling = [one for one in kept if len(one) < 4 or value <= one[-1]]
        count = sum(value in one for one in telling)
        if count > 2 and count / len(telling) > share:
            expected.add(value)
    assert left_of(common_shingles(lambda: kept, share, room, keep=4), range(13)) == expected


@given(*[st.frozensets(st.integers(0, 30))] * 3)
def test_similarity_without_what_is_common_is_that_of_the_rest(
    a: frozenset[int], b: frozenset[int], common: frozenset[int]
) -> None:
    estimate, left_out = estimate_without(CommonShingles(hashes_of(common)), hashes_of(a), hashes_of(b))
    union = (a | b) - common
    assert estimate == (len((a & b) - common) / len(union) if union else 0.0, True, 0.0)
    assert left_out == len((a | b) & common)


def test_estimate_of_documents_kept_in_part_is_within_its_error() -> None:
    """400 of 2,000 hashes each; 1,000 are common to all, and of the own ones a share of 0.6."""
    draws = np.random.default_rng(3)
    template = draws.integers(0, KEPT_VALUES, 1000, dtype=np.uint64)
    common = CommonShingles(np.unique(template))
    off = []
    for _ in range(200):
        own = draws.integers(0, KEPT_VALUES, 1250, dtype=np.uint64)
        a, b = (np.unique(np.concatenate([template, some]))[:400] for some in (own[:1000], own[250:]))
        estimate, left_out = estimate_without(common, a, b, keep=400)
        assert not estimate.exact
        assert left_out > 100
        off.append((estimate.similarity - 0.6) / estimate.standard_error)
    # The mean of 200 is within 0.28 of 0 but for one time in 10,000, and their deviation within a fifth of 1.
    assert np.mean(off) == pytest.approx(0, abs=0.28)
    assert np.std(off) == pytest.approx(1, abs=0.2)


@given(st.lists(st.sets(st.integers(0, 40), max_size=20), min_size=2, max_size=8), st.floats(0.05, 1.0))
def test_own_shingles_rule_out_no_pair_that_reaches_a_threshold(
    documents: list[set[int]], threshold: float
) -> None:
    """Hashes of few values, for in 256 bits others would hardly ever meet; every fifth is common."""
    spread = [np.array(sorted(3 * hash_ << 6 for hash_ in hashes), dtype=np.uint64) for hashes in documents]
    common = CommonShingles(np.array([15 * n << 6 for n in range(9)], dtype=np.uint64))
    own = OwnShingles(enumerate(spread), common, None)
    pairs = list(combinations(range(len(spread)), 2))
    a, b = np.array(pairs, dtype=np.uint64).T
    for (left, right), may_reach in zip(pairs, own.may_reach(a, b, threshold).tolist(), strict=True):
        similarity = estimate_without(common, spread[left], spread[right])[0].similarity
        assert may_reach or similarity < threshold
    assert OwnShingles((), common, None).may_reach(a, b, threshold).all()  # nothing is known of them


def test_own_shingles_of_any_two_different_bits_rule_a_pair_out() -> None:
    own = OwnShingles(
        ((number, np.array([number], dtype=np.uint64)) for number in range(256)),
        CommonShingles(np.zeros(0, dtype=np.uint64)),
        None,
    )
    a, b = np.triu_indices(256, 1)
    assert not own.may_reach(a, b, 0.1).any()
