"""The page of a tuning report: its pictures, and pairs to label with their shared passages marked."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from simindex.corpus.report.page import page_of
from simindex.corpus.report.text_forms import shared_form
from simindex.jsonable import plain
from simindex.tuning.advice import name_of
from simindex.tuning.precision import CURVE_TITLES
from simindex.tuning.report import TuningReport, excerpt
from simindex.tuning.sample_pairs import LABELS, SamplePair
from simindex.tuning.settings import SETTING_TITLES

_MOST_TEXT, _EXCERPT = 20_000, 160
"""Characters of a text that are shown: to label it, and to see what a tenth of similarity is."""


def page_of_tuning(report: TuningReport, source: str) -> str:
    """Return the page on a report, HTML that opens from disk and loads nothing. `source`: what the sample is
    called, also in the command to paste."""
    advice = report.advice
    pairs = [_to_label(pair, report) for pair in report.to_label]
    lines = "".join(pair["line"] for pair in pairs)
    curve = report.curves[0] if report.curves else None
    return page_of(
        {
            "source": source,
            "sample": [*report.sample.rows(), ("similar pairs, of 0.2 or more", f"{report.num_pairs:,}")],
            "notes": list(report.notes),
            "shingles": name_of(report.shingles),
            "histogram": list(report.histogram),
            "examples": [
                {
                    "similarity": f"{pair.similarity:.2f}",
                    "keys": [str(pair.a), str(pair.b)],
                    "texts": [excerpt(text, _EXCERPT) for text in (pair.text_a, pair.text_b)],
                }
                for pair in report.examples
            ],
            "settings": [SETTING_TITLES, *(setting.row() for setting in report.settings)],
            "advised": advice.setting.name,
            "reason": report.reason,
            "paste": f"{advice.setting.config!r}\n{advice.command(source)}",
            "measures": [CURVE_TITLES, *(each.row() for each in report.curves)],
            "threshold": curve.best.threshold if curve else 0,
            "curve_name": curve.name if curve else "",
            "curve": [[p.threshold, p.precision.value, p.recall.value] for p in curve.points]
            if curve
            else [],
            "pairs": pairs,
            "enough": min(LABELS, len(pairs)),
            "digest": hashlib.sha256(lines.encode()).hexdigest()[:16],
        },
        "simindex.tuning",
    )


def _to_label(pair: SamplePair, report: TuningReport) -> dict[str, Any]:
    """Return what page.js reads of a pair: "keys", the "line" of JSON that a label begins with, and "forms",
    the `shared_form` of the first 20,000 characters of both texts."""
    texts = [text[:_MOST_TEXT] for text in (pair.text_a, pair.text_b)]
    return {
        "keys": [str(pair.a), str(pair.b)],
        "line": json.dumps({"a": plain(pair.a), "b": plain(pair.b)}),
        "forms": shared_form(texts, report.shingles),
    }
