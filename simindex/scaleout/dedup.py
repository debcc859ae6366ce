"""Deduplication by stages over a folder that all see: run by Ray at once, or one by one by any processes.

Stages find what is alike by ranges of sorted tables, and one process decides which rows stay. Reading again,
writing, the journal and the report are one machine's: so is the output, byte for byte.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from simindex.all_pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES
from simindex.all_pairs.ranges import scheme_of_config
from simindex.batching import ahead
from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.checks import require_callable, require_int
from simindex.config import Config
from simindex.corpus.dedup.job import Job
from simindex.corpus.dedup.journal import Journal, digest_of
from simindex.corpus.dedup.keep_per import KeepPer
from simindex.corpus.dedup.orders import Keep
from simindex.corpus.dedup.output_files import Sink
from simindex.corpus.dedup.results import DedupReport, Removed
from simindex.corpus.dedup.rows import READ_AHEAD, DecidedRows, rows_of_parts
from simindex.corpus.dedup.settings import JobSettings, Mode
from simindex.corpus.dedup.steps import input_changed, plan_of_query
from simindex.corpus.dedup.verdict_file import emptied_inputs
from simindex.corpus.entries import PathEntries
from simindex.corpus.outputs.lines import LinesOutput
from simindex.corpus.outputs.output import Output, temporary
from simindex.corpus.outputs.upload import absolute
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.inputs import OnBadRow, pass_over
from simindex.inputs.streams import without_packing
from simindex.queries.search import Method
from simindex.scaleout.cluster import Tasks, tasks_on
from simindex.scaleout.dedup_stages import (
    counts_of,
    decide,
    report_file,
    verdicts_on,
    write_part,
    writes_by_parts,
)
from simindex.scaleout.errors import UnsupportedError
from simindex.scaleout.input_parts import PART_BYTES
from simindex.scaleout.planned import (
    DEFAULT_PARALLEL,
    STAGES_OF,
    Plan,
    PlannedJob,
    cut_into_parts,
    is_planned,
    require_files,
    write_plan,
)
from simindex.scaleout.stages import Stages, compare_range, sketch_part

_OF_STAGES = ("max_run", "memory_bytes", "part_bytes")

Step = Callable[[str, int, int], object]
"""Is called as step(name, done, total)."""


class _StagedJob(Job):
    """A job with its arguments; see `deduplicate`.

    Args:
        sources, sink, settings: of `Job`.
        tasks: runs the stages.
        work: folder for that of the stages; ``None``: that of the journal.
        memory_bytes, max_run, part_bytes, on_step: of `deduplicate`.
    """

    def __init__(
        self,
        sources: Any,
        sink: Sink | None,
        settings: JobSettings,
        *,
        tasks: AbstractContextManager[Tasks],
        work: str | os.PathLike[str] | None,
        memory_bytes: int,
        max_run: int,
        part_bytes: int,
        on_step: Step | None = None,
    ) -> None:
        part_bytes = require_int("part_bytes", part_bytes, 1)
        self._tasks, self._work, self._part_bytes = tasks, work, part_bytes
        self._bounds = max_run, memory_bytes
        self._step: Step = on_step or (lambda *_: None)
        super().__init__(sources, sink, replace(settings, workers=1))
        require_files(self._entries, "scaleout.deduplicate")

    def _described(self) -> dict[str, Any]:
        return super()._described() | {"part_bytes": self._part_bytes}

    def _write(self, folder: str, files: tuple[Output, Output, Output], journal: Journal | None) -> None:
        with self._tasks as tasks:
            if self._settings.force:  # of a job that was done, or given up, the output is gone
                shutil.rmtree(self.stages_folder(self._work or folder), ignore_errors=True)
            self._stages = stages = self.stages(folder, tasks)
            if not os.path.exists(stages.decided):
                self._decide(stages, tasks)
            if writes_by_parts(stages):
                self._write_parts(stages, tasks, files, journal)
            else:
                shutil.rmtree(stages.sketches, ignore_errors=True)
                super()._write(folder, files, journal)

    @property
    def described(self) -> dict[str, Any]:
        """What identifies this job, beside its input."""
        return self._job

    def digest(self) -> str:
        """Return the hexadecimal digest of this job and its input."""
        return digest_of(self._job | self._entries.digest())

    def stages_folder(self, work: str | os.PathLike[str]) -> str:
        """Return the absolute path of this job's folder of stages in the folder `work`; its name has the
        digest."""
        return os.path.join(os.path.abspath(work), STAGES_OF + self.digest())

    def stages(self, folder: str, tasks: Tasks) -> Stages:
        """Return the stages of this job, in a folder of their own in `work`, or where that was not given in
        `folder`. At the first call the input is cut into parts there."""
        assert isinstance(self._entries, PathEntries)
        plan = plan_of_query(scheme_of_config(self._config), self._query, *self._bounds)
        paths = self._writing.path, self._writing.report_path
        is_plain = all(path is None or without_packing(path) == path for path in paths)
        stages = Stages(
            self.stages_folder(self._work or folder),
            self._config,
            plan,
            self._bounds[1],
            self._entries.inputs.in_silence(),
            self._settings.keep,
            self._settings.source_fields,
            copies_lines=is_plain and self.copies_lines and self._settings.on_removed is None,
        )
        return cut_into_parts(stages, self._part_bytes, tasks)

    def _decide(self, stages: Stages, tasks: Tasks) -> None:
        """Have tasks sketch the parts and compare the ranges that are not done yet, call `on_step` after
        each, and write into the folder `stages.decided` which rows go."""
        total = len(stages.parts)
        for done, _ in enumerate(tasks.run(sketch_part, stages, range(total)), 1):
            self._step("parts", done, total)
        with stages.opened() as tables:
            count = stages.num_ranges(tables)

            def walked() -> Iterator[int]:
                for index, _ in enumerate(tasks.run(compare_range, stages, range(count))):
                    yield index
                    self._step("ranges", index + 1, count)

            decide(stages, tables, walked())

    # ---- the output ----

    @contextmanager
    def _decisions(self, folder: str) -> Iterator[Iterator[DecidedRows]]:  # noqa: ARG002
        """For the length of the block give an iterator of the input's rows from number `state.read` on, with
        their verdicts; behind the block set `state.emptied` and the tally. `folder` is not used."""
        assert isinstance(self._entries, PathEntries)
        by_lines, stages = self.copies_lines, self._stages
        verdicts = verdicts_on(stages, range(len(stages.parts)))
        parts = rows_of_parts(
            self._entries.inputs,
            verdicts.read,
            self._settings.batch_size,
            self.state.read,
            by_lines=by_lines,
        )
        yield verdicts.decided_rows(parts if by_lines else ahead(parts, READ_AHEAD))
        self.state.emptied = verdicts.emptied(self._entries.names)
        self._note_tally()

    def _write_parts(
        self, stages: Stages, tasks: Tasks, files: tuple[Output, Output, Output], journal: Journal | None
    ) -> None:
        """Have tasks write the lines that stay of the parts that are not written yet, append each part's
        lines to the report, add its counts to `state`, and move the output to its temporary path. `files`:
        the output, the report, and a third that is not used. InputError: the input has changed."""
        output, report, _ = files
        assert journal is not None
        assert isinstance(output, LinesOutput)
        assert isinstance(report, LinesOutput)
        state = self.state
        report.begin_at(None)
        counts = counts_of(stages)
        state.looked = int(counts["rows"].sum())
        input_indices = np.array([part.input_index for part in stages.parts], dtype=np.int64)
        state.emptied = emptied_inputs(self._entries.names, input_indices, counts["rows"], counts["removed"])
        journal.write()  # what is done now is not lost where the next step fails
        for number, _ in enumerate(tasks.run(write_part, stages, range(len(counts)))):
            rows, removed, bounded, _ = counts[number].tolist()
            state.read, state.kept = state.read + rows, state.kept + rows - removed
            state.removed, state.bounded = state.removed + removed, state.bounded + bounded
            with open(report_file(stages, number), "rb") as lines:
                report.write_lines([lines.read()])
            report.cut()
            self.advance()
        if not stages.folder.endswith(self.digest()):
            raise input_changed(stages.paths, state.read)
        report.sync()
        if os.path.exists(stages.output):
            shutil.move(stages.output, temporary(output.path))
        output.begin_at([int(counts["kept_bytes"].sum()), None])
        output.sync()


def deduplicate(
    sources: Any,
    sink: Sink | None,
    threshold: float = DEFAULT_THRESHOLD,
    *,
    keep: Keep = "first",
    keep_per: KeepPer = None,
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
    on_bad_row: OnBadRow | None = None,
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
        sink, threshold, keep, keep_per, mode, recall, by, max_distance, config, removed: as there.
        batch_size, force, on_removed: as there.
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
        address, ray: of Ray; as of `simindex.scaleout.pairs`.

    Raises:
        UnsupportedError: an iterable or standard input.
        MissingPackageError: Ray is not installed.
        JobError, InputError, BadRowError, OSError: as `simindex.corpus.deduplicate`; an input that cannot be
            read ends the job before anything is written.
        ScaleOutError: nodes are gone and none took over.
    """
    given = locals()
    require_callable("on_step", on_step)
    tasks = tasks_on(given.pop("address"), given.pop("ray"))
    of_stages = {name: given.pop(name) for name in ("work", "on_step", *_OF_STAGES)}
    job = _StagedJob(given.pop("sources"), given.pop("sink"), JobSettings(**given), tasks=tasks, **of_stages)
    stages = None if work is None else job.stages_folder(work)
    report = job.run()
    if stages is not None:  # not before the job is done: half a folder does not say what is written
        shutil.rmtree(stages, ignore_errors=True)
    return report


