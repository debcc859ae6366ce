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
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Literal

from simindex.cli.failures import in_options
from simindex.jsonable import plain, spelled

if TYPE_CHECKING:
    from simindex import CheckReport, Key, Record, RepairReport
    from simindex.inputs import BadRowError, Tally

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


def listed(text: str) -> str:
    """Return a key on one line, from which `unlisted` makes the key again.

    >>> listed("a\\nb"), listed("C:\\\\new"), listed("C:\\\\Windows")
    ('a\\\\nb', 'C:\\\\\\\\new', 'C:\\\\Windows')
    """
    if text.isprintable() and unlisted(text) == text:
        return text
    return printable(text.replace("\\", "\\\\"))


_ESCAPED = re.compile(r"\\(?:[\\nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def unlisted(line: str) -> str:
    """Return the key that `listed` made a line of."""
    return _ESCAPED.sub(lambda found: found[0].encode().decode("unicode_escape"), line)


def note(message: str) -> None:
    """Print one line to stderr, `printable`. A reader who has gone away is no reason to stop."""
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(printable(message) + "\n")
        sys.stderr.flush()


def shown_key(key: Key) -> str:
    """Return a key as it stands in a table, `printable`, bytes as in Python."""
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
    """Return the metadata of a document with JSON's types. Raises ValueError, which names the key, where it
    is nested too deep."""
    try:
        return plain(metadata)
    except RecursionError:
        raise ValueError(f"the metadata of key {key!r} is nested deeper than JSON can be written") from None


def json_line(value: object) -> bytes:
    """Return a value as one line of JSON, with its line feed, in UTF-8."""
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # lone surrogates, as in a file name that is not UTF-8, or a number over 64 bits
        return json.dumps(spelled(value), separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def print_json(value: object) -> None:
    """Print one JSON line to stdout, in UTF-8 whatever the locale; on a terminal no control character."""
    line = json_line(value)
    if sys.stdout.isatty():
        line = _escaped(line)
    sys.stdout.flush()
    sys.stdout.buffer.write(line)


def _escaped(line: bytes) -> bytes:
    """Return a line of JSON with escapes of JSON for characters that a terminal might act upon."""
    text = line.decode().removesuffix("\n")
    return ("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text) + "\n").encode()


def print_summary(counts: dict[str, Any], sentence: str, as_json: bool) -> None:
    """Print what a command did: to stdout as a JSON line, or as a sentence to stderr."""
    if as_json:
        print_json(counts)
    else:
        note(sentence)


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """Give a file that is under its name, durable, when the block ends well; else what was there stays.

    A link goes on pointing to its file; a pipe or a device is written as it is. Raises OSError with the name.
    """
    from simindex.corpus.outputs import output

    is_special = os.path.exists(path) and not os.path.isfile(path)
    with open(path, "wb") if is_special else output.whole_file(path) as file:
        yield file


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
    """Print a table to stdout: on a terminal laid out to the width, elsewhere of whatever width it needs.

    `left` columns stand to the left; the others are numbers and stand to the right.
    """
    if sys.stdout.isatty():
        _print_rich_table(columns, rows, left, header)
        return
    shown = [columns, *rows] if header else rows
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for cells in shown:
        padded = [
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def _print_rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int, header: bool) -> None:
    """Print a table in which texts are folded and no number is broken; a line a cell where it is too wide."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, table = Console(), Table(box=box.SIMPLE_HEAD, show_header=header)
    room = console.width
    for index, (name, *cells) in enumerate(zip(columns, *rows, strict=True)):
        longest, is_number = max(map(len, cells), default=0), index >= left
        least = max([longest if is_number else min(_LEAST_LEFT, longest), *map(len, name.split())])
        justify: Literal["right", "left"] = "right" if is_number else "left"
        room -= least + _PADDING
        table.add_column(Text(name), justify=justify, min_width=least, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # Text, for a key may look like rich's markup
    if room >= 0:
        console.print(table)
        return
    for row in rows:
        sys.stdout.write("\n" + "  ".join(row[:left]) + "\n")
        for name, cell in zip(columns[left:], row[left:], strict=True):
            gap = console.width - len(name) - len(cell) - 2
            shown = " " * gap + cell if gap > 1 else "\n" + cell.rjust(console.width)
            sys.stdout.write(f"  {name}{shown}\n")


def figure(value: float | None, digits: int = 0) -> str:
    """Return a number for people, `digits` behind its point; a dash for ``None``."""
    return "-" if value is None else f"{value:,.{digits}f}"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun.

    >>> counted(1, "document"), counted(2_000, "document"), counted(2, "copy", "copies")
    ('1 document', '2,000 documents', '2 copies')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def counted_bad(tally: Tally) -> str:
    """Return how many bad rows were skipped, and how many bad files, if any."""
    files = f" and {counted(tally.bad_files, 'bad file')}" if tally.bad_files else ""
    return counted(tally.bad, "bad row") + files


def some_of(names: Iterable[str], count: int, most: int) -> str:
    """Return the first of so many names, and how many more there are.

    >>> some_of(["a", "b", "c"], 3, 2), some_of(["a"], 1, 2)
    ('a, b and 1 more', 'a')
    """
    more = f" and {count - most:,} more" if count > most else ""
    return ", ".join(islice(names, most)) + more


def note_tally(tally: Tally, *, says_bad: bool = True) -> None:
    """Print what was skipped or left out, and files with undecodable bytes; `says_bad`: bad rows, too."""
    if says_bad and tally.bad + tally.bad_files:
        note(f"simindex: skipped: {counted_bad(tally)}")
    passed_over = [counted(tally.binary, "binary file")] if tally.binary else []
    if tally.links:
        passed_over.append(counted(tally.links, "link to a folder", "links to folders"))
    if tally.hidden:
        passed_over.append(counted(tally.hidden, "hidden file or folder", "hidden files or folders"))
    if passed_over:
        note(f"simindex: left out of folders: {', '.join(passed_over)}")
    if tally.tables:
        files = counted(tally.tables, "file")
        note(
            f"simindex: {files} of folders named as tables or JSON, each read as one text; --format, or a "
            "pattern like 'FOLDER/*.jsonl.gz', reads their rows"
        )
    if tally.records:
        records = counted(tally.records, "record")
        note(f"simindex: left out of web archives: {records} without a page of status 2xx and text")
    if tally.mended:
        what = counted(tally.mended, "text file has", "text files have")
        note(f"simindex: {what} bytes that are not UTF-8, read as U+FFFD")


class Reports:
    """Prints the first of many like messages, each about a `noun`, and at the end how many there were."""

    def __init__(self, noun: str, limit: int = 20) -> None:
        self.noun = noun
        self.limit = limit
        self.count = 0

    def add(self, message: Any) -> None:
        """Count a message, and print it to stderr if it is one of the first `limit`."""
        self.count += 1
        if self.count <= self.limit:
            note(f"simindex: {message}")

    def close(self) -> None:
        """Print how many were not printed, if any."""
        if self.count > self.limit:
            more = self.count - self.limit
            note(f"simindex: ... and {more:,} more ({counted(self.count, self.noun)} in all)")


def report_skipped(reports: Reports | None = None) -> Callable[[BadRowError], None]:
    """Return a function that is called with each bad row, and prints of the first ones, as `reports` does,
    that they are skipped."""
    reports = reports or Reports("bad row")
    return lambda row: reports.add(f"{row.say(in_options)}; skipped")


Advance = Callable[[int, int], None]
"""Called with how far the work is: documents done, and how much of the total; or bytes done and in all."""

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
    """Show a bar for the length of the block, which gets a function of (documents done, how much of the total
    is done); nothing is shown where stderr is no terminal.

    Args:
        total: bytes of the input, or documents, or what returns them; ``None`` where unknown, as with a pipe:
            then no remaining time is shown.
        prints_results: whether results go to stdout meanwhile; there is no bar then if that is a terminal.
    """
    if not shows_progress() or (prints_results and sys.stdout.isatty()):
        yield lambda _documents, _done: None
        return
    total = total() if callable(total) else total
    counts, began = f"{{task.fields[count]:,}} {noun}", time.monotonic()
    with progress_bar(counts, _RATE, has_end=total is not None, total=total, count=0, rate=0.0) as update:

        def advance(count: int, done: int) -> None:
            update(completed=done, count=count, rate=count / max(time.monotonic() - began, 1e-9))

        yield advance


def job_bar(total: int | None, waits_for: str | None) -> AbstractContextManager[Callable[..., None]]:
    """Return a context with a bar for a job, which gives a function that sets its fields: completed, count,
    rate, written. Until it is called, `waits_for` stands in place of the count."""
    columns = "{task.fields[count]}", _RATE, "{task.fields[written]}"
    fields: dict[str, Any] = {"count": waits_for or "0 rows", "rate": 0.0, "written": ""}
    return progress_bar(*columns, has_end=total is not None, total=total, **fields)


@contextmanager
def bytes_bar() -> Iterator[Advance]:
    """Show a bar of bytes for the length of the block, which gets a function of (bytes done, of how many);
    nothing is shown where stderr is no terminal."""
    with progress_bar("{task.fields[size]}", has_end=True, total=None, size="") as update:

        def advance(done: int, total: int) -> None:
            update(completed=done, total=total, size=f"{done / 1e6:,.1f} of {total / 1e6:,.1f} MB")

        yield advance


@contextmanager
def progress_bar(
    shown: str,
    pace: str = "",
    ends: str = "",
    *,
    has_end: bool = False,
    total: int | None = None,
    **fields: Any,
) -> Iterator[Callable[..., None]]:
    """Show a bar for the length of the block, which gets a function that sets `completed`, `total` or one of
    the `fields`; where stderr is no terminal nothing is shown, and it does nothing.

    `shown`, `pace` and `ends` are templates of rich for the columns: the last takes the place of the time
    since the beginning. A narrow terminal has the first alone, and with `has_end` the remaining time."""
    if not shows_progress():
        yield lambda **_: None
        return
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    is_wide = console.width >= (_NARROW_FOR_MORE if ends else _NARROW)
    columns: list[str | progress.ProgressColumn] = [shown]
    if is_wide:
        columns += [pace] if pace else []
        columns += [progress.BarColumn(None)]
        columns += [ends] if ends else ["elapsed", progress.TimeElapsedColumn()]
    if has_end:
        columns += ["remaining" if is_wide else "left", progress.TimeRemainingColumn()]
    # What goes to stdout are results; rich would send them to the terminal of the bar.
    with progress.Progress(*columns, console=console, redirect_stdout=False, expand=is_wide) as bar:
        yield partial(bar.update, bar.add_task("", total=total, **fields))
