"""Whether settings still hold: the same report does, and each change of what they rest on is found."""

import copy
import json
from typing import Any

import pytest

from simindex import tuning

POINTS = [
    {"threshold": t / 10, "precision": [p, p - 0.1, p + 0.1], "recall": [0.9, 0.8, 1.0], "f1": 0.9}
    for t, p in ((9, 0.9), (8, 0.85), (7, 0.3))
]
REPORT: dict[str, Any] = {
    "shingles": {"kind": "words", "size": 3, "normalize": []},
    "sample": {
        "shingles": [1, 5, 100, 200, 300],
        "scripts": {"latin": 0.9, "greek": 0.1},
        "common_share": 0.2,
    },
    "histogram": [100] * 80,
    "advice": {"by": "minhash", "threshold": 0.8, "point": POINTS[1]},
    "curves": [{"name": "3 words", "best": POINTS[1], "points": POINTS}],
}
CHANGES: list[tuple[str, Any]] = [
    ("shingles of a text", lambda later: later["sample"].update(shingles=[1, 5, 151, 200, 300])),
    ("letters", lambda later: later["sample"].update(scripts={"latin": 0.7, "greek": 0.3})),
    ("common shingles", lambda later: later["sample"].update(common_share=0.31)),
    ("similarities of pairs", lambda later: later.update(histogram=[100] * 70 + [200] * 10)),
    (
        "precision at 0.8, 3 words",
        lambda later: later["curves"][0]["points"][1].update(precision=[0.6, 0.5, 0.7]),
    ),
]


def test_what_has_not_changed_holds() -> None:
    findings = tuning.drift(REPORT, json.loads(json.dumps(REPORT)))
    assert len(findings) == 6
    assert all(finding.holds for finding in findings)


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_each_change_is_found_by_itself(name: str, change: Any) -> None:
    later = copy.deepcopy(REPORT)
    change(later)
    assert [finding.name for finding in tuning.drift(REPORT, later) if not finding.holds] == [name]


def test_few_pairs_that_differ_by_chance_hold() -> None:
    few = REPORT | {"histogram": [1] * 4 + [0] * 76}
    assert tuning.drift(REPORT | {"histogram": [1] * 8 + [0] * 72}, few)[3].holds


def test_reports_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(ValueError, match="expected reports by one kind of shingles"):
        tuning.drift(REPORT, REPORT | {"shingles": {"kind": "characters"}})
    with pytest.raises(ValueError, match="found one without 'histogram'"):
        tuning.drift({name: value for name, value in REPORT.items() if name != "histogram"}, REPORT)
