"""`simindex insert`: add the documents of files to an index.

What is stored when the input or the user ends the run early: the whole batches before that place, nothing of
its own batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from itertools import chain, takewhile
from typing import Annotated, Any

import typer

from simindex.changes.documents import DEFAULT_BATCH_SIZE, InsertReport
from simindex.cli import creation, options, reading
from simindex.cli.command import Command
from simindex.cli.failures import INTERRUPTED, REPORTED, CommandError, describe, in_options
from simindex.cli.output import Advance, Reports, counted, figure, note, print_json, work_bar
from simindex.format.keys import Key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import Index
from simindex.inputs import Columns, Inputs, Row, Tally
from simindex.jsonable import plain
from simindex.queries.matches import Matches


def _parse_threshold(text: str) -> float:
    if not _is_number(text) or not 0 < float(text) <= 1:
        raise typer.BadParameter(f"expected a number in (0, 1], found {text!r}")
    return float(text)


class OwnCommand(Command):
    """`--if-new` takes a threshold where a number follows it, and no file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give an --if-new without a number the default threshold."""
        args = [*args]
        for place, argument in enumerate(args[: args.index("--")] if "--" in args else args):
            if argument == "--if-new" and not any(map(_is_number, args[place + 1 : place + 2])):
                args[place] = f"--if-new={DEFAULT_THRESHOLD}"
        return super().parse_args(ctx, args)


def _is_number(argument: str) -> bool:
    try:
        float(argument)
    except ValueError:
        return False
    return True


class _Feed:
    """Hands the rows of inputs to `Index.insert_many`; a bad row ends them, and is raised.

    Args:
        skip_bad: pass over bad rows, and print them.
        is_stored: whether a key is in the index. A row whose key was made of its content is passed over, and
            counted, if that is so or if such a row is on its way there; ``None``: it is inserted.

    Attributes:
        equal: rows passed over because they equal another.
    """

    def __init__(
        self,
        inputs: Inputs,
        skip_bad: bool,
        advance: Advance,
        is_stored: Callable[[Key], bool] | None = None,
    ) -> None:
        self.bad_rows = Reports("bad row")
        self.done = 0
        self.equal = 0
        self._is_stored, self._inputs, self._skips_bad = is_stored, inputs, skip_bad
        self._advance = advance
        self._given = 0
        self._under_way: dict[Key, int] = {}
        """Keys made of content -> the number of the row, in the order of the rows."""

    def rows(self) -> Generator[Iterable[Row], None, None]:
        """Yield the rows to insert, some at a time."""
        for some in self._inputs.columns():
            if some.made and self._is_stored is not None:
                yield self._new_ones(some, self._is_stored)
            else:
                self._given += len(some.keys)
                yield some.rows()
            if some.error is not None:
                if not self._skips_bad:
                    raise some.error
                self.bad_rows.add(f"{in_options(str(some.error))}; skipped")

    def _new_ones(self, some: Columns, is_stored: Callable[[Key], bool]) -> Iterator[Row]:
        for place, row in enumerate(some.rows()):
            if place in some.made:
                if row.key in self._under_way or is_stored(row.key):
                    self.equal += 1
                    continue
                self._under_way[row.key] = self._given
            self._given += 1
            yield row

    def progress(self, done: int) -> None:
        """Take note that the first `done` rows are stored."""
        self.done = done
        for key in list(takewhile(lambda key: self._under_way[key] < done, self._under_way)):
            del self._under_way[key]
        self._advance(done, self._inputs.bytes_read)

    def stored(self) -> str:
        """Say what is stored when an error ends the run before the input does."""
        if not self.done:
            return "nothing of the input is stored"
        return f"the first {counted(self.done, 'document')} of the input are stored, none after them"

    def surely_stored(self) -> str:
        """Say the same of an interrupt, which may come between a commit and the word of it."""
        return f"at least the first {counted(self.done, 'document')} of the input are stored"


EXAMPLES = r"""
simindex insert news.simindex news.jsonl --metadata
simindex insert pages.simindex README.md src --glob '*.py'
zcat logs.csv.gz | simindex insert logs.simindex - --format csv --delimiter ';' --key-from content
"""


def insert(
    index: options.NewIndexFolder,
    inputs: options.InputPaths,
    *,
    reads: reading.InsertOptions,
    on_conflict: options.OnConflict = "error",
    if_new: Annotated[
        float | None,
        typer.Option(
            metavar="[THRESHOLD]",
            parser=_parse_threshold,
            help="Skip rows that are similar to a stored document or to an earlier row (default threshold "
            "0.8).",
        ),
    ] = None,
    simhash: Annotated[
        bool,
        typer.Option(
            "--simhash", help="With --if-new: compare fingerprints, within the distance of the index."
        ),
    ] = False,
    skip_bad_rows: options.SkipBadRows = False,
    wait: options.Wait = 0.0,
    batch_size: options.BatchSize = DEFAULT_BATCH_SIZE,
    workers: options.Workers = None,
    settings: creation.CreationOptions,
    as_json: options.JsonSummary = False,
) -> None:
    """Build an index, or add to it, from files.

    INPUT is a file, a folder, or - for JSON lines on stdin. A .jsonl (.ndjson), .json, .csv, .tsv or .parquet
    has one document per row: its key in the field "id", its text in "text". Every other file, and every file
    of a folder, is one document: its text, with its path as typed (docs/a.txt) as the key. All but .parquet
    may be compressed: .gz, .xz, .zst. --format is for files of other names. A .json is an array of objects;
    --format text takes it as one document.

    A row without a key is a bad row, unless --key-from makes one: "content", a digest of its text (XXH3-128,
    as xxh128sum prints it), or "line", its place as FILE:LINE, for a file that is inserted once and never
    appended to. A bad row ends the insert; the batches before it are stored. With --skip-bad-rows it goes on.

    In a folder, binary files (with a zero byte at their beginning) and hidden ones (.git, .cache) are skipped
    and counted. Bytes of a text that are not of its encoding are read as U+FFFD and counted; in a table or
    JSON such a row is a bad row. So is a row over --max-row or --max-ratio.

    --if-new with --json prints a line {"key", "matches"} for each skipped row, before the summary.

    If the index exists, options for a new index must be the same as its settings.
    """
    if simhash and if_new is None:
        raise typer.BadParameter("--simhash goes with --if-new")
    if simhash and if_new != DEFAULT_THRESHOLD:
        raise typer.BadParameter("--if-new with --simhash has no threshold, but a distance")
    rows = reads.inputs(inputs, leave_out=index)
    began = time.monotonic()
    with (
        creation.open_for_insert(index, settings, wait) as target,
        work_bar("documents", rows.total_bytes) as advance,
    ):
        is_stored = None if on_conflict == "replace" else target.__contains__
        feed = _Feed(rows, skip_bad_rows, advance, is_stored)
        matched = None if if_new is None else _Matched(if_new, simhash, as_json)
        report = _insert(target, feed, on_conflict, batch_size, workers, matched)
    tally = rows.tally
    reading.note_tally(tally, reads.encoding)
    _summarise(report, feed, tally, time.monotonic() - began, as_json, matched)


class _Matched:
    """Counts the rows that something is like, and prints them as JSON lines where these are asked for."""

    def __init__(self, threshold: float, simhash: bool, as_json: bool) -> None:
        self.how: dict[str, Any] = {"by": "simhash"} if simhash else {"threshold": threshold}
        self.count = 0
        self._as_json = as_json

    def __call__(self, key: Key, matches: Matches) -> None:
        self.count += 1
        if self._as_json:
            print_json({"key": plain(key), "matches": matches.to_dicts()})


def _insert(
    target: Index,
    feed: _Feed,
    on_conflict: str,
    batch_size: int,
    workers: int | None,
    matched: _Matched | None,
) -> InsertReport:
    insert: Callable[..., InsertReport] = target.insert_many
    if matched is not None:
        insert = partial(target.insert_many_if_new, on_match=matched, **matched.how)
    try:
        with closing(feed.rows()) as rows:
            return insert(
                chain.from_iterable(rows),
                on_conflict=on_conflict,
                batch_size=batch_size,
                progress=feed.progress,
                workers=workers,
            )
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; {feed.surely_stored()}", INTERRUPTED) from None
    except REPORTED as exc:
        raise CommandError(f"{describe(exc)}; {feed.stored()}") from exc
    finally:
        feed.bad_rows.close()


def _summarise(
    report: InsertReport, feed: _Feed, tally: Tally, seconds: float, as_json: bool, matched: _Matched | None
) -> None:
    rate = sum(report) / max(seconds, 1e-9)
    if as_json:
        counts = {"inserted": report.inserted, "replaced": report.replaced, "skipped": report.skipped}
        if matched is not None:
            counts["matched"] = matched.count
        counts |= {"equal": feed.equal, "bad": feed.bad_rows.count, **asdict(tally)}
        print_json(counts | {"seconds": seconds, "documents_per_second": rate})
        return
    equal = f"{counted(feed.equal, 'row')} equal to another, " if feed.equal else ""
    like = "" if matched is None else f" ({figure(matched.count)} of them like another)"
    note(
        f"{counted(report.inserted, 'document')} inserted, {figure(report.replaced)} replaced, "
        f"{figure(report.skipped)} skipped{like}, {equal}{counted(feed.bad_rows.count, 'bad row')}; "
        f"{seconds:,.1f} s, {figure(rate)} documents/s"
    )
