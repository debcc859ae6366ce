"""Precision and recall of labelled pairs along thresholds, with their intervals, and which threshold is best.

Source: Wilson, Probable inference, the law of succession, and statistical inference, 1927; for pairs that
stand for different numbers of others the effective number of labels, Kish, Survey Sampling, 1965.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

import numpy as np

_DEVIATIONS = 1.959964
"""Of a normal distribution, within which 0.95 of it lies."""

_ROUNDING = 1e-9
CURVE_TITLES = "measure", "best at", "precision (95 %)", "recall (95 %)", "F1"


def f1_of(precision: float, recall: float) -> float:
    """Return the harmonic mean of both; 0 where both are 0."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


class Share(NamedTuple):
    """A share, and the interval of 95 % that it lies in by the labels that it was counted from; all 0..1."""

    value: float
    low: float
    high: float


class Point(NamedTuple):
    """What a threshold does to labelled pairs.

    Attributes:
        threshold: the least similarity; or the most bits of distance.
        precision: of the pairs that it takes, the share that is wanted.
        recall: of the pairs that are wanted, the share that it takes.
    """

    threshold: float
    precision: Share
    recall: Share

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where both are 0."""
        return f1_of(self.precision.value, self.recall.value)


@dataclass(frozen=True)
class LabelCurve:
    """Precision and recall along the thresholds of one measure.

    Attributes:
        name: of the measure: "3 words", "SimHash", "containment, 3 words".
        points: from the highest threshold of similarity, or the least distance, on.
        best: the point that is best by what `tune` was asked for.
    """

    name: str
    points: tuple[Point, ...]
    best: Point

    def row(self) -> tuple[str, ...]:
        """Return the name and the best point as texts, in the order of `CURVE_TITLES`."""
        shares = (f"{s.value:.2f} ({s.low:.2f}-{s.high:.2f})" for s in self.best[1:])
        return self.name, f"{self.best.threshold:g}", *shares, f"{self.best.f1:.3f}"


def wilson(share: float, number: float) -> Share:
    """Return a share of so many trials with its interval of 95 %; 0 to 1 where there was no trial."""
    if not number:
        return Share(share, 0.0, 1.0)
    square = _DEVIATIONS**2
    middle = (share + square / (2 * number)) / (1 + square / number)
    half = _DEVIATIONS / (1 + square / number)
    half *= math.sqrt(share * (1 - share) / number + square / (4 * number**2))
    return Share(share, max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half)))


def points_of(
    scores: np.ndarray,
    wanted: np.ndarray,
    weights: np.ndarray,
    thresholds: Sequence[float],
    counting: float = 1.0,
) -> tuple[Point, ...]:
    """Return a point for each threshold: pairs whose score reaches it are taken.

    Args:
        scores: similarities, or negative distances, with negative thresholds; points have them positive.
        weights: how many pairs each pair stands for.
        counting: the share of the labels that the intervals are made for: not all where the same labels chose
            the threshold, which looks better on them than on others.
    """
    found = []
    for threshold in thresholds:
        taken = scores >= threshold - _ROUNDING
        precision, recall = _share(wanted, weights, taken, counting), _share(taken, weights, wanted, counting)
        found.append(Point(abs(threshold), precision, recall))
    return tuple(found)


def _share(hits: np.ndarray, weights: np.ndarray, among: np.ndarray, counting: float) -> Share:
    """Return the weighted share of `hits` in the pairs `among`, with its interval. In no pairs it is 1: none
    was taken wrongly, or missed."""
    used = weights[among]
    if not len(used):
        return wilson(1.0, 0)
    total = float(used.sum())
    share = float(weights[among & hits].sum()) / total
    return wilson(min(1.0, share), counting * total**2 / float((used**2).sum()))


class Goal(NamedTuple):
    """What is asked of a threshold: a precision, or a recall, 0..1; the best F1 where both are ``None``."""

    precision: float | None = None
    recall: float | None = None

    def worth(self, precision: float, recall: float) -> float:
        """Return a number that is greater the better both are: what is asked for until that is reached, then
        its wanted value plus the other one; the F1 where nothing is asked for."""
        if self.precision is not None:
            return precision if precision < self.precision else round(self.precision + recall, 12)
        if self.recall is not None:
            return recall if recall < self.recall else round(self.recall + precision, 12)
        return f1_of(precision, recall)

    def of(self, point: Point) -> float:
        """Return the worth of a point."""
        return self.worth(point.precision.value, point.recall.value)

    def best(self, points: Sequence[Point]) -> Point:
        """Return the first point of the greatest worth; of several in a row the middle one."""
        worths = [self.of(point) for point in points]
        first = worths.index(max(worths))
        equal = sum(1 for _ in takewhile(worths[first].__eq__, worths[first:]))
        return points[first + (equal - 1) // 2]

    def is_reached(self, point: Point) -> bool:
        """Whether a point has the precision or recall that is asked for; True where neither is."""
        return point.precision.value >= (self.precision or 0) and point.recall.value >= (self.recall or 0)
