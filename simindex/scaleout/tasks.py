"""Run the functions of a job's stages: in this process, or as tasks of Ray on all nodes.

A stage is a function of what all its jobs have in common and of one job, over a folder that all nodes see.
It may be run again, by any node, for what it writes has its name only when it is whole: Ray runs it again
where a process or a node dies.
"""

from __future__ import annotations

import os
import pickle
import shutil
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import IO, Any, TypeVar

from simindex.corpus.outputs.output import naming
from simindex.pairs.ranges import Edges
from simindex.scaleout.actors import answer, ray_module, start
from simindex.scaleout.errors import ScaleOutError

_T = TypeVar("_T")

_TASKS_A_CORE = 2

_LOOK_SECONDS = 3.0

_PATIENCE_SECONDS = 120.0
"""How long the cluster may be without a core before a job ends."""


class Tasks:
    """Stages that the calling process runs, one job after the other.

    Args:
        parallel: for how many processes the jobs are cut.
    """

    def __init__(self, parallel: int = 1) -> None:
        self._parallel = parallel

    @property
    def parallel(self) -> int:
        """How many jobs run at a time."""
        return self._parallel

    def run(self, function: Callable[[Any, Any], _T], common: object, jobs: Iterable[Any]) -> Iterator[_T]:
        """Yield ``function(common, job)`` of each job, in order; a few jobs may be taken ahead."""
        return (function(common, job) for job in jobs)


@contextmanager
def tasks_on(address: str | None, ray: Mapping[str, Any] | None, *, is_here: bool = False) -> Iterator[Tasks]:
    """Give what runs stages: the calling process, or Ray, which ends with the block where it starts there."""
    if is_here:
        yield Tasks()
        return
    has_started = start(address, ray)
    try:
        yield RayTasks()
    finally:
        if has_started:
            ray_module().shutdown()


class RayTasks(Tasks):
    """Tasks of a Ray cluster, a core each."""

    def __init__(self) -> None:
        self._ray = ray_module()

    @property
    def parallel(self) -> int:
        """How many cores the cluster has now, or 1."""
        return max(1, self._cores())

    def _cores(self) -> int:
        return sum(int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"])

    def run(self, function: Callable[[Any, Any], _T], common: object, jobs: Iterable[Any]) -> Iterator[_T]:
        """Yield what a function returns for each job; see `Tasks.run`.

        Raises:
            ScaleOutError: no node has a core.
        """
        options = {"num_cpus": 1, "max_retries": -1, "scheduling_strategy": "SPREAD"}
        task = self._ray.remote(**options)(_in_folder)
        known, rest, under_way = self._ray.put((os.getcwd(), common)), iter(jobs), deque[Any]()
        try:
            while True:
                room = _TASKS_A_CORE * self.parallel - len(under_way)
                under_way += (task.remote(function, known, job) for job in islice(rest, max(room, 0)))
                if not under_way:
                    return
                yield self._answer(under_way[0])
                under_way.popleft()
        finally:
            # What was sent runs to its end, two jobs a core at most. Ray 2.60 ends the calling
            # process where a task is cancelled while it is sent: "Tried to complete task that
            # was not pending".
            if under_way:  # they may write into a folder that goes now
                self._ray.wait(list(under_way), num_returns=len(under_way), timeout=_LOOK_SECONDS)

    def _answer(self, reference: Any) -> Any:
        cores_at = time.monotonic()
        while not self._ray.wait([reference], timeout=_LOOK_SECONDS)[0]:
            if self._cores():
                cores_at = time.monotonic()
            elif time.monotonic() - cores_at > _PATIENCE_SECONDS:
                raise ScaleOutError(
                    "expected a node of the Ray cluster with a core, found none: nodes are gone and none "
                    "took over; start some, and call it again"
                )
        return answer(reference)


def _in_folder(function: Callable[[Any, Any], _T], known: tuple[str, Any], job: Any) -> _T:
    """Run a stage in the driver's folder, from which relative paths go; a task has its process alone."""
    folder, common = known
    # Absolute paths do not need it, and of others the missing one is named.
    with suppress(OSError):
        os.chdir(folder)
    return function(common, job)


# ---- what stages leave ----


@contextmanager
def whole_folder(path: str) -> Iterator[str]:
    """Give the name of a folder to fill, which is renamed to `path`, durable, at the end of the block.

    Nothing is left of one whose block fails, and where another process was faster, its folder stays.
    """
    beside = f"{path}.{uuid.uuid4().hex}.partial"
    try:
        yield beside
        for folder, _, names in os.walk(beside):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    os.fsync(file.fileno())
        try:
            os.rename(beside, path)
        except OSError:
            if not os.path.isdir(path):
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """Give a file to write, which is renamed to `path`, durable, at the end of the block."""
    beside = f"{path}.{uuid.uuid4().hex}.partial"
    with naming(beside), open(beside, "wb", buffering=1 << 20) as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def write_found(path: str, found: Iterable[Edges]) -> None:
    """Write what a range has into a file, whole or not at all."""
    with whole_file(path) as file:
        for one in found:
            pickle.dump(one, file, protocol=5)


def read_found(path: str) -> Iterator[Edges]:
    """Yield what a range has, as `write_found` wrote it."""
    with open(path, "rb") as file, suppress(EOFError):
        while True:
            yield pickle.load(file)
