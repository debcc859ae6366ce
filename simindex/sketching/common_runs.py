"""Find the common runs of two sequences of shingle numbers.

Invariant: every occurrence of a shared shingle, in both rows, is in a run.

A run is maximal at its end; at its beginning, too, but where it would reach back over more than
`_LONGEST_REACH` shingles of an earlier one. Of many occurrences a few are tried, so the time is linear in the
second row and in what the two share, and the longest possible run may be missed among more than `_TRIED`
occurrences. The first row is sorted once, however many others it is compared with.
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


class ShingleRow:
    """A row of shingle numbers, sorted for comparisons with others; -1 is a shingle that no other row has."""

    def __init__(self, numbers: np.ndarray) -> None:
        self.array, self.numbers = numbers, numbers.tolist()
        self.order = np.argsort(numbers, kind="stable")
        self.ascending = numbers[self.order]

    def positions_of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return for each number where in `order` its occurrences begin, and their exclusive end; both are
        equal where it does not occur."""
        return self.ascending.searchsorted(numbers), self.ascending.searchsorted(numbers, "right")

    def shared_with(self, other: ShingleRow) -> np.ndarray:
        """Return the indices in this row, ascending, at which a number stands that the other row has, too; -1
        is never shared. The other row should be the short one: it is searched for in this one."""
        is_first = np.diff(other.ascending, prepend=-1) != 0
        firsts, ends = self.positions_of(other.ascending[is_first])
        counts = ends - firsts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.sort(self.order[np.repeat(firsts, counts) + within])


def common_runs(a: ShingleRow, b: ShingleRow) -> list[CommonRun]:
    """Return the runs that two rows have in common, ascending by position in `a`, then in `b`.

    The first row is walked; each of its shared shingles that is in no run yet begins one, at the occurrence
    in the second that makes it longest, and of equal ones at the next behind the run before. What of the
    second row is then in no run is walked in the same way.

    >>> common_runs(ShingleRow(np.array([1, 2, 3, 4, 5])), ShingleRow(np.array([3, 4, 9, 1, 2])))
    [CommonRun(first_a=0, first_b=3, length=2), CommonRun(first_a=2, first_b=0, length=2)]
    """
    found = _walk(a, b, a.shared_with(b))
    covered = np.zeros(len(b.numbers) + 1, np.int64)
    for run in found:
        covered[run.first_b] += 1
        covered[run.first_b + run.length] -= 1
    rest = np.flatnonzero(np.cumsum(covered[:-1]) == 0)
    firsts, ends = a.positions_of(b.array[rest])
    rest = rest[(firsts < ends) & (b.array[rest] >= 0)]
    found += [CommonRun(run.first_b, run.first_a, run.length) for run in _walk(b, a, rest)]
    return sorted(found)


def _walk(a: ShingleRow, b: ShingleRow, shared: np.ndarray) -> list[CommonRun]:
    """Return the runs through positions of `a`: `shared`, ascending, whose shingles `b` has. None begins at a
    position in the run before. A run reaches back as far as both rows agree."""
    positions, few = shared.tolist(), _TRIED // 2
    firsts, ends = map(np.ndarray.tolist, b.positions_of(a.array[shared]))
    runs: list[CommonRun] = []
    done, stop = 0, 0  # where the run before ends, in both
    for position, first, end in zip(positions, firsts, ends, strict=True):
        if position < done:
            continue
        occurrences = b.order[first:end]
        at = int(occurrences.searchsorted(stop))
        candidates = [*occurrences[at : at + few].tolist(), *occurrences[: min(at, few)].tolist()]
        length, start = max(
            ((_reach(a.numbers, position, b.numbers, candidate), candidate) for candidate in candidates),
            key=itemgetter(0),
        )
        back = _reach_back(a.numbers, position, b.numbers, start)
        runs.append(CommonRun(position - back, start - back, length + back))
        done, stop = position + length, start + length
    return runs


def _reach(a: list[int], at_a: int, b: list[int], at_b: int) -> int:
    """Return how many shingles agree from two positions on."""
    end, reached, step = min(len(a) - at_a, len(b) - at_b), 0, 16
    while reached < end:
        stop = min(reached + step, end)
        if a[at_a + reached : at_a + stop] != b[at_b + reached : at_b + stop]:
            while a[at_a + reached] == b[at_b + reached]:
                reached += 1
            return reached
        reached, step = stop, step * 2
    return reached


def _reach_back(a: list[int], at_a: int, b: list[int], at_b: int) -> int:
    """Return how many shingles agree before two positions, at most `_LONGEST_REACH`."""
    most, back = min(at_a, at_b, _LONGEST_REACH), 0
    while back < most and a[at_a - back - 1] == b[at_b - back - 1]:
        back += 1
    return back
