"""The S-curve: probability that a pair becomes a candidate, and the prefix length to compare.

Which candidates a query returns: `match_odds`. Sources: seeds on banding (the curve 1 - (1 - s^r)^b, and
`pick_bands`); b-bit correction, Li and Koenig 2010; rows chosen at query time, LSH Forest, Bawa et al. 2005.
"""

from __future__ import annotations

import math
from functools import lru_cache

from simindex.checks import require_share
from simindex.errors import ArgumentValueError

ROW_VALUES = 256
"""A stored row has 8 bits, so two unequal rows agree by chance in one of 256 cases."""

DEFAULT_THRESHOLD = 0.8
"""The similarity that a query asks for where no threshold is given."""

DEFAULT_RECALL = 0.95
"""The least odds that a document right at the threshold becomes a candidate."""

MAX_ROWS = 8
"""Rows of a band word."""

ROW_BITS = 8
"""Bits of a stored row."""

MAX_PREFIX_BITS = MAX_ROWS * ROW_BITS
"""Bits of a band word: the longest prefix that a band table is searched by."""

_WHOLE_ROWS_FROM = 3 * ROW_BITS


def candidate_probability(
    similarity: float, bands: int, rows: int | None = None, *, prefix_bits: int | None = None
) -> float:
    """Return the probability that a pair of that Jaccard similarity becomes a candidate.

    A candidate is looked at; whether a query returns it, its estimate decides: see `match_probability`.

    Args:
        similarity: exact Jaccard similarity s, 0..1.
        bands: number of bands b; more bands find more pairs, wanted and unwanted.
        rows: rows r that must agree in a band; more rows find fewer.
        prefix_bits: instead of rows: leading bits that must agree, 8r and d more, d in 0..7.

    Returns:
        1 - (1 - p^r)^b with p = s + (1 - s)/256, 0..1: unequal rows agree by chance in one of
        256 cases. By bits p^r (s + (1 - s)/2^d) stands for p^r: the first d bits of another row agree where
        it is equal, and in one of 2^d cases where it is not.

    Raises:
        ValueError: a similarity outside 0..1, or less than 1 band, row or bit.
        TypeError: a similarity that is no number, or not one of rows and prefix_bits.

    >>> round(candidate_probability(0.8, 16, 7), 3), round(candidate_probability(0.8, 16, prefix_bits=60), 3)
    (0.978, 0.951)
    """
    require_share("similarity", similarity, zero=True)
    if (rows is None) == (prefix_bits is None):
        raise TypeError(f"expected rows or prefix_bits, found {'neither' if rows is None else 'both'}")
    if bands < 1 or (rows is not None and rows < 1):
        raise ValueError(f"expected at least 1 band and 1 row, found {bands} and {rows}")
    if prefix_bits is not None and prefix_bits < 1:
        raise ArgumentValueError("prefix_bits", "1 or more", prefix_bits)
    whole, bits = (rows, 0) if prefix_bits is None else divmod(prefix_bits, ROW_BITS)
    different = 1 - similarity
    agree = (similarity + different / ROW_VALUES) ** (whole or 0) * (similarity + different / (1 << bits))
    if agree >= 1:
        return 1.0
    # 1 - (1 - p)^b without losing a small p.
    return -math.expm1(bands * math.log1p(-agree))


def prefix_bits_for(threshold: float, bands: int, recall: float = DEFAULT_RECALL) -> int:
    """Return the longest prefix in bits, 1..64, whose curve reaches `recall` at the threshold; 1 if none.

    The rows of a band lie one behind the other, eight bits each, so a prefix may end inside a row. Each bit
    more halves what unlike documents share by chance.

    Args:
        threshold: Jaccard similarity in (0, 1].
        bands: number of band tables, 1 or more.
        recall: wanted probability of a candidate at the threshold itself, in (0, 1].

    Raises:
        ValueError: an argument out of range.
        TypeError: a threshold or recall that is no number.

    >>> [prefix_bits_for(t, 16, 0.95) for t in (0.4, 0.5, 0.7, 0.8, 0.95)]
    [12, 17, 37, 60, 64]
    """
    for name, value in (("threshold", threshold), ("recall", recall)):
        if type(value) is not float:  # the rest is checked once for each value
            require_share(name, value)
    return _prefix_bits_for(threshold, bands, recall)


