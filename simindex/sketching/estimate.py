"""Estimate the similarity of two documents from kept shingles and agreeing rows.

Invariant: an estimate that is not exact has a standard error above 0. Sources: samples of two sets by hashes
below a common bound, Cohen and Kaplan, Leveraging discarded samples for tighter estimation of multiple-set
aggregates, 2009; weights by inverse variance and the correction for samples out of a finite set, Cochran,
Sampling Techniques, 1977, section 2.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.formulas.estimator import similarity_table, spread, standard_error, union_size

KEPT_VALUES = 2**_kernel.KEPT_BITS
"""A kept shingle hash is below this."""


class Estimate(NamedTuple):
    """A Jaccard similarity, and how far it may be off.

    Attributes:
        similarity: 0..1.
        exact: whether it is the similarity itself, but where two shingles have the same 38 bits of hash:
            one chance in 550,000 among 1,000 shingles of both documents together, one in 5,500 among 10,000;
            each such pair moves the similarity by 2 in so many at most (docs/hashing.md, section 10).
        standard_error: above 0, but 0.0 where it is exact.
    """

    similarity: float
    exact: bool
    standard_error: float


@lru_cache(maxsize=4096)  # short texts, as lines are, have few sizes
def row_estimate(agree: int, num_perm: int, shingles_a: int, shingles_b: int) -> Estimate:
    """Return the estimate, never an exact one, from how many of the rows agree. `shingles_a`, `shingles_b`:
    distinct shingles of both documents, 0 where not known; the standard error depends on them."""
    similarity = similarity_table(num_perm)[agree]
    union = union_size(shingles_a, shingles_b, similarity)
    return Estimate(similarity, False, standard_error(agree, num_perm, union))


def best_estimate(agree: int, num_perm: int, a: np.ndarray, b: np.ndarray, keep: int) -> Estimate:
    """Return the best similarity that rows and kept shingle hashes of two documents can tell together.

    `agree` rows of `num_perm` are equal; `a`, `b` are the kept hashes: uint64, ascending and distinct. Where
    both kept fewer than `keep` they kept all, and the similarity is common over union, exact. Else
    every hash below the least bound of the two (the largest kept one of a document that kept `keep`) is
    known of both: u hashes of the union, c of them common, drawn at random out of a share f of all. c/u has
    the variance s(1 - s)(1 - f)/u, and the estimate from rows s(1 - s)/n, with n = num_perm divided by the
    `spread` of rows of u/f shingles; their mean, weighted by the inverse, has s(1 - s) / (n + u/(1 - f)),
    which is never more than that of the rows alone. The standard error is its root, with s(1 - s) taken from
    n + u draws as in `standard_error`.
    """
    if len(a) < keep and len(b) < keep:
        common = _kernel.num_common(a, b)
        union = len(a) + len(b) - common
        return Estimate(common / union if union else 0.0, True, 0.0)
    below_a, below_b, bound = _below_bound(a, b, keep)
    common = _kernel.num_common(below_a, below_b)
    union = len(below_a) + len(below_b) - common
    share = int(bound) / KEPT_VALUES
    weight = union / (1 - share)
    from_kept = common / union if union else 0.0
    rows = num_perm / spread(num_perm, round(union / share) if share else 0)
    similarity = (rows * similarity_table(num_perm)[agree] + weight * from_kept) / (rows + weight)
    drawn = rows + union
    share = (drawn * similarity + 2) / (drawn + 4)
    return Estimate(similarity, False, math.sqrt(share * (1 - share) / (rows + weight)))


def share_held(a: np.ndarray, b: np.ndarray, keep: int) -> float:
    """Return which share of the shingles of document `a` document `b` has, by kept hashes of both.

    Exact where both kept fewer than `keep`, else of the hashes below the least bound; of none it is 0.
    """
    if len(a) == keep or len(b) == keep:
        a, b, _ = _below_bound(a, b, keep)
    return _kernel.num_common(a, b) / len(a) if len(a) else 0.0


def _below_bound(a: np.ndarray, b: np.ndarray, keep: int) -> tuple[np.ndarray, np.ndarray, np.uint64]:
    """Return the hashes of both documents below the bound, and the bound: the largest hash of a document that
    kept `keep`, the lesser one of two such. One document at least did."""
    # A bound of another type than theirs would make NumPy convert both arrays first.
    bound = min(hashes[-1] for hashes in (a, b) if len(hashes) == keep)
    return a[: a.searchsorted(bound)], b[: b.searchsorted(bound)], bound
