"""Whether the settings of an earlier sample still hold for a later one.

Source of the bound on similarities: the two-sample test of Smirnov, 1939, at 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from simindex.tuning.precision import Share

_LONGER = 1.5
"""Times longer or shorter that texts may be."""

_SHARE = 0.1
"""Share of the letters, or of the shingles, that may be others."""

_SIMILARITIES, _SMIRNOV = 0.05, 1.36


class Finding(NamedTuple):
    """What settings rest on, one figure in both samples, and whether they show it to be the same."""

    name: str
    earlier: str
    later: str
    holds: bool


def drift(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Say whether the settings of an earlier sample still hold for a later one.

    Args:
        earlier, later: as `TuningReport.to_dict` has them, out of JSON, too.

    Returns:
        Findings on the length of texts, in shingles (1.5 times as many hold), the scripts of letters and
        the share of common shingles (up to 0.1 of them others), and the similarities of pairs (no share of
        them differs by more than 0.05, or than chance makes it); with labels on both samples the precision
        and recall at the earlier threshold, which hold where both intervals meet.

    Raises:
        ValueError: what is no such report, or one by other shingles.

    >>> from simindex import tuning
    >>> report = tuning.tune((n, f"text {n % 30} of a small sample") for n in range(100)).to_dict()
    >>> all(finding.holds for finding in drift(report, report))
    True
    """
    try:
        if earlier["shingles"] != later["shingles"]:
            raise ValueError(
                f"drift: expected reports by one kind of shingles, found {earlier['shingles']} and "
                f"{later['shingles']}; tune the later sample by those of the earlier one"
            )
        return (
            *_of_texts(earlier["sample"], later["sample"]),
            _of_pairs(earlier, later),
            *_of_labels(earlier, later),
        )
    except (KeyError, TypeError, IndexError) as exc:
        raise ValueError(f"drift: expected reports as tune gives them, found one without {exc}") from exc


def _of_texts(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> list[Finding]:
    both = earlier, later
    sizes = [max(1, sample["shingles"][2]) for sample in both]
    scripts, shares = [sample["scripts"] for sample in both], [sample["common_share"] for sample in both]
    moved = sum(abs(scripts[0].get(name, 0) - scripts[1].get(name, 0)) for name in {*scripts[0], *scripts[1]})
    first = [max(of, key=of.get, default="none") for of in scripts]
    letters = [f"{name} {of.get(name, 0):.0%}" for name, of in zip(first, scripts, strict=True)]
    common = [f"{share:.1%}" for share in shares]
    return [
        _finding("shingles of a text", map(str, sizes), max(sizes) <= _LONGER * min(sizes)),
        _finding("letters", letters, moved / 2 <= _SHARE),
        _finding("common shingles", common, abs(shares[0] - shares[1]) <= _SHARE),
    ]


def _of_pairs(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> Finding:
    counts = [np.array(report["histogram"]) for report in (earlier, later)]
    numbers = [max(1, int(of.sum())) for of in counts]
    apart = np.abs(np.cumsum(counts[0]) / numbers[0] - np.cumsum(counts[1]) / numbers[1])
    chance = _SMIRNOV * math.sqrt(1 / numbers[0] + 1 / numbers[1])
    at = int(apart.argmax())
    shares = [of[at + 1 :].sum() / n for of, n in zip(counts, numbers, strict=True)]
    shown = [f"{share:.1%} above {0.21 + at / 100:.2f}" for share in shares]
    return _finding("similarities of pairs", shown, bool(apart[at] <= max(_SIMILARITIES, chance)))


def _of_labels(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> list[Finding]:
    advice = earlier["advice"]
    if advice["point"] is None or not later["curves"]:
        return []
    name = earlier["curves"][0]["name"] if advice["by"] == "minhash" else "SimHash"
    points = next(curve["points"] for curve in later["curves"] if curve["name"] == name)
    threshold = advice["threshold"]
    point = min(points, key=lambda point: abs(point["threshold"] - threshold))
    found = []
    for what in ("precision", "recall"):
        before, now = Share(*advice["point"][what]), Share(*point[what])
        shown = [f"{share.value:.2f} ({share.low:.2f} to {share.high:.2f})" for share in (before, now)]
        meet = before.low <= now.high and now.low <= before.high
        found.append(_finding(f"{what} at {threshold:g}, {name}", shown, meet))
    return found


def _finding(name: str, shown: Iterable[str], holds: bool) -> Finding:
    earlier, later = shown
    return Finding(name, earlier, later, holds)
