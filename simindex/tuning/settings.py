"""What each setting would find of pairs of which it is known whether they are to be found."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from simindex.config import MOST_KEPT_SHINGLES, Config, Shingles, SimHashConfig
from simindex.format.layout import Layout, SegmentEntry
from simindex.formulas.curve import candidate_probability
from simindex.formulas.match_odds import band_plan, exact_plan, returned_probability
from simindex.queries.scheme import Scheme
from simindex.sketching.permutations import plan_for
from simindex.sketching.shingles import shingle_hashes
from simindex.sketching.sketcher import Sketcher
from simindex.tuning.label_curve import Goal
from simindex.tuning.report import Setting

NUM_PERMS = 64, 128, 256, 512
_EXACT_NUM_PERM = 128
SIMHASH = Config(num_perm=0)
MOST_BITS = SimHashConfig().max_distance
"""Distances of the default fingerprint up to which a query is complete."""

_TIMED = 500
_DOCUMENTS = 1_000_000
_RECORD_BYTES, _KEPT_BYTES = 45, 4
"""Of a record without metadata, and of a kept shingle."""

_KEPT_MULTIPLE = 100
_NEARLY = 0.01
"""A cheaper setting whose F1 is less by this is as good."""


@dataclass(frozen=True)
class Wanted:
    """Pairs that are to be found, and others that are not: arrays of shape (n,).

    Attributes:
        similarities, unions: as in `Measured`, float64.
        distances: of fingerprints, int64.
        are: whether each is to be found, bool.
        weights: how many pairs each stands for, float64.
    """

    similarities: np.ndarray
    unions: np.ndarray
    distances: np.ndarray
    are: np.ndarray
    weights: np.ndarray

    def shares(self, odds: np.ndarray) -> tuple[float, float]:
        """Return the shares that are missed, and that are wrong, where each is returned with these odds."""
        returned = odds * self.weights
        right, wanted = float(returned[self.are].sum()), float(self.weights[self.are].sum())
        everything = float(returned.sum())
        missed = 1 - right / wanted if wanted else 0.0
        return max(0.0, missed), max(0.0, 1 - right / everything) if everything else 0.0


def settings_for(
    wanted: Wanted,
    shingles: Shingles,
    threshold: float,
    max_distance: int,
    texts: Sequence[str],
) -> tuple[Setting, ...]:
    """Return what each setting would find, the smallest first.

    Args:
        threshold: that MinHash is asked with.
        max_distance: that SimHash is asked with.
        texts: of the sample, some of which are sketched and counted.
    """
    found, texts = [], texts[:: -(-len(texts) // _TIMED)]
    sizes = [len(np.unique(shingle_hashes(text, shingles, 0))) for text in texts]
    typical, most = np.percentile(sizes, (50, 95)).astype(int).tolist()
    kept = min(MOST_KEPT_SHINGLES, _KEPT_MULTIPLE * (most // _KEPT_MULTIPLE + 1))
    for num_perm in NUM_PERMS:
        config = Config(shingles=shingles, num_perm=num_perm, simhash=None)
        odds = _returned(wanted, threshold, num_perm)
        found.append(_setting(f"{num_perm} rows", config, "minhash", wanted.shares(odds), texts, typical))
    config = Config(shingles=shingles, num_perm=_EXACT_NUM_PERM, simhash=None, keep_shingles=kept)
    odds = _compared(wanted, threshold)
    name = f"{_EXACT_NUM_PERM} rows, exact"
    found.append(replace(_setting(name, config, "minhash", wanted.shares(odds), texts, typical), exact=True))
    config = Config(num_perm=0, simhash=SimHashConfig(max_distance))
    shares = wanted.shares((wanted.distances <= max_distance).astype(float))
    found.append(_setting(f"SimHash, {max_distance} bits", config, "simhash", shares, texts, typical))
    return tuple(sorted(found, key=lambda setting: setting.document_bytes))


def best_of(settings: Sequence[Setting], goal: Goal) -> Setting:
    """Return the smallest of those that do nearly what the best does."""
    worths = [goal.worth(1 - setting.wrong, 1 - setting.missed) for setting in settings]
    return next(s for s, worth in zip(settings, worths, strict=True) if worth >= max(worths) - _NEARLY)


def _returned(wanted: Wanted, threshold: float, num_perm: int) -> np.ndarray:
    """Return the odds that a query by rows returns each."""
    plan = band_plan(threshold, num_perm)
    # Between hundredths of similarity the odds are nearly straight, and twice the length hardly moves them.
    lengths = 2 ** np.round(np.log2(np.maximum(wanted.unions, 1))).astype(int)
    odds = np.zeros(len(lengths))
    for length in np.unique(lengths).tolist():
        of_length = lengths == length
        steps = np.unique(np.floor(100 * wanted.similarities[of_length]))
        steps = np.unique(np.minimum(np.concatenate([steps, steps + 1]), 100)) / 100
        at_steps = [returned_probability(step, num_perm, plan, length) for step in steps.tolist()]
        odds[of_length] = np.interp(wanted.similarities[of_length], steps, at_steps)
    return odds


def _compared(wanted: Wanted, threshold: float) -> np.ndarray:
    """Return the odds that a comparison of all shingles returns each: none below the threshold."""
    bits = exact_plan(threshold, _EXACT_NUM_PERM).prefix_bits
    odds = cache(lambda s: candidate_probability(s, _EXACT_NUM_PERM // 8, prefix_bits=bits))
    pairs = np.round(wanted.similarities, 3).tolist()
    return np.array([odds(s) for s in pairs]) * (wanted.similarities >= threshold - 1e-9)


def _setting(
    name: str, config: Config, by: str, shares: tuple[float, float], texts: Sequence[str], typical: int
) -> Setting:
    missed, wrong = shares
    num_bytes = _bytes_of(config, min(config.keep_shingles, typical))
    return Setting(name, config, by, False, missed, wrong, num_bytes, _seconds_of(config, texts))


def _bytes_of(config: Config, kept: int) -> int:
    """Return the bytes of a document, of which so many shingles are kept, in a large compacted index."""
    plan = plan_for(config.simhash)
    tables = Scheme.of(config, Layout(), len(plan.widths) if plan else 0).tables
    shape = SegmentEntry(
        0,
        0,
        0,
        num_keys=_DOCUMENTS,
        num_copies=0,
        num_signatures=_DOCUMENTS if config.num_perm else 0,
        num_fingerprints=_DOCUMENTS if plan else 0,
        num_sketches=_DOCUMENTS,
        chunked=1,
    )
    stored = tables.segment_bytes(shape._replace(filters=tables.filters_of(shape)))
    return round(stored / _DOCUMENTS) + _RECORD_BYTES + _KEPT_BYTES * kept


def _seconds_of(config: Config, texts: Sequence[str]) -> float:
    """Return the processor time to sketch a text, measured on some of them."""
    sketcher = Sketcher(config)
    sketcher.sketch_many(texts[:1])
    began = time.thread_time()
    sketcher.sketch_many(texts)
    return (time.thread_time() - began) / len(texts)
