"""Ready and weighted shingles, and the settings of cutting; the cutting itself is in test_kernel."""

from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import uint64s

from simindex import textbook
from simindex.sketching.shingles import ready_hashes, weighted_hashes

weights = st.one_of(st.just(0), st.integers(1, 5), st.floats(0, 1e9))


@given(st.dictionaries(st.text("abcd", max_size=3) | st.binary(max_size=2), weights, max_size=12), uint64s)
def test_weighted_hashes_are_sorted_and_leave_out_the_weight_of_zero(
    weighted: dict[str | bytes, float], seed: int
) -> None:
    expected = sorted((textbook.shingle_hash(s, seed), float(w)) for s, w in weighted.items() if w > 0)
    hashes, kept = weighted_hashes(weighted, seed)
    assert list(zip(hashes.tolist(), kept.tolist(), strict=True)) == expected
    assert hashes.dtype == np.uint64
    assert kept.dtype == np.float64


class Shout(IntEnum):
    LOUD = 7

    def __str__(self) -> str:
        return "loud"


@pytest.mark.parametrize("number", [7, np.int64(7), np.uint8(7), np.array(7), Shout.LOUD])
def test_ints_of_any_kind_are_the_shingle_of_their_digits(number: Any) -> None:
    assert ready_hashes([number], 1).tolist() == ready_hashes(["7"], 1).tolist()
    assert weighted_hashes({"7": 2.0}, 1)[0].tolist() == ready_hashes([number], 1).tolist()
