"""Blocks of a fingerprint and the orders of its tables: as in the textbook, and complete by prefixes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import permutation_plans, uint64s

from simindex import textbook
from simindex.sketching import permutations
from simindex.sketching.permutations import block_orders, block_widths, choose_blocks, make_plan


@pytest.mark.parametrize("max_distance", range(9))
def test_plan_is_that_of_the_textbook(max_distance: int) -> None:
    for blocks in range(max_distance + 1, max_distance + 7):
        plan = make_plan(blocks, max_distance)
        assert list(plan.orders) == block_orders(blocks, max_distance)
        assert list(plan.orders) == textbook.permutation_orders(blocks, max_distance)
        assert list(plan.widths) == block_widths(blocks) == textbook.blocks(64, blocks)
        assert plan.num_tables == math.comb(blocks, max_distance)
        leading = blocks - max_distance
        assert plan.prefix_bits == tuple(
            sum(plan.widths[b] for b in order[:leading]) for order in plan.orders
        )


@given(permutation_plans, st.lists(uint64s, max_size=8))
def test_plan_permutes_like_the_textbook(blocks: tuple[int, int], fingerprints: list[int]) -> None:
    max_distance, num_blocks = blocks
    plan = make_plan(num_blocks, max_distance)
    permuted = plan.permute(np.array(fingerprints, dtype=np.uint64)).tolist()
    for order, row in zip(plan.orders, permuted, strict=True):
        assert row == [textbook.permute(f, plan.widths, order) for f in fingerprints]
        assert [textbook.restore(key, plan.widths, order) for key in row] == fingerprints


@settings(max_examples=300)
@given(permutation_plans, uint64s, st.data())
def test_fingerprints_within_k_bits_share_the_prefix_of_a_table(
    blocks: tuple[int, int], fingerprint: int, data: st.DataObject
) -> None:
    max_distance, num_blocks = blocks
    plan = make_plan(num_blocks, max_distance)
    bits = data.draw(st.sets(st.integers(0, 63), max_size=max_distance))
    other = fingerprint ^ sum(1 << bit for bit in bits)
    pairs = plan.permute(np.array([fingerprint, other], dtype=np.uint64)).tolist()
    assert any(
        a >> (64 - bits) == b >> (64 - bits) for (a, b), bits in zip(pairs, plan.prefix_bits, strict=True)
    )


@pytest.mark.parametrize("max_distance", range(9))
def test_choose_blocks_takes_the_cheapest_of_at_most_64_tables(max_distance: int) -> None:
    choices = [
        blocks
        for blocks in range(max_distance + 1, max_distance + 7)
        if math.comb(blocks, max_distance) <= 64
    ]
    chosen_before = 0
    for expected_documents in (1, 10**3, 10**5, 10**6, 10**7, 10**8, 10**9, 10**12, 2**48):
        chosen = choose_blocks(max_distance, expected_documents)
        costs = {}
        for blocks in choices:
            plan = make_plan(blocks, max_distance)
            scanned = sum(expected_documents / 2**bits for bits in plan.prefix_bits)
            costs[blocks] = scanned + permutations._LOOKUP_COST * math.comb(blocks, max_distance)
        assert costs[chosen] == min(costs.values())
        assert chosen >= chosen_before, "more documents never want shorter prefixes"
        chosen_before = chosen
    assert [choose_blocks(3, documents) for documents in (1, 10_000_000, 2**48)] == [4, 4, 8]
    assert choose_blocks(0, 2**48) == 1
