"""Two signatures, or two sets of kept shingles -> their similarity.

Owns the estimators. Must not make sketches or read stored ones.
Sources: b-bit MinHash, Li and Koenig 2010; bottom-n sketches, Broder 1997, Cohen and Kaplan 2007.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from simindex.tuning import ROW_VALUES


@cache
def similarity_table(num_perm: int) -> tuple[float, ...]:
    """Return the estimated Jaccard similarity for 0..num_perm agreeing 8-bit rows, each in [0, 1].

    (agree / num_perm - 1/256) / (1 - 1/256): unequal rows agree by chance in one of 256 cases.
    """
    chance = 1 / ROW_VALUES
    return tuple(max(0.0, (n / num_perm - chance) / (1 - chance)) for n in range(num_perm + 1))


def kept_jaccard(a: np.ndarray, b: np.ndarray, keep: int) -> float:
    """Return the Jaccard similarity from kept shingle hashes.

    Exact (up to collisions of 32-bit hashes) where both documents kept all they have, that is fewer
    than `keep`; else the bottom-n estimate: of the n smallest hashes of the union, the share in both.

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