@lru_cache(maxsize=1024, typed=True)
def _prefix_bits_for(threshold: float, bands: int, recall: float) -> int:
    require_share("threshold", threshold)
    require_share("recall", recall)
    for bits in range(MAX_PREFIX_BITS, 1, -1):
        if candidate_probability(threshold, bands, prefix_bits=bits) >= recall:
            return bits
    return 1


def compared_bits(threshold: float, bands: int, recall: float = DEFAULT_RECALL) -> int:
    """Return how many leading bits of a band word a query compares, 1..64.

    `prefix_bits_for`, but from three rows on without the bits of a row that is not whole. About one in a
    million unlike documents shares three rows in one of 16 bands, so more bits save nothing, and they would
    cost matches: figures in docs/thresholds.md.

    Args:
        threshold, bands, recall: as in `prefix_bits_for`; so are the errors.

    >>> [compared_bits(t, 16) for t in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9)]
    [12, 17, 24, 32, 56, 64]
    """
    bits = prefix_bits_for(threshold, bands, recall)
    return bits if bits < _WHOLE_ROWS_FROM else bits // ROW_BITS * ROW_BITS


def rows_for(threshold: float, bands: int, recall: float = DEFAULT_RECALL) -> int:
    """Return the most whole rows, 1..8, whose curve reaches `recall` at the threshold; 1 if none does.

    That is a whole number of rows; a query compares the prefix of `compared_bits`, which may end inside a
    row. For the lowest thresholds that is less than one row, and this is 1.

    Args:
        threshold, bands, recall: as in `prefix_bits_for`; so are the errors.

    >>> [rows_for(t, 16, 0.95) for t in (0.4, 0.5, 0.7, 0.8, 0.95)]
    [1, 2, 4, 7, 8]
    """
    return max(1, prefix_bits_for(threshold, bands, recall) // ROW_BITS)


def expected_recall(threshold: float, bands: int, recall: float = DEFAULT_RECALL) -> float:
    """Return the probability, 0..1, of a candidate at the threshold by the prefix of `compared_bits`.

    Not of a match: a candidate's estimate is cut at the threshold, see `match_probability`.

    It is at least `recall` unless even one bit does not reach it. Arguments and errors as in
    `prefix_bits_for`.

    >>> round(expected_recall(0.8, 16), 3)
    0.978
    """
    prefix_bits = compared_bits(threshold, bands, recall)
    return candidate_probability(threshold, bands, prefix_bits=prefix_bits)


def pick_bands(threshold: float, num_perm: int) -> int:
    """Return how many bands a fixed banding of num_perm rows needs to find pairs above the threshold.

    The smallest b with b ln b >= -num_perm ln threshold, from threshold = (1/b)^(1/r), r = num_perm/b.
    simindex itself does not fix the bands: see `prefix_bits_for`.

    Args:
        threshold: Jaccard similarity in (0, 1].
        num_perm: rows of a signature, 1 or more.

    Raises:
        ValueError: an argument out of range.
        TypeError: a threshold that is no number.

    >>> [pick_bands(t, 100) for t in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)]
    [23, 18, 14, 10, 6, 4, 2]

    Source: seed 001 (Hanna and Hunt, part 2).
    """
    require_share("threshold", threshold)
    if num_perm < 1:
        raise ArgumentValueError("num_perm", "1 or more", num_perm)
    target = -num_perm * math.log(threshold)
    bands = 1
    while bands * math.log(bands) < target:
        bands += 1
    return bands
