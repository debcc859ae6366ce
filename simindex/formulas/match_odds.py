"""Probability that a query returns a document of given similarity: candidate and above the cut.

A document comes back when it becomes a candidate and its estimate reaches the cut. Both are read from the
same rows, so their odds do not multiply: given how many rows agree, they agree at random places, and that
says how likely a prefix is among them. Invariants: more similar documents are never less likely to come back,
and a higher threshold never finds more. Sources: the S-curve, see `curve`; the rest is counting, shown at
`match_probability`.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np

from simindex.checks import require_int, require_share
from simindex.config import Config
from simindex.errors import ArgumentValueError
from simindex.formulas.curve import (
    DEFAULT_RECALL,
    MAX_ROWS,
    ROW_BITS,
    ROW_VALUES,
    candidate_probability,
    compared_bits,
)
from simindex.formulas.estimator import similarity_table, spread

FOUND_PROBABILITIES = (0.5, 0.95, 0.99)
"""The odds for which reports say how similar a document has to be."""

_ROUNDING = 1e-12
"""A threshold or a probability that is missed by less than this was missed by floating point alone."""


class BandPlan(NamedTuple):
    """How a query by bands searches.

    Attributes:
        prefix_bits: leading bits of a band word that must agree in a candidate, 1..64.
        min_agree: agreeing rows of a match, at least; 0: every candidate is one.
    """

    prefix_bits: int
    min_agree: int


@lru_cache(maxsize=1024, typed=True)
def band_plan(threshold: float, num_perm: int, recall: float | None = None) -> BandPlan:
    """Return how many bits a query compares and its fewest agreeing rows. Cached for the last 1,024 calls.

    Without a recall the cut is the threshold, and the prefix is that of `compared_bits`. With one, half of
    what may be missed is left to the bands: the prefix of `compared_bits` by which a candidate at the
    threshold is missed with probability (1 - recall) / 2 or less, then the highest cut that reaches the
    recall, never above the threshold. Where even 1 bit misses more, the recall is out of reach; the cut loses
    as small a share of the candidates then. ValueError or TypeError for a threshold or recall that is no
    number in (0, 1].

    >>> band_plan(0.8, 128), band_plan(0.8, 128, recall=0.95)
    (BandPlan(prefix_bits=56, min_agree=103), BandPlan(prefix_bits=56, min_agree=94))
    """
    bands = num_perm // MAX_ROWS
    prefix_bits = compared_bits(threshold, bands, DEFAULT_RECALL)
    at_threshold = bisect_left(similarity_table(num_perm), threshold - _ROUNDING)
    if recall is None:
        return BandPlan(prefix_bits, at_threshold)
    require_share("recall", recall)
    kept = (1 + recall) / 2
    prefix_bits = compared_bits(threshold, bands, kept)
    wanted = min(recall, kept * candidate_probability(threshold, bands, prefix_bits=prefix_bits))
    odds = _odds_of_agreement(threshold, num_perm) * candidate_shares(num_perm, prefix_bits)
    reached = np.cumsum(odds[::-1])[::-1] >= wanted - _ROUNDING
    return BandPlan(prefix_bits, min(at_threshold, int(np.flatnonzero(reached).max(initial=0))))


EXACT_RECALL = 0.99
"""Share of the pairs right at the threshold that are compared exactly, where nothing else is asked for."""


def exact_plan(threshold: float, num_perm: int, recall: float | None = None) -> BandPlan:
    """Return the plan of a query that computes similarities exactly: the prefix of `band_plan`, and the
    fewest agreeing rows from which a candidate is compared exactly, at most those of `least_agreement`.

    `recall`, 0.99 where ``None``: the probability that a pair right at the threshold is compared at all.
    """
    bits, agree = band_plan(threshold, num_perm, EXACT_RECALL if recall is None else recall)
    return BandPlan(bits, min(agree, least_agreement(num_perm, threshold)))


@lru_cache(maxsize=1024)
def least_agreement(num_perm: int, similarity: float) -> int:
    """Return the fewest agreeing rows whose estimate is at most five standard deviations below a similarity,
    0..num_perm: what chance could leave to a pair of that similarity."""
    deviation = math.sqrt(similarity * (1 - similarity) / num_perm)
    return bisect_left(similarity_table(num_perm), similarity - 5 * deviation)


def estimate_cut(threshold: float, num_perm: int, recall: float | None = None) -> float:
    """Return the least estimated similarity that a query returns: the threshold, or where a recall wants it
    lower, the estimate of the fewest agreeing rows of `band_plan`."""
    if recall is None:
        return threshold
    return min(threshold, similarity_table(num_perm)[band_plan(threshold, num_perm, recall).min_agree])


@cache
def candidate_shares(num_perm: int, prefix_bits: int) -> np.ndarray:
    """Return for 0, 1, ..., num_perm agreeing rows, spread at random over the bands, the probability that the
    leading `prefix_bits` bits agree in one band or more: float64, shape (num_perm + 1,).

    For a of n rows in b = n/8 bands, and prefix bits 8r + d, it is
    1 - [x^a] ((1 + x)^8 - x^r (1 + x)^(7 - r) (x + t))^b / C(n, a): of the C(n, a) ways to place them the
    coefficient of x^a counts those that fill no prefix. The r whole rows agree, and the next one does, too,
    or has the same first d bits by chance: t = (2^(8 - d) - 1)/255, as of the 255 other values of a row so
    many do. (r = 8: x^8 alone.) Exact up to one rounding; float64, read-only.
    """
    rows, bits = divmod(prefix_bits, ROW_BITS)
    bands = num_perm // MAX_ROWS
    by_chance = Fraction((ROW_VALUES >> bits) - 1, ROW_VALUES - 1)
    # In integers: each band times the denominator. The polynomial is taken at a power of two so large that no
    # coefficient reaches into the next, so that they are its digits.
    scale = by_chance.denominator
    width = num_perm + (scale**bands).bit_length()
    x = 1 << width
    filled = scale * x**MAX_ROWS
    if rows < MAX_ROWS:
        filled = x**rows * (1 + x) ** (MAX_ROWS - 1 - rows) * (scale * x + by_chance.numerator)
    unfilled = (scale * (1 + x) ** MAX_ROWS - filled) ** bands
    shares = np.empty(num_perm + 1)
    ways = scale**bands
    for agree in range(num_perm + 1):
        shares[agree] = (ways - (unfilled & (x - 1))) / ways
        unfilled >>= width
        ways = ways * (num_perm - agree) // (agree + 1)
    shares.flags.writeable = False
    return shares


@cache
def _log_ways(num_perm: int) -> np.ndarray:
    """Return the logarithms of C(num_perm, a) for a = 0..num_perm."""
    return np.array([math.log(math.comb(num_perm, agree)) for agree in range(num_perm + 1)])


def _odds_of_agreement(similarity: float, num_perm: int, shingles: int | None = None) -> np.ndarray:
    """Return the probability of each number of agreeing rows, 0..num_perm, of documents of a similarity: a
    binomial distribution, float64.

    With a number of shingles the hypergeometric one of the variance that `spread` gives: rows drawn without
    replacement from N = (n - f)/(1 - f), Np of which agree, N no whole number.
    """
    agree = similarity + (1 - similarity) / ROW_VALUES
    counts = np.arange(num_perm + 1)
    if agree == 1:
        return np.where(counts == num_perm, 1.0, 0.0)
    share = 1.0
    if shingles is not None and 0 < similarity < 1:
        # The rows that agree by chance are independent of one another.
        equal = similarity * (1 - similarity) * (1 - 1 / ROW_VALUES) ** 2 / (agree * (1 - agree))
        share = 1 - equal * (1 - spread(num_perm, shingles))
    if share < 1 - _ROUNDING:
        drawn_from = (num_perm - share) / (1 - share)
        logs = _log_choices(drawn_from * agree, counts) + _log_choices(drawn_from * (1 - agree), counts[::-1])
        exact: np.ndarray = np.exp(logs - logs.max())
        exact /= exact.sum()
        return exact
    odds: np.ndarray = np.exp(
        _log_ways(num_perm) + counts * math.log(agree) + counts[::-1] * math.log1p(-agree)
    )
    odds /= odds.sum()
    return odds


def _log_choices(size: float, counts: np.ndarray) -> np.ndarray:
    """Return the logarithms of C(size, count) for each count, less that of size!, which all share; -inf where
    count is greater than size by 1 or more. `size` need not be whole."""
    return np.array(
        [
            -math.lgamma(count + 1) - math.lgamma(size - count + 1) if count < size + 1 else -math.inf
            for count in counts.tolist()
        ]
    )


def returned_probability(
    similarity: float, num_perm: int, plan: BandPlan, shingles: int | None = None
) -> float:
    """Return what `match_probability` does, by a plan that is already made; the arguments are not checked.
    Cost: about 20 us at 128 rows."""
    first = plan.min_agree
    odds = _odds_of_agreement(similarity, num_perm, shingles)[first:]
    return min(1.0, float(odds @ candidate_shares(num_perm, plan.prefix_bits)[first:]))


def match_probability(
    similarity: float,
    threshold: float,
    config: Config,
    recall: float | None = None,
    *,
    shingles: int | None = None,
) -> float:
    """Return the probability that a query returns a document of that exact Jaccard similarity.

    That is: it becomes a candidate, and its estimate reaches the cut. Right at the threshold it is about
    one half with ``recall=None``, for an estimate is as often too low as too high.

    Args:
        similarity: exact Jaccard similarity s, 0..1.
        threshold: of the query, in (0, 1].
        config: the settings of the index; `num_perm` counts.
        recall: of the query; ``None``: the estimate is cut at the threshold.
        shingles: different shingles of both documents together, 1 or more; ``None``: very many. Fewer make
            the estimate more exact: see `simindex.formulas.estimator.spread`. Two of `Stats.shingles`, s
            alike, have 2 / (1 + s) times as many.

    Returns:
        0..1: the sum over a = m..n of C(n, a) p^a (1 - p)^(n - a) g(a), with n = num_perm,
        p = s + (1 - s)/256, m the fewest agreeing rows whose estimate reaches the cut, and g(a) the
        probability that a agreeing rows at random places make a candidate: 1 - u(a) / C(n, a), where u(a) is
        the coefficient of x^a in ((1 + x)^8 - x^r (1 + x)^(7 - r) (x + t))^b, b = n/8, for a prefix of r
        whole rows and d bits more, t = (2^(8 - d) - 1)/255.
        That takes the rows for independent; with `shingles` a hypergeometric distribution of their smaller
        variance stands for the binomial one. A limit on candidates (`truncated`) is not in it, nor
        ``exact=True``, where a document whose similarity is exact is found as `candidate_probability` says.

    Raises:
        ValueError: an argument out of range, or settings without MinHash.
        TypeError: a number that is none.

    >>> from simindex import Config
    >>> [round(match_probability(s, 0.8, Config()), 3) for s in (0.7, 0.8, 0.85, 0.9)]
    [0.005, 0.508, 0.938, 1.0]
    >>> [round(match_probability(s, 0.8, Config(), shingles=144), 3) for s in (0.7, 0.8, 0.85, 0.9)]
    [0.0, 0.5, 0.983, 1.0]
    >>> round(match_probability(0.8, 0.8, Config(), recall=0.95), 3)
    0.956
    """
    require_share("similarity", similarity, zero=True)
    plan = _plan_of(threshold, config, recall)
    if shingles is not None:
        shingles = require_int("shingles", shingles, 1)
    return returned_probability(similarity, config.num_perm, plan, shingles)


def similarity_for(
    probability: float,
    threshold: float,
    config: Config,
    recall: float | None = None,
    *,
    shingles: int | None = None,
) -> float:
    """Return the least exact similarity, 0..1, that a query returns with at least that probability.

    Args:
        probability: in (0, 1].
        threshold, config, recall, shingles: as in `match_probability`; so are the errors.

    >>> from simindex import Config
    >>> [round(similarity_for(p, 0.8, Config()), 3) for p in (0.5, 0.95, 0.99)]
    [0.799, 0.853, 0.873]
    >>> [round(similarity_for(p, 0.8, Config(), shingles=144), 3) for p in (0.5, 0.95, 0.99)]
    [0.8, 0.84, 0.854]
    """
    require_share("probability", probability)
    if shingles is not None:
        shingles = require_int("shingles", shingles, 1)
    return found_similarity(probability, config.num_perm, _plan_of(threshold, config, recall), shingles)


@lru_cache(maxsize=1024)
def found_similarity(probability: float, num_perm: int, plan: BandPlan, shingles: int | None = None) -> float:
    """Return what `similarity_for` does, by a plan that is already made; the arguments are not checked. Found
    by bisection to 1e-9; 0.0 where even documents of similarity 0 come back so often. Cached."""
    low, high = 0.0, 1.0
    if returned_probability(low, num_perm, plan, shingles) >= probability:
        return low
    while high - low > 1e-9:
        middle = (low + high) / 2
        if returned_probability(middle, num_perm, plan, shingles) >= probability:
            high = middle
        else:
            low = middle
    return high


def threshold_for(
    similarity: float, config: Config, miss: float = 0.01, *, shingles: int | None = None
) -> float:
    """Return the threshold to ask for, so that documents of that similarity are hardly missed.

    Args:
        similarity: exact Jaccard similarity in (0, 1] of the least similar documents that are wanted.
        config: the settings of the index.
        miss: the share of them that may be missed, in (0, 1].
        shingles: as in `match_probability`.

    Returns:
        The highest threshold, in steps of 0.001, at which `match_probability` of the similarity is at least
        1 - miss. More similar documents are missed less often; less similar ones come up, too.

    Raises:
        ValueError: an argument out of range, settings without MinHash, or no threshold that does it; then
            more rows (`num_perm`) do.
        TypeError: a number that is none.

    >>> from simindex import Config
    >>> threshold_for(0.8, Config()), threshold_for(0.8, Config(num_perm=512))
    (0.709, 0.758)
    >>> threshold_for(0.8, Config(), shingles=144)
    0.741
    """
    require_share("similarity", similarity)
    require_share("miss", miss)
    _plan_of(1.0, config)
    wanted = 1 - miss - _ROUNDING

    def finds(thousandths: int) -> bool:
        return match_probability(similarity, thousandths / 1000, config, shingles=shingles) >= wanted

    if not finds(1):
        found = match_probability(similarity, 0.001, config, shingles=shingles)
        raise ArgumentValueError(
            "similarity",
            f"one that {config.num_perm} rows find with probability {1 - miss:g}",
            f"{similarity}, which is found with {found:.3g} at most",
            "build the index with a larger num_perm",
        )
    return bisect_left(range(1, 1001), True, key=lambda thousandths: not finds(thousandths)) / 1000


def _plan_of(threshold: float, config: Config, recall: float | None = None) -> BandPlan:
    """Check the two shares, which may be of any type, and return their `band_plan`. Raises ValueError for
    settings without MinHash or a share out of range, TypeError for one that is no number."""
    if not config.num_perm:
        raise ValueError("expected settings with MinHash, found num_perm=0")
    require_share("threshold", threshold)
    if recall is not None:
        require_share("recall", recall)
    return band_plan(threshold, config.num_perm, recall)
