"""Runs: what a commit does to the order of ages.

Owns how the tail grows, which records are stored with another age, and which runs come and go with that. Must
not commit. Invariant: after the commit every live document lies in a run whose time is not behind its own.

A touched document keeps its place in the run of its insert, which expiry passes by, and gets a run for its
touch. Touched again, or removed, it leaves that run; one that all of its documents leave in a commit goes, so
a document that is touched every day has one run, not one a day.
"""

from __future__ import annotations

import time

from simindex.changes.pending import Pending
from simindex.format.ages import Run
from simindex.format.keys import number_key
from simindex.format.records import MAX_INSERTED_AT, decode_record, encode_touched
from simindex.queries.view import View
from simindex.segments.build import Puts


def current_time() -> int:
    """Return the microseconds since 1970 UTC; where the clock stands outside of what a record can hold, the
    nearest that it can."""
    return min(max(time.time_ns() // 1000, 0), MAX_INSERTED_AT)


def change_of_ages(pending: Pending, tail: Run, view: View) -> tuple[Puts, dict[tuple[int, int], int], Run]:
    """Return what a commit stores of ages.

    Args:
        tail: the committed one.
        view: the committed state.

    Returns:
        (records of touched documents, runs as in `Pending.runs`, the tail after it).
    """
    runs = dict(pending.runs)
    tail, ended = (pending.tail or tail).grown(pending.count, pending.inserted_at)
    if ended is not None:
        runs[ended.time, ended.first] = ended.behind
    leaving = {n: record.seen_at for n, record in pending.removed.items() if record.seen_at is not None}
    records: Puts = []
    touched: list[int] = []
    for number in sorted(pending.touched):
        value = view.stored_record(number)
        record = decode_record(number, value)
        # A clock that goes back makes no document older.
        if record.age_from < pending.inserted_at:
            records.append((number_key(number), encode_touched(number, value, pending.inserted_at)))
            touched.append(number)
            if record.seen_at is not None:
                leaving[number] = record.seen_at
    for key in _left_by_all(leaving, view):
        runs.setdefault(key, 0)
    for first, behind in side_by_side(touched):
        runs[pending.inserted_at, first] = behind
    return records, runs, tail


def _left_by_all(leaving: dict[int, int], view: View) -> list[tuple[int, int]]:
    """Return the runs of touches, as (time, first number), that only documents lie in that leave them.

    Args:
        leaving: number -> time of the touch.
    """
    left = []
    for number, seen_at in leaving.items():
        behind = view.run_behind(seen_at, number)
        if behind is not None and all(leaving.get(other) == seen_at for other in range(number, behind)):
            left.append((seen_at, number))
    return left


def side_by_side(numbers: list[int]) -> list[tuple[int, int]]:
    """Return (first, behind) of the ranges that ascending numbers make."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1] = ranges[-1][0], number + 1
        else:
            ranges.append((number, number + 1))
    return ranges
