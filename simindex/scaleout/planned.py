"""A job that was planned in a folder, whose stages any processes run: its plan, and who does which share."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from simindex.checks import require_int
from simindex.config import Config
from simindex.corpus.dedup.journal import JobError, digest_of
from simindex.corpus.entries import PathEntries, entries_of
from simindex.corpus.outputs.output import whole_file
from simindex.errors import Argument
from simindex.inputs import pass_over
from simindex.scaleout.cluster import Tasks
from simindex.scaleout.dedup_stages import decide, write_part, writes_by_parts
from simindex.scaleout.errors import UnsupportedError
from simindex.scaleout.input_parts import parts_of
from simindex.scaleout.stages import Stages, compare_range, missing, sketch_part

STAGES_OF = "simindex-stages-"
"""Before the digest of a job, in the name of the folder of its stages."""

DEFAULT_PARALLEL = 16

_PLAN_FORMAT = 3


class Plan(NamedTuple):
    """What was planned.

    Attributes:
        digest: of `job`, what identifies it beside its inputs, and of these.
        arguments: of the call, a pickle, for `finish`: what they are made of takes longer to import than all
            that the other stages need.
    """

    kind: str
    digest: str
    job: dict[str, Any]
    stages: Stages
    arguments: bytes


class PlannedJob:
    """A job that was planned in a folder: what all of them have in common.

    Attributes:
        work: the folder.
        plan: of the job.
    """

    kind: str | None = None

    def __init__(self, work: str | os.PathLike[str]) -> None:
        self.work = os.fspath(work)
        self.plan = _plan_in(self.work)
        if self.kind not in (None, self.plan.kind):
            raise JobError(f"{self.work}: expected a plan of {self.kind}, found one of {self.plan.kind}")

    def sketch(self, share: int = 1, of: int = 1) -> int:
        """Sketch the parts of a share, `share` of 1..`of`, that are not sketched, and sort their tables;
        returns how many parts the share has, sketched before or now, 0 where the job is decided or done.

        Raises:
            JobError: the inputs have changed since they were planned.
            InputError, BadRowError: as of `simindex.corpus.deduplicate`.
        """
        stages = self._open_stages()
        return 0 if stages is None else _shared(sketch_part, stages, range(len(stages.parts)), share, of)

    def compare(self, share: int = 1, of: int = 1) -> int:
        """Compare those ranges of keys of a share, `share` of 1..`of`, that are not compared; returns how
        many ranges the share has, compared before or now, 0 where the job is decided or done.

        Raises:
            JobError: a part is not sketched, or the inputs have changed.
        """
        stages = self._open_stages()
        if stages is None:
            return 0
        with stages.opened() as tables:
            count = stages.num_ranges(tables)
        return _shared(compare_range, stages, range(count), share, of)

    def decide(self) -> int:
        """Decide which rows go, in this process; returns 1, or 0 where it was decided, or nothing is to be.

        Raises:
            JobError: a range is not compared, or the inputs have changed.
        """
        stages = self._open_stages()
        if stages is None or not stages.decides:
            return 0
        with stages.opened() as tables:
            decide(stages, tables, range(stages.num_ranges(tables)))
        return 1

    def write(self, share: int = 1, of: int = 1) -> int:
        """Write the parts of a share, `share` of 1..`of`, where rows stay as the lines of JSON that they were
        and are not packed; returns how many parts the share has. Returns 0, and writes nothing, where
        `finish` writes the output, the job has nothing to decide or is done.

        Raises:
            JobError: nothing is decided, or the inputs have changed.
            InputError: a file is shorter than it was.
        """
        stages = self._stages
        if self.is_done or not stages.decides:
            return 0
        self._require_decided()
        parts = range(len(stages.parts) if writes_by_parts(stages) else 0)
        return _shared(write_part, stages, parts, share, of)

    @property
    def is_done(self) -> bool:
        """Whether the job is marked as finished."""
        return os.path.exists(os.path.join(self.work, "done"))

    @property
    def _stages(self) -> Stages:
        return self.plan.stages

    def _open_stages(self) -> Stages | None:
        """Return the stages; ``None`` where the job is decided or done. JobError: the inputs have changed."""
        if self.is_done:
            return None
        self._require_unchanged()
        return None if os.path.exists(self._stages.decided) else self._stages

    def _require_unchanged(self) -> None:
        stages = self._stages
        if stages.indexes:
            return  # their commits are compared where they are opened
        entries = require_files(stages.inputs, "stage")
        if digest_of(self.plan.job | entries.digest()) != self.plan.digest:
            found = f"{self.work}: the inputs have changed since they were planned; plan them with "
            raise JobError(found, Argument("force", True))

    def _require_decided(self) -> None:
        self._require_unchanged()
        if not os.path.exists(self._stages.decided):
            raise missing("what was decided", "decide", self.work)

    def _done(self, result: object = None) -> None:
        """Write the result into the file ``done``, and delete the folders of the stages."""
        with whole_file(os.path.join(self.work, "done")) as file:
            pickle.dump(result, file)
        _remove_stages(self.work)


def _shared(
    stage: Callable[[Stages, int], object], stages: Stages, numbers: range, share: int, of: int
) -> int:
    """Run a stage for every `of`-th of the numbers, from the one at `share`, counted from 1; returns how
    many."""
    of = require_int("of", of, 1)
    share = require_int("share", share, 1, of)
    own = numbers[share - 1 :: of]
    for number in own:
        stage(stages, number)
    return len(own)


def _plan_in(work: str) -> Plan:
    try:
        with open(os.path.join(work, "plan"), "rb") as file:
            if (found := pickle.load(file)) != _PLAN_FORMAT:
                raise JobError(f"{work}: expected a plan of this version, found one of {found!r}")
            plan: Plan = pickle.load(file)
            config: Any = plan.stages.config
            return plan._replace(stages=plan.stages._replace(config=Config.from_dict(config)))
    except FileNotFoundError:
        raise missing("a plan", "plan", work) from None


def is_planned(work: str, digest: str, *, force: bool) -> bool:
    """Return whether a folder has the plan of this job. JobError: it has that of another one. With `force`
    plan, result and stages in the folder are deleted first, of whatever job they are."""
    if force:
        _remove_stages(work)
        for name in ("plan", "done"):
            with suppress(FileNotFoundError):
                os.remove(os.path.join(work, name))
    if not os.path.exists(os.path.join(work, "plan")):
        return False
    if _plan_in(work).digest != digest:
        raise JobError(f"{work}: found the plan of another job; ", Argument("force", True), " discards it")
    return True


def write_plan(work: str, plan: Plan) -> None:
    """Write the plan into the file ``plan`` of the folder, as a whole."""
    with whole_file(os.path.join(work, "plan")) as file:
        pickle.dump(_PLAN_FORMAT, file)
        # A configuration is pickled by its public name, with which the whole of `simindex` is imported.
        config: Any = plan.stages.config.to_dict()
        pickle.dump(plan._replace(stages=plan.stages._replace(config=config)), file)


def _remove_stages(work: str) -> None:
    """Delete all folders of stages in a folder, of whatever job."""
    for name in os.listdir(work) if os.path.isdir(work) else ():
        if name.startswith(STAGES_OF):
            shutil.rmtree(os.path.join(work, name), ignore_errors=True)


def cut_into_parts(stages: Stages, part_bytes: int, tasks: Tasks) -> Stages:
    """Return the stages with the parts of their inputs, the lines in each, and the number of processes that
    these are for. The first call cuts the inputs and writes all that into the folder; later ones read it
    there."""
    path = os.path.join(stages.folder, "parts")
    if not os.path.exists(path):
        assert stages.inputs is not None
        cut = parts_of(stages.inputs, part_bytes, tasks)
        os.makedirs(stages.sketches, exist_ok=True)
        with whole_file(path) as file:
            pickle.dump((tasks.parallel, *cut), file)
    with open(path, "rb") as file:
        parallel, parts, lines = pickle.load(file)
    return stages._replace(parallel=parallel, parts=parts, lines=lines)


def require_files(sources: object, call: str, *, skip_bad_rows: bool = False) -> PathEntries:
    """Return the rows of sources that are files. UnsupportedError, which names the `call`: an iterable or
    standard input, which only this process can read, or only once."""
    entries = sources
    if not isinstance(entries, PathEntries):
        entries = entries_of(sources, on_bad_row=pass_over if skip_bad_rows else None)
    if not isinstance(entries, PathEntries) or not entries.can_repeat:
        raise UnsupportedError(
            f"{call}: expected files, which every node can read; found an iterable or standard input"
        )
    return entries
