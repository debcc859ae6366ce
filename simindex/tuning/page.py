"""The page of a tuning report: its pictures, and pairs to label with their shared passages marked."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from simindex.corpus.report.common_passages import shared_form
from simindex.corpus.report.page import page_of
from simindex.jsonable import plain
from simindex.tuning.report import SamplePair, TuningReport, name_of
from simindex.tuning.sample_pairs import LABELS

_MOST_TEXT = 20_000
"""Characters of a text that are shown."""


def page_of_tuning(report: TuningReport, source: str) -> str:
    """Return the page on a report of a sample that is called so; it opens from disk and loads nothing."""
    sample, advice = report.sample, report.advice
    pairs = [_to_label(pair, report) for pair in report.to_label]
    lines = "".join(pair["line"] for pair in pairs)
    curve = report.curves[0] if report.curves else None
    figures = [
        ("texts", f"{sample.documents:,}"),
        ("copies of an earlier one", f"{sample.copies:,}"),
        ("characters, half have", f"{sample.characters[2]:,}"),
        ("shingles, half have", f"{sample.shingles[2]:,}"),
        ("common shingles", f"{sample.common_share:.1%}"),
        ("similar pairs", f"{report.num_pairs:,}"),
    ]
    return page_of(
        {
            "source": source,
            "figures": figures,
            "notes": list(report.notes),
            "shingles": name_of(report.shingles),
            "histogram": list(report.histogram),
            "settings": [
                {
                    "name": setting.name,
                    "missed": setting.missed,
                    "wrong": setting.wrong,
                    "f1": setting.f1,
                    "bytes": setting.document_bytes,
                    "microseconds": 1e6 * setting.document_seconds,
                }
                for setting in report.settings
            ],
            "advised": advice.setting.name,
            "reason": report.reason,
            "paste": f"{advice.setting.config!r}\n{advice.command(source)}",
            "threshold": curve.best.threshold if curve else advice.threshold,
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
    texts = [text[:_MOST_TEXT] for text in (pair.text_a, pair.text_b)]
    return {
        "keys": [str(pair.a), str(pair.b)],
        "line": json.dumps({"a": plain(pair.a), "b": plain(pair.b)}),
        "forms": shared_form(texts, report.shingles),
    }
