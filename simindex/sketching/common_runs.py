"""Find the common runs of two sequences of shingle numbers.

Invariant: every occurrence of a shared shingle, in both rows, is in a run.

A run is maximal at its end; at its beginning, too, but where it would reach back over more than
`_LONGEST_REACH` shingles of an earlier one. Of many occurrences a few are tried, so the time is linear in
both rows and the longest possible run may be missed among more than `_TRIED` occurrences.
"""

from __future__ import annotations

from operator import itemgetter
from typing import NamedTuple

import numpy as np

_TRIED = 8
_LONGEST_REACH = 1_000


class CommonRun(NamedTuple):
    """`length` shingles that follow each other in both rows, from `first_a` and `first_b` on."""

    first_a: int
    first_b: int
    length: int


def common_runs(a: np.ndarray, b: np.ndarray) -> list[CommonRun]:
    """Return the runs that two rows have in common, by their place in `a`.

    The first row is walked; each of its shared shingles that is in no run yet begins one, at the occurrence
    in the second that makes it longest, and of equal ones at the next behind the run before. What of the
    second row is then in no run is walked in the same way.

    >>> common_runs(np.array([1, 2, 3, 4, 5]), np.array([3, 4, 9, 1, 2]))
    [CommonRun(first_a=0, first_b=3, length=2), CommonRun(first_a=2, first_b=0, length=2)]
    """
    left = np.flatnonzero(np.isin(a, b))
    found = _walk(a, b, left)
    covered = np.zeros(len(b) + 1, np.int64)
    for run in found:
        covered[run.first_b] += 1
        covered[run.first_b + run.length] -= 1
    rest = np.flatnonzero(np.isin(b, a) & (np.cumsum(covered[:-1]) == 0))
    found += [CommonRun(run.first_b, run.first_a, run.length) for run in _walk(b, a, rest)]
    return sorted(found)


def _walk(a: np.ndarray, b: np.ndarray, shared: np.ndarray) -> list[CommonRun]:
    """Return the runs that begin at the places `shared` of `a`, those left out that are in one already."""
    order = np.argsort(b, kind="stable")
    ascending = b[order]
    runs: list[CommonRun] = []
    done, behind = 0, 0  # where the run before ends, in both
    while (at := int(shared.searchsorted(done))) < len(shared):
        place = int(shared[at])
        occurrences = order[ascending.searchsorted(a[place]) : ascending.searchsorted(a[place], "right")]
        at = int(occurrences.searchsorted(behind))
        few = _TRIED // 2
        candidates = [*occurrences[at : at + few].tolist(), *occurrences[: min(at, few)].tolist()]
        length, start = max(
            ((_reach(a, place, b, candidate), candidate) for candidate in candidates), key=itemgetter(0)
        )
        back = _reach(a[:place][::-1], 0, b[:start][::-1], 0, _LONGEST_REACH)
        runs.append(CommonRun(place - back, start - back, length + back))
        done, behind = place + length, start + length
    return runs


def _reach(a: np.ndarray, at_a: int, b: np.ndarray, at_b: int, most: int | None = None) -> int:
    """Return how many shingles agree from two places on, at most `most`."""
    end = min(len(a) - at_a, len(b) - at_b)
    end = end if most is None else min(end, most)
    reached, step = 0, 16
    while reached < end:
        stop = min(reached + step, end)
        differ = a[at_a + reached : at_a + stop] != b[at_b + reached : at_b + stop]
        if differ.any():
            return reached + int(differ.argmax())
        reached, step = stop, step * 2
    return reached
