"""The workers of a job as tasks and actors of Ray, on all nodes of the cluster.

Owns where the partitions of a job lie, and what is done again when a node is lost. Must not decide anything.
Tasks are plain ones of Ray, which repeats those whose worker died; a partition lies in a folder of the node
that made it, and is made again, by another node, where that one is gone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from simindex.scaleout.dedup.building import Making, make_partition, ranks_of
from simindex.scaleout.dedup.parts import InputPart, num_lines
from simindex.scaleout.dedup.workers import Step, told_nobody
from simindex.scaleout.errors import ScaleOutError
from simindex.scaleout.hosts.actors import ray_module
from simindex.scaleout.ranges.remote import Hosts, host_on, on_node, walk_range
from simindex.scaleout.ranges.source import Numbering
from simindex.scaleout.ranges.walk import Asked, Found

_T = TypeVar("_T")

_ALWAYS = -1
_AHEAD = 2
"""Ranges that are under way, for each core."""

_UNREAD = 4
"""Pieces of a range that wait for the driver."""

_PATIENCE_SECONDS = 120.0
"""How long a host may be gone before Ray says that its node is."""


class Nodes:
    """All nodes of a Ray cluster, working for one job.

    Args:
        digest: of the job.
        work: folder, on each node's own disk, that partitions are made in; ``None``: that of temporary files.
    """

    def __init__(self, digest: str, work: str | None) -> None:
        self._ray = ray_module()
        self._folder = os.path.join(work or tempfile.gettempdir(), f"simindex-dedup-{digest}")
        self._homes: dict[int, str] = {}
        self._parts: Sequence[InputPart] = ()
        self._making: Making | None = None
        self._actors: dict[str, list[tuple[Any, list[int]]]] = {}
        self._hosts = Hosts([], {})
        self._step: Step = told_nobody

    @property
    def parallel(self) -> int:
        """How many work at a time."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    # ---- partitions ----

    def count_lines(self, making: Making, parts: Sequence[InputPart]) -> list[int]:
        """Return how many lines each part has."""
        count = self._ray.remote(num_cpus=1, max_retries=_ALWAYS)(num_lines)
        inputs = self._ray.put(making.inputs)
        return [self._answer(reference) for reference in [count.remote(inputs, part) for part in parts]]

    def make(self, making: Making, parts: Sequence[InputPart], step: Step) -> Numbering:
        """Make the partitions of all parts, and number their rows."""
        self._making, self._parts, self._step = making, parts, step
        self._make(range(len(parts)))
        self._open()
        return self._hosts.numbering

    def _make(self, wanted: Sequence[int]) -> None:
        make = self._ray.remote(num_cpus=1, max_retries=_ALWAYS, scheduling_strategy="SPREAD")(_make_here)
        making = self._ray.put(self._making)
        under_way = {make.remote(making, self._parts[at], self._path(at)): at for at in wanted}
        done = 0
        while under_way:
            (ready,), _ = self._ray.wait(list(under_way), num_returns=1)
            self._homes[under_way.pop(ready)] = self._answer(ready)
            done += 1
            self._step("parts", done, len(wanted))

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, f"{number:06}.simindex")

    def _open(self) -> None:
        """Let a host on each node have its partitions that no host has."""
        assert self._making is not None
        had = {number for hosts in self._actors.values() for _, numbers in hosts for number in numbers}
        new: dict[str, list[int]] = {}
        for number, node in self._homes.items():
            if number not in had:
                new.setdefault(node, []).append(number)
        for node, numbers in new.items():
            actor = host_on(node, {number: self._path(number) for number in numbers}, self._making.config)
            self._actors.setdefault(node, []).append((actor, numbers))
        hosts = [host for some in self._actors.values() for host in some]
        places = {number: place for place, (_, numbers) in enumerate(hosts) for number in numbers}
        self._hosts = Hosts([actor for actor, _ in hosts], places)
        self._hosts.number()

    def drop(self) -> None:
        """Remove the partitions."""
        for hosts in self._actors.values():
            for actor, _ in hosts:
                self._ray.kill(actor)
        self._actors = {}
        remove = self._ray.remote(num_cpus=0, max_retries=0)(shutil.rmtree)
        alive = self._alive()
        under_way = [
            remove.options(scheduling_strategy=on_node(node)).remote(self._folder, ignore_errors=True)
            for node in set(self._homes.values()) & alive
        ]
        self._ray.wait(under_way, num_returns=len(under_way), timeout=60) if under_way else None

    # ---- what is asked of them ----

    def ranks(self) -> Iterator[list[Any]]:
        """Yield what the rows are ordered by, a partition after the other."""
        read = self._ray.remote(num_cpus=0)(ranks_of)

        def ask(number: int) -> Any:
            strategy = on_node(self._homes[number])
            return self._answer(read.options(scheduling_strategy=strategy).remote(self._path(number)))

        for number in range(len(self._parts)):
            yield self._again(partial(ask, number))

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies), by number."""
        return self._again(lambda: self._hosts.copies())

    def sketches(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (words, fingerprints) of ascending numbers."""
        return self._again(lambda: self._hosts.sketches(numbers))

    def labels(self, numbers: np.ndarray) -> list[tuple[str, int]]:
        """Return what the partitions know of rows, and which halves of a sketch these have."""
        return self._again(lambda: self._hosts.metadata(numbers))

    # ---- ranges ----

    def walk(self, asked: Asked, step: Step) -> Iterator[Found]:
        """Yield what all ranges of all tables have; some of it twice where a node died."""
        walk = self._ray.remote(
            num_cpus=1,
            max_retries=_ALWAYS,
            num_returns="streaming",
            scheduling_strategy="SPREAD",
            _generator_backpressure_num_objects=_UNREAD,
        )(walk_range)
        waiting, under_way, done = deque(range(asked.count)), dict[Any, int](), 0
        known = self._ray.put(asked)
        while waiting or under_way:
            while waiting and len(under_way) < _AHEAD * self.parallel:
                place = waiting.popleft()
                under_way[walk.remote(known, self._hosts, place)] = place
            (ready,), _ = self._ray.wait(list(under_way), num_returns=1)
            try:
                yield self._answer(next(ready))
            except StopIteration:
                del under_way[ready]
                done += 1
                step("ranges", done, asked.count)
            except self._lost() as exc:
                waiting.append(under_way.pop(ready))
                self._recover(exc)

    # ---- what is lost ----

    def _answer(self, reference: Any) -> Any:
        """Return what a task has returned, or raise what it has raised."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as exc:
            raise (exc.cause if isinstance(exc.cause, Exception) else exc) from None

    def _lost(self) -> tuple[type[Exception], ...]:
        errors = self._ray.exceptions
        return (
            errors.RayActorError,
            errors.ObjectLostError,
            errors.NodeDiedError,
            errors.ActorUnavailableError,
            errors.TaskUnschedulableError,
        )

    def _alive(self) -> set[str]:
        return {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}

    def _again(self, ask: Callable[[], _T]) -> _T:
        """Return what is asked of hosts, as often as one of them is lost."""
        while True:
            try:
                return ask()
            except self._lost() as exc:
                self._recover(exc)

    def _recover(self, reason: Exception) -> None:
        """Make the partitions of lost nodes again, elsewhere."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until:
            alive = self._alive()
            gone = [number for number, node in self._homes.items() if node not in alive]
            if gone:
                self._actors = {node: hosts for node, hosts in self._actors.items() if node in alive}
                try:
                    self._make(gone)
                    self._open()
                    return
                except self._lost():
                    continue
            try:
                self._hosts.number()  # all of them answer
                return
            except self._lost():
                time.sleep(0.5)
        raise ScaleOutError(f"dedup: a host is gone, and its node is not: {reason}") from reason


def _make_here(making: Making, part: InputPart, folder: str) -> str:
    """Make a partition on this node; returns the node: a task of Ray."""
    make_partition(making, part, folder)
    node: str = ray_module().get_runtime_context().get_node_id()
    return node
