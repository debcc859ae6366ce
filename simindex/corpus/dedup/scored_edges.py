"""Edges with their similarity, in 12 bytes that sort by both."""

from __future__ import annotations

import numpy as np

from simindex.pairs.plan import PairPlan

SCORED_EDGE = np.dtype([("edge", np.uint64), ("scores", np.uint32)])
"""An edge, an end in the upper half and one in the lower, and its score: lower is more similar."""

_MOST = np.uint32(0xFFFF)
_HALF = np.uint32(16)


def edges_of(upper: np.ndarray, lower: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return rows of SCORED_EDGE."""
    rows = np.empty(len(upper), dtype=SCORED_EDGE)
    rows["edge"] = upper.astype(np.uint64) << np.uint64(32) | lower.astype(np.uint64)
    rows["scores"] = scores
    return rows


def scores_of(plan: PairPlan, agree: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Return what matches are ordered by, uint32: by rows and then bits, or the other way round.

    >>> from types import SimpleNamespace
    >>> plan = SimpleNamespace(method="minhash")
    >>> scores_of(plan, np.array([128, 120]), np.array([0, 3]))
    array([4286513152, 4287037443], dtype=uint32)
    """
    unlike, bits = _MOST - agree.astype(np.uint32), distance.astype(np.uint32)
    scores: np.ndarray = (unlike << _HALF | bits) if plan.method == "minhash" else (bits << _HALF | unlike)
    return scores


def agree_and_distance(plan: PairPlan, score: int) -> tuple[int, int]:
    """Return what `scores_of` was made of."""
    upper, lower = score >> 16, score & 0xFFFF
    return (0xFFFF - upper, lower) if plan.method == "minhash" else (0xFFFF - lower, upper)
