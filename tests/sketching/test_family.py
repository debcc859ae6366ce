"""The hash family and the band words, against their plain definitions."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import uint64s

from simindex import textbook
from simindex.sketching.hash_family import band_words, round_multipliers, row_coefficients, splitmix64


@given(uint64s, st.integers(0, 20))
def test_splitmix64_equals_its_twin(seed: int, count: int) -> None:
    assert splitmix64(seed, count).tolist() == list(islice(textbook.splitmix64(seed), count))


@given(uint64s, st.integers(1, 16))
def test_coefficients_of_fewer_rows_are_the_first_of_more(seed: int, bands: int) -> None:
    assert np.array_equal(row_coefficients(8 * bands, seed), row_coefficients(128, seed)[:, : 8 * bands])
    few, many = round_multipliers(8 * bands, seed), round_multipliers(1024, seed)
    assert np.array_equal(few, many[: len(few)])


@given(st.lists(st.integers(0, 2**32 - 1), min_size=8, max_size=128).map(lambda rows: rows[len(rows) % 8 :]))
def test_band_words_equal_their_twin(rows: list[int]) -> None:
    expected = textbook.band_words(textbook.row_values(rows))
    assert band_words(np.array(rows, dtype=np.uint64)).tolist() == expected
    assert band_words(np.array([rows, rows], dtype=np.int64)).tolist() == [expected, expected]


@pytest.mark.parametrize("num_rows", [7, 12])
def test_band_words_come_in_eights(num_rows: int) -> None:
    with pytest.raises(ValueError, match="divisor"):
        band_words(np.arange(num_rows))
