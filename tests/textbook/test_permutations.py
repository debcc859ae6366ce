"""Chapter 6 of the textbook against the worked examples of seed 004, and against brute force."""

import math
from itertools import combinations, count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex import textbook

UINT64 = st.integers(0, 2**64 - 1)
# Unsorted, as seed 004 prints them.
EIGHT_FINGERPRINTS = [37586, 50086, 2648, 934, 40957, 2650, 64475, 40955]


def test_textbook_permutation_orders_are_the_six_lists_of_seed_004() -> None:
    orders = textbook.permutation_orders(4, 2)
    assert ["".join("ABCD"[block] for block in order) for order in orders] == [
        "ABCD",
        "ACDB",
        "ADBC",
        "BCAD",
        "BDAC",
        "CDAB",
    ]


@given(st.integers(1, 10), st.data())
def test_textbook_permutation_orders_hold_every_choice_of_leading_blocks_once(
    num_blocks: int, data: st.DataObject
) -> None:
    max_distance = data.draw(st.integers(0, num_blocks - 1))
    orders = textbook.permutation_orders(num_blocks, max_distance)
    leading = [order[: num_blocks - max_distance] for order in orders]
    assert leading == list(combinations(range(num_blocks), num_blocks - max_distance))
    assert all(sorted(order) == list(range(num_blocks)) for order in orders)


def test_textbook_permutation_orders_need_a_leading_block() -> None:
    for num_blocks, max_distance in ((4, 4), (4, -1)):
        with pytest.raises(ValueError, match="max_distance"):
            textbook.permutation_orders(num_blocks, max_distance)


@given(st.integers(1, 64), st.data())
def test_textbook_blocks_differ_by_one_bit_at_most(bits: int, data: st.DataObject) -> None:
    widths = textbook.blocks(bits, data.draw(st.integers(1, bits)))
    assert sum(widths) == bits
    assert widths == sorted(widths, reverse=True)
    assert widths[0] - widths[-1] <= 1


def test_textbook_blocks_cannot_outnumber_the_bits() -> None:
    with pytest.raises(ValueError, match="num_blocks"):
        textbook.blocks(4, 5)


@given(UINT64, st.integers(1, 10).flatmap(lambda m: st.permutations(range(m))))
def test_textbook_restore_undoes_permute(fingerprint: int, order: list[int]) -> None:
    widths = textbook.blocks(64, len(order))
    permuted = textbook.permute(fingerprint, widths, order)
    assert textbook.restore(permuted, widths, order) == fingerprint
    assert permuted.bit_count() == fingerprint.bit_count()
    digits = f"{fingerprint:064b}"
    parts = [digits[sum(widths[:block]) : sum(widths[: block + 1])] for block in range(len(order))]
    assert f"{permuted:064b}" == "".join(parts[block] for block in order)


@settings(max_examples=60)
@given(st.sampled_from([8, 16, 64]), st.integers(0, 4), st.integers(1, 4), st.data())
def test_textbook_permutation_tables_equal_brute_force(
    bits: int, max_distance: int, more_blocks: int, data: st.DataObject
) -> None:
    query = data.draw(st.integers(0, 2**bits - 1))
    flips = st.sets(st.integers(0, bits - 1), max_size=max_distance + 2)
    near_query = flips.map(lambda chosen: query ^ sum(1 << bit for bit in chosen))
    fingerprints = data.draw(st.lists(near_query | st.integers(0, 2**bits - 1), max_size=20))
    tables = textbook.PermutationTables(fingerprints, max_distance + more_blocks, max_distance, bits)
    distances = sorted(zip((textbook.hamming(query, f) for f in fingerprints), count(), strict=False))
    assert tables.near(query) == [match for match in distances if match[0] <= max_distance]


def test_textbook_permutation_tables_find_the_near_pairs_of_seed_004() -> None:
    tables = textbook.PermutationTables(EIGHT_FINGERPRINTS, num_blocks=4, max_distance=2, bits=16)
    assert len(tables.tables) == math.comb(4, 2) == 6
    pairs = {
        (number + 1, other + 1)
        for number, fingerprint in enumerate(EIGHT_FINGERPRINTS)
        for _, other in tables.near(fingerprint)
        if number < other
    }
    assert pairs == {(2, 4), (3, 6), (5, 8)}
