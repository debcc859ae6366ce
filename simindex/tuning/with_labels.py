"""Advice from labelled pairs: which shingles, which threshold, and which setting finds what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simindex.config import CharShingles, Shingles, WordShingles
from simindex.tuning.label_curve import Goal, LabelCurve, points_of
from simindex.tuning.labels import Labels
from simindex.tuning.measures import distances, measured
from simindex.tuning.report import Advice, LabelFigures, Setting, in_tenths, name_of
from simindex.tuning.settings import SIMHASH, Wanted, best_of, containment_setting, settings_for

_WORDS, _CHARACTERS = (1, 2, 3, 5), (4, 9, 15)
_THRESHOLDS = [hundredths / 100 for hundredths in range(100, 4, -1)]
_MOST_BITS = 8
"""The largest distance that SimHash can be built for."""

_CLEARLY = 0.005
"""Other shingles are advised where they are better by more than this; of those that reach what is asked for
equally well, the ones with the best F1."""

_JUDGING = 0.5
"""Share of the labels that the advised point's intervals are made for, as if half had chosen and half judged.
Made for all they held the precision of 35 to 50 of 50 draws on ten label sets, so they hold 48 or more."""

_BETTER_CONTAINMENT = 0.02


class Advised(NamedTuple):
    """What a report says about settings; see `TuningReport`."""

    settings: list[Setting]
    advice: Advice
    notes: list[str]
    labels: LabelFigures | None = None
    curves: tuple[LabelCurve, ...] = ()


def shinglings(base: Shingles) -> list[Shingles]:
    """Return what is tried, with the normalisation of the base, which comes first."""
    steps = base.normalize
    tried: list[Shingles] = [WordShingles(size, steps) for size in _WORDS]
    tried += [CharShingles(size, steps) for size in _CHARACTERS]
    return [base, *(shingles for shingles in tried if shingles != base)]


def with_labels(
    shingles: Shingles, labels: Labels, histogram: tuple[int, ...], goal: Goal, texts: Sequence[str]
) -> Advised:
    """Return the advice that follows from labels; the histogram is of the pairs by these shingles."""
    tried = shinglings(shingles)
    by = [measured(labels.pairs, each) for each in tried]
    similarities = by[0].similarities
    weights = labels.weights(similarities, histogram)
    bits = distances(labels.pairs, SIMHASH)

    def curve(name: str, scores: np.ndarray, thresholds: Sequence[float]) -> LabelCurve:
        points = points_of(scores, labels.wanted, weights, thresholds)
        return LabelCurve(name, points, goal.best(points))

    curves = [curve(name_of(each), of.similarities, _THRESHOLDS) for each, of in zip(tried, by, strict=True)]
    worths = [goal.of(each.best) for each in curves]
    near = [place for place, worth in enumerate(worths) if worth >= max(worths) - _CLEARLY]
    best = max(near, key=lambda place: curves[place].best.f1)
    at = 0 if 0 in near and curves[0].best.f1 >= curves[best].best.f1 - _CLEARLY else best
    simhash = curve("SimHash", -bits.astype(float), [-distance for distance in range(_MOST_BITS + 1)])
    contained = curve(f"containment, {name_of(shingles)}", by[0].containments, _THRESHOLDS)
    settings = settings_for(
        Wanted(by[at], bits, labels.wanted, weights),
        tried[at],
        curves[at].best.threshold,
        int(simhash.best.threshold),
        texts,
    )
    setting = best_of(settings, goal)
    scores = by[at].similarities if setting.by == "minhash" else -bits.astype(float)
    asked = setting.threshold if setting.by == "minhash" else -setting.threshold
    (point,) = points_of(scores, labels.wanted, weights, [asked], _JUDGING)
    of_base = Wanted(by[0], bits, labels.wanted, weights)
    settings.append(containment_setting(of_base, shingles, contained.best.threshold, goal, texts))
    notes = []
    if contained.best.f1 > point.f1 + _BETTER_CONTAINMENT:
        notes.append(
            "You want texts that lie within longer ones: containment of "
            f"{contained.best.threshold:g} or more reaches an F1 of {contained.best.f1:.2f} here, and this "
            f"advice {point.f1:.2f}. Take {settings[-1].config!r}, and query_containment."
        )
    figures = labels.figures(similarities)
    counted = np.array(figures.yes) + np.array(figures.no)
    if bare := np.flatnonzero((in_tenths(histogram) > 0) & (counted == 0)).tolist():
        shown = ", ".join(f"{tenth / 10:g} to {(tenth + 1) / 10:g}" for tenth in bare)
        notes.append(
            f"No label has a similarity of {shown}: the pairs there count neither as found nor as missed."
        )
    if not goal.is_reached(point):
        notes.append("No threshold reaches what you want on these labels: this one comes nearest.")
    order = sorted(range(len(curves)), key=lambda place: (place != at, -worths[place]))
    ordered = *(curves[place] for place in order), simhash, contained
    return Advised(settings, Advice(setting, point), notes, figures, ordered)
