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
    USUAL_DISTANCE,
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

_LARGEST_DISTANCE = 8
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
        """That of the setting: a similarity, or with SimHash a number of bits."""
        return self.setting.threshold

    def command(self, sample: str) -> str:
        """Return the `simindex dedup` line for this advice; `sample`: its inputs, as a shell reads them."""
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
    """Return the advice where the pairs of at least `threshold` are those to be found: the smallest MinHash
    setting whose F1 is at most 0.01 below the best. With it come all settings that were measured, the
    smallest first, and behind them one for containment; no notes. Of more than 10,000 pairs in `found` that
    many, drawn at random, are measured."""
    rows = list(range(len(found.ends)))
    if len(rows) > _MEASURED_PAIRS:
        rows = Random(_SEED).sample(rows, _MEASURED_PAIRS)
    used, ends = np.unique(found.ends[rows], return_inverse=True)
    pairs = TextPairs([sample.texts[number] for number in used.tolist()], ends.reshape(-1, 2))
    by_shingles = measured(pairs, shingles)
    is_wanted = by_shingles.similarities >= threshold - 1e-9
    wanted = Wanted(by_shingles, distances(pairs), is_wanted, np.ones(len(rows)))
    settings = settings_for(wanted, shingles, threshold, USUAL_DISTANCE, sample.texts)
    setting = best_of([each for each in settings if each.by == "minhash"], Goal())
    # Texts of one length that are so similar hold so much of each other.
    share = math.floor(100 * 2 * threshold / (1 + threshold)) / 100
    contained = containment_setting(wanted, shingles, share, Goal(), sample.texts)
    return Advised([*settings, contained], Advice(setting), [])


def shinglings(base: Shingles) -> list[Shingles]:
    """Return the shingles that are tried: the base first, then usual sizes of words and of characters with
    its normalisation."""
    steps = base.normalize
    tried: list[Shingles] = [WordShingles(size, steps) for size in _WORDS]
    tried += [CharShingles(size, steps) for size in _CHARACTERS]
    return [base, *(shingles for shingles in tried if shingles != base)]


def with_labels(
    shingles: Shingles, labels: Labels, histogram: tuple[int, ...], goal: Goal, texts: Sequence[str]
) -> Advised:
    """Return the advice that follows from labels, by these shingles unless others are clearly better, with
    what was measured for it: settings, curves (the advised shingles first), counts of labels, and notes.

    Args:
        histogram: of the sample's pairs by `shingles`; labels are weighted by it.
        texts: of the sample; the cost of settings is measured on some of them.
    """
    tried = shinglings(shingles)
    names, by_shingles = list(map(name_of, tried)), [measured(labels.pairs, each) for each in tried]
    similarities, notes = by_shingles[0].similarities, list[str]()
    weights = labels.weights(similarities, histogram, notes)
    bits = distances(labels.pairs)

    def curve(name: str, scores: np.ndarray, thresholds: Sequence[float]) -> LabelCurve:
        points = points_of(scores, labels.wanted, weights, thresholds)
        return LabelCurve(name, points, goal.best(points))

    curves = [curve(name, of.similarities, _THRESHOLDS) for name, of in zip(names, by_shingles, strict=True)]
    simhash = curve("SimHash", -bits.astype(float), [-distance for distance in range(_LARGEST_DISTANCE + 1)])
    containments = [
        curve(f"containment, {name}", of.containments, _THRESHOLDS)
        for name, of in zip(names, by_shingles, strict=True)
    ]
    best, best_share = _best_index(curves, goal), _best_index(containments, goal)
    contained = containments[best_share]
    wanted, of_shares = (
        Wanted(by_shingles[index], bits, labels.wanted, weights) for index in (best, best_share)
    )
    max_distance = int(simhash.best.threshold)
    settings = settings_for(wanted, tried[best], curves[best].best.threshold, max_distance, texts)
    setting = best_of(settings, goal)
    scores, cut = wanted.measured.similarities, setting.threshold
    if setting.by == "simhash":
        scores, cut = -bits.astype(float), -cut
    (point,) = points_of(scores, labels.wanted, weights, [cut], _JUDGING)
    settings.append(containment_setting(of_shares, tried[best_share], contained.best.threshold, goal, texts))
    is_reached = goal.is_reached(point)
    is_better = contained.best.f1 > point.f1 + _BETTER_CONTAINMENT
    if is_better and goal.is_reached(contained.best) >= is_reached:
        notes.append(
            f"Shares of the smaller text say more here: containment of {contained.best.threshold:g} or more "
            f"by {names[best_share]} reaches an F1 of {contained.best.f1:.3f}, and this advice "
            f"{point.f1:.3f}. Take {settings[-1].config!r}, and query_containment."
        )
    figures = labels.figures(similarities)
    if bare := np.flatnonzero((in_tenths(histogram) > 0) & (np.add(figures.yes, figures.no) == 0)).tolist():
        shown = ", ".join(f"{tenth / 10:g} to {(tenth + 1) / 10:g}" for tenth in bare)
        notes.append(
            f"No label has a similarity of {shown}: the pairs there count neither as found nor as missed."
        )
    if not is_reached:
        notes.append("No threshold reaches what you want on these labels: this one comes nearest.")
    advised = curves.pop(best)
    others = sorted(curves, key=lambda other: -goal.of(other.best))
    return Advised(settings, Advice(setting, point), notes, figures, (advised, *others, simhash, contained))


def _best_index(curves: Sequence[LabelCurve], goal: Goal) -> int:
    """Return the index of the best curve: 0, whose shingles the user asked for, unless another is clearly
    better. Of those that are nearly as good as the best by the goal, the one with the best F1 counts."""
    worths = [goal.of(each.best) for each in curves]
    near = [index for index, worth in enumerate(worths) if worth >= max(worths) - _CLEARLY]
    best = max(near, key=lambda index: curves[index].best.f1)
    return 0 if 0 in near and curves[0].best.f1 >= curves[best].best.f1 - _CLEARLY else best


def name_of(shingles: Shingles) -> str:
    """Return what people call shingles: "3 words", "1 character"."""
    noun = "word" if isinstance(shingles, WordShingles) else "character"
    return f"{shingles.size} {noun}{'s'[: shingles.size != 1]}"