class StagedDedup(PlannedJob):
    """A deduplication that `plan_dedup` has planned in a folder.

    The stages, in their order: `sketch`, `compare`, `decide`, `write`, `finish`. A stage begins when all of
    the one before it is done, on the machine or machines that run it. `sketch`, `compare` and `write` are
    shared out: of so many processes each does its share, none waits for another, and what is there already
    is not done again; so whatever died is run once more with the same arguments. All have to see the inputs,
    the folder and the output under the same paths, and to have the same version of simindex. Files in the
    folder are pickles: no other user may write there.

    Args:
        work: the folder.

    Raises:
        JobError: nothing is planned there, or another kind of job, or by another version of simindex.

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

    kind = "a deduplication"

    def finish(
        self,
        progress: Callable[[int], object] | None = None,
        on_bad_row: OnBadRow | None = None,
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
        sources, sink, settings, of_stages = pickle.loads(self.plan.arguments)
        if settings.on_bad_row is not None:
            settings = replace(settings, on_bad_row=on_bad_row or pass_over)
        if not self.is_done:
            self._require_decided()
        settings, tasks = replace(settings, progress=progress), nullcontext(Tasks())
        job = _StagedJob(sources, sink, settings, work=self.work, tasks=tasks, **of_stages)
        report = job.run()
        self._done()
        return report


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
    keep_per: KeepPer = None,
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
) -> StagedDedup:
    """Plan a deduplication in a folder: cut the input into parts, and begin the journal beside the output.

    Called again with the same arguments it changes nothing.

    Args:
        sink: the path of the output.
        work: folder of this job alone, which all who run its stages see; some hundred bytes a row.
        parallel: how many processes there will be, about: of parts and ranges there are several for each.
        skip_bad_rows: pass over what is no row.
        force: give up what is planned there, and replace an output that exists.
        sources, threshold and the others: as of `simindex.scaleout.deduplicate`.

    Raises:
        JobError: the output exists, or the folder or the journal is another job's.
        UnsupportedError: sources or sink that only this process has.
    """
    given = locals()
    for name in ("sources", "sink", "work"):
        del given[name]
    parallel = require_int("parallel", given.pop("parallel"), 1)
    given["on_bad_row"] = pass_over if given.pop("skip_bad_rows") else None
    of_stages = {name: given.pop(name) for name in _OF_STAGES}
    settings, tasks = JobSettings(**given), Tasks(parallel)
    job = _StagedJob(sources, sink, settings, work=work, tasks=nullcontext(tasks), **of_stages)
    if not job.can_resume:
        raise UnsupportedError(f"plan_dedup: expected the path of an output, found {sink!r:.80}")
    work, digest = os.fspath(work), job.digest()
    if is_planned(work, digest, force=force) and (found := StagedDedup(work)).is_done:
        return found
    job.begin()
    stages = job.stages(work, tasks)
    # `finish` may have another working directory.
    removed = None if removed is None else absolute(os.fspath(removed))
    settings = replace(settings, removed=removed, force=False)
    arguments = pickle.dumps((sources, absolute(os.fspath(sink)), settings, of_stages))
    write_plan(work, Plan(StagedDedup.kind, digest, job.described, stages, arguments))
    return StagedDedup(work)
