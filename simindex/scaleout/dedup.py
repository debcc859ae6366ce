"""Deduplication by stages over a folder that all see: run by Ray at once, or one by one by any processes.

Stages find what is alike by ranges of sorted tables, and one process decides which rows stay. Reading again,
writing, the journal and the report are one machine's: so is the output, byte for byte.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import islice
from typing import Any

import numpy as np

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.checks import require_callable, require_int
from simindex.config import Config
from simindex.corpus.dedup.deduplicate import Job
from simindex.corpus.dedup.journal import JobError, digest_of
from simindex.corpus.dedup.orders import Keep
from simindex.corpus.dedup.output_files import Mode, Sink
from simindex.corpus.dedup.results import DedupReport, Removed
from simindex.corpus.dedup.rows import READ_AHEAD, rows_of_parts
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

_STAGES_OF = "simindex-dedup-"
"""Before the digest of a job, in the name of the folder of its stages."""

_PLAN_FORMAT = 1

DEFAULT_PARALLEL = 16

Step = Callable[[str, int, int], object]
"""Is called as step(name, done, total)."""


class _StagedJob(Job):
    """A job with its arguments; see `deduplicate`.

    Args:
        tasks: runs the stages.
        work: folder for that of the stages; ``None``: that of the journal.
        keeps_stages: whether the folder of the stages stays at the end.
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
        on_step: Step | None = None,
        keeps_stages: bool = False,
        **others: Any,
    ) -> None:
        require_int("part_bytes", part_bytes, 1)
        self._tasks, self._work, self._part_bytes = tasks, work, part_bytes
        self._bounds, self._keeps_stages = (max_run, memory_bytes), keeps_stages
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
        if not self._keeps_stages:
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
        own = os.path.join(home, _STAGES_OF + self.digest())
        stages = Stages(own, inputs, self._config, self._query, self._keep, bad, *self._bounds)
        path = os.path.join(own, "parts")
        if not os.path.exists(path):
            if tasks is None:
                raise missing("a plan for the inputs as they are now", "plan", home)
            cut = parts_of(inputs, self._part_bytes, tasks)
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
        verdicts = VerdictReader(file)
        if self.writes_by_parts(verdicts):
            yield from self._lines_made(verdicts, stages, tasks)
            return
        by_lines = self._copies_lines
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
    def _copies_lines(self) -> bool:
        return isinstance(self._output, LinesOutput) and self._output.keeps_lines and self._mode != "annotate"

    def writes_by_parts(self, verdicts: VerdictReader) -> bool:
        """Return whether the output is the lines of the input, part by part, without those that go."""
        are_cut = all(part.part.extent and part.lines == part.rows for part in verdicts.read)
        return self._copies_lines and are_cut and self._on_removed is None

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
    rows, but where a limit on candidates was hit there or here (`DedupReport.bounded`). Tasks run the stages
    of `StagedDedup`; what dies is done again by Ray, a part or range. The calling process itself goes on as
    on one machine when it is called again: by the journal beside the output, and what is in the folder.

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

    Raises:
        UnsupportedError: an iterable or standard input.
        MissingPackageError: Ray is not installed.
        JobError, InputError, BadRowError, OSError: as `simindex.corpus.deduplicate`; an input that cannot be
            read ends the job before anything is written.
        ScaleOutError: nodes are gone and none took over.
    """
    given = locals()
    require_callable("on_step", on_step)
    return _StagedJob(tasks=tasks_on(given.pop("address"), given.pop("ray")), **given).run()


class StagedDedup:
    """A deduplication that `plan_dedup` has planned in a folder.

    The stages, in their order: `sketch`, `compare`, `decide`, `write`, `finish`. A stage begins when all of
    the one before it is done, on the machine or machines that run it. `sketch`, `compare` and `write` are
    shared out: of so many processes each does its share, none waits for another, and what is there already
    is not done again; so whatever died is run once more with the same arguments. All have to see the inputs,
    the folder and the output under the same paths, and to have the same version of simindex. Files in the
    folder are pickles: nobody else is to write there.

    Args:
        work: the folder.

    Attributes:
        digest: of the job, its arguments and inputs.

    Raises:
        JobError: nothing is planned there, or by another version of simindex.

    >>> import json, os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> rows, clean, work = (os.path.join(folder.name, name) for name in ("a.jsonl", "clean.jsonl", "work"))
    >>> texts = ["the same words twice", "The same words twice!", "quite other words"]
    >>> with open(rows, "w") as file:
    ...     file.writelines(json.dumps({"id": id, "text": text}) + chr(10) for id, text in enumerate(texts))
    >>> job = plan_dedup(rows, clean, work=work)
    >>> job.sketch(1, 2) + job.sketch(2, 2), job.compare() > 0, job.decide(), job.write()
    (1, True, 1, 1)
    >>> job.finish().removed
    1
    >>> folder.cleanup()
    """

    def __init__(self, work: str | os.PathLike[str]) -> None:
        self.work = os.fspath(work)
        try:
            with open(os.path.join(self.work, "plan"), "rb") as file:
                if (found := pickle.load(file)) != _PLAN_FORMAT:
                    raise JobError(f"{self.work}: expected a plan of this version, found one of {found!r}")
                self.digest, self._arguments = pickle.load(file)
        except FileNotFoundError:
            raise missing("a plan", "plan", self.work) from None

    def sketch(self, share: int = 1, of: int = 1) -> int:
        """Sketch the parts of a share, `share` of 1..`of`, that are not sketched, and sort their tables;
        returns how many parts the share has.

        Raises:
            InputError, BadRowError: as of `simindex.corpus.deduplicate`.
        """
        stages = self._undecided()
        return 0 if stages is None else _shared(sketch_part, stages, range(len(stages.parts)), share, of)

    def compare(self, share: int = 1, of: int = 1) -> int:
        """Compare the ranges of a share; arguments and result as of `sketch`.

        Raises:
            JobError: a part is not sketched.
        """
        stages = self._undecided()
        if stages is None:
            return 0
        with stages.opened() as tables:
            count = stages.num_ranges(tables)
        return _shared(compare_range, stages, range(count), share, of)

    def decide(self) -> int:
        """Decide which rows go, in this process; returns 1, or 0 where it was decided.

        Raises:
            JobError: a range is not compared.
        """
        stages = self._undecided()
        if stages is None:
            return 0
        with stages.opened() as tables:
            decide(stages, tables, range(stages.num_ranges(tables)))
        return 1

    def write(self, share: int = 1, of: int = 1) -> int:
        """Write the lines of a share's parts, where rows stay as the lines of JSON that they were; other
        outputs are written by `finish` alone. Arguments and result as of `sketch`.

        Raises:
            JobError: nothing is decided.
            InputError: the input has changed.
        """
        if self.is_done:
            return 0
        job, stages = self._decided()
        with open(stages.verdicts, "rb") as file:
            verdicts = VerdictReader(file)
            wanted = wanted_parts(verdicts) if job.writes_by_parts(verdicts) else ()
            return _shared(write_part, stages, wanted, share, of)

    def finish(
        self,
        progress: Callable[[int], object] | None = None,
        on_bad_row: Callable[[BadRowError], object] | None = None,
    ) -> DedupReport:
        """Write the output and the report of removed rows, from what the stages have left; killed, it goes on
        when it is called again.

        Args:
            progress: called with the number of rows that are done.
            on_bad_row: called with each row that is none, where these are skipped.

        Raises:
            JobError: nothing is decided, or the inputs have changed since they were planned.
            OSError: as of `simindex.corpus.deduplicate`.
        """
        job = self._job(progress, on_bad_row)
        if not self.is_done:
            self._decided(job)
        report = job.run()
        with whole_file(os.path.join(self.work, "done")):
            pass
        _remove_stages(self.work)
        return report

    @property
    def is_done(self) -> bool:
        """Whether the output is there."""
        return os.path.exists(os.path.join(self.work, "done"))

    def _job(
        self,
        progress: Callable[[int], object] | None = None,
        on_bad_row: Callable[[BadRowError], object] | None = None,
    ) -> _StagedJob:
        given = dict(self._arguments)
        if given.pop("skip_bad_rows"):
            given["on_bad_row"] = on_bad_row or _pass_over
        tasks = nullcontext(Tasks())
        # A kill before the job is marked as done would else leave neither stages nor mark.
        return _StagedJob(work=self.work, tasks=tasks, progress=progress, keeps_stages=True, **given)

    def _undecided(self) -> Stages | None:
        """Return the stages; ``None`` where all is decided."""
        stages = None if self.is_done else self._job().stages(self.work, None)
        return None if stages is None or os.path.exists(stages.verdicts) else stages

    def _decided(self, job: _StagedJob | None = None) -> tuple[_StagedJob, Stages]:
        """Return the job and its stages. Raises JobError where nothing is decided."""
        job = job or self._job()
        stages = job.stages(self.work, None)
        if not os.path.exists(stages.verdicts):
            raise missing("what was decided", "decide", self.work)
        return job, stages


def _remove_stages(work: str) -> None:
    for name in os.listdir(work) if os.path.isdir(work) else ():
        if name.startswith(_STAGES_OF):
            shutil.rmtree(os.path.join(work, name), ignore_errors=True)


def _pass_over(_: BadRowError) -> None:
    """Pass over a bad row."""


def _shared(
    stage: Callable[[Stages, Any], None], stages: Stages, jobs: Iterable[Any], share: int, of: int
) -> int:
    """Run a stage for the jobs of a share; returns how many they are."""
    require_int("of", of, 1)
    require_int("share", share, 1, of)
    count = 0
    for job in islice(jobs, share - 1, None, of):
        stage(stages, job)
        count += 1
    return count


def plan_dedup(
    sources: Any,
    sink: str | os.PathLike[str],
    threshold: float = DEFAULT_THRESHOLD,
    *,
    work: str | os.PathLike[str],
    parallel: int = DEFAULT_PARALLEL,
    skip_bad_rows: bool = False,
    force: bool = False,
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
    journal: str | os.PathLike[str] | None = None,
) -> StagedDedup:
    """Plan a deduplication in a folder: cut the input into parts, and begin the journal beside the output.

    Called again with the same arguments it changes nothing.

    Args:
        sink: the path of the output.
        work: folder of this job alone, which all who run its stages see; some hundred bytes a row.
        parallel: how many processes there will be, about: of parts and ranges there are several for each.
        skip_bad_rows: pass over rows that are none.
        force: give up what is planned there, and replace an output that exists.
        sources, threshold and the others: as of `simindex.scaleout.deduplicate`.

    Raises:
        JobError: the output exists, or the folder or the journal is another job's.
        UnsupportedError: sources or sink that only this process has.
    """
    given = locals()
    del given["work"], given["parallel"]
    require_int("parallel", parallel, 1)
    of_job = {name: value for name, value in given.items() if name != "skip_bad_rows"}
    on_bad = _pass_over if skip_bad_rows else None
    tasks = Tasks(parallel)
    job = _StagedJob(work=work, tasks=nullcontext(tasks), on_bad_row=on_bad, **of_job)
    if not job.can_resume:
        raise UnsupportedError(f"plan_dedup: expected the path of an output, found {sink!r:.80}")
    work, digest = os.fspath(work), job.digest()
    path = os.path.join(work, "plan")
    if os.path.exists(path) and not force:
        if (found := StagedDedup(work)).digest != digest:
            raise JobError(f"{work}: found the plan of another job; force=True discards it")
        if found.is_done:
            return found
    job.begin()
    if force:
        _remove_stages(work)
        for name in ("plan", "done"):
            with suppress(FileNotFoundError):
                os.remove(os.path.join(work, name))
    job.stages(work, tasks)
    with whole_file(path) as file:
        pickle.dump(_PLAN_FORMAT, file)
        pickle.dump((digest, given | {"force": False}), file)
    return StagedDedup(work)
