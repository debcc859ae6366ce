"""What each setting would find of pairs of which it is known whether they are to be found, and what it costs.

What rows find is `match_probability`; what sampled shingles find is the recall that containment expects.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from simindex.config import MOST_KEPT_SHINGLES, Config, Shingles, SimHashConfig
from simindex.distinct import distinct
from simindex.format.layout import Layout, SegmentEntry
from simindex.formulas.curve import candidate_probability
from simindex.formulas.match_odds import band_plan, exact_plan, returned_probability
from simindex.queries.containment import chance_to_be_met
from simindex.queries.scheme import Scheme
from simindex.sketching.permutations import plan_for
from simindex.sketching.sample import num_entries
from simindex.sketching.shingles import shingle_hashes
from simindex.sketching.sketcher import Sketcher
from simindex.tuning.measures import Measured
from simindex.tuning.precision import Goal, f1_of

NUM_PERMS = 64, 128, 256, 512
_USUAL_NUM_PERM = 128
_ONE_IN = 16, 8, 4, 2, 1
"""Sampled shingles, the fewest first."""

USUAL_DISTANCE = SimHashConfig().max_distance
"""Distances of the default fingerprint up to which a query is complete."""

_TIMED = 500
_DOCUMENTS = 1_000_000
_RECORD_BYTES, _KEPT_BYTES = 50, 4.6
"""Of a record without metadata, and of a kept shingle, in their pages: 50 and 4.6 of 50,000 abstracts, 51 and
5.1 of 2,500 articles."""

_KEPT_MULTIPLE = 100
_ROUNDING = 1e-9
_NEARLY = 0.01
"""A cheaper setting whose F1 is less by this is as good."""

SETTING_TITLES = "setting", "at", "missed", "wrong", "F1", "bytes a text", "us a text"


@dataclass(frozen=True)
class Setting:
    """What a setting would find of the sample's pairs, at one threshold.

    Attributes:
        name: as people call it.
        config: of an index.
        by: "minhash", "simhash", or "containment", which is counted in the texts.
        threshold: least similarity, or share of the smaller text; with by="simhash" the most bits.
        missed: expected share, 0..1, of the pairs to be found that it misses.
        wrong: expected share, 0..1, of what it returns that is not to be found.
        document_bytes: of an index, once it is compacted.
        document_seconds: processor time to sketch a text of the sample, measured in this run.
    """

    name: str
    config: Config
    by: str
    threshold: float
    missed: float
    wrong: float
    document_bytes: int
    document_seconds: float

    @property
    def exact(self) -> bool:
        """Whether the index keeps shingles, which queries with `exact=True` compare."""
        return self.config.keep_shingles > 0

    def row(self) -> tuple[str, ...]:
        """Return the figures as texts, in the order of `SETTING_TITLES`."""
        return (
            self.name,
            f"{self.threshold:g}",
            f"{self.missed:.1%}",
            f"{self.wrong:.1%}",
            f"{self.f1:.3f}",
            f"{self.document_bytes:,}",
            f"{1e6 * self.document_seconds:,.1f}",
        )

    @property
    def f1(self) -> float:
        """The harmonic mean of the share that is found and the share that is right; 0 where both are 0."""
        return f1_of(1 - self.wrong, 1 - self.missed)


@dataclass(frozen=True)
class Wanted:
    """Pairs that are to be found, and others that are not: arrays of shape (n,)."""

    measured: Measured  # by the shingles of the settings
    distances: np.ndarray  # of their fingerprints
    is_wanted: np.ndarray  # whether each is to be found
    weights: np.ndarray  # how many pairs each stands for

    def shares(self, odds: np.ndarray) -> tuple[float, float]:
        """Return (missed, wrong) where each pair is returned with these odds: the expected shares of the
        wanted pairs that are not returned, and of the returned ones that are not wanted; 0 of none."""
        returned = odds * self.weights
        right, wanted = float(returned[self.is_wanted].sum()), float(self.weights[self.is_wanted].sum())
        everything = float(returned.sum())
        missed = 1 - right / wanted if wanted else 0.0
        return max(0.0, missed), max(0.0, 1 - right / everything) if everything else 0.0


_SomeTexts = tuple[Sequence[str], np.ndarray]
"""Some texts of a sample, by which costs are measured, and their numbers of different shingles."""


def _some_of(texts: Sequence[str], shingles: Shingles) -> _SomeTexts:
    """Return at most 500 of the texts, from all over them, and how many different shingles each has."""
    some = texts[:: -(-len(texts) // _TIMED)]
    return some, np.array([len(distinct(shingle_hashes(text, shingles, 0))) for text in some])


def settings_for(
    wanted: Wanted, shingles: Shingles, threshold: float, max_distance: int, texts: Sequence[str]
) -> list[Setting]:
    """Return what each setting would find, the smallest first: four numbers of rows, 128 rows with
    kept shingles, and SimHash. Costs are measured on some of the texts.

    Args:
        threshold: of similarity.
        max_distance: of SimHash, which the index is built for.
    """
    some, found = _some_of(texts, shingles), []
    for num_perm in NUM_PERMS:
        config = Config(shingles=shingles, num_perm=num_perm, simhash=None)
        shares = wanted.shares(_returned(wanted.measured, threshold, num_perm))
        found.append(_setting(f"{num_perm} rows", config, "minhash", threshold, shares, some))
    kept = _KEPT_MULTIPLE * (int(np.percentile(some[1], 95)) // _KEPT_MULTIPLE + 1)
    config = Config(shingles, _USUAL_NUM_PERM, None, keep_shingles=min(MOST_KEPT_SHINGLES, kept))
    shares = wanted.shares(_compared(wanted.measured, threshold))
    found.append(_setting(f"{_USUAL_NUM_PERM} rows, exact", config, "minhash", threshold, shares, some))
    config = Config(num_perm=0, simhash=SimHashConfig(max_distance))
    shares = wanted.shares((wanted.distances <= max_distance).astype(float))
    found.append(_setting(f"SimHash, {max_distance} bits", config, "simhash", max_distance, shares, some))
    return sorted(found, key=lambda setting: setting.document_bytes)


def containment_setting(
    wanted: Wanted, shingles: Shingles, threshold: float, goal: Goal, texts: Sequence[str]
) -> Setting:
    """Return what `query_containment` with texts would find from the share `threshold` on, by the fewest
    sampled shingles whose worth by the goal is nearly the greatest."""
    some, of, found = _some_of(texts, shingles), wanted.measured, []
    reaches = of.containments >= threshold - _ROUNDING
    pairs = np.stack(of, axis=1)[reaches].tolist()
    for one_in in _ONE_IN:
        config = Config(shingles=shingles, num_perm=_USUAL_NUM_PERM, simhash=None, containment=one_in)
        odds = np.zeros(len(reaches))
        # Either text may be the stored one.
        odds[reaches] = [
            (chance_to_be_met(shared, a, one_in) + chance_to_be_met(shared, b, one_in)) / 2
            for shared, a, b in pairs
        ]
        name = f"{_USUAL_NUM_PERM} rows, containment {one_in}"
        found.append(_setting(name, config, "containment", threshold, wanted.shares(odds), some))
    return best_of(found, goal)


def best_of(settings: Sequence[Setting], goal: Goal) -> Setting:
    """Return the first setting whose worth by the goal is at most 0.01 below the greatest."""
    worths = [goal.worth(1 - setting.wrong, 1 - setting.missed) for setting in settings]
    return next(s for s, worth in zip(settings, worths, strict=True) if worth >= max(worths) - _NEARLY)


def _returned(pairs: Measured, threshold: float, num_perm: int) -> np.ndarray:
    """Return the odds, 0..1, that a query by rows returns each pair."""
    plan, similarities = band_plan(threshold, num_perm), pairs.similarities
    # Between hundredths of similarity the odds are nearly straight, and twice the length hardly moves them.
    lengths = 2 ** np.round(np.log2(np.maximum(pairs.unions, 1))).astype(int)
    odds = np.zeros(len(lengths))
    for length in distinct(lengths).tolist():
        of_length = lengths == length
        steps = np.unique(np.floor(100 * similarities[of_length]))
        steps = np.unique(np.minimum(np.concatenate([steps, steps + 1]), 100)) / 100
        at_steps = [returned_probability(step, num_perm, plan, length) for step in steps.tolist()]
        odds[of_length] = np.interp(similarities[of_length], steps, at_steps)
    return odds


def _compared(pairs: Measured, threshold: float) -> np.ndarray:
    """Return the odds, 0..1, that a query by 128 rows and all shingles returns each pair: those to be a
    candidate, and 0 below the threshold."""
    bits = exact_plan(threshold, _USUAL_NUM_PERM).prefix_bits
    odds = cache(lambda s: candidate_probability(s, _USUAL_NUM_PERM // 8, prefix_bits=bits))
    similarities = pairs.similarities
    rounded = np.round(similarities, 3).tolist()
    return np.array([odds(s) for s in rounded]) * (similarities >= threshold - _ROUNDING)


def _setting(
    name: str, config: Config, by: str, threshold: float, shares: tuple[float, float], some: _SomeTexts
) -> Setting:
    costs = _bytes_of(config, some[1]), _seconds_of(config, some[0])
    return Setting(name, config, by, float(threshold), *shares, *costs)


def _bytes_of(config: Config, sizes: np.ndarray) -> int:
    """Return the bytes of a document in a compacted index of a million. `sizes`: numbers of different
    shingles of some of them."""
    plan = plan_for(config.simhash)
    tables = Scheme.of(config, Layout(), len(plan.widths) if plan else 0).tables
    sampled = num_entries(sizes, sizes // config.containment).mean() if config.containment else 0
    entry = SegmentEntry(
        0,
        0,
        0,
        num_keys=_DOCUMENTS,
        num_copies=0,
        num_band_entries=_DOCUMENTS if config.num_perm else 0,
        num_fingerprints=_DOCUMENTS if plan else 0,
        num_sketches=_DOCUMENTS,
        num_shingles=round(sampled * _DOCUMENTS),
    )
    kept = float(np.minimum(sizes, config.keep_shingles).mean())
    return round(tables.paged_bytes([entry], 1.0) / _DOCUMENTS + _RECORD_BYTES + _KEPT_BYTES * kept)


def _seconds_of(config: Config, texts: Sequence[str]) -> float:
    """Return the mean processor time, in seconds, to sketch one of these texts on this thread."""
    sketcher = Sketcher(config)
    sketcher.sketch_many(texts[:1])
    began = time.thread_time()
    sketcher.sketch_many(texts)
    return (time.thread_time() - began) / len(texts)
