"""`scaleout.deduplicate`: `simindex.corpus.deduplicate` by stages on all nodes of a Ray cluster.

Tasks find what is alike by ranges of sorted tables, the calling process decides which rows stay. Reading
again, writing, the journal and the report are one machine's: so is the output, byte for byte.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.checks import require_callable, require_int
from simindex.config import Config
from simindex.corpus.dedup.deduplicate import Job
from simindex.corpus.dedup.journal import digest_of
from simindex.corpus.dedup.orders import Keep
from simindex.corpus.dedup.output_files import Mode, Sink
from simindex.corpus.dedup.results import DedupReport, Removed
from simindex.corpus.dedup.rows import READ_AHEAD
from simindex.corpus.dedup.second_pass import rows_of_parts
from simindex.corpus.dedup.verdict_file import VerdictReader
from simindex.corpus.dedup.writer_loop import DecidedRows, Lines
from simindex.corpus.entries import PathEntries
from simindex.corpus.outputs.lines import LinesOutput
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.index import Index
from simindex.inputs import BadRowError
from simindex.pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES
from simindex.parallel import ahead
from simindex.queries.search import Method
from simindex.scaleout.dedup_stages import (
    Made,
    Stages,
    Wanted,
    compare_range,
    decide,
    lines_file,
    missing,
    sketch_part,
    wanted_parts,
    write_part,
)
from simindex.scaleout.errors import UnsupportedError
from simindex.scaleout.input_parts import PART_BYTES, parts_of
from simindex.scaleout.tasks import Tasks, tasks_on, whole_file

STAGES_OF = "simindex-dedup-"
"""Before the digest of a job, in the name of the folder of its stages."""

Step = Callable[[str, int, int], object]
"""Is called as step(name, done, total)."""


class ScaledJob(Job):
    """A job with its arguments; see `deduplicate`.

    Args:
        tasks: runs the stages.
        work: folder for that of the stages; ``None``: that of the journal.
        others: of `Job`, and of `deduplicate`.
    """

    removes_stages = True

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
        on_step: Step | None = None,
        **others: Any,
    ) -> None:
        self._tasks, self._work, self._part_bytes = tasks, work, part_bytes
        self._bounds = max_run, memory_bytes
        self._step: Step = on_step or (lambda *_: None)
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
        with self._tasks as tasks:
            stages = self.stages(folder, tasks)
            if not os.path.exists(stages.verdicts):
                self._decide(stages, tasks)
            shutil.rmtree(stages.sketches, ignore_errors=True)
            with open(stages.verdicts, "rb") as file:
                yield self._as_decided(file, stages, tasks)
        if self.removes_stages:
            shutil.rmtree(stages.folder, ignore_errors=True)

    def digest(self) -> str:
        """Return what identifies this job and its input."""
        return digest_of(self._job | self._entries.digest())

    def stages(self, folder: str, tasks: Tasks | None) -> Stages:
        """Return the stages of this job.

        Args:
            folder: for them, where the job has no other.
            tasks: cut the input into parts; ``None``: that was done before.

        Raises:
            JobError: it was not, or the input was another one then.
        """
        assert isinstance(self._entries, PathEntries)
        inputs, bad = self._entries.inputs, self._entries.takes_bad_rows
        home = os.path.abspath(self._work or folder)
        own = os.path.join(home, STAGES_OF + self.digest())
        stages = Stages(own, inputs, self._config, self._query, self._keep, bad, *self._bounds)
        path = os.path.join(own, "parts")
        if not os.path.exists(path):
            if tasks is None:
                raise missing("a plan for the inputs as they are now", "plan", home)
            cut = parts_of(inputs, self._part_bytes, tasks.parallel, tasks.run)
            os.makedirs(stages.sketches, exist_ok=True)
            with whole_file(path) as file:
                pickle.dump((tasks.parallel, *cut), file)
        with open(path, "rb") as file:
            parallel, parts, lines = pickle.load(file)
        return stages._replace(parallel=parallel, parts=parts, lines=lines)

    def _decide(self, stages: Stages, tasks: Tasks) -> None:
        """Let tasks find what is alike, and write down what goes."""
        total = len(stages.parts)
        for done, _ in enumerate(tasks.run(sketch_part, stages, range(total)), 1):
            self._step("parts", done, total)
        with stages.opened() as tables:
            count = stages.num_ranges(tables)

            def walked() -> Iterator[int]:
                for place, _ in enumerate(tasks.run(compare_range, stages, range(count))):
                    yield place
                    self._step("ranges", place + 1, count)

            decide(stages, tables, walked())

    # ---- the output ----

    def _as_decided(self, file: Any, stages: Stages, tasks: Tasks) -> Iterator[DecidedRows | Lines]:
        """Yield the rows that are not done yet, with what was decided."""
        assert isinstance(self._entries, PathEntries)
        verdicts = VerdictReader(file, self._config.num_perm, stages.plan)
        by_lines = self._keeps_lines and self._mode != "annotate"
        if self.writes_by_parts(verdicts):
            yield from self._lines_made(verdicts, stages, tasks)
            return
        parts = rows_of_parts(
            stages.inputs,
            verdicts.read,
            self._batch_size,
            self.state.read,
            takes_bad_rows=stages.takes_bad_rows,
            by_lines=by_lines,
        )
        yield from verdicts.decided_rows(
            parts if by_lines else ahead(parts, READ_AHEAD), self._entries.take_bad
        )

    @property
    def _keeps_lines(self) -> bool:
        return isinstance(self._output, LinesOutput) and self._output.keeps_lines

    def writes_by_parts(self, verdicts: VerdictReader) -> bool:
        """Return whether the output is the lines of the input, part by part, without those that go."""
        are_cut = all(part.part.extent and part.lines == part.rows for part in verdicts.read)
        return self._keeps_lines and self._mode != "annotate" and are_cut and self._on_removed is None

    def _lines_made(self, verdicts: VerdictReader, stages: Stages, tasks: Tasks) -> Iterator[Lines]:
        """Yield the lines of the parts that are not done yet, which tasks make."""
        done, under_way = self.state.read, deque[Wanted]()

        def wanted() -> Iterator[Wanted]:
            for one in wanted_parts(verdicts, done):
                under_way.append(one)
                yield one

        for _ in tasks.run(write_part, stages, wanted()):
            one = under_way.popleft()
            skipped = max(done - one.first, 0)
            with open(lines_file(stages, one), "rb") as file:
                made = Made(*pickle.load(file))
                kept, reported = (
                    int(made.sizes[:skipped][some[:skipped]].sum()) for some in (made.stays, ~made.stays)
                )
                file.seek(kept, os.SEEK_CUR)
                report, bounded = memoryview(made.report)[reported:], np.array(made.bounded)
                num_bounded = int((bounded >= skipped).sum())
                yield Lines(file, made.sizes[skipped:], made.stays[skipped:], report, num_bounded)
            os.remove(lines_file(stages, one))


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
