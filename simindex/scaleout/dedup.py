"""`scaleout.deduplicate`: `simindex.corpus.deduplicate` by stages on all nodes of a Ray cluster.

Tasks find what is alike by ranges of sorted tables, the calling process decides which rows stay. Reading
again, writing, the journal and the report are one machine's: so is the output, byte for byte.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

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
from simindex.corpus.outputs.output import LinesOutput, temporary
from simindex.index import Index
from simindex.inputs import BadRowError
from simindex.inputs.streams import without_packing
from simindex.pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES, PairPlan, plan_pairs
from simindex.pairs.walk_plan import WalkPlan, scheme_of_config
from simindex.parallel import ahead
from simindex.queries.scheme import Scheme
from simindex.queries.search import BandQuery, Method
from simindex.scaleout.actors import ray_module, start
from simindex.scaleout.dedup_parts import Making, Wanted, Writing
from simindex.scaleout.dedup_stages import Stages, Step, no_step
from simindex.scaleout.errors import UnsupportedError
from simindex.scaleout.input_parts import PART_BYTES, parts_of
from simindex.scaleout.tasks import RayTasks, Tasks
from simindex.tuning.curve import DEFAULT_THRESHOLD

_ENTRIES_OF_A_RANGE = 16 << 20
"""Entries of all tables that a range has, about: to do one again costs some seconds. Two rows that are like
each other share some seven prefixes; the fewer ranges those are in, the less often sketches are read."""


class ScaledJob(Job):
    """A job with its arguments and those who work; see `deduplicate`.

    Args:
        sources, sink, threshold, arguments: of `Job`.
        tasks: returns what runs the stages.
        work: folder for what is worked with; ``None``: that of the journal.
        memory_bytes: of edges in memory, and of entries that a task has in memory.
        max_run: documents of one prefix that are compared two by two.
        part_bytes: bytes of lines that a part of the input has.
        step: called with the progress of each step.
    """

    def __init__(
        self,
        sources: Any,
        sink: Sink | None,
        threshold: float,
        *,
        tasks: Callable[[], Tasks],
        work: str | None,
        memory_bytes: int,
        max_run: int,
        part_bytes: int,
        step: Step,
        **arguments: Any,
    ) -> None:
        self._tasks, self._work, self._step = tasks, work, step
        self._memory_bytes, self._max_run, self._part_bytes = memory_bytes, max_run, part_bytes
        others: dict[str, Any] = {
            "against": None,
            "into": None,
            "cut": None,
            "explain": False,
            "exact": False,
        }
        super().__init__(sources, sink, threshold, workers=1, **(others | arguments))
        if not isinstance(self._entries, PathEntries) or not self._entries.can_repeat:
            raise UnsupportedError(
                "scaleout.deduplicate: expected files, which every node can read; found an iterable or "
                "standard input"
            )

    def _described(self) -> dict[str, Any]:
        return super()._described() | {"part_bytes": self._part_bytes}

    @contextmanager
    def _decisions(self, folder: str, into: Index | None) -> Iterator[Iterator[DecidedRows | Lines]]:
        assert into is None, "there are no indexes beside the input"
        path = os.path.join(folder, "verdicts")
        name = f"simindex-dedup-{self._digest()}"
        stages = Stages(os.path.join(self._work or folder, name), self._tasks())
        if not os.path.exists(path):
            self._decide(folder, path, stages)
        with open(path, "rb") as file:
            yield self._as_decided(file, stages)

    # ---- the decision ----

    def _making(self) -> Making:
        assert isinstance(self._entries, PathEntries)
        entries, compares = self._entries, self._query.compares
        return Making(entries.inputs, self._config, compares, self._keep, entries.takes_bad_rows)

    def _decide(self, folder: str, path: str, stages: Stages) -> None:
        """Let tasks find what is alike, and write down what goes."""
        assert isinstance(self._entries, PathEntries)
        entries, making = self._entries, self._making()
        parallel, run = stages.tasks.parallel, stages.tasks.run
        parts, lines = parts_of(entries.inputs, self._part_bytes, parallel, run)
        numbering = stages.make(making, parts, self._step)
        read = list(map(PartRead, parts, lines, np.diff(numbering.offsets).tolist()))
        plan, scheme = self._plan()
        order = self._order(folder, stages, numbering.total)
        star = Star(plan, self._config.num_perm, order, stages.copies(), self._memory_bytes)
        each = numbering.total * len(plan.bits) // parallel
        count = parallel * max(2, -(-each // _ENTRIES_OF_A_RANGE))
        for found in stages.walk(
            WalkPlan(plan, scheme.tables, count, folds=False, puts_off=True), self._step
        ):
            if len(found.waiting):
                star.add_run(found.waiting, begins=found.begins)
            if len(found.pairs):
                star.add_pairs(found.pairs)
        has_bits = self._config.simhash is not None
        write_verdicts(path, read, star.decided(stages.sketches), stages.labels, has_bits=has_bits)
        stages.drop()

    def _plan(self) -> tuple[PairPlan, Scheme]:
        config, query = self._config, self._query
        scheme = scheme_of_config(config)
        by_rows = isinstance(query, BandQuery)
        threshold = query.threshold if isinstance(query, BandQuery) else DEFAULT_THRESHOLD
        method: Any = "minhash" if by_rows else "simhash"
        distance = None if isinstance(query, BandQuery) else query.max_distance
        recall = query.recall if isinstance(query, BandQuery) else None
        figures = method, distance, recall, False, False, "all", self._max_run, self._memory_bytes
        return plan_pairs(scheme, threshold, *figures, "deduplicate"), scheme  # type: ignore[arg-type]

    def _order(self, folder: str, stages: Stages, total: int) -> KeepOrder:
        if self._keep == "first":
            return KeepOrder(total)
        if self._keep == "newest":
            return newest_first(total)
        return by_rank(self._keep, os.path.join(folder, "order.sqlite"), stages.ranks(), total)

    def _digest(self) -> str:
        assert isinstance(self._entries, PathEntries)
        return digest_of(self._job | self._entries.digest())

    # ---- the output ----

    def _as_decided(self, file: Any, stages: Stages) -> Iterator[DecidedRows | Lines]:
        """Yield the rows that are not done yet, with what was decided."""
        assert isinstance(self._entries, PathEntries)
        verdicts = VerdictReader(file, self._config.num_perm, self._plan()[0])
        keeps_lines = isinstance(self._output, LinesOutput) and self._output.keeps_lines
        by_lines = keeps_lines and self._mode != "annotate"
        are_cut = all(part.part.extent and part.lines == part.rows for part in verdicts.read)
        if by_lines and are_cut and self._on_removed is None:
            with self._writing_by() as writing:
                if writing is not None:
                    at = self._output.num_bytes
                    yield from stages.lines(writing, at, self._wanted(verdicts))
                    return
        parts = rows_of_parts(
            self._entries.inputs,
            verdicts.read,
            self._batch_size,
            self.state.read,
            takes_bad_rows=self._entries.takes_bad_rows,
            by_lines=by_lines,
        )
        yield from verdicts.decided_rows(
            parts if by_lines else ahead(parts, READ_AHEAD), self._entries.take_bad
        )

    @contextmanager
    def _writing_by(self) -> Iterator[Writing | None]:
        """Give how tasks write, where the output is a file that is not packed."""
        assert isinstance(self._entries, PathEntries)
        assert isinstance(self._output, LinesOutput)
        path = os.path.abspath(temporary(self._output.path))
        seen = f"{path}.seen", secrets.token_hex()
        writing = Writing(
            self._entries.inputs,
            self._entries.names,
            self._config.num_perm,
            self._plan()[0],
            path,
            seen,
        )
        if without_packing(self._output.path.lower()) != self._output.path.lower():
            yield None
            return
        try:
            with open(seen[0], "w", encoding="ascii") as file:
                file.write(seen[1])
            yield writing
        finally:
            os.remove(seen[0])

    def _wanted(self, verdicts: VerdictReader) -> Iterator[Wanted]:
        """Yield the parts that are not done yet."""
        behind, done = 0, self.state.read
        for part in verdicts.read:
            first, behind = behind, behind + part.rows
            if behind > done:
                skipped = max(done - first, 0)
                yield Wanted(part, first, skipped, verdicts.next_rows(first + skipped, behind))
        verdicts.finish()


_ON_ONE_MACHINE = {"against": None, "into": None, "level": "document", "explain": False, "exact": False}
"""What one machine keeps and many do not -> its usual value."""

_OF_THE_JOB = (
    *("keep", "mode", "recall", "by", "max_distance", "config", "removed", "batch_size", "progress"),
    *("on_removed", "on_bad_row", "journal", "force", "memory_bytes", "max_run", "part_bytes"),
)
"""Arguments that are handed on as they are."""


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
    **others: Any,
) -> DedupReport:
    """Write a corpus without its near duplicates, found by all nodes of a Ray cluster.

    The output is what `simindex.corpus.deduplicate` writes, byte for byte, and so is the report of removed
    rows, but where a limit on candidates was hit there or here (`DedupReport.bounded`). The sketches of
    each part of the input are sorted in a folder that all nodes see; ranges of band words are compared
    by tasks; the calling process decides who stays. The input is read once more then, and written by
    the nodes where they see the output, a file of JSON lines that is not packed; by the calling process else.

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
        others: `against`, `into`, `level`, `explain` and `exact` are refused, for one machine alone keeps
            them.

    Returns:
        DedupReport(read, kept, removed, bounded, seconds, missed).

    Raises:
        UnsupportedError: an option that one machine alone keeps; an iterable or standard input.
        MissingPackageError: Ray is not installed.
        JobError, InputError, BadRowError, OSError: as `simindex.corpus.deduplicate`; an input that cannot be
            read ends the job before anything is written.
        ScaleOutError: nodes are gone and none took over.
    """
    given = locals()
    for name, value in others.items():
        if name not in _ON_ONE_MACHINE:
            raise TypeError(f"deduplicate() got an unexpected keyword argument {name!r}")
        if value != _ON_ONE_MACHINE[name]:
            raise UnsupportedError(
                f"scaleout.deduplicate: expected a job without {name}=, which many machines do not keep; "
                "simindex.corpus.deduplicate does, on one"
            )
    require_callable("on_step", on_step)
    require_int("part_bytes", part_bytes, 1)
    started = list[bool]()

    def tasks() -> Tasks:
        started.append(start(address, ray))
        return RayTasks()

    job = ScaledJob(
        sources,
        sink,
        threshold,
        tasks=tasks,
        work=None if work is None else os.fspath(work),
        step=on_step or no_step,
        **{name: given[name] for name in _OF_THE_JOB},
    )
    try:
        return job.run()
    finally:
        if any(started):
            ray_module().shutdown()
