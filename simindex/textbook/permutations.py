"""Chapter 6: sorted lists of permuted fingerprints, which find every one within k bits.

Sources: seed 004; Manku, Jain and Das Sarma 2007, section 3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import combinations

from simindex.textbook.fingerprints import hamming


def blocks(bits: int, num_blocks: int) -> list[int]:
    """Return the widths of the blocks of a fingerprint: as equal as can be, the wider ones first.
    ValueError: `num_blocks` outside 1..bits.

    >>> blocks(64, 5)
    [13, 13, 13, 13, 12]
    """
    if not 1 <= num_blocks <= bits:
        raise ValueError(f"num_blocks: expected 1..{bits}, found {num_blocks}")
    width, wider = divmod(bits, num_blocks)
    return [width + 1] * wider + [width] * (num_blocks - wider)


def permutation_orders(num_blocks: int, max_distance: int) -> list[tuple[int, ...]]:
    """Return an order of the m = `num_blocks` blocks, from 0, for each choice of m - k leading ones, k =
    `max_distance`, lexicographic.

    Behind these: the blocks before the first of them, after the last, and between, each ascending. For
    m = 4 and k = 2 the six lists of seed 004 (Manku, Jain and Das Sarma 2007, section 3). ValueError:
    `max_distance` outside 0..m - 1.

    >>> ["".join("ABCD"[block] for block in order) for order in permutation_orders(4, 2)]
    ['ABCD', 'ACDB', 'ADBC', 'BCAD', 'BDAC', 'CDAB']
    """
    if not 0 <= max_distance < num_blocks:
        raise ValueError(f"max_distance: expected 0..{num_blocks - 1}, found {max_distance}")
    orders = []
    for leading in combinations(range(num_blocks), num_blocks - max_distance):
        first, last = leading[0], leading[-1]
        between = (block for block in range(first, last) if block not in leading)
        orders.append((*leading, *range(first), *range(last + 1, num_blocks), *between))
    return orders


def permute(fingerprint: int, widths: Sequence[int], order: Iterable[int]) -> int:
    """Return the fingerprint with its blocks in `order`; block 0 (A) is the most significant (seed 004).

    >>> hex(permute(0xABCD, [4, 4, 4, 4], (1, 3, 0, 2)))
    '0xbdac'
    """
    permuted = 0
    for block in order:
        part = fingerprint >> sum(widths[block + 1 :]) & ((1 << widths[block]) - 1)
        permuted = permuted << widths[block] | part
    return permuted


def restore(permuted: int, widths: Sequence[int], order: Sequence[int]) -> int:
    """Return what `permute` was given: the moved blocks in the inverse order.

    >>> hex(restore(0xBDAC, [4, 4, 4, 4], (1, 3, 0, 2)))
    '0xabcd'
    """
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return permute(permuted, [widths[block] for block in order], inverse)


class PermutationTables:
    """Sorted lists of permuted fingerprints that find every one within k = `max_distance` bits.

    k differing bits lie in at most k of the m blocks, and the other m - k lead one of the lists: there
    both fingerprints begin alike (seed 004; Manku, Jain and Das Sarma 2007, section 3).

    >>> PermutationTables([0b1111, 0b0000, 0b0111], num_blocks=4, max_distance=1, bits=4).near(0b1110)
    [(1, 0)]
    """

    def __init__(
        self, fingerprints: Iterable[int], num_blocks: int, max_distance: int, bits: int = 64
    ) -> None:
        self.widths = blocks(bits, num_blocks)
        self.max_distance = max_distance
        self.tables: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        numbered = list(enumerate(fingerprints))
        for order in permutation_orders(num_blocks, max_distance):
            self.tables[order] = sorted((permute(f, self.widths, order), number) for number, f in numbered)

    def near(self, fingerprint: int) -> list[tuple[int, int]]:
        """Return (distance, number from 0) of every fingerprint within `max_distance`, each once, the nearest
        first, then by number."""
        found = set()
        for order, table in self.tables.items():
            shift = sum(self.widths[block] for block in order[len(order) - self.max_distance :])
            probe = permute(fingerprint, self.widths, order)
            prefix = probe >> shift
            start = bisect_left(table, (prefix << shift, 0))
            stop = bisect_left(table, ((prefix + 1) << shift, 0))
            found |= {(hamming(probe, permuted), number) for permuted, number in table[start:stop]}
        return sorted(match for match in found if match[0] <= self.max_distance)
