"""Print results: tables for people, JSON lines for programs, messages and a progress bar on stderr.

The form of keys in both: in a table a key stands as it is, with unprintable characters escaped; in JSON a str
is a string, an int a number, and bytes are {"bytes": base64}. Invariant: stdout carries results alone;
whatever comes from data cannot send control characters to a terminal.

There is a bar where stderr is a terminal, and nothing otherwise. Remaining time follows what is known
beforehand: the bytes of an input, or a number of documents. Where results go to a terminal, too, there is no
bar: it would be drawn across them, and they show that work goes on.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from simindex.jsonable import plain

if TYPE_CHECKING:
    from simindex import CheckReport, Key, Record, RepairReport

_PADDING = 3  # columns of the terminal between two of a table
_LEAST_LEFT = 10  # columns that a text must have; it is folded there


def printable(text: str) -> str:
    """Return the text on one line, with characters that a terminal might act upon escaped.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def note(message: str) -> None:
    """Print one line to stderr. A reader who has gone away is no reason to stop."""
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(printable(message) + "\n")
        sys.stderr.flush()


def shown_key(key: Key) -> str:
    """Return a key as it stands in a table."""
    return printable(key if isinstance(key, str) else str(key))


def json_record(record: Record) -> dict[str, Any]:
    """Return a stored document with JSON's types, as `export` writes it."""
    fingerprint = record.sketch.fingerprint
    return {
        "id": plain(record.key),
        "metadata": plain_metadata(record.key, record.metadata),
        "fingerprint": None if fingerprint is None else f"{fingerprint:016x}",
        "inserted_at": record.inserted_at.isoformat(),
        "seen_at": record.seen_at.isoformat(),
    }


def plain_metadata(key: Key, metadata: object) -> Any:
    """Return the metadata of a document with JSON's types."""
    try:
        return plain(metadata)
    except RecursionError:
        raise ValueError(f"the metadata of key {key!r} is nested deeper than JSON can be written") from None


def json_line(value: object) -> bytes:
    """Return a value as one line of JSON, in UTF-8."""
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # lone surrogates, as in a file name that is not UTF-8: JSON can escape them
        return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def print_json(value: object) -> None:
    """Print one JSON line to stdout, in UTF-8 whatever the locale."""
    line = json_line(value)
    sys.stdout.flush()
    sys.stdout.buffer.write(line)


def print_summary(counts: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Print what a command did: to stdout as a JSON line, or as a sentence to stderr."""
    if as_json:
        print_json(counts)
    else:
        note(sentence)


def print_text(text: str) -> None:
    """Print a sentence to stdout, on a terminal in lines of its width."""
    if sys.stdout.isatty():
        text = textwrap.fill(text, shutil.get_terminal_size().columns - 1, break_long_words=False)
    sys.stdout.write(text + "\n")


def print_report(report: CheckReport | RepairReport, as_json: bool) -> None:
    """Print the report of a check or a repair."""
    if as_json:
        print_json(report.to_dict())
        return
    for line in str(report).splitlines():
        print_text(printable(line))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, header: bool = True
) -> None:
    """Print a table to stdout.

    On a terminal it is laid out to the width; elsewhere it is plain text of whatever width it needs.

    Args:
        rows: a cell for each column.
        left: how many columns stand to the left; the others are numbers and stand to the right.
        header: whether to print the names.
    """
    if sys.stdout.isatty():
        _print_rich_table(columns, rows, left, header)
        return
    shown = [columns, *rows] if header else rows
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for cells in shown:
        padded = [
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def _print_rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int, header: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    cells = [[len(cell) for cell in column] for column in zip(*rows, strict=True)]
    texts = zip(columns[:left], cells[:left], strict=True)
    least = sum(max(min(_LEAST_LEFT, max(sizes)), *map(len, name.split())) for name, sizes in texts)
    room = console.width - _PADDING * len(columns) - least
    names = list(columns)
    numbers = list(zip(columns[left:], cells[left:], strict=True))
    if sum(max([len(name), *sizes]) for name, sizes in numbers) > room:
        widths = [max([*map(len, name.split()), *sizes]) for name, sizes in numbers]
        names[left:] = ["\n".join(textwrap.wrap(n, w)) for n, w in zip(columns[left:], widths, strict=True)]
        if sum(widths) > room:
            _print_records(columns, rows, left, console.width)
            return
    table = Table(box=box.SIMPLE_HEAD, show_header=header)
    for place, name in enumerate(names):
        if place < left:
            table.add_column(name, overflow="fold")
        else:
            table.add_column(Text(name), justify="right", no_wrap=True)  # a number is never broken
    for row in rows:
        table.add_row(*map(Text, row))  # Text, for a key may look like rich's markup
    console.print(table)


def _print_records(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int, width: int) -> None:
    """Print a table that is too wide for the terminal: a line a cell, so that no number is broken."""
    for row in rows:
        sys.stdout.write("\n" + "  ".join(row[:left]) + "\n")
        for name, cell in zip(columns[left:], row[left:], strict=True):
            gap = width - len(name) - len(cell) - 2
            shown = " " * gap + cell if gap > 1 else "\n" + cell.rjust(width)
            sys.stdout.write(f"  {name}{shown}\n")


def figure(value: float | None, digits: int = 0) -> str:
    """Return a number for people; a dash for none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun.

    >>> counted(1, "document"), counted(2_000, "document"), counted(2, "copy", "copies")
    ('1 document', '2,000 documents', '2 copies')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


class Reports:
    """Tells the first of many like messages, and at the end how many there were.

    Args:
        noun: what they are about, in the singular.
    """

    def __init__(self, noun: str, limit: int = 20) -> None:
        self.noun = noun
        self.limit = limit
        self.count = 0

    def add(self, message: Any) -> None:
        """Count one, and print it while there are few."""
        self.count += 1
        if self.count <= self.limit:
            note(f"simindex: {message}")

    def close(self) -> None:
        """Print how many were left out."""
        if self.count > self.limit:
            more = self.count - self.limit
            note(f"simindex: ... and {more:,} more ({counted(self.count, self.noun)} in all)")


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
def work_bar(
    noun: str, total: Callable[[], int | None] | int | None = None, *, prints_results: bool = False
) -> Iterator[Advance]:
    """Show a bar for the length of the block.

    Args:
        total: bytes of the input, or documents, as `Advance` counts them, or what returns them; ``None``
            where unknown, as with a pipe: then no remaining time is shown.
        prints_results: whether results go to stdout meanwhile.
    """
    if not shows_progress() or (prints_results and sys.stdout.isatty()):
        yield lambda _documents, _done: None
        return
    total = total() if callable(total) else total
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
