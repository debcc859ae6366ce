"""Chapter 5 of the textbook against the worked examples of seed 004.

Where a document prints a figure that its own method does not give, the test says which and pins both.
"""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from simindex import textbook

UINT64 = st.integers(0, 2**64 - 1)
# Number, fingerprint, its bits and the printed distance to the row before (seed 004, unsorted).
EIGHT_FINGERPRINTS = [
    (1, 37586, "1001001011010010", None),
    (2, 50086, "1100001110100110", 7),
    (3, 2648, "0000101001011000", 11),
    (4, 934, "0000001110100110", 9),
    (5, 40957, "1001111111111101", 9),
    (6, 2650, "0000101001011010", 9),
    (7, 64475, "1111101111011011", 11),
    (8, 40955, "1001111111111011", 4),
]


SEED_004_INPUTS = ["10111011", "00101110", "01100011", "01000010", "11110011", "10011100", "00001011"]


def test_textbook_simhash_counters_are_those_of_seed_004_but_for_one() -> None:
    # The seed prints -1 -1 1 -1 1 -3 6 1. Seven inputs cannot add up to 6; six ones and a zero make 5.
    counters = textbook.simhash_counters([int(bits, 2) for bits in SEED_004_INPUTS], bits=8)
    assert counters[::-1] == [-1, -1, 1, -1, 1, -3, 5, 1]


def test_textbook_simhash_is_the_result_of_seed_004() -> None:
    fingerprint = textbook.simhash([int(bits, 2) for bits in SEED_004_INPUTS], bits=8)
    assert f"{fingerprint:08b}" == "00101011"
    assert textbook.hamming(fingerprint, 0b00111011) == 1


def test_textbook_simhash_sets_a_bit_at_a_tie() -> None:
    assert textbook.simhash([0b10, 0b01], bits=2) == 0b11
    assert textbook.weighted_simhash([(0b10, 0.5), (0b01, 0.5)], bits=2) == 0b11


@given(st.lists(UINT64, min_size=1, max_size=20))
def test_textbook_simhash_sets_the_bits_that_half_of_the_hashes_have(hashes: list[int]) -> None:
    expected = sum(1 << j for j in range(64) if 2 * sum(value >> j & 1 for value in hashes) >= len(hashes))
    assert textbook.simhash(hashes) == expected
    assert textbook.weighted_simhash((value, 1.0) for value in hashes) == expected


@given(st.data())
def test_textbook_weighted_simhash_does_not_depend_on_the_order(data: st.DataObject) -> None:
    entries = data.draw(st.lists(st.tuples(UINT64, st.floats(-1e9, 1e9)), min_size=1, max_size=12))
    shuffled = data.draw(st.permutations(entries))
    assert textbook.weighted_simhash(shuffled) == textbook.weighted_simhash(entries)


@given(st.lists(st.tuples(UINT64, st.integers(1, 5)), min_size=1, max_size=8))
def test_textbook_weighted_simhash_of_counts_repeats_the_feature(entries: list[tuple[int, int]]) -> None:
    repeated = [value for value, weight in entries for _ in range(weight)]
    assert textbook.weighted_simhash(entries) == textbook.simhash(repeated)


def test_textbook_eight_fingerprints_of_seed_004_have_these_distances() -> None:
    # Unsorted, the seed prints 11 between numbers 6 and 7; the printed bits differ in 7 places.
    _, fingerprints, binary, (_, *printed) = zip(*EIGHT_FINGERPRINTS, strict=True)
    assert [f"{fingerprint:016b}" for fingerprint in fingerprints] == list(binary)
    assert printed == [7, 11, 9, 9, 9, 11, 4]
    assert [textbook.hamming(a, b) for a, b in pairwise(fingerprints)] == [7, 11, 9, 9, 9, 7, 4]


def test_textbook_sorted_fingerprints_of_seed_004_have_the_printed_distances() -> None:
    number_of = {fingerprint: number for number, fingerprint, _, _ in EIGHT_FINGERPRINTS}
    found = [(number_of[f], distance) for f, distance in textbook.sorted_neighbours(number_of)]
    assert found == [(4, None), (3, 9), (6, 1), (1, 5), (8, 6), (5, 2), (2, 9), (7, 9)]
    assert textbook.sorted_neighbours([]) == []
