"""Blocks of a fingerprint and the permuted orders of the SimHash tables.

Which tables there are for a maximal distance k: the 64 bits are cut into m blocks; every choice of m - k
leading blocks is one table, sorted by the fingerprint with those blocks in front. Two fingerprints that
differ in at most k bits differ in at most k blocks, so they agree in the whole prefix of at least one table:
complete by the pigeonhole principle.

Source: Manku, Jain and Das Sarma 2007, section 3; seed 004 (k = 2, m = 4: the six sorted lists).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, combinations

import numpy as np

from simindex import _kernel
from simindex.config import SimHashConfig

FINGERPRINT_BITS = 64
"""Bits of a SimHash fingerprint."""

# The cost of one more prefix search, in scanned entries. An estimate; what is chosen by it is stored in the
# index, so that a better one changes no index that exists.
_LOOKUP_COST = 150.0


def block_widths(num_blocks: int) -> list[int]:
    """Return the widths in bits of 64 bits cut into 1..64 blocks as equal as can be, wider ones first."""
    width, wider = divmod(FINGERPRINT_BITS, num_blocks)
    return [width + 1] * wider + [width] * (num_blocks - wider)


def block_orders(num_blocks: int, max_distance: int) -> list[tuple[int, ...]]:
    """Return the order of blocks of every table, block 0 holding the most significant bits.

    There is one table for each choice of num_blocks - max_distance leading blocks, in lexicographic order.
    The order behind the leading blocks does not change any result; it is the one of seed 004: the
    blocks before the first leading one, those after the last, then those between.

    >>> ["".join("ABCD"[b] for b in order) for order in block_orders(4, 2)]
    ['ABCD', 'ACDB', 'ADBC', 'BCAD', 'BDAC', 'CDAB']
    """
    orders = []
    for leading in combinations(range(num_blocks), num_blocks - max_distance):
        rest = [b for b in range(num_blocks) if b not in leading]
        before = [b for b in rest if b < leading[0]]
        after = [b for b in rest if b > leading[-1]]
        between = [b for b in rest if leading[0] < b < leading[-1]]
        orders.append((*leading, *before, *after, *between))
    return orders


@dataclass(frozen=True)
class PermutationPlan:
    """The permutation tables of a configuration, and what they cost.

    Attributes:
        max_distance: k, up to which a search is complete.
        widths: bits of each block.
        orders: the order of blocks of each table.
        prefix_bits: bits of the leading blocks of each table.

    >>> plan = make_plan(num_blocks=4, max_distance=3)
    >>> plan.num_tables, plan.prefix_bits
    (4, (16, 16, 16, 16))
    """

    max_distance: int
    widths: tuple[int, ...]
    orders: tuple[tuple[int, ...], ...]
    prefix_bits: tuple[int, ...]

    @property
    def num_tables(self) -> int:
        """Number of permutation tables."""
        return len(self.orders)

    def expected_candidates(self, num_documents: int) -> float:
        """Return how many entries a query scans on average, in all tables, if fingerprints are uniform."""
        return sum([num_documents / 2.0**bits for bits in self.prefix_bits])

    @cached_property
    def packed(self) -> tuple[bytes, bytes]:
        """Widths and orders as the kernel takes them: a byte a block."""
        return bytes(self.widths), bytes(chain.from_iterable(self.orders))

    @cached_property
    def packed_prefixes(self) -> bytes:
        """The prefix bits as the kernel takes them: a byte a table."""
        return bytes(self.prefix_bits)

    def permute(self, fingerprints: np.ndarray) -> np.ndarray:
        """Return the fingerprints with their blocks in the order of each table: uint64, (num_tables, n)."""
        permuted = np.empty((len(self.orders), len(fingerprints)), dtype=np.uint64)
        _kernel.permute(np.ascontiguousarray(fingerprints), *self.packed, permuted)
        return permuted


@cache
def make_plan(num_blocks: int, max_distance: int) -> PermutationPlan:
    """Return the tables of k = `max_distance` and m = `num_blocks`, with 0 <= k < m <= 64; kept for reuse."""
    widths = block_widths(num_blocks)
    orders = block_orders(num_blocks, max_distance)
    leading = num_blocks - max_distance
    prefix_bits = tuple([sum(map(widths.__getitem__, order[:leading])) for order in orders])
    return PermutationPlan(max_distance, tuple(widths), tuple(orders), prefix_bits)


@cache
def choose_blocks(max_distance: int, expected_documents: int) -> int:
    """Return the number of blocks, k+1..k+6, whose tables cost a query the least for that many documents.

    More blocks make longer prefixes and so fewer entries to scan, but more tables to store and to
    search. Cost of a query, in entries scanned: expected candidates + a fixed cost a table; at most
    64 tables, for each takes an entry a document.
    """

    def cost(num_blocks: int) -> float:
        prefixes = map(sum, combinations(block_widths(num_blocks), num_blocks - max_distance))
        return sum([expected_documents / 2.0**bits + _LOOKUP_COST for bits in prefixes])

    possible = range(max_distance + 1, max_distance + 7)
    return min((blocks for blocks in possible if math.comb(blocks, max_distance) <= 64), key=cost)


def plan_for(simhash: SimHashConfig | None) -> PermutationPlan | None:
    """Return the tables of a new configuration, ``None`` without SimHash; an index has its blocks stored."""
    if simhash is None:
        return None
    blocks = simhash.blocks or choose_blocks(simhash.max_distance, simhash.expected_documents)
    return make_plan(blocks, simhash.max_distance)
