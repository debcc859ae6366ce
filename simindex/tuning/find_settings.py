"""`tune`: settings found from a sample of the user's own texts.

Labelled pairs say which shingles, which threshold, and which setting finds what it takes; without them the
pairs above the valley of their similarities are those to be found.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from simindex.checks import require_callable, require_share
from simindex.config import FEW_SHINGLES, CharShingles, Config, Shingles, WordShingles
from simindex.errors import Argument, ArgumentValueError
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.tuning.labels import Goal, Labels, points_of, read_labels
from simindex.tuning.measures import TextPairs, distances, measured
from simindex.tuning.report import Advice, LabelCurve, LabelFigures, Setting, TuningReport, in_tenths, name_of
from simindex.tuning.sample import (
    LABELS,
    Sample,
    SamplePairs,
    examples,
    figures_of,
    pairs_of_sample,
    pairs_to_label,
    read_sample,
    valley_of,
)
from simindex.tuning.settings import (
    MOST_BITS,
    SIMHASH,
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


class Advised(NamedTuple):
    """What a report says about settings; see `TuningReport`."""

    settings: list[Setting]
    advice: Advice
    notes: list[str]
    labels: LabelFigures | None = None
    curves: tuple[LabelCurve, ...] = ()


def tune(
    documents: str | os.PathLike[str] | Iterable[Any],
    pairs: str | os.PathLike[str] | Iterable[Any] | None = None,
    *,
    precision: float | None = None,
    recall: float | None = None,
    shingles: Shingles | None = None,
    progress: Callable[[int], object] | None = None,
) -> TuningReport:
    """Say what a sample of texts is, which of them are similar, and which settings find them.

    The pairs of a similarity of 0.2 or more are found by an index with 1,024 rows in a temporary folder, and
    compared by the texts themselves; 99 of 100 pairs right at 0.2 are found, and nearly all of those above.
    Without labels the advice is no more than where the histogram of their similarities has its valley, or
    0.8 where it has none, and the smallest setting that finds nearly all of what is above. With labels it is
    the shingles and the threshold that tell the wanted pairs best, and the smallest setting that finds them.

    Args:
        documents: a path, a list of paths, of what `simindex dedup` reads, or an iterable of (key, text). The
            first 100,000 texts are the sample, or the first 500 million characters.
        pairs: labelled pairs, of both verdicts: a path of JSON lines or an iterable of {"a": id, "b": id,
            "verdict": "y" or "n"} with ids of the sample, {"text_a": ..., "text_b": ..., "verdict": ...}, or
            (a, b, verdict). Labels of one tenth of similarity are taken for a random sample of its pairs,
            unless more than a twentieth of the wanted ones are below 0.2: then each counts once.
        precision: wanted, in (0, 1]: the threshold of the best recall that has it.
        recall: wanted, in (0, 1]: the threshold of the best precision that has it. Neither: of the best F1.
        shingles: by which pairs are looked for; ``None``: three words.
        progress: called with the number of texts that were read so far.

    Returns:
        A `TuningReport`, frozen; equal samples give equal reports, but for `Setting.document_seconds`.

    Raises:
        ValueError: fewer than 100 texts, or none with shingles; a label of an unknown id, two verdicts on one
            pair, or verdicts of one kind only; a precision or recall without labels.
        TypeError: ready shingles in the place of a text.

    Cost: about 0.2 ms a text of 1,000 characters and 10 us a pair, on one core; memory: the texts.

    >>> from simindex.tuning import tune
    >>> words = [f"word{n}" for n in range(60)]
    >>> report = tune((n, " ".join(words[n % 7 : 20 + n % 40])) for n in range(100))
    >>> report.sample.documents, report.num_pairs > 100
    (100, True)
    """
    require_callable("progress", progress)
    for name, value in (("precision", precision), ("recall", recall)):
        if value is not None:
            require_share(name, value)
            if pairs is None:
                raise ArgumentValueError(name, ("labelled pairs beside it, ", Argument("pairs")), "none")
    if precision is not None and recall is not None:
        raise ArgumentValueError("precision", "either it or a recall", "both")
    by = WordShingles() if shingles is None else shingles
    sample = read_sample(documents, progress)
    labels = None if pairs is None else read_labels(pairs, sample)
    figures = figures_of(sample, by)
    found = pairs_of_sample(sample, by)
    histogram = found.histogram()
    valley = valley_of(histogram)
    if labels is None:
        advised = _without_labels(sample, found, by, valley or DEFAULT_THRESHOLD)
    else:
        advised = with_labels(by, labels, histogram, Goal(precision, recall), sample.texts)
    if len(found.ends) < LABELS:
        advised.notes.append(
            f"Similar pairs, of 0.2 or more: {len(found.ends)}, which is little to go by. Of ten times as "
            "many texts there are about a hundred times as many."
        )
    few = figures.shingles[2]
    if few < FEW_SHINGLES and by != Config.short_texts().shingles:
        advised.notes.append(
            f"Half of the texts have at most {few} shingles, so that a changed word leaves little: "
            "Config.short_texts(), or --short-texts of insert, dedup and tune, is made for such."
        )
    return TuningReport(
        shingles=by,
        sample=figures,
        histogram=histogram,
        examples=examples(sample, found),
        to_label=pairs_to_label(sample, found),
        valley=valley,
        settings=tuple(sorted(advised.settings, key=lambda setting: setting.document_bytes)),
        advice=advised.advice,
        notes=(*sample.notes, *advised.notes),
        labels=advised.labels,
        curves=advised.curves,
    )


def _without_labels(sample: Sample, found: SamplePairs, shingles: Shingles, threshold: float) -> Advised:
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


# ---- with labels ----


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
