"""`simindex insert`: add the documents of files to an index.

What is stored when the input or the user ends the run early: the whole batches before that place, nothing of
its own batch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, get_args

from click import BadParameter

from simindex.changes.documents import DEFAULT_BATCH_SIZE, INSERT_BATCH, Conflict, InsertReport
from simindex.cli import options, reading
from simindex.cli.command import Command, Parsed, argument, command, flag, option, takes, word
from simindex.cli.failures import INTERRUPTED, REPORTED, CommandError, describe
from simindex.cli.output import Advance, counted, counted_bad, note, note_tally, print_json, work_bar
from simindex.config import WordShingles
from simindex.errors import SimIndexError
from simindex.format.keys import Key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import open as open_index
from simindex.inputs import Columns, Inputs, Row
from simindex.jsonable import plain
from simindex.queries.matches import Matches
from simindex.storage.folder import is_index, remove_index


def _parse_threshold(text: str) -> float:
    if not _is_number(text) or not 0 < float(text) <= 1:
        raise BadParameter(f"expected a number in (0, 1], found {text!r}")
    return float(text)


def _is_number(argument: str) -> bool:
    try:
        float(argument)
    except ValueError:
        return False
    return True


class _Insert(Command):
    """`--if-new` takes a threshold where a number follows it, and no file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give an --if-new without a number the default threshold."""
        args = [*args]
        for index, typed in enumerate(args[: args.index("--")] if "--" in args else args):
            if typed == "--if-new" and not any(map(_is_number, args[index + 1 : index + 2])):
                args[index] = f"--if-new={DEFAULT_THRESHOLD}"
        return super().parse_args(ctx, args)


class _Feed:
    """Hands the rows of inputs to `Index.insert_many`.

    Attributes:
        equal: rows passed over because their key, made of their content, is stored or on its way there.
        matched: rows passed over because something is like them.
        given: rows that were handed over.
        has_metadata: whether any row had some.
    """

    def __init__(
        self,
        inputs: Inputs,
        advance: Advance,
        is_stored: Callable[[Key], bool] | None,
        prints_matches: bool,
    ) -> None:
        self.done = self.equal = self.matched = self.given = 0
        self.has_metadata = False
        self._inputs, self._advance = inputs, advance
        self._is_stored, self._prints_matches = is_stored, prints_matches
        self._under_way: dict[Key, int] = {}
        """Keys made of content -> the number of the row, in the order of the rows."""

    def rows(self) -> Iterator[Iterable[Row]]:
        """Yield the rows to insert, some at a time; rows whose key was made of their content and is stored,
        or yielded before, are left out and counted as equal, unless rows are to be replaced."""
        for some in self._inputs.columns():
            self.has_metadata = self.has_metadata or any(each is not None for each in some.metadata or ())
            if some.made and self._is_stored is not None:
                yield self._new_ones(some, self._is_stored)
            else:
                self.given += len(some.keys)
                yield some.rows()

    def _new_ones(self, some: Columns, is_stored: Callable[[Key], bool]) -> Iterator[Row]:
        for index, row in enumerate(some.rows()):
            if index in some.made:
                if row.key in self._under_way or is_stored(row.key):
                    self.equal += 1
                    continue
                self._under_way[row.key] = self.given
            self.given += 1
            yield row

    def progress(self, done: int) -> None:
        """Take note that the first `done` of the yielded rows are stored, and advance the bar."""
        self.done = done
        for key in list(takewhile(lambda key: self._under_way[key] < done, self._under_way)):
            del self._under_way[key]
        self._advance(done, self._inputs.bytes_read)

    def on_match(self, key: Key, matches: Matches) -> None:
        """Count a row that is not stored, for it is like others; with --json, print its key and matches."""
        self.matched += 1
        if self._prints_matches:
            print_json({"key": plain(key), "matches": matches.to_dicts()})


@command(
    "insert",
    """
