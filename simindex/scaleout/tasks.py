"""Run the functions of a job's stages: in this process, or as tasks of Ray on all nodes.

A stage is a function of what all its jobs have in common and of one job, over a folder that all nodes see.
It may be run again, by any node, for what it writes has its name only when it is whole: Ray runs it again
where a process or a node dies.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Protocol, TypeVar

from simindex.errors import SimIndexError
from simindex.imports import optional_module
from simindex.scaleout.actors import answer, probe, ray_module, why_unfit
from simindex.scaleout.errors import ScaleOutError

_T = TypeVar("_T")

_TASKS_A_CORE = 2

_LOOK_SECONDS = 3.0

_PATIENCE_SECONDS = 120.0
"""How long the cluster may be without a core before a job ends."""


class Tasks(Protocol):
    """What runs stages."""

    @property
    def parallel(self) -> int:
        """How many jobs run at a time."""

    def run(self, function: Callable[[Any, Any], _T], common: object, jobs: Iterable[Any]) -> Iterator[_T]:
        """Yield ``function(common, job)`` of each job, in order; a few jobs are taken ahead."""


class RayTasks:
    """Tasks of a Ray cluster, a core each."""

    def __init__(self) -> None:
        self._ray = ray_module()

    @property
    def parallel(self) -> int:
        """How many cores the cluster has now."""
        return max(1, sum(map(_cores, self._nodes())))

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def run(self, function: Callable[[Any, Any], _T], common: object, jobs: Iterable[Any]) -> Iterator[_T]:
        """Yield what a function returns for each job; see `Tasks.run`.

        Raises:
            ScaleOutError: no node has a core, or simindex is missing on one.
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
            for reference in under_way:
                self._ray.cancel(reference)

    def _answer(self, reference: Any) -> Any:
        cores_at = time.monotonic()
        while not self._ray.wait([reference], timeout=_LOOK_SECONDS)[0]:
            if any(map(_cores, self._nodes())):
                cores_at = time.monotonic()
            elif time.monotonic() - cores_at > _PATIENCE_SECONDS:
                raise ScaleOutError(
                    "expected a node of the Ray cluster with a core, found none: nodes are gone and none "
                    "took over; start some, and call it again"
                )
        try:
            return answer(reference)
        except (SimIndexError, OSError):
            raise
        except Exception:
            self._require_fit()
            raise

    def _require_fit(self) -> None:
        """Refuse a cluster with a node where simindex cannot be imported."""
        strategies = optional_module(
            "ray.util.scheduling_strategies", "simindex.scaleout", "'simindex[scaleout]'"
        )
        for node in self._nodes():
            on_node = strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            why = why_unfit(probe(scheduling_strategy=on_node)) if _cores(node) else None
            if why is not None:
                raise ScaleOutError(f"no worker can run on node {node['NodeName']}; {why}")


def _cores(node: dict[str, Any]) -> int:
    return int(node["Resources"].get("CPU", 0))


def _in_folder(function: Callable[[Any, Any], _T], known: tuple[str, Any], job: Any) -> _T:
    """Run a stage in the driver's folder, from which relative paths go; a task has its process alone."""
    folder, common = known
    # Absolute paths do not need it, and of others the missing one is named.
    with suppress(OSError):
        os.chdir(folder)
    return function(common, job)
