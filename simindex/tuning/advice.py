"""Decide which setting to take.

Labelled pairs say which shingles, which threshold, and which setting finds what it takes; without them the
pairs above the valley of their similarities are those to be found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np

from simindex.config import CharShingles, Shingles, WordShingles
from simindex.tuning.labels import LabelFigures, Labels
from simindex.tuning.measures import TextPairs, distances, measured
from simindex.tuning.precision import Goal, LabelCurve, Point, points_of
from simindex.tuning.sample import Sample
from simindex.tuning.sample_pairs import SamplePairs, in_tenths
from simindex.tuning.settings import (
    MOST_BITS,
    SIMHASH,
    Setting,
    Wanted,
    best_of,
    containment_setting,
    settings_for,
)

_MEASURED_PAIRS = 10_000
_SEED = 1
_WORDS, _CHARACTERS = (1, 2, 3, 5), (3, 4, 5, 9, 15)
_THRESHOLDS = [hundredths / 100 for hundredths in range(100, 4, -1)]

_MOST_BITS = 8
"""The largest distance that SimHash can be built for."""

_CLEARLY = 0.005
"""Other shingles are advised where they are better by more than this; of those that reach what is asked for
equally well, the ones with the best F1."""

_JUDGING = 0.5
"""Share of the labels that the advised point's intervals are made for, as if half had chosen and half judged.
Made for all they held the precision of 35 to 50 of 50 draws on ten label sets, so they hold 48 or more."""

_BETTER_CONTAINMENT = 0.01
"""A note names containment where its F1 is better by more than this."""


@dataclass(frozen=True)
class Advice:
    """A setting and what to ask it.

    Attributes:
        point: what the threshold does to the labels, by exact similarities; ``None`` without labels. Its
            intervals are those of half of the labels, because the labels chose it, too.
    """

    setting: Setting
    point: Point | None = None

    @property
    def threshold(self) -> float:
        """That of the setting."""
        return self.setting.threshold

    def command(self, sample: str) -> str:
        """Return the `simindex dedup` line, for an input named so."""
        config, options = self.setting.config, []
        shingles = config.shingles
        if self.setting.by == "simhash":
            assert config.simhash is not None
            shingles = config.simhash.shingles
            options += ["--by simhash", f"--max-distance {self.threshold:g}"]
        else:
            options += [f"--threshold {self.threshold:g}", f"--num-perm {config.num_perm}"]
            options += ["--exact"] if self.setting.exact else []
        options.append(f"--{'words' if isinstance(shingles, WordShingles) else 'chars'} {shingles.size}")
        if shingles.normalize != WordShingles().normalize:
            options.append(f"--normalize {','.join(shingles.normalize) or 'none'}")
        return f"simindex dedup {sample} -o clean.jsonl {' '.join(options)}"


class Advised(NamedTuple):
    """What a report says about settings; see `TuningReport`."""

    settings: list[Setting]
    advice: Advice
    notes: list[str]
    labels: LabelFigures | None = None
    curves: tuple[LabelCurve, ...] = ()


def without_labels(sample: Sample, found: SamplePairs, shingles: Shingles, threshold: float) -> Advised:
    """Return the advice where the sample's pairs of the threshold are those that are to be found."""
    places = list(range(len(found.ends)))
    if len(places) > _MEASURED_PAIRS:
        places = Random(_SEED).sample(places, _MEASURED_PAIRS)
    used, ends = np.unique(found.ends[places], return_inverse=True)
    pairs = TextPairs([sample.texts[place] for place in used.tolist()], ends.reshape(-1, 2))
    by = measured(pairs, shingles)
    are = by.similarities >= threshold - 1e-9
    wanted = Wanted(by, distances(pairs, SIMHASH), are, np.ones(len(places)))
    settings = settings_for(wanted, shingles, threshold, MOST_BITS, sample.texts)
    setting = best_of([each for each in settings if each.by == "minhash"], Goal())
    # Texts of one length that are so similar hold so much of each other.
    share = math.floor(100 * 2 * threshold / (1 + threshold)) / 100
    contained = containment_setting(wanted, shingles, share, Goal(), sample.texts)
    return Advised([*settings, contained], Advice(setting), [])


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
    similarities, notes = by[0].similarities, list[str]()
    weights = labels.weights(similarities, histogram, notes)
    bits = distances(labels.pairs, SIMHASH)

    def curve(name: str, scores: np.ndarray, thresholds: Sequence[float]) -> LabelCurve:
        points = points_of(scores, labels.wanted, weights, thresholds)
        return LabelCurve(name, points, goal.best(points))

    each_by = list(zip(map(name_of, tried), by, strict=True))
    curves = [curve(name, of.similarities, _THRESHOLDS) for name, of in each_by]
    at = _best_place(curves, goal)
    simhash = curve("SimHash", -bits.astype(float), [-distance for distance in range(_MOST_BITS + 1)])
    containments = [curve(f"containment, {name}", of.containments, _THRESHOLDS) for name, of in each_by]
    within = _best_place(containments, goal)
    contained = containments[within]
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
    of_shares = Wanted(by[within], bits, labels.wanted, weights)
    settings.append(containment_setting(of_shares, tried[within], contained.best.threshold, goal, texts))
    is_reached = goal.is_reached(point)
    is_better = contained.best.f1 > point.f1 + _BETTER_CONTAINMENT
    if is_better and goal.is_reached(contained.best) >= is_reached:
        notes.append(
            f"Shares of the smaller text say more here: containment of {contained.best.threshold:g} or more "
            f"by {name_of(tried[within])} reaches an F1 of {contained.best.f1:.3f}, and this advice "
            f"{point.f1:.3f}. Take {settings[-1].config!r}, and query_containment."
        )
    figures = labels.figures(similarities)
    counted = np.array(figures.yes) + np.array(figures.no)
    if bare := np.flatnonzero((in_tenths(histogram) > 0) & (counted == 0)).tolist():
        shown = ", ".join(f"{tenth / 10:g} to {(tenth + 1) / 10:g}" for tenth in bare)
        notes.append(
            f"No label has a similarity of {shown}: the pairs there count neither as found nor as missed."
        )
    if not is_reached:
        notes.append("No threshold reaches what you want on these labels: this one comes nearest.")
    order = sorted(range(len(curves)), key=lambda place: (place != at, -goal.of(curves[place].best)))
    ordered = *(curves[place] for place in order), simhash, contained
    return Advised(settings, Advice(setting, point), notes, figures, ordered)


def _best_place(curves: Sequence[LabelCurve], goal: Goal) -> int:
    """Return the place of the best curve: of the first one, which the user asked for, unless another is
    clearly better."""
    worths = [goal.of(each.best) for each in curves]
    near = [place for place, worth in enumerate(worths) if worth >= max(worths) - _CLEARLY]
    best = max(near, key=lambda place: curves[place].best.f1)
    return 0 if 0 in near and curves[0].best.f1 >= curves[best].best.f1 - _CLEARLY else best


def name_of(shingles: Shingles) -> str:
    """Return what people call shingles: "3 words"."""
    noun = "word" if isinstance(shingles, WordShingles) else "character"
    return f"{shingles.size} {noun}{'s'[: shingles.size != 1]}"
