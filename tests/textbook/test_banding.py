"""Chapter 4 of the textbook against the worked examples of seeds 001 and 003.

Where a document prints a figure that its own method does not give, the test says which and pins both.
"""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex import textbook

UINT64 = st.integers(0, 2**64 - 1)


@given(st.lists(st.integers(0, 255), min_size=8, max_size=8), st.integers(1, 8), UINT64)
def test_textbook_band_words_share_eight_bits_for_every_first_row_that_agrees(
    rows: list[int], agreeing: int, other: int
) -> None:
    other_rows = rows[:agreeing] + list(other.to_bytes(8, "big"))[agreeing:]
    [word], [other_word] = textbook.band_words(rows), textbook.band_words(other_rows)
    assert word >> 8 * (8 - agreeing) == other_word >> 8 * (8 - agreeing)
    assert list(word.to_bytes(8, "big")) == rows


@given(
    st.lists(st.integers(0, 255), min_size=16, max_size=16),
    st.integers(1, 64),
    st.integers(0, 63),
    st.booleans(),
)
def test_textbook_prefix_is_shared_up_to_the_bit_that_differs(
    rows: list[int], prefix_bits: int, bit: int, is_second: bool
) -> None:
    """In one of two bands one bit is different, in the other the first."""
    others = list(rows)
    others[0 if is_second else 8] ^= 128
    others[8 * is_second + bit // 8] ^= 128 >> bit % 8
    assert textbook.shares_prefix(rows, others, prefix_bits) == (bit >= prefix_bits)
    assert textbook.shares_prefix(rows, rows, prefix_bits)


def test_textbook_prefix_probability_is_the_share_of_all_pairs_of_bytes() -> None:
    """Of rows that are equal with probability 1/2 and any two bytes else: 65,536 pairs of one row."""
    for bits in range(1, 9):
        alike = sum(first >> 8 - bits == second >> 8 - bits for first in range(256) for second in range(256))
        expected = 0.5 + 0.5 * alike / 65_536
        assert textbook.prefix_probability(0.5, bits) == pytest.approx(expected, rel=1e-12)
        assert textbook.prefix_probability(0.5, 8 + bits) == pytest.approx((0.5 + 0.5 / 256) * expected)


def test_textbook_band_words_come_in_eights() -> None:
    assert len(textbook.band_words(textbook.row_values(range(300, 428)))) == 16
    with pytest.raises(ValueError, match="multiple of 8"):
        textbook.band_words([1] * 9)


def test_textbook_pick_bands_is_the_list_of_seed_001() -> None:
    thresholds = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
    assert [textbook.pick_bands(threshold, 100) for threshold in thresholds] == [23, 18, 14, 10, 6, 4, 2, 1]
    # Seed 001 prints pickBands(.99999999999999999, 100) = 1, because that literal is the double 1.0. In exact
    # arithmetic the target 1e-15 is above 1 ln 1 = 0 and the answer is 2, as for the next double below 1.
    assert textbook.pick_bands(math.nextafter(1.0, 0.0), 100) == 2
    # The seed speaks of "4 buckets to compare" at 0.5 and 50 at 0.99: those are the rows a band, for
    # there are 23 and 2 buckets.
    for buckets, rows in ((23, 4), (2, 50)):
        assert len(textbook.band_hashes(list(range(100)), buckets)) == buckets
        assert 100 // buckets == rows
    for threshold in (0.0, -0.5, 1.5, math.nan):
        with pytest.raises(ValueError, match="threshold"):
            textbook.pick_bands(threshold, 100)


def test_textbook_band_hashes_are_djb2a_of_the_dotted_rows() -> None:
    assert textbook.band_hashes([7, -2, 30, 4, 5], 2) == [textbook.djb2a(b"7.-2"), textbook.djb2a(b"30.4")]
    for bands in (0, -1, 6):
        with pytest.raises(ValueError, match="bands"):
            textbook.band_hashes([7, -2, 30, 4, 5], bands)


@pytest.mark.parametrize(("bands", "rows"), [(0, 2), (2, 0), (3, 2)])
def test_textbook_bands_must_fit_the_signature(bands: int, rows: int) -> None:
    with pytest.raises(ValueError, match="bands"):
        textbook.band_buckets([1, 2, 3, 4, 5], bands, rows)


@given(st.lists(st.lists(st.integers(0, 2), min_size=6, max_size=6), max_size=8), st.sampled_from([1, 2, 3]))
def test_textbook_candidate_pairs_equal_a_comparison_of_all_pairs(
    signatures: list[list[int]], rows: int
) -> None:
    bands = 6 // rows
    expected = [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(signatures), 2)
        if any(a[k * rows : (k + 1) * rows] == b[k * rows : (k + 1) * rows] for k in range(bands))
    ]
    assert textbook.candidate_pairs(signatures, bands, rows) == expected


def test_textbook_candidate_probabilities_are_the_table_of_seed_003() -> None:
    table = {0.2: 0.006, 0.3: 0.047, 0.4: 0.186, 0.5: 0.470, 0.6: 0.802, 0.7: 0.975, 0.8: 1.0}
    for similarity, printed in table.items():
        twenty = textbook.candidate_probability(similarity, b=20, r=5)
        assert round(twenty, 3) == printed
        # Fewer false positives, more false negatives.
        assert textbook.candidate_probability(similarity, b=15, r=5) < twenty
    # Seed 003 prints .00035, the value of (1 - 0.328)**20; without that rounding it is .00036.
    missed = 1 - textbook.candidate_probability(0.8, b=20, r=5)
    assert (round((1 - 0.328) ** 20, 5), round(missed, 5)) == (0.00035, 0.00036)
    assert 1 / 3000 < missed < 1 / 2800
