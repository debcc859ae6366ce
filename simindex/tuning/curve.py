"""The S-curve of banding: how likely a pair becomes a candidate, and which rows to compare.

Owns these formulas; which candidates a query returns is `found`'s. Must not touch sketches or disk.
Sources: seeds on banding (the curve 1 - (1 - s^r)^b, and `pick_bands`); b-bit correction, Li and Koenig 2010;
rows chosen at query time, LSH Forest, Bawa et al. 2005.
"""

from __future__ import annotations

import math
from functools import lru_cache

from simindex.checks import require_share

ROW_VALUES = 256
"""A stored row has 8 bits, so two unequal rows agree by chance in one of 256 cases."""

DEFAULT_THRESHOLD, DEFAULT_RECALL = 0.8, 0.95
"""The similarity that a query asks for, and the odds of a candidate there, where nothing else is said."""

MAX_ROWS = 8
"""Rows of a band word: the longest prefix that a band table is searched by."""


def candidate_probability(similarity: float, bands: int, rows: int) -> float:
    """Return the probability that a pair of that Jaccard similarity becomes a candidate.

    A candidate is looked at; whether a query returns it, its estimate decides: see `match_probability`.

    Args:
        similarity: exact Jaccard similarity s, 0..1.
        bands: number of bands b; more bands find more pairs, wanted and unwanted.
        rows: rows r that must agree in a band; more rows find fewer.

    Returns:
        1 - (1 - p^r)^b with p = s + (1 - s)/256, 0..1: unequal rows agree by chance in one of
        256 cases.

    Raises:
        ValueError: a similarity outside 0..1, or less than 1 band or row.
        TypeError: a similarity that is no number.

    >>> round(candidate_probability(0.8, 16, 7), 3)
    0.978
    """
    require_share("similarity", similarity, zero=True)
    if bands < 1 or rows < 1:
        raise ValueError(f"expected at least 1 band and 1 row, found {bands} and {rows}")
    agree = similarity + (1 - similarity) / ROW_VALUES
    if agree == 1:
        return 1.0
    # 1 - (1 - p)^b without losing a small p.
    return -math.expm1(bands * math.log1p(-(agree**rows)))


def rows_for(threshold: float, bands: int, recall: float = DEFAULT_RECALL) -> int:
    """Return the most rows, 1..8, whose curve reaches `recall` at the threshold; 1 if none does.

    Args:
        threshold: Jaccard similarity in (0, 1].
        bands: number of band tables, 1 or more.
        recall: wanted probability of a candidate at the threshold itself, in (0, 1].

    Raises:
        ValueError: an argument out of range.
        TypeError: a threshold or recall that is no number.

    >>> [rows_for(t, 16, 0.95) for t in (0.4, 0.5, 0.7, 0.8, 0.95)]
    [1, 2, 4, 7, 8]
    """
    for name, value in (("threshold", threshold), ("recall", recall)):
        if type(value) is not float:  # the rest is checked once for each value
            require_share(name, value)
    return _rows_for(threshold, bands, recall)


@lru_cache(maxsize=1024, typed=True)
def _rows_for(threshold: float, bands: int, recall: float) -> int:
    require_share("threshold", threshold)
    require_share("recall", recall)
    for rows in range(MAX_ROWS, 1, -1):
        if candidate_probability(threshold, bands, rows) >= recall:
            return rows
    return 1


def expected_recall(threshold: float, bands: int, recall: float = DEFAULT_RECALL) -> float:
    """Return the probability, 0..1, of a candidate at the threshold with the rows that `rows_for` chooses.

    Not of a match: a candidate's estimate is cut at the threshold, see `match_probability`.

    It is at least `recall` unless even one row does not reach it. Arguments and errors as in `rows_for`.

    >>> round(expected_recall(0.8, 16), 3)
    0.978
    """
    return candidate_probability(threshold, bands, rows_for(threshold, bands, recall))


def pick_bands(threshold: float, num_perm: int) -> int:
    """Return how many bands a fixed banding of num_perm rows needs to find pairs above the threshold.

    The smallest b with b ln b >= -num_perm ln threshold, from threshold = (1/b)^(1/r), r = num_perm/b.
    simindex itself does not fix the bands: see `rows_for`.

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
        raise ValueError(f"num_perm: expected 1 or more, found {num_perm}")
    target = -num_perm * math.log(threshold)
    bands = 1
    while bands * math.log(bands) < target:
        bands += 1
    return bands
