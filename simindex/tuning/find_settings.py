"""`tune`: settings found from a sample of the user's own texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from simindex.checks import require_callable, require_share
from simindex.config import FEW_SHINGLES, Config, Shingles, WordShingles
from simindex.errors import Argument, ArgumentValueError
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.tuning.advice import with_labels, without_labels
from simindex.tuning.labels import read_labels
from simindex.tuning.precision import Goal
from simindex.tuning.report import TuningReport
from simindex.tuning.sample import figures_of, read_sample
from simindex.tuning.sample_pairs import LABELS, examples, pairs_of_sample, pairs_to_label, valley_of


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
        advised = without_labels(sample, found, by, valley or DEFAULT_THRESHOLD)
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
