"""`simindex insert`: documents of files into an index.

Owns what is stored when the input or the user ends the run early: the whole batches before that place,
nothing of its own batch. Must not parse inputs (`inputs`) or know settings (`creation`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Annotated

import typer

from simindex import Index, InsertReport
from simindex.changes.ingest import DEFAULT_BATCH_SIZE
from simindex.cli import creation, options
from simindex.cli.batches import Batches
from simindex.cli.failures import INTERRUPTED, REPORTED, CommandError, describe
from simindex.cli.output import Reports, counted, figure, note, print_json
from simindex.cli.progress import Advance, insert_bar, shows_progress
from simindex.inputs import BadRowError, Fields, Inputs, Row


class OnConflict(Enum):
    """What to do with a key that is stored already."""

    error = "error"
    skip = "skip"
    replace = "replace"


class _Feed:
    """Hands the rows of inputs to `Index.insert_many`, in whole batches: of one that a bad row ends, nothing.

    Args:
        skip_bad: pass over bad rows, and tell them.
    """

    def __init__(self, inputs: Inputs, batch_size: int, skip_bad: bool, advance: Advance) -> None:
        self.bad_rows = Reports("bad row")
        self.done = 0
        self._inputs = inputs
        self._batches = Batches(inputs, batch_size, self._skip if skip_bad else None)
        self._advance = advance
        self._bytes_at: deque[tuple[int, int]] = deque()

    @property
    def failure(self) -> Exception | None:
        """What ended the rows before their end."""
        return self._batches.failure

    def rows(self) -> Iterator[Row]:
        """Yield the rows to insert."""
        handed = 0
        for batch in self._batches:
            if self.failure is not None:
                return
            handed += len(batch)
            self._bytes_at.append((handed, self._inputs.bytes_read))
            yield from batch

    def _skip(self, row: BadRowError) -> None:
        self.bad_rows.add(f"{row}; skipped")

    def progress(self, done: int) -> None:
        """Take note that the first `done` rows are stored."""
        self.done = done
        num_bytes = 0
        while self._bytes_at and self._bytes_at[0][0] <= done:
            num_bytes = self._bytes_at.popleft()[1]
        self._advance(done, num_bytes)

    def stored(self) -> str:
        """Say what is stored when an error ends the run before the input does."""
        if not self.done:
            return "nothing of the input is stored"
        return f"the first {counted(self.done, 'document')} of the input are stored, none after them"

    def surely_stored(self) -> str:
        """Say the same of an interrupt, which may come between a commit and the word of it."""
        return f"at least the first {counted(self.done, 'document')} of the input are stored"


def run(
    index: options.NewIndexFolder,
    inputs: options.InputPaths,
    id_field: options.IdField = "id",
    text_field: options.TextField = "text",
    metadata: options.KeepMetadata = False,
    glob: options.Globs = None,
    on_conflict: Annotated[
        OnConflict, typer.Option(help="What to do with a key that is stored already.")
    ] = OnConflict.error,
    skip_bad_rows: options.SkipBadRows = False,
    max_line: options.MaxLine = None,
    max_cell: options.MaxCell = None,
    max_document: options.MaxDocument = None,
    max_window: options.MaxWindow = None,
    max_ratio: options.MaxRatio = None,
    batch_size: options.BatchSize = DEFAULT_BATCH_SIZE,
    workers: options.Workers = None,
    words: creation.Words = None,
    chars: creation.Chars = None,
    normalize: creation.Normalize = None,
    num_perm: creation.NumPerm = None,
    max_distance: creation.MaxDistance = None,
    no_minhash: creation.NoMinhash = False,
    no_simhash: creation.NoSimhash = False,
    keep_shingles: creation.KeepShingles = None,
    seed: creation.Seed = None,
    as_json: options.JsonSummary = False,
) -> None:
    """Build an index, or add to it, from files.

    INPUT is .jsonl or .csv (each also with .gz or .zst), .parquet, .txt, a folder, or - for JSON lines on
    stdin. A row without a key gets FILE:LINE. The key of a .txt file is its path as given, that of a file in
    a folder its path within the folder. Text that is not UTF-8 is read with U+FFFD in place of each wrong
    byte.

    What is over one of the limits --max-line to --max-ratio is a bad row.

    The options for a new index are compared with what is stored when the index exists.
    """
    settings = creation.CreationOptions(
        words=words,
        chars=chars,
        normalize=normalize,
        num_perm=num_perm,
        max_distance=max_distance,
        keep_shingles=keep_shingles,
        seed=seed,
        no_simhash=no_simhash,
        no_minhash=no_minhash,
    )
    limits = options.limits(
        line=max_line, cell=max_cell, document=max_document, window=max_window, ratio=max_ratio
    )
    fields = Fields(id_field, text_field, metadata)
    rows = Inputs(inputs, fields, globs=glob or (), leave_out=index, limits=limits)
    began = time.monotonic()
    total_bytes = rows.total_bytes() if shows_progress() else None
    with creation.open_for_insert(index, settings) as target, insert_bar(total_bytes) as advance:
        feed = _Feed(rows, batch_size, skip_bad_rows, advance)
        report = _insert(target, feed, on_conflict.value, batch_size, workers)
    _summarise(report, feed.bad_rows.count, time.monotonic() - began, as_json)


def _insert(
    target: Index, feed: _Feed, on_conflict: str, batch_size: int, workers: int | None
) -> InsertReport:
    try:
        report = target.insert_many(
            feed.rows(),
            on_conflict=on_conflict,  # type: ignore[arg-type] # the values of OnConflict
            batch_size=batch_size,
            progress=feed.progress,
            workers=workers,
        )
        if feed.failure is not None:
            raise feed.failure
    except KeyboardInterrupt:
        raise CommandError(f"interrupted; {feed.surely_stored()}", INTERRUPTED) from None
    except REPORTED as exc:
        raise CommandError(f"{describe(exc)}; {feed.stored()}") from exc
    finally:
        feed.bad_rows.close()
    return report


def _summarise(report: InsertReport, bad_rows: int, seconds: float, as_json: bool) -> None:
    rate = sum(report) / max(seconds, 1e-9)
    if as_json:
        counts = {"inserted": report.inserted, "replaced": report.replaced, "skipped": report.skipped}
        print_json(counts | {"bad": bad_rows, "seconds": seconds, "documents_per_second": rate})
        return
    note(
        f"{counted(report.inserted, 'document')} inserted, {figure(report.replaced)} replaced, "
        f"{figure(report.skipped)} skipped, {counted(bad_rows, 'bad row')}; "
        f"{seconds:,.1f} s, {figure(rate)} documents/s"
    )
