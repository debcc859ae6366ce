"""Two signatures, or two sets of kept shingles -> their similarity.

Owns the estimators. Must not make sketches or read stored ones.
Sources: b-bit MinHash, Li and Koenig 2010; bottom-n sketches, Broder 1997, Cohen and Kaplan 2007.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from simindex.tuning.curve import ROW_VALUES


@cache
def similarity_table(num_perm: int) -> tuple[float, ...]:
    """Return the estimated Jaccard similarity for 0..num_perm agreeing 8-bit rows, each in [0, 1].

    (agree / num_perm - 1/256) / (1 - 1/256), and 0 where that is less: unequal rows agree by chance in one
    of 256 cases. Kept for each num_perm, 1 or more.

    >>> table = similarity_table(128)
    >>> table[0], round(table[64], 3), table[128]
    (0.0, 0.498, 1.0)

    Source: b-bit minwise hashing, Li and Koenig 2010, for sets that are small in their universe.
    """
    chance = 1 / ROW_VALUES
    return tuple(max(0.0, (n / num_perm - chance) / (1 - chance)) for n in range(num_perm + 1))


@cache
def error_table(num_perm: int) -> tuple[float, ...]:
    """Return the standard error of each estimate of `similarity_table`; all are above 0.

    sqrt(p(1 - p) / num_perm) / (1 - 1/256) with p = (agree + 2) / (num_perm + 4): the binomial error, with
    two agreeing and two other rows added, so that it is not 0 where all rows agree. Documents of similarity
    0.99 agree in all of 128 rows with probability 0.28.

    >>> table = error_table(128)
    >>> round(table[64], 3), round(table[102], 3), round(table[128], 3)
    (0.044, 0.036, 0.011)

    Source: Agresti and Coull, Approximate is better than "exact" for interval estimation, 1998.
    """
    shares = [(agree + 2) / (num_perm + 4) for agree in range(num_perm + 1)]
    return tuple(math.sqrt(p * (1 - p) / num_perm) / (1 - 1 / ROW_VALUES) for p in shares)


def kept_jaccard(a: np.ndarray, b: np.ndarray, keep: int) -> float:
    """Return the Jaccard similarity from kept shingle hashes.

    Exact (up to collisions of 32-bit hashes) where both documents kept all they have, that is fewer
    than `keep`; else the bottom-n estimate: of the n smallest hashes of the union, the share in both.

    Args:
        a: uint32, ascending and distinct: at most the `keep` smallest hashes of a document.
        b: those of the other one.
        keep: n, how many hashes a document keeps, 1 or more.

    Returns:
        0..1; 0.0 for two empty documents. Cost: a sort of both.

    >>> kept_jaccard(np.array([1, 2], "u4"), np.array([2, 3], "u4"), keep=5)
    0.3333333333333333

    Source: bottom-n sketches, Broder 1997; Cohen and Kaplan 2007.
    """
    union = np.union1d(a, b)
    if not union.size:
        return 0.0
    common = np.intersect1d(a, b, assume_unique=True)
    if len(a) < keep and len(b) < keep:
        return len(common) / len(union)
    smallest = union[: min(keep, len(union))]
    return int(np.searchsorted(common, smallest[-1], side="right")) / len(smallest)
