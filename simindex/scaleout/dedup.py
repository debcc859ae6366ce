"""Deduplication by many workers: `simindex.corpus.deduplicate`, decided by ranges of sorted tables.

`Workers` says what the job asks of those who work; it does not know Ray. The calling process decides which
rows stay. Reading again, writing, the journal and the report are one machine's: so is the output, byte for
byte.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from simindex.corpus.dedup.deduplicate import Job
from simindex.corpus.dedup.entries import PathEntries
from simindex.corpus.dedup.journal import digest_of
from simindex.corpus.dedup.output_files import Sink
from simindex.corpus.dedup.rows import READ_AHEAD
from simindex.corpus.dedup.sorting.orders import KeepOrder, by_rank, newest_first
from simindex.corpus.dedup.sorting.second_pass import InputPart, PartRead, rows_of_parts
from simindex.corpus.dedup.sorting.star import Star
from simindex.corpus.dedup.sorting.verdict_file import Teller, write_told
from simindex.corpus.dedup.writer_loop import DecidedRows, Lines
from simindex.corpus.outputs.output import LinesOutput, temporary
from simindex.inputs.streams import without_packing
from simindex.pairs.plan import PairPlan, plan_pairs
from simindex.pairs.tables import Numbering
from simindex.pairs.walk_plan import Edges, WalkPlan, scheme_of_config
from simindex.parallel import ahead
from simindex.queries.scheme import Scheme
from simindex.queries.search import BandQuery
from simindex.scaleout.dedup_parts import Making, Wanted, Writing, counted, parts_of, size_for
from simindex.scaleout.errors import UnsupportedError
from simindex.tuning.curve import DEFAULT_THRESHOLD

Step = Callable[[str, int, int], object]
"""Is called as step(name, done, total)."""


class Workers(Protocol):
    """What a job asks. Answers are the same whichever worker gives them, and however often one died."""

    @property
    def parallel(self) -> int:
        """How many work at a time."""

    def count_lines(self, making: Making, parts: Sequence[InputPart]) -> list[int]:
        """Return how many lines each part has."""

    def make(self, making: Making, parts: Sequence[InputPart], step: Step) -> Numbering:
        """Make the partitions of all parts, and number their rows."""

    def ranks(self) -> Iterator[list[Any]]:
        """Yield what the rows are ordered by, a partition after the other."""

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies): rows that are stored as copies, by number; see `PinnedTables.copies`."""

    def walk(self, walk_plan: WalkPlan, step: Step) -> Iterator[Edges]:
        """Yield what all ranges of all tables have; some of it twice where a worker died."""

    def sketches(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (words, fingerprints) of ascending numbers."""

    def labels(self, numbers: np.ndarray) -> list[tuple[str, int]]:
        """Return what the partitions know of rows by ascending numbers (`corpus.dedup.entries.label_of`), and
        which halves of a sketch these have."""

    def drop(self) -> None:
        """Remove the partitions."""

    def can_write(self, making: Making, writing: Writing) -> bool:
        """Return whether everybody sees the output."""

    def lines(self, making: Making, writing: Writing, at: int, wanted: Iterator[Wanted]) -> Iterator[Lines]:
        """Write the lines of parts, and yield what is to be known of them, in order. Needs no partitions.

        Args:
            at: where those of the first part begin in the output.
        """

    def release(self) -> None:
        """Let those go who work."""


def no_step(name: str, done: int, total: int) -> None:
    """Take no note of progress."""


_ENTRIES_OF_A_RANGE = 16 << 20
"""Entries of all tables that a range has, about: a worker who dies costs some seconds. Two rows that are like
each other share some seven prefixes; the fewer ranges those are in, the less often sketches are asked for."""


class ScaledJob(Job):
    """A job with its arguments and those who work; see `deduplicate`.

    Args:
        sources, sink, threshold, arguments: of `Job`.
        nodes: given the digest of the job, returns who works for it.
        memory_bytes: of edges in memory, and of entries that a worker has in memory.
        max_run: documents of one prefix that are compared two by two.
        part_bytes: bytes of lines that a part of the input has.
        step: told how far each step is.
    """

    def __init__(
        self,
        sources: Any,
        sink: Sink | None,
        threshold: float,
        *,
        nodes: Callable[[str], Workers],
        memory_bytes: int,
        max_run: int,
        part_bytes: int,
        step: Step,
        **arguments: Any,
    ) -> None:
        self._make_workers, self._step = nodes, step
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
                "scaleout.deduplicate: expected files, which every worker can read; found an iterable or "
                "standard input"
            )

    def _described(self) -> dict[str, Any]:
        return super()._described() | {"part_bytes": self._part_bytes}

    @contextmanager
    def _decisions(
        self, folder: str, resumed: bool, others: list[str]
    ) -> Iterator[Iterator[DecidedRows | Lines]]:
        assert not others, "there are no indexes beside the input"
        path = os.path.join(folder, "told")
        workers = self._make_workers(self._digest())
        try:
            if not (resumed and os.path.exists(path)):
                self._decide(folder, path, workers)
            with open(path, "rb") as file:
                yield self._as_told(file, workers)
        finally:
            workers.release()

    # ---- the decision ----

    def _making(self) -> Making:
        assert isinstance(self._entries, PathEntries)
        entries, compares = self._entries, self._query.compares
        return Making(entries.inputs, self._config, compares, self._keep, entries.takes_bad_rows)

    def _decide(self, folder: str, path: str, workers: Workers) -> None:
        """Let the workers find what is alike, and write down what goes."""
        assert isinstance(self._entries, PathEntries)
        entries, making = self._entries, self._making()
        size = size_for(entries.inputs, self._part_bytes, workers.parallel)
        parts = parts_of(entries.inputs, size)
        lines = workers.count_lines(making, parts)
        parts = counted(parts, lines)
        numbering = workers.make(making, parts, self._step)
        read = list(map(PartRead, parts, lines, np.diff(numbering.offsets).tolist()))
        plan, scheme = self._plan()
        order = self._order(folder, workers, numbering.total)
        star = Star(plan, self._config.num_perm, order, workers.copies(), self._memory_bytes)
        each = numbering.total * len(plan.bits) // workers.parallel
        count = workers.parallel * max(2, -(-each // _ENTRIES_OF_A_RANGE))
        for found in workers.walk(
            WalkPlan(plan, scheme.tables, count, folds=False, puts_off=True), self._step
        ):
            if len(found.waiting):
                star.add_run(found.waiting, begins=found.begins)
            if len(found.pairs):
                star.add_pairs(found.pairs)
        has_bits = self._config.simhash is not None
        write_told(path, read, star.decided(workers.sketches), workers.labels, has_bits=has_bits)
        workers.drop()

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

    def _order(self, folder: str, workers: Workers, total: int) -> KeepOrder:
        if self._keep == "first":
            return KeepOrder(total)
        if self._keep == "newest":
            return newest_first(total)
        return by_rank(self._keep, os.path.join(folder, "order.sqlite"), workers.ranks(), total)

    def _digest(self) -> str:
        assert isinstance(self._entries, PathEntries)
        return digest_of(self._job | self._entries.digest())

    # ---- the output ----

    def _as_told(self, file: Any, workers: Workers) -> Iterator[DecidedRows | Lines]:
        """Yield the rows that are not done yet, with what was decided."""
        assert isinstance(self._entries, PathEntries)
        told = Teller(file, self._config.num_perm, self._plan()[0])
        keeps_lines = isinstance(self._output, LinesOutput) and self._output.keeps_lines
        by_lines = keeps_lines and self._mode != "annotate"
        are_cut = all(part.part.extent and part.lines == part.rows for part in told.read)
        if by_lines and are_cut and self._on_removed is None:
            with self._writing_by(workers) as writing:
                if writing is not None:
                    at = self._output.num_bytes
                    yield from workers.lines(self._making(), writing, at, self._wanted(told))
                    return
        parts = rows_of_parts(
            self._entries.inputs,
            told.read,
            self._batch_size,
            self.state.read,
            takes_bad_rows=self._entries.takes_bad_rows,
            by_lines=by_lines,
        )
        yield from told.of(parts if by_lines else ahead(parts, READ_AHEAD), self._entries.tell)

    @contextmanager
    def _writing_by(self, workers: Workers) -> Iterator[Writing | None]:
        """Give how those who work write, where the output is a file that all of them see."""
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
            can_write = workers.can_write(self._making(), writing)
        finally:
            os.remove(seen[0])
        yield writing if can_write else None

    def _wanted(self, told: Teller) -> Iterator[Wanted]:
        """Yield the parts that are not done yet."""
        behind, done = 0, self.state.read
        for part in told.read:
            first, behind = behind, behind + part.rows
            if behind > done:
                skipped = max(done - first, 0)
                yield Wanted(part, first, skipped, told.next_rows(first + skipped, behind))
        told.finish()
