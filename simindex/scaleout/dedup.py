"""`scaleout.deduplicate`: `simindex.corpus.deduplicate` by stages on all nodes of a Ray cluster.

Tasks find what is alike by ranges of sorted tables, the calling process decides which rows stay. Reading
again, writing, the journal and the report are one machine's: so is the output, byte for byte.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from typing import Any

import numpy as np
import xxhash

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.checks import require_callable, require_int
from simindex.config import Config
from simindex.corpus.dedup.deduplicate import Job
from simindex.corpus.dedup.journal import digest_of
from simindex.corpus.dedup.orders import Keep, KeepOrder, by_rank, newest_first
from simindex.corpus.dedup.output_files import Mode, Sink
from simindex.corpus.dedup.results import DedupReport, Removed
from simindex.corpus.dedup.rows import READ_AHEAD
from simindex.corpus.dedup.second_pass import PartRead, rows_of_parts
from simindex.corpus.dedup.star import Star
from simindex.corpus.dedup.verdict_file import VerdictReader, write_verdicts
from simindex.corpus.dedup.writer_loop import DecidedRows, Lines
from simindex.corpus.entries import PathEntries
from simindex.corpus.outputs.output import LinesOutput
from simindex.index import Index
from simindex.inputs import BadRowError
from simindex.pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES, PairPlan, plan_pairs
from simindex.pairs.tables import LocalSource, Numbering
from simindex.pairs.walk_plan import WalkPlan, scheme_of_config
from simindex.parallel import ahead
from simindex.queries.scheme import Scheme
from simindex.queries.search import BandQuery, Method
from simindex.scaleout.dedup_stages import (
    Comparing,
    Sketching,
    SketchTables,
    Wanted,
    Writing,
    compare_range,
    sketch_part,
    write_part,
)
from simindex.scaleout.errors import UnsupportedError
from simindex.scaleout.input_parts import PART_BYTES, parts_of
from simindex.scaleout.tasks import Tasks, edges_of, tasks_on
from simindex.tuning.curve import DEFAULT_THRESHOLD

_ENTRIES_OF_A_RANGE = 16 << 20
"""Entries of all tables that a range has, about: to do one again costs some seconds. Two rows that are like
each other share some seven prefixes; the fewer ranges those are in, the less often sketches are read."""

_BOOT_FILE = "/proc/sys/kernel/random/boot_id"

Step = Callable[[str, int, int], object]
"""Is called as step(name, done, total)."""


class ScaledJob(Job):
    """A job with its arguments; see `deduplicate`.

    Args:
        tasks: runs the stages.
        others: of `Job`, and of `deduplicate`.
    """

    def __init__(
        self,
        sources: Any,
        sink: Sink | None,
        threshold: float,
        *,
        tasks: AbstractContextManager[Tasks],
        work: str | os.PathLike[str] | None,
        memory_bytes: int,
        max_run: int,
        part_bytes: int,
        on_step: Step | None,
        **others: Any,
    ) -> None:
        self._tasks, self._work, self._part_bytes = tasks, work, part_bytes
        self._memory_bytes, self._max_run = memory_bytes, max_run
        self._step: Step = on_step or (lambda *_: None)
        others |= {"against": None, "into": None, "cut": None, "explain": False, "exact": False}
        super().__init__(sources, sink, threshold, workers=1, **others)
        if not isinstance(self._entries, PathEntries) or not self._entries.can_repeat:
            raise UnsupportedError(
                "scaleout.deduplicate: expected files, which every node can read; found an iterable or "
                "standard input"
            )

    def _described(self) -> dict[str, Any]:
        return super()._described() | {"part_bytes": self._part_bytes}

    @contextmanager
    def _decisions(self, folder: str, into: Index | None) -> Iterator[Iterator[DecidedRows | Lines]]:
        assert into is None
        assert isinstance(self._entries, PathEntries)
        path = os.path.join(folder, "verdicts")
        digest = digest_of(self._job | self._entries.digest())
        home = os.path.join(os.path.abspath(self._work or folder), f"simindex-dedup-{digest}")
        with self._tasks as tasks:
            if not os.path.exists(path):
                self._decide(folder, path, home, tasks)
            with open(path, "rb") as file:
                yield self._as_decided(file, home, tasks)
        shutil.rmtree(home, ignore_errors=True)

    # ---- the decision ----

    def _decide(self, folder: str, path: str, home: str, tasks: Tasks) -> None:
        """Let tasks find what is alike, and write down what goes."""
        assert isinstance(self._entries, PathEntries)
        entries = self._entries
        parts, lines = parts_of(entries.inputs, self._part_bytes, tasks.parallel, tasks.run)
        # How the input is cut says what its partitions hold.
        cuts = repr([(part.place, *(part.extent or ())[:2]) for part in parts])
        below = os.path.join(home, xxhash.xxh3_64_hexdigest(f"{_this_boot()} {cuts}".encode()))
        os.makedirs(below, exist_ok=True)
        compares, takes_bad = self._query.compares, entries.takes_bad_rows
        sketching = Sketching(below, entries.inputs, self._config, compares, self._keep, takes_bad)
        for done, _ in enumerate(tasks.run(sketch_part, sketching, enumerate(parts)), 1):
            self._step("parts", done, len(parts))
        tables = [sketching.partition(number) for number in range(len(parts))]
        numbering = Numbering([each.total for each in tables])
        source, total = LocalSource(dict(enumerate(tables)), numbering), numbering.total
        plan, scheme = self._plan()
        order = self._order(folder, tables, total)
        star = Star(plan, self._config.num_perm, order, source.copies(), self._memory_bytes)
        each = total * len(plan.bits) // tasks.parallel
        count = tasks.parallel * max(2, -(-each // _ENTRIES_OF_A_RANGE))
        walk = WalkPlan(plan, scheme.tables, count, folds=False, puts_off=True)
        comparing = Comparing(sketching, numbering, walk)
        for place, _ in enumerate(tasks.run(compare_range, comparing, range(count))):
            for found in edges_of(comparing.path(place)):
                if len(found.waiting):
                    star.add_run(found.waiting, begins=found.begins)
                if len(found.pairs):
                    star.add_pairs(found.pairs)
            self._step("ranges", place + 1, count)

        def labels(numbers: np.ndarray) -> list[tuple[str, int]]:
            ranks = numbering.parts(numbers)
            return [label for part, _, some in ranks for label in tables[part].labels(some)]

        has_bits = self._config.simhash is not None
        read = list(map(PartRead, parts, lines, np.diff(numbering.offsets).tolist()))
        write_verdicts(path, read, star.decided(source.sketches), labels, has_bits=has_bits)
        for part in tables:
            part.close()
        shutil.rmtree(home, ignore_errors=True)

    def _plan(self) -> tuple[PairPlan, Scheme]:
        scheme, query = scheme_of_config(self._config), self._query
        sizes = False, False, "all", self._max_run, self._memory_bytes, "deduplicate"
        if isinstance(query, BandQuery):
            return plan_pairs(scheme, query.threshold, "minhash", None, query.recall, *sizes), scheme  # type: ignore[arg-type]
        by_bits = "simhash", query.max_distance, None
        return plan_pairs(scheme, DEFAULT_THRESHOLD, *by_bits, *sizes), scheme  # type: ignore[arg-type]

    def _order(self, folder: str, tables: list[SketchTables], total: int) -> KeepOrder:
        if self._keep == "first":
            return KeepOrder(total)
        if self._keep == "newest":
            return newest_first(total)
        ranks = chain.from_iterable(part.files.ranks() for part in tables)
        return by_rank(self._keep, os.path.join(folder, "order.sqlite"), ranks, total)

    # ---- the output ----

    def _as_decided(self, file: Any, home: str, tasks: Tasks) -> Iterator[DecidedRows | Lines]:
        """Yield the rows that are not done yet, with what was decided."""
        assert isinstance(self._entries, PathEntries)
        inputs, bad = self._entries.inputs, self._entries.takes_bad_rows
        verdicts = VerdictReader(file, self._config.num_perm, self._plan()[0])
        keeps_lines = isinstance(self._output, LinesOutput) and self._output.keeps_lines
        by_lines = keeps_lines and self._mode != "annotate"
        are_cut = all(part.part.extent and part.lines == part.rows for part in verdicts.read)
        if by_lines and are_cut and self._on_removed is None:
            yield from self._lines_made(verdicts, home, tasks)
            return
        parts = rows_of_parts(
            inputs, verdicts.read, self._batch_size, self.state.read, takes_bad_rows=bad, by_lines=by_lines
        )
        yield from verdicts.decided_rows(
            parts if by_lines else ahead(parts, READ_AHEAD), self._entries.take_bad
        )

    def _lines_made(self, verdicts: VerdictReader, home: str, tasks: Tasks) -> Iterator[Lines]:
        """Yield the lines of the parts that are not done yet, which tasks make."""
        assert isinstance(self._entries, PathEntries)
        entries, done, under_way = self._entries, self.state.read, deque[Wanted]()
        os.makedirs(home, exist_ok=True)

        def wanted() -> Iterator[Wanted]:
            behind = 0
            for part in verdicts.read:
                first, behind = behind, behind + part.rows
                if behind > done:
                    under_way.append(Wanted(part, first, verdicts.next_rows(first, behind)))
                    yield under_way[-1]
            verdicts.finish()

        writing = Writing(home, entries.inputs, entries.names, self._config.num_perm, self._plan()[0])
        for made in tasks.run(write_part, writing, wanted()):
            part, first, rows = under_way.popleft()
            skipped = max(done - first, 0)
            stays = np.ones(part.rows, dtype=bool)
            stays[[place for place, _ in rows.removed]] = False
            kept, reported = (int(made.sizes[:skipped][some[:skipped]].sum()) for some in (stays, ~stays))
            bounded = sum(place >= skipped for place in rows.bounded)
            with open(made.path, "rb") as file:
                file.seek(kept)
                report = memoryview(made.report)[reported:]
                yield Lines(file, made.sizes[skipped:], stays[skipped:], report, bounded)
            os.remove(made.path)


def _this_boot() -> str:
    """Return an id of this run of the system: what was written, not synced, is whole in it."""
    with suppress(OSError), open(_BOOT_FILE, encoding="ascii") as file:
        return file.read().strip()
    return f"process-{os.getpid()}-{time.time_ns()}"


def deduplicate(
    sources: Any,
    sink: Sink | None,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    keep: Keep = "first",
    mode: Mode = "remove",
    recall: float | None = None,
    by: Method | None = None,
    max_distance: int | None = None,
    config: Config | None = None,
    removed: str | os.PathLike[str] | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    max_run: int = DEFAULT_MAX_RUN,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    part_bytes: int = PART_BYTES,
    work: str | os.PathLike[str] | None = None,
    progress: Callable[[int], object] | None = None,
    on_step: Step | None = None,
    on_removed: Callable[[Removed], object] | None = None,
    on_bad_row: Callable[[BadRowError], object] | None = None,
    journal: str | os.PathLike[str] | None = None,
    force: bool = False,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> DedupReport:
    """Write a corpus without its near duplicates, found by all nodes of a Ray cluster.

    The output is what `simindex.corpus.deduplicate` writes, byte for byte, and so is the report of removed
    rows, but where a limit on candidates was hit there or here (`DedupReport.bounded`). The sketches of
    each part of the input are sorted in a folder that all nodes see; ranges of band words are compared
    by tasks; the calling process decides who stays. The input is read once more then; where rows stay as the
    lines of JSON that they were, tasks make the lines of each part, and the calling process joins them.

    What dies is done again by Ray, a part or range. The calling process itself goes on as on one machine
    when it is called again: by the journal beside the output, and what is in the folder.

    Args:
        sources: paths of files that every node can read, as in `simindex.corpus.deduplicate`.
        sink, threshold, keep, mode, recall, by, max_distance, config, removed, batch_size: as there.
        journal, force, on_removed: as there.
        progress, on_bad_row: as there; `progress` is called while the output is written. With `on_bad_row`
            a bad row is passed over; it is reported in the second reading.
        max_run: documents of one prefix that tasks compare two by two; those of longer runs are compared by
            the calling process with what stays, as on one machine: slower, and the same result.
        memory_bytes: of buffers of each task, and of edges in the calling process, which has 4 bytes a row
            beside (12 with another order than "first" or "newest"), and 8 a row that is stored as a copy.
        part_bytes: bytes of lines that are one part; other files than plain .jsonl are a part each.
        work: folder that all nodes see, for what is worked with, some hundred bytes a row; default: that of
            the journal. What is made in it is removed at the end.
        on_step: called as ``on_step(name, done, total)`` with parts and ranges that are done.
        address, ray: of Ray; see `simindex.scaleout.open`.

    Returns:
        DedupReport(read, kept, removed, bounded, seconds, missed).

    Raises:
        UnsupportedError: an iterable or standard input.
        MissingPackageError: Ray is not installed.
        JobError, InputError, BadRowError, OSError: as `simindex.corpus.deduplicate`; an input that cannot be
            read ends the job before anything is written.
        ScaleOutError: nodes are gone and none took over.
    """
    given = locals()
    require_callable("on_step", on_step)
    require_int("part_bytes", part_bytes, 1)
    return ScaledJob(tasks=tasks_on(given.pop("address"), given.pop("ray")), **given).run()
