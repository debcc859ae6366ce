"""Estimate similarity from agreeing rows, with its standard error.

Sources: b-bit MinHash, Li and Koenig 2010; Fast Similarity Sketching, Dahlgaard, Knudsen and Thorup 2017.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

from simindex.formulas.curve import ROW_VALUES

ROUNDS, BLOCK_ROWS = 3, 128
"""Rounds in which each shingle goes to one row, and the rows among which a round chooses: the kernel's."""


@cache
def similarity_table(num_perm: int) -> tuple[float, ...]:
    """Return the estimated Jaccard similarity for 0, 1, ..., num_perm agreeing 8-bit rows, corrected for rows
    that agree by chance: num_perm + 1 floats from 0 to 1, the first ones 0.

    Source: b-bit minwise hashing, Li and Koenig 2010, for sets that are small in their universe.
    """
    chance = 1 / ROW_VALUES
    return tuple(max(0.0, (n / num_perm - chance) / (1 - chance)) for n in range(num_perm + 1))


def standard_error(agree: int, num_perm: int, shingles: int = 0) -> float:
    """Return the standard error of the similarity that is estimated from so many agreeing rows, above 0.

    The variance of a share p of agreeing rows, s + (1 - s)/256, is (p(1 - p) - s(1 - s)(1 - 1/256)^2 (1 - v))
    / n, where v is the `spread` for so many different shingles of both documents together: rows that agree by
    chance are independent, and equal minima vary less. With 0 shingles, their number unknown, v is 1. The
    root of the variance, over 1 - 1/256, is that of the similarity. Two agreeing and two other rows are
    added, so that it is not 0 where all rows agree: documents of similarity 0.99 agree in all of 128 rows
    with probability 0.28.

    Source: Agresti and Coull, Approximate is better than "exact" for interval estimation, 1998.
    """
    unequal = 1 - 1 / ROW_VALUES
    share = (agree + 2) / (num_perm + 4)
    similarity = max(0.0, 1 - (1 - share) / unequal)
    less = similarity * (1 - similarity) * unequal**2 * (1 - spread(num_perm, shingles))
    variance = share * (1 - share) - less
    return math.sqrt(variance / num_perm) / unequal


def union_size(a: int, b: int, similarity: float) -> int:
    """Return about how many different shingles two documents of `a` and `b` shingles have together, the
    larger of both at least; 0 (not known) where `a` or `b` is 0."""
    return max(a, b, round((a + b) / (1 + similarity))) if a and b else 0


@lru_cache(maxsize=1024)
def spread(num_perm: int, shingles: int) -> float:
    """Return the variance of the share of equal minima, divided by that of independent rows: 0..1; 1 for
    fewer than two shingles.

    For u different shingles of both documents together it is 1 - k S / (u - 1), with k = m - 1 other rows of
    a block of t = 128 (the mean over the rows where there are more), S = (1 + d + d^2) (1 - 2e + d),
    e = (1 - 1/t)^u and d = (1 - 2/t)^u. Two rows that the same round fills first, with probability S, have
    two different shingles for their minima, drawn without replacement; others have independent ones.

    Source: sampling without replacement, Cochran, Sampling Techniques, 1977; the counting is ours.
    """
    if shingles < 2:
        return 1.0
    one_empty, both_empty = (1 - 1 / BLOCK_ROWS) ** shingles, (1 - 2 / BLOCK_ROWS) ** shingles
    same_round = (1 - 2 * one_empty + both_empty) * sum(both_empty**number for number in range(ROUNDS))
    blocks, rest = divmod(num_perm, BLOCK_ROWS)
    others = (blocks * BLOCK_ROWS * (BLOCK_ROWS - 1) + rest * (rest - 1)) / num_perm
    return 1 - others * same_round / (shingles - 1)
