"""Run a deduplication by sorting: sketch rows into files, sort the files, read the input again.

Invariant: a row stays where an index that is queried row by row would keep it; nothing is read here and
there, so that a corpus may be far larger than the memory, but where chance shares prefixes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

import numpy as np

from simindex.all_pairs.edges import MOST_NUMBERS
from simindex.all_pairs.plan import PairPlan, WalkPlan, plan_pairs
from simindex.all_pairs.ranges import scheme_of_config, walk_range
from simindex.batching import ahead, in_order, num_workers
from simindex.changes.documents import READY_BATCHES
from simindex.config import Config
from simindex.corpus.dedup.keep_per import require_sources, source_named, source_of_row
from simindex.corpus.dedup.orders import KeepOrder, order_of, rank_of
from simindex.corpus.dedup.other_indexes import decided_by_others
from simindex.corpus.dedup.paragraphs import paragraph_rows
from simindex.corpus.dedup.results import NumberedVerdict
from simindex.corpus.dedup.rows import (
    READ_AHEAD,
    DecidedRows,
    InputPart,
    PartRead,
    Rows,
    rows_of,
    rows_of_parts,
)
from simindex.corpus.dedup.settings import JobSettings
from simindex.corpus.dedup.sketches import ColumnTables, SketchedRows, SketchFiles, sketch_rows
from simindex.corpus.dedup.star import ExactComparison, Outcome, Star, room_by_chance
from simindex.corpus.dedup.verdict_file import (
    VerdictReader,
    read_gone,
    read_verdicts,
    verdicts_of,
    write_verdicts,
)
from simindex.corpus.entries import Entries, PathEntries, Place, shown_key
from simindex.corpus.outputs.rows import UnfitRowError
from simindex.corpus.sqlite_files import TextFile
from simindex.errors import Argument, InputError, SimIndexError
from simindex.format.keys import Key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.queries.scheme import Scheme
from simindex.queries.search import BandQuery, FingerprintQuery, require_kept
from simindex.sketching.sketch import OF_ROWS, Sketch, require_alike
from simindex.sketching.sketcher import Sketcher

LONG_RUN = 128
"""Rows of one prefix that are compared two by two; of more, each is compared with those that stay."""

LONG_RUN_OF_FINGERPRINTS = 1_024
"""The same of fingerprints: two keys differ as they do, and short prefixes are shared by chance."""

_EDGE_BYTES, _TABLE_BYTES = 32 << 20, 96 << 20
_STORED_AT_ONCE = 4_096
_SECONDS_A_MARK = 10.0
"""Between two times that sketches are made durable: it waits for the disk."""

RowsOf = Callable[[Entries, int, int], Iterator[Rows]]
"""Returns what is compared, so many at a time, from one of a number on: `rows_of`, or `paragraph_rows`."""


@dataclass
class DedupSteps:
    """A job in its folder, which may have what an earlier process has done."""

    folder: str
    entries: Entries
    query: BandQuery | FingerprintQuery
    config: Config
    settings: JobSettings
    others: list[str]  # paths of indexes; rows that are like one of their documents go, too
    texts: TextFile | None  # takes the texts of rows that others may be explained by
    looked: Callable[[int, bool], object]  # called with the rows looked at, and whether that is durable
    has_typed_ids: bool  # whether all ids have to be of one type, as in a column of a table

    def __post_init__(self) -> None:
        if not self.entries.can_repeat:
            self.entries.spool(os.path.join(self.folder, "rows"))
        self._verdicts = os.path.join(self.folder, "verdicts")
        self.emptied: list[str] = []
        """The inputs of more than one row of which none stays, once the decided rows were read."""
        self._files = self.entries if isinstance(self.entries, PathEntries) else None
        settings, cut = self.settings, self.settings.cut
        self._fields, self._threads = settings.source_fields, num_workers(settings.workers)
        self._rows: RowsOf = rows_of if cut is None else partial(paragraph_rows, cut)
        self._sketcher, self._scheme = Sketcher(self.config), scheme_of_config(self.config)
        long_run = LONG_RUN if isinstance(self.query, BandQuery) else LONG_RUN_OF_FINGERPRINTS
        self._plan = plan_of_query(self._scheme, self.query, long_run, _TABLE_BYTES)

    @contextmanager
    def decided(self, skipped: int, *, by_lines: bool) -> Iterator[Iterator[DecidedRows]]:
        """Give the rows from number `skipped` on with their verdicts, for the length of the block. All are
        decided first, unless the folder has the verdicts. `by_lines`: rows may come as `LineRows`.
        InputError, while they are taken: the input has changed since the first reading."""
        before = self.entries.digest() if self.entries.can_resume else None
        if not os.path.exists(self._verdicts):
            self._decide()
        with open(self._verdicts, "rb") as file:
            verdicts = VerdictReader(*read_verdicts(file))
            rows = self._again(verdicts.read, skipped, by_lines, before)
            decided = verdicts.decided_rows(self._ahead(rows))
            if self.texts is not None and self.settings.keep == "first":
                decided = self.texts.taking(decided, _kept_documents)
            yield decided
            self.emptied = verdicts.emptied(self.entries.names)

    def _again(self, read: list[PartRead], skipped: int, by_lines: bool, before: object) -> Iterator[Rows]:
        """Yield the rows of the second reading from number `skipped` on, as `LineRows` where `by_lines` and
        the files allow it; `read`: the parts of the first. InputError, at the end: there are not as many rows
        as at first, or the digest of the files is not `before`; ``None``: any digest."""
        files, how = self.entries.again(), (self.settings.batch_size, skipped)
        if self.settings.cut is None and isinstance(files, PathEntries) and files.are_here:
            parts = rows_of_parts(files.inputs, read, *how, by_lines=by_lines)
        else:
            parts = self._rows(files, *how)
        count, total = skipped, sum(part.rows for part in read)
        for rows in parts:
            count += len(rows)
            yield rows
        if count != total or (before is not None and files.digest() != before):
            raise input_changed(files.names, total)

    def _ahead(self, rows: Iterator[Rows]) -> Iterator[Rows]:
        """Yield the same batches, some of them read ahead in a thread where there are several workers and all
        sources are files, which need no waiting."""
        are_files = self._files is not None and self._files.are_files
        return ahead(rows, READ_AHEAD) if self._threads > 1 and are_files else rows

    def kept(self) -> Iterator[tuple[Key, Place, Sketch, dict[str, Any]]]:
        """Yield (key, place in the input, sketch, source fields) of each row that stays, in keep order; the
        verdicts and sketches have to be in the folder."""
        files = self._sketch_files()
        stays = np.ones(files.count, dtype=bool)
        with open(self._verdicts, "rb") as file:
            stays[read_gone(file)[1]] = False
        numbers = self._order(files).numbers_of(np.arange(files.count, dtype=np.uint32))
        numbers = numbers[stays[numbers]]
        assert files.mark is not None
        from_rows = bool(files.mark["sources"] & OF_ROWS)
        for first in range(0, len(numbers), _STORED_AT_ONCE):
            some = numbers[first : first + _STORED_AT_ONCE]
            origins = files.origins(some, self.entries.names)
            sketches = files.sketch_values(some, self._sketcher, from_rows)
            for number, (key, origin, _) in zip(some.tolist(), origins, strict=True):
                yield key, origin, next(sketches), self._source_named(files, number)

    def _source_named(self, files: SketchFiles, number: int) -> dict[str, Any]:
        return source_named(self._fields, files.source(number)) if self._fields else {}

    # ---- the decision ----

    def _sketch_files(self) -> SketchFiles:
        config = self.config
        has_kept = bool(config.keep_shingles and (self._plan.kept or self.settings.into is not None))
        has_bits = config.simhash is not None
        folder, has_sources = os.path.join(self.folder, "sketches"), bool(self._fields)
        has = {"has_fingerprints": has_bits, "has_kept": has_kept, "has_sources": has_sources}
        return SketchFiles(folder, config.bands, **has)

    def _decide(self) -> None:
        files, plan, num_perm = self._sketch_files(), self._plan, self.config.num_perm
        how = num_perm, self.config.keep_shingles, self.settings.in_kept
        exact = ExactComparison(files, plan, *how) if plan.kept else None
        with closing(files):
            read = self._filled(files)
            if self._fields:
                require_sources(self._fields, [files])
            if exact is not None and self.settings.ignore_common is not None:
                exact.leave_out_common(self.settings.ignore_common)
            outcome = self._outcome(files, exact)
            origins = partial(files.origins, names=self.entries.names)
            compare = None if exact is None else exact.compared
            own = verdicts_of(outcome, plan, num_perm, origins, compare)
            bounded = ((number, None) for number in outcome.bounded.tolist())
            write_verdicts(self._verdicts, read, own, bounded, chain.from_iterable(files.others()))
        if self.settings.into is None:
            files.remove()

    def _filled(self, files: SketchFiles) -> list[PartRead]:
        """Read, sketch and append to `files` the rows that they do not have yet, and return each input with
        its number of rows. Where that fails, the mark covers what was appended."""
        seen = _Seen(self.entries, files.mark)
        if files.mark is not None and files.mark["is_whole"]:
            return seen.parts()
        try:
            with closing(self._compared(files.count)) as batches:
                self._fill(files, seen, batches)
        except BaseException:
            if seen.count == files.count:  # else it was interrupted between the two
                with suppress(OSError):  # a full disk, it may be
                    self._mark(files, seen)
            raise
        self._mark(files, seen, is_whole=True)
        return seen.parts()

    def _fill(
        self,
        files: SketchFiles,
        seen: _Seen,
        batches: Iterator[tuple[SketchedRows, list[NumberedVerdict] | None]],
    ) -> None:
        marked, rank = time.monotonic(), rank_of(self.settings.keep)
        for (rows, sketches, sources), found in batches:
            if self.has_typed_ids:
                seen.require_id_type(rows)
            if files.count + len(rows) > MOST_NUMBERS:
                most = f"{MOST_NUMBERS + 1:,}"
                raise SimIndexError(
                    f"deduplicate: expected fewer than {most} rows, found more; cut the input, and give the "
                    "index of the first part (into=) with the second one (against=)"
                )
            ranks = None if rank is None else list(map(rank, rows))
            if self._plan.kept:
                require_kept(self.config, sketches)
            require_alike(seen.sources, sketches.sources)
            seen.sources |= sketches.sources
            files.add(rows, sketches, ranks, found, sources)
            seen.add(rows)
            self.looked(files.count, False)
            if time.monotonic() - marked >= _SECONDS_A_MARK:
                self._mark(files, seen)
                marked = time.monotonic()

    def _mark(self, files: SketchFiles, seen: _Seen, *, is_whole: bool = False) -> None:
        files.sync(seen.state() | {"is_whole": is_whole}, is_durable=self.entries.can_resume)
        self.looked(files.count, True)

    def _compared(
        self, first: int
    ) -> Generator[tuple[SketchedRows, list[NumberedVerdict] | None], None, None]:
        """Yield the rows of the first reading from number `first` on, sketched, with the verdicts of other
        indexes on them, ``None`` where no other index is asked."""
        batches = self._sketched(first)
        if self.texts is not None and self.settings.keep != "first":  # any row may stay
            batches = self.texts.taking(batches, _documents)
        if self.others:
            how = self.others, self.config, self.query, self._fields
            yield from decided_by_others(*how, batches, self.settings.batch_size, first)
        else:
            yield from ((each, None) for each in batches)

    def _sketched(self, skipped: int) -> Iterator[SketchedRows]:
        parts = self._rows(self.entries, self.settings.batch_size, skipped)
        if self._threads == 1:
            return map(self._sketch, parts)
        parts = self._ahead(parts)
        return in_order(self._sketch, parts, self._threads - 1, READY_BATCHES, attrgetter("num_bytes"))

    def _sketch(self, rows: Rows) -> SketchedRows:
        sources = [source_of_row(self._fields, row) for row in rows] if self._fields else None
        return rows, sketch_rows(self._sketcher, rows, self.query.compares), sources

    def _outcome(self, files: SketchFiles, exact: ExactComparison | None) -> Outcome:
        plan, halves = self._plan, self._plan.halves
        present = [some for _, some in files.parts("present")]
        compared = np.concatenate([np.empty(0, dtype=np.uint8), *present]) & halves == halves
        for verdicts in files.others():
            compared[[number for number, verdict in verdicts if verdict is not None]] = False
        if plan.is_by_chance:
            plan = replace(plan, max_run=max(LONG_RUN, room_by_chance(files.count, plan.bits)))
        tables, order = ColumnTables(files, plan, self._scheme.plan, compared), self._order(files)
        assign = None if exact is None else partial(exact.assigned, order)
        sources = files.source_hashes if self._fields else None
        how = tables.copies(), _EDGE_BYTES, self.folder, assign, sources
        star = Star(plan, self.config.num_perm, order, *how)
        walk, reads_ahead = WalkPlan(plan, self._scheme, 1), self._threads > 1
        found = walk_range(walk, tables, 0, _EDGE_BYTES, folder=self.folder, reads_ahead=reads_ahead)
        return star.decided(found, files.sketches)

    def _order(self, files: SketchFiles) -> KeepOrder:
        path = os.path.join(self.folder, "order.sqlite")
        return order_of(self.settings.keep, files.count, path, files.ranks())


def _documents(batch: SketchedRows) -> Iterator[tuple[int, Any]]:
    return ((row.number, row.document) for row in batch[0])


def _kept_documents(decided: DecidedRows) -> Iterator[tuple[int, Any]]:
    rows, (verdicts, _) = decided
    pairs = zip(rows, verdicts, strict=True)
    return ((row.number, row.document) for row, verdict in pairs if verdict is None)


_ID_TYPES = {"s": "a text", "b": "bytes", "i": "a number"}
"""By their kinds; see `shown_key`."""


class _Seen:
    """What is known of each input once it was read; taken up from a mark."""

    def __init__(self, entries: Entries, mark: dict[str, Any] | None) -> None:
        self._rows = [0] * len(entries.names) if mark is None else list(mark["rows"])
        self.sources = 0 if mark is None else int(mark["sources"])
        self._id_type: str | None = None if mark is None else mark["id_type"]
        # Whether the rows so far are the first lines, with nothing else between or behind them.
        self._are_lines = [False] * len(entries.names) if mark is None else list(mark["are_lines"])
        if mark is None and isinstance(entries, PathEntries) and entries.are_here:
            self._are_lines = list(map(entries.inputs.has_lines, entries.inputs.paths))

    def add(self, rows: Rows) -> None:
        """Count the next rows of each input, and note whether they are its next lines."""
        at, numbers = 0, rows.rows
        for input_index, some in groupby(rows.input_indices):
            count, before = len(list(some)), self._rows[input_index]
            first, last = numbers[at], numbers[at + count - 1]
            self._are_lines[input_index] &= (first, last) == (before + 1, before + count)
            self._rows[input_index] += count
            at += count

    def require_id_type(self, rows: Rows) -> None:
        """Raise UnfitRowError for an id of another type than those before; the first one sets the type, and a
        row without one is passed over."""
        if not rows.paragraphs and {shown_key(key)[0] for key in rows.keys} == {self._id_type}:
            return
        for entry in rows:
            row = entry if entry.part is None else entry.part.whole
            origin, found = f"{row.name}:{row.row}", shown_key(row.key)[0]
            if row.key == origin or found == self._id_type:
                continue
            if self._id_type is not None:
                raise UnfitRowError(
                    origin,
                    f"expected {_ID_TYPES[self._id_type]} as the id, as in the rows before, found "
                    f"{row.key!r:.80}; an output of .jsonl takes ids of any type",
                )
            self._id_type = found

    @property
    def count(self) -> int:
        """Rows in all."""
        return sum(self._rows)

    def state(self) -> dict[str, Any]:
        """Return what a later process takes this up from, as JSON has it."""
        lines = {"rows": self._rows, "are_lines": self._are_lines}
        return lines | {"sources": self.sources, "id_type": self._id_type}

    def parts(self) -> list[PartRead]:
        """Return each input as one part with the number of its rows, and that of its lines only where each is
        a row."""
        read = enumerate(zip(self._rows, self._are_lines, strict=True))
        return [PartRead(InputPart(n, None), count * are_lines, count) for n, (count, are_lines) in read]


def input_changed(names: Iterable[str], total: int) -> InputError:
    """Return the error that the second reading finds another input than the first."""
    return InputError(
        ", ".join(names)[:200],
        (
            f"expected the {total:,} rows that were read at first, found the input changed; ",
            Argument("force", True),
            " begins anew",
        ),
    )


def plan_of_query(
    scheme: Scheme, query: BandQuery | FingerprintQuery, max_run: int, memory_bytes: int
) -> PairPlan:
    """Return the plan by which all pairs of an index are found that `query` finds of each document; more than
    `max_run` documents of one prefix are not compared all with all, and entries take `memory_bytes`.
    TypeError or ValueError: the index, or the memory, does not allow it."""
    call = "deduplicate"
    if isinstance(query, BandQuery):
        how = query.recall, query.exact, False
        plan = plan_pairs(scheme, query.threshold, "minhash", None, *how, "all", max_run, memory_bytes, call)
        return plan if query.max_distance is None else replace(plan, max_distance=query.max_distance)
    how = None, False, False
    return plan_pairs(
        scheme, DEFAULT_THRESHOLD, "simhash", query.max_distance, *how, "all", max_run, memory_bytes, call
    )
