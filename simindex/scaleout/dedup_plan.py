"""`plan_dedup` and `StagedDedup`: a deduplication whose stages any process runs, over a folder that all see.

The job is that of `scaleout.deduplicate`, and its stages are the same functions; who runs them, and when, is
for the caller: a Slurm array, make, a loop. Invariant: a stage that is run again changes nothing.
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from itertools import islice
from typing import Any

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.checks import require_int
from simindex.config import Config
from simindex.corpus.dedup.journal import JobError
from simindex.corpus.dedup.orders import Keep
from simindex.corpus.dedup.output_files import Mode
from simindex.corpus.dedup.results import DedupReport
from simindex.corpus.dedup.verdict_file import VerdictReader
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.inputs import BadRowError
from simindex.pairs.plan import DEFAULT_MAX_RUN, DEFAULT_MEMORY_BYTES
from simindex.queries.search import Method
from simindex.scaleout.dedup import STAGES_OF, ScaledJob
from simindex.scaleout.dedup_stages import (
    Stages,
    compare_range,
    decide,
    missing,
    sketch_part,
    wanted_parts,
    write_part,
)
from simindex.scaleout.errors import UnsupportedError
from simindex.scaleout.input_parts import PART_BYTES
from simindex.scaleout.tasks import InProcess, Tasks, whole_file

_FORMAT = 1

DEFAULT_PARALLEL = 16


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
                if (found := pickle.load(file)) != _FORMAT:
                    raise JobError(f"{self.work}: expected a plan of this version, found one of {found!r}")
                self.digest, self._arguments = pickle.load(file)
        except FileNotFoundError:
            raise missing("a plan", "plan", self.work) from None

    def sketch(self, share: int = 1, of: int = 1) -> int:
        """Sketch the parts of a share that are not sketched, and sort their tables; returns how many parts
        the share has.

        Args:
            share: from 1 to `of`.
            of: how many shares there are.

        Raises:
            InputError, BadRowError: as of `simindex.corpus.deduplicate`.
        """
        stages = self._undecided()
        if stages is None:
            return 0
        return _shared(sketch_part, stages, range(len(stages.parts)), share, of)

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
        job = self._job()
        stages = job.stages(self.work, None)
        if not os.path.exists(stages.verdicts):
            raise missing("what was decided", "decide", self.work)
        with open(stages.verdicts, "rb") as file:
            verdicts = VerdictReader(file, stages.config.num_perm, stages.plan)
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
        report = self._job(progress, on_bad_row).run()
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
    ) -> _PlannedJob:
        given = dict(self._arguments)
        if given.pop("skip_bad_rows"):
            given["on_bad_row"] = on_bad_row or _pass_over
        return _PlannedJob(work=self.work, tasks=nullcontext(InProcess()), progress=progress, **given)

    def _undecided(self) -> Stages | None:
        """Return the stages; ``None`` where all is decided."""
        stages = None if self.is_done else self._job().stages(self.work, None)
        return None if stages is None or os.path.exists(stages.verdicts) else stages


class _PlannedJob(ScaledJob):
    removes_stages = False  # a kill before the job is marked as done would leave neither

    def _decide(self, stages: Stages, tasks: Tasks) -> None:  # noqa: ARG002 - they are others'
        raise missing("what was decided", "decide", stages.folder)


def _remove_stages(work: str) -> None:
    for name in os.listdir(work) if os.path.isdir(work) else ():
        if name.startswith(STAGES_OF):
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
    skip_bad_rows: bool = False,
    journal: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> StagedDedup:
    """Plan a deduplication in a folder: cut the input into parts, and begin the journal beside the output.

    Called again with the same arguments it changes nothing.

    Args:
        sources: paths of files, as in `simindex.scaleout.deduplicate`.
        sink: the path of the output.
        work: folder of this job alone, which all who run its stages see; some hundred bytes a row.
        parallel: how many processes there will be, about: of parts and ranges there are several for each.
        skip_bad_rows: pass over rows that are none.
        threshold, keep, mode, recall, by, max_distance, config, removed, batch_size: as there.
        max_run, memory_bytes, part_bytes, journal, force: as there.

    Raises:
        JobError: the output exists, or the folder or the journal is another job's.
        UnsupportedError: sources or sink that only this process has.
    """
    given = locals()
    del given["work"], given["parallel"]
    require_int("part_bytes", part_bytes, 1)
    require_int("parallel", parallel, 1)
    of_job = {name: value for name, value in given.items() if name != "skip_bad_rows"}
    on_bad = _pass_over if skip_bad_rows else None
    tasks = InProcess(parallel)
    job = ScaledJob(work=work, tasks=nullcontext(tasks), on_bad_row=on_bad, **of_job)
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
        pickle.dump(_FORMAT, file)
        pickle.dump((digest, given | {"force": False}), file)
    return StagedDedup(work)
