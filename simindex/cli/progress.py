"""The progress bar of a long command, on stderr, when that is a terminal; nothing otherwise.

Remaining time follows what is known beforehand: the bytes of an input, or a number of documents. Where
results go to a terminal, too, there is no bar: it would be drawn across them, and they show that work goes
on.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from simindex.cli.output import note

Advance = Callable[[int, int], None]
"""Called with how far the work is: documents done, and how much of the total; or bytes done and in all."""


class JobProgress(NamedTuple):
    """How far a job is.

    Attributes:
        removed: rows that are duplicates, or contaminated.
        read_bytes: of the input, as it lies on disk.
        looked_at: rows that were looked at, where all are before the first is written; else 0.
        share: of all work that is done, 0..1; ``None`` where it is unknown.
    """

    rows: int
    rows_now: int
    removed: int
    read_bytes: int
    written_bytes: int
    looked_at: int = 0
    looked_now: int = 0
    share: float | None = None

    def pace(self, seconds: float) -> float:
        """Return the rows that a second does; to look at one is half of it."""
        rows = (self.rows_now + self.looked_now) / 2 if self.looked_now else self.rows_now
        return rows / max(seconds, 1e-9)


Show = Callable[[JobProgress], None]

_SECONDS_A_LINE = 1.0
"""Between two JSON lines."""

_RATE = "{task.fields[rate]:,.0f}/s"
_NARROW = 80  # columns below which there is room for a count and the remaining time alone
_NARROW_FOR_MORE = 100  # the same of a bar that has more to show


def shows_progress() -> bool:
    """Return whether stderr is a terminal, where a bar can be seen."""
    return sys.stderr.isatty()


@contextmanager
def work_bar(noun: str, total: int | None, *, prints_results: bool = False) -> Iterator[Advance]:
    """Show a bar for the length of the block.

    Args:
        total: bytes of the input, or documents, as `Advance` counts them; ``None`` where unknown, as with a
            pipe: then no remaining time is shown.
        prints_results: whether results go to stdout meanwhile.
    """
    if prints_results and sys.stdout.isatty():
        yield lambda _documents, _done: None
        return
    counts, began = f"{{task.fields[count]:,}} {noun}", time.monotonic()
    with _bar(counts, _RATE, has_end=total is not None, total=total, count=0, rate=0.0) as update:

        def advance(count: int, done: int) -> None:
            update(completed=done, count=count, rate=count / max(time.monotonic() - began, 1e-9))

        yield advance


@contextmanager
def job_bar(total: int | None, waits_for: str | None, removed: str, *, as_json: bool) -> Iterator[Show]:
    """Show how far a job is for the length of the block: a bar, or JSON lines.

    Args:
        total: bytes of the input; ``None`` when unknown.
        waits_for: what goes on until the first call.
        removed: what `JobProgress.removed` counts: "duplicates" or "contaminated".
        as_json: write JSON lines to stderr, a second apart at least, whether it is a terminal or not.
    """
    if as_json:
        yield _shown_in_json(total, removed)
        return
    began = time.monotonic()
    fields: dict[str, Any] = {"total": total, "count": waits_for or "0 rows", "rate": 0.0, "written": ""}
    columns = "{task.fields[count]}", _RATE, "{task.fields[written]}"
    with _bar(*columns, has_end=total is not None, **fields) as update:

        def show(at: JobProgress) -> None:
            count = f"{at.rows:,} rows, {at.removed:,} {removed}"
            written = f"{at.written_bytes / 1e6:,.1f} MB written"
            if at.looked_at and not at.rows:
                count, written = f"{at.looked_at:,} rows, looked at first", ""
            rate = at.pace(time.monotonic() - began)
            done = at.read_bytes if at.share is None or total is None else at.share * total
            update(completed=done, count=count, rate=rate, written=written)

        yield show


def _shown_in_json(total: int | None, removed: str) -> Show:
    began, last = time.monotonic(), 0.0

    def show(at: JobProgress) -> None:
        nonlocal last
        now = time.monotonic()
        if (last or not at.rows) and now - max(last, began) < _SECONDS_A_LINE:
            return
        last = now
        seconds = max(now - began, 1e-9)
        share, left = at.share, None
        if share is None and total is not None:
            share = min(at.read_bytes / total, 1.0) if total else None
        if share:
            left = round(seconds * (1 - share) / share, 1)
        rate = round(at.pace(seconds), 1)
        counts = {removed if name == "removed" else name: value for name, value in at._asdict().items()}
        del counts["share"], counts["looked_now"]
        counts |= {"total_bytes": total, "rows_per_second": rate, "seconds": round(seconds, 1)}
        note(json.dumps(counts | {"seconds_left": left}))

    return show


@contextmanager
def bytes_bar() -> Iterator[Advance]:
    """Show a bar of bytes done out of all bytes for the length of the block."""
    with _bar("{task.fields[size]}", has_end=True, total=None, size="") as update:

        def advance(done: int, total: int) -> None:
            update(completed=done, total=total, size=f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB")

        yield advance


@contextmanager
def waiting_bar(what: str) -> Iterator[None]:
    """Show that work goes on whose end is unknown, for the length of the block."""
    with _bar(what, has_end=False, total=None):
        yield


@contextmanager
def _bar(
    shown: str, pace: str = "", ends: str = "", *, has_end: bool, **fields: Any
) -> Iterator[Callable[..., None]]:
    """Show so much done, at that pace, since when, and for how long still; gives what changes the fields."""
    if not shows_progress():
        yield lambda **_: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    is_wide = console.width >= (_NARROW_FOR_MORE if ends else _NARROW)
    columns: list[ProgressColumn] = [TextColumn(shown)]
    if is_wide:
        columns += [TextColumn(pace)] if pace else []
        columns += [BarColumn(None)]
        columns += [TextColumn(ends)] if ends else [TextColumn("elapsed"), TimeElapsedColumn()]
    if has_end:
        columns += [TextColumn("remaining" if is_wide else "left"), TimeRemainingColumn()]
    # What goes to stdout are results; rich would send them to the terminal of the bar.
    with Progress(*columns, console=console, redirect_stdout=False, expand=is_wide) as bar:
        yield partial(bar.update, bar.add_task("", **fields))