simindex insert news.simindex news.jsonl --metadata
simindex insert pages.simindex README.md 'src/**/*.py'
zcat logs.csv.gz | simindex insert logs.simindex - --format csv --key-from content
""",
    cls=_Insert,
)
@argument("index", "INDEX", "The folder of the index; created if it is missing.")
@options.input_paths
@takes("reads", options.InsertOptions)
@word(
    "--on-conflict",
    words=get_args(Conflict),
    default="error",
    help="What to do with a key that is stored already.",
)
@option(
    "--if-new",
    type=Parsed(_parse_threshold),
    metavar="[THRESHOLD]",
    help="Skip rows that are similar to a stored document or to an earlier row (default threshold 0.8).",
)
@flag("--simhash", help="With --if-new: compare fingerprints, within the distance of the index.")
@options.where.but(
    help="With --if-new: compare only with documents whose metadata has this value; repeat a field for "
    "several values."
)
@options.wait
@options.batch_size.but(
    default=None,
    help=f"Documents per commit (default: {INSERT_BATCH:,}; with --if-new {DEFAULT_BATCH_SIZE:,}).",
)
@options.workers
@takes("settings", options.CreationOptions)
@options.json_summary
def insert(
    index: str,
    inputs: tuple[str, ...],
    reads: options.InsertOptions,
    on_conflict: Conflict,
    if_new: float | None,
    simhash: bool,
    where: dict[str, list[object]] | None,
    wait: float,
    batch_size: int | None,
    workers: int | None,
    settings: options.CreationOptions,
    as_json: bool,
) -> None:
    """Build an index, or add to it, from files.

    INPUT is a file, a folder, or - for JSON lines on stdin. A .jsonl (.ndjson), .json, .csv, .tsv or .parquet
    has one document per row: its key in the field "id", its text in "text". Every other file, and every file
    of a folder, is one document: its text, with its path as typed (docs/a.txt) as the key. All but .parquet
    may be compressed: .gz, .xz, .zst. --format is for files of other names. A .json is an array of objects;
    --format text takes it as one document.

    A row without a key is a bad row, unless --key-from makes one: "content", a digest of its text (XXH3-128,
    as xxh128sum prints it), or "line", its place as FILE:LINE, for a file that is inserted once and never
    appended to. A bad row, or a file that cannot be read on, ends the insert; the batches before it are
    stored. With --skip-bad-rows it goes on.

    In a folder, binary files (with a zero byte at their beginning) and hidden ones (.git, .cache) are skipped
    and counted. Bytes of a text that are not UTF-8 are read as U+FFFD and counted; in a table or JSON such a
    row is a bad row. So is a row of more than 256 MiB.

    --if-new with --json prints a line {"key", "matches"} for each skipped row, before the summary.

    If the index exists, options for a new index must be the same as its settings.
    """
    if if_new is None and (simhash or where is not None):
        raise BadParameter(f"--{'simhash' if simhash else 'where'} goes with --if-new")
    if simhash and if_new != DEFAULT_THRESHOLD:
        raise BadParameter("--if-new with --simhash has no threshold, but a distance")
    rows, is_new = reads.inputs(inputs, leave_out=index), not is_index(index)
    began = time.monotonic()
    with (
        _gone_if_empty(index),
        options.open_for_insert(index, settings, wait) as target,
        work_bar("documents", rows.total_bytes) as advance,
    ):
        is_stored = None if on_conflict == "replace" else target.__contains__
        feed = _Feed(rows, advance, is_stored, as_json)
        how: dict[str, Any] = {"on_conflict": on_conflict, "workers": workers}
        how |= {} if batch_size is None else {"batch_size": batch_size}
        insert: Callable[..., InsertReport] = target.insert_many
        if if_new is not None:
            like: dict[str, Any] = {"by": "simhash"} if simhash else {"threshold": if_new}
            insert = partial(target.insert_many_if_new, on_match=feed.on_match, where=where, **like)
        report = _insert(partial(insert, **how), feed)
    if reads.metadata_field is not None and feed.given and not feed.has_metadata:
        note(f"simindex: --metadata-field: no row has a value in {reads.metadata_field!r}")
    note_tally(rows.tally, says_bad=False)
    if is_new and target.config.shingles == WordShingles():
        reading.note_short_texts(rows)
    seconds = time.monotonic() - began
    rate = sum(report) / max(seconds, 1e-9)
    if as_json:
        matched = {} if if_new is None else {"matched": feed.matched}
        counts = report._asdict() | matched | {"equal": feed.equal} | asdict(rows.tally)
        print_json(counts | {"seconds": seconds, "documents_per_second": rate})
        return
    equal = f"{counted(feed.equal, 'row')} equal to another, " if feed.equal else ""
    alike = "" if if_new is None else f" ({feed.matched:,} of them like another)"
    note(
        f"{counted(report.inserted, 'document')} inserted, {report.replaced:,} replaced, "
        f"{report.skipped:,} skipped{alike}, {equal}{counted_bad(rows.tally)}; "
        f"{seconds:,.1f} s, {rate:,.0f} documents/s"
    )


@contextmanager
def _gone_if_empty(path: str) -> Iterator[None]:
    """Remove an index that the block made if the block fails before anything is stored; otherwise its
    settings would bind the next insert."""
    is_new, has_folder = not is_index(path), os.path.isdir(path)
    try:
        yield
    except BaseException:
        if is_new and is_index(path):
            with suppress(SimIndexError, OSError), open_index(path, "r+") as made:  # which others cannot fill
                if not len(made):
                    remove_index(Path(path), keeps_folder=has_folder)
        raise


def _insert(insert: Callable[..., InsertReport], feed: _Feed) -> InsertReport:
    """Insert the rows of a feed. Raises CommandError, which says what is stored, where an error or an
    interrupt ends the run before the input does."""
    try:
        with closing(feed.rows()) as rows:  # type: ignore[type-var] # a generator
            return insert(chain.from_iterable(rows), progress=feed.progress)
    except KeyboardInterrupt:  # it may come between a commit and the word of it
        done = f"at least the first {counted(feed.done, 'document')} of the input are stored"
        raise CommandError(f"interrupted; {done}", INTERRUPTED) from None
    except REPORTED as exc:
        done = "nothing of the input is stored"
        if feed.done:
            done = f"the first {counted(feed.done, 'document')} of the input are stored, none after them"
        raise CommandError(f"{describe(exc)}; {done}") from exc
