"""Two sets of kept shingles -> their similarity.

Owns the estimator. Must not make sketches or read stored ones. Signatures are `tuning.agreement`'s.
Sources: bottom-n sketches, Broder 1997, Cohen and Kaplan 2007.
"""

from __future__ import annotations

import numpy as np


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
