"""The Ray cluster: connect to it, start it where none runs, and run the functions of a job as its tasks.

Such a function may be run again, by any node: Ray does so where a process or a node dies.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, TypeVar

from simindex.errors import optional_module
from simindex.scaleout.errors import ScaleOutError

_T = TypeVar("_T")

NAMESPACE = "simindex"

_CONNECT_SECONDS = 3.0

_LOOK_SECONDS = 1.0


def ray_module() -> Any:
    """Return Ray. Raises MissingPackageError where it is not installed."""
    return optional_module("ray", "simindex.scaleout", "'simindex[scaleout]'")


def answer(reference: Any, seconds: float | None = None) -> Any:
    """Return what a call has returned, or raise what it has raised. Waits for it, with `seconds` at most so
    long, and then raises Ray's GetTimeoutError."""
    ray = ray_module()
    try:
        return ray.get(reference, timeout=seconds)
    except ray.exceptions.RayTaskError as exc:
        raise (exc.cause if isinstance(exc.cause, Exception) else exc) from None


def answer_while(is_there: Callable[[], object], reference: Any, seconds: float, gone: ScaleOutError) -> Any:
    """Wait for a call and return what it returns, or raise what it raises; raise `gone` once `is_there` has
    been false for so many seconds on end."""
    ray, seen_at = ray_module(), time.monotonic()
    while not ray.wait([reference], timeout=_LOOK_SECONDS)[0]:
        if is_there():
            seen_at = time.monotonic()
        elif time.monotonic() - seen_at > seconds:
            raise gone
    return answer(reference)


def start(address: str | None, options: Mapping[str, Any] | None) -> bool:
    """Connect to Ray, or start it on this machine where there is none; returns whether this call did so,
    False where this process was connected before.

    Raises:
        ScaleOutError: nothing answers at the address.
    """
    ray = ray_module()
    if ray.is_initialized():
        return False
    _require_head(address or os.environ.get("RAY_ADDRESS", ""))
    quiet = {"namespace": NAMESPACE, "log_to_driver": False, "include_dashboard": False, "logging_level": 40}
    # Ray gives what it starts the lowest priority; an index is no background work.
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray.init(address=address, **(quiet | dict(options or {})))
    return True


def _require_head(address: str) -> None:
    """Raise ScaleOutError for a host and port that do not answer: Ray itself tries for half a minute, and
    logs to stderr. Other addresses, as "auto", pass."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return  # "auto", "local" and the like
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as exc:
        raise ScaleOutError(
            f"address: expected the head of a Ray cluster at {address}, found nothing that answers ({exc}); "
            "start it with ray start --head, or give another address"
        ) from exc


# ---- tasks ----

_TASKS_A_CORE = 2

_PATIENCE_SECONDS = 120.0
"""How long the cluster may be without a core before a job ends."""

_FREE_SECONDS = 4.0
"""How long others may hold all cores before a job ends: what has just ended gives its core back by then."""


class Tasks:
    """Stages that the calling process runs, one job after the other.

    Args:
        parallel: for how many processes the jobs are cut.
    """

    def __init__(self, parallel: int = 1) -> None:
        self._parallel = parallel

    @property
    def parallel(self) -> int:
        """For how many processes the jobs are cut, as given; `run` itself uses the calling process alone."""
        return self._parallel

    def run(self, function: Callable[[Any, Any], _T], common: object, jobs: Iterable[Any]) -> Iterator[_T]:
        """Yield ``function(common, job)`` of each job, in order, computed in this process when it is asked
        for; what it raises is raised."""
        return (function(common, job) for job in jobs)


@contextmanager
def tasks_on(address: str | None, ray: Mapping[str, Any] | None) -> Iterator[Tasks]:
    """Give the tasks of Ray for the length of the block. Where the process was not connected to Ray before,
    it is connected, or Ray started, and that ends with the block."""
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
        """How many cores of the cluster are free now, or 1."""
        return max(1, self._free())

    def _free(self) -> int:
        return int(self._ray.available_resources().get("CPU", 0))

    def _require_free(self) -> None:
        """Wait for a free core, four seconds at most. Raises ScaleOutError where others hold all of them; a
        cluster without any core passes."""
        until = time.monotonic() + _FREE_SECONDS
        while not self._free() and (cores := self._cores()):
            if time.monotonic() > until:
                raise ScaleOutError(
                    f"expected a free core of the Ray cluster, found all {cores} held by others for "
                    f"{_FREE_SECONDS:g} s (ray status lists them; replicas hold theirs until their stop()); "
                    "end some, or start nodes"
                )
            time.sleep(_FREE_SECONDS / 16)

    def _cores(self) -> int:
        return sum(int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"])

    def run(self, function: Callable[[Any, Any], _T], common: object, jobs: Iterable[Any]) -> Iterator[_T]:
        """Yield what a function returns for each job, in order, computed by tasks on any nodes. Two jobs for
        each free core are sent ahead; a job whose process or node dies is sent again, and what the function
        raises is raised.

        Raises:
            ScaleOutError: for two minutes no node has a core, or at the begin others hold all of them.
        """
        options = {"num_cpus": 1, "max_retries": -1, "scheduling_strategy": "SPREAD"}
        task = self._ray.remote(**options)(_in_folder)
        known, rest, under_way = self._ray.put((os.getcwd(), common)), iter(jobs), deque[Any]()
        self._require_free()
        wanted = _TASKS_A_CORE * self.parallel
        try:
            while True:
                room = wanted - len(under_way)
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
        gone = ScaleOutError(
            "expected a node of the Ray cluster with a core, found none: nodes are gone and none took over; "
            "start some, and call it again"
        )
        return answer_while(self._cores, reference, _PATIENCE_SECONDS, gone)


def _in_folder(function: Callable[[Any, Any], _T], known: tuple[str, Any], job: Any) -> _T:
    """Return ``function(common, job)``, called in the driver's working directory, where this node has that.
    The process, which a task has alone, stays in it. `known`: (that directory, common)."""
    folder, common = known
    # Absolute paths do not need it, and of others the missing one is named.
    with suppress(OSError):
        os.chdir(folder)
    return function(common, job)
