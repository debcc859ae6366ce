"""The workers of a deduplication: actors of Ray, one a core, on all nodes.

Answers are the same whichever worker gives them, and however often one died. Ray starts an actor again that
died, and repeats its calls; a partition lies in a folder of the node of the actor that made it, and is made
again, by another one, where that node is gone.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import filterfalse
from typing import Any, NamedTuple, TypeVar

import numpy as np
import xxhash

from simindex.corpus.dedup.sorting.second_pass import InputPart
from simindex.corpus.dedup.writer_loop import Lines
from simindex.pairs.ranges import RangeEnd
from simindex.pairs.tables import Numbering
from simindex.pairs.walk_plan import Edges, WalkPlan
from simindex.scaleout.actors import answer, probe, ray_module, why_unfit
from simindex.scaleout.dedup_parts import (
    Made,
    Making,
    SketchTables,
    Wanted,
    Writing,
    lines_of,
    make_partition,
    num_lines,
    ranks_of,
    tables_of,
    write_lines,
)
from simindex.scaleout.errors import ScaleOutError
from simindex.scaleout.range_hosts import Hosts, TableHost, host_as_actor, lost, on_node, swept

_T = TypeVar("_T")

Step = Callable[[str, int, int], object]
"""Is called as step(name, done, total)."""


def no_step(name: str, done: int, total: int) -> None:
    """Take no note of progress."""


_PATIENCE_SECONDS = 120.0
"""How long a worker may be gone before Ray says that its node is."""

_PAUSE_SECONDS = 0.5

_SOON_SECONDS = 3.0
"""Within which a worker is there, unless others have its core or simindex is missing."""

_PARTS_AHEAD = 2

_BOOT_FILE = "/proc/sys/kernel/random/boot_id"


class Worker(TableHost[SketchTables]):
    """Makes partitions of parts, and has them open.

    Args:
        work: folder on the disk of its node; ``None``: that of temporary files, as this node has it.
        name: of the folder of the job's partitions there.
        making: how they are made.
        beside: the driver's folder, from which relative paths go; it has its process alone.
    """

    def __init__(self, work: str | None, name: str, making: Making, beside: str) -> None:
        # Absolute paths do not need it, and of others the missing one is named.
        with suppress(OSError):
            os.chdir(beside)
        self._making = making
        self._home = os.path.join(os.path.abspath(work or tempfile.gettempdir()), name)
        self._folder = os.path.join(self._home, _this_boot())
        self._kept: dict[int, Made] = {}
        self._rooms: list[bytearray] = []
        super().__init__(lambda number: tables_of(making, self._path(number)))

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, f"{number:06}")

    def count_lines(self, part: InputPart) -> int:
        """Return how many lines a part has."""
        return num_lines(self._making.inputs, part)

    def make(self, part: InputPart, number: int) -> None:
        """Make the partition of a part, unless it is there."""
        make_partition(self._making, part, self._path(number))

    def ranks(self, number: int) -> list[Any]:
        """Return what the rows of a partition are ordered by."""
        return ranks_of(self._path(number))

    def sees(self, path: str, content: str) -> bool:
        """Return whether a file is seen here, and is the same."""
        with suppress(OSError), open(path, encoding="ascii") as file:
            return file.read() == content
        return False

    def lines(self, writing: Writing, wanted: Wanted) -> Lines:
        """Make the lines of a part, have those that stay ready to be written, and return the others."""
        self._kept[wanted.first] = made = lines_of(writing, wanted, self._room())
        return made.lines

    def write(self, writing: Writing, wanted: Wanted, at: int) -> None:
        """Write the lines of a part that stay; one who was started anew makes them again."""
        made = self._kept.pop(wanted.first, None) or lines_of(writing, wanted, self._room())
        write_lines(writing.path, made.kept, at)
        self._rooms.append(made.room)

    def _room(self) -> bytearray:
        """Return memory that no part is in: the system has it ready, which is half of the time of reading."""
        try:
            return self._rooms.pop()
        except IndexError:
            return bytearray()

    def drop(self) -> None:
        """Remove the partitions of this node."""
        self.close()
        shutil.rmtree(self._home, ignore_errors=True)


class _NoNodesError(ScaleOutError):
    """No node of the cluster has a core."""


class _Hired(NamedTuple):
    """A worker, and the node that it is on."""

    actor: Any
    node: str


@dataclass(eq=False)
class _Part:
    """A part whose lines are under way.

    Attributes:
        sent: what is wanted, as all of them are given it: it has a line of text for each row that goes.
        actor: who makes it.
        made, written: what is asked of him, or ``None``.
        lines: what he has made.
        at: where it belongs.
    """

    sent: Any
    actor: Any = None
    made: Any = None
    written: Any = None
    lines: Lines | None = None
    at: int | None = None

    def placed(self, at: int) -> int:
        """Wait until it is made, give it its place, unless it has one, and return where the next one's is."""
        if self.lines is None:
            self.lines = answer(self.made)
        self.at = at if self.at is None else self.at
        return self.at + int(self.lines.sizes[self.lines.stays].sum())


class Nodes:
    """All nodes of a Ray cluster, working for one job.

    Args:
        digest: of the job.
        work: folder, on each node's own disk, that partitions are made in; ``None``: that of temporary files.
    """

    def __init__(self, digest: str, work: str | None) -> None:
        self._ray = ray_module()
        self._work, self._name = work and os.path.abspath(work), f"simindex-dedup-{digest}"
        self._workers: list[_Hired] = []
        self._fit = set[str]()
        """Nodes that were probed: simindex can run there."""
        self._owners: dict[int, _Hired] = {}
        self._parts: Sequence[InputPart] = ()
        self._making: Making | None = None
        self._hosts = Hosts([], {})
        self._step: Step = no_step

    @property
    def parallel(self) -> int:
        """How many work at a time."""
        return max(1, sum(map(_cores, self._alive().values())))

    # ---- workers ----

    def _alive(self) -> dict[str, dict[str, Any]]:
        return {node["NodeID"]: node for node in self._ray.nodes() if node["Alive"]}

    def _hire(self) -> None:
        """Have a worker on each core of each node, and forget those of nodes that are gone."""
        assert self._making is not None
        alive = self._alive()
        self._workers = [worker for worker in self._workers if worker.node in alive]
        known = {worker.node for worker in self._workers}
        # How the input is cut says what its partitions hold.
        name = f"{self._name}-{xxhash.xxh3_64_hexdigest(repr(self._cuts()).encode())}"
        for node in (node for node in alive if node not in known):
            for _ in range(_cores(alive[node])):
                options = {"num_cpus": 1, "scheduling_strategy": on_node(node)}
                actor = host_as_actor(Worker, (self._work, name, self._making, os.getcwd()), options)
                self._workers.append(_Hired(actor, node))
        if not self._workers:
            raise _NoNodesError(
                "dedup: expected a node of the Ray cluster with a core, found none: nodes are gone and none "
                "took over; start some, and call it again"
            )

    def _attend(self) -> None:
        """Wait a moment for those who are new, and go on without those whose cores others have."""
        coming = {worker.actor.ready.remote(): worker.node for worker in self._workers}
        there, late = self._ray.wait(list(coming), num_returns=len(coming), timeout=_SOON_SECONDS)
        nodes = {coming[one] for one in (*late, *filterfalse(_has_answer, there))} - self._fit
        # Not before: what is probed by starts a process beside each worker's, on the same core.
        probed = {node: probe(scheduling_strategy=on_node(node)) for node in nodes}
        for node, one in probed.items():
            why = why_unfit(one)
            if why is not None:
                name = self._alive().get(node, {}).get("NodeName", node)
                raise ScaleOutError(f"dedup: no worker can run on node {name}; {why}")
        self._fit |= nodes

    def _cuts(self) -> list[tuple[int, ...]]:
        return [(part.place, *(part.extent or ())[:2]) for part in self._parts]

    def _dealt(
        self, jobs: Sequence[int], ask: Callable[[Any, int], Any]
    ) -> Iterator[tuple[int, _Hired, Any]]:
        """Yield (job, worker, answer) of jobs that workers are asked to do, each when it is free.

        Raises:
            one of `lost`, when a worker is gone for good.
        """
        waiting, under_way = deque(jobs), dict[Any, tuple[int, _Hired]]()
        # One whose core others have has not begun: it is given nothing before it says that it is there.
        coming = {worker.actor.ready.remote(): worker for worker in self._workers}
        while waiting or under_way:
            timeout = None if under_way else _SOON_SECONDS
            found, _ = self._ray.wait([*under_way, *coming], num_returns=1, timeout=timeout)
            if not found:
                self._attend()
                continue
            (ready,) = found
            if ready in coming:
                worker = coming.pop(ready)
                answer(ready)
            else:
                job, worker = under_way.pop(ready)
                yield job, worker, answer(ready)
            if waiting:
                job = waiting.popleft()
                under_way[ask(worker.actor, job)] = job, worker

    # ---- partitions ----

    def count_lines(self, making: Making, parts: Sequence[InputPart]) -> list[int]:
        """Return how many lines each part has."""
        self._making, self._parts = making, parts
        self._hire()

        def count() -> dict[int, int]:
            dealt = self._dealt(range(len(parts)), lambda actor, at: actor.count_lines.remote(parts[at]))
            return {at: lines for at, _, lines in dealt}

        counts = self._again(count)
        self._again(self._attend)
        return [counts[at] for at in range(len(parts))]

    def make(self, making: Making, parts: Sequence[InputPart], step: Step) -> Numbering:
        """Make the partitions of all parts, and number their rows."""
        self._making, self._parts, self._step = making, parts, step
        self._again(self._make)
        return self._hosts.numbering

    def _make(self) -> None:
        """Let workers make the partitions that no worker has."""
        wanted = self._unmade()
        done = len(self._parts) - len(wanted)
        for at, worker, _ in self._dealt(wanted, lambda actor, at: actor.make.remote(self._parts[at], at)):
            self._owners[at] = worker
            done += 1
            self._step("parts", done, len(self._parts))
        places = {number: self._workers.index(worker) for number, worker in self._owners.items()}
        self._hosts = Hosts([worker.actor for worker in self._workers], places)
        self._hosts.number()

    def _unmade(self) -> list[int]:
        self._owners = {at: worker for at, worker in self._owners.items() if worker in self._workers}
        return [at for at in range(len(self._parts)) if at not in self._owners]

    def drop(self) -> None:
        """Remove the partitions."""
        under_way = [worker.actor.drop.remote() for worker in self._workers]
        self._ray.wait(under_way, num_returns=len(under_way), timeout=60)
        self._parts, self._owners = (), {}

    def release(self) -> None:
        """Let the workers go."""
        for worker in self._workers:
            self._ray.kill(worker.actor)
        self._workers = []

    # ---- the second reading ----

    def can_write(self, making: Making, writing: Writing) -> bool:
        """Return whether the output is seen by everybody."""
        self._making = making

        def ask() -> bool:
            self._hire()
            self._attend()
            return all(map(answer, [worker.actor.sees.remote(*writing.seen) for worker in self._workers]))

        return self._again(ask)

    def lines(self, making: Making, writing: Writing, at: int, wanted: Iterator[Wanted]) -> Iterator[Lines]:
        """Write the lines of parts, and yield what is to be known of them, in order; `_PARTS_AHEAD` for each
        worker are under way."""
        self._making = making
        self._again(self._hire)
        known = self._ray.put(writing)
        parts: deque[_Part] = deque()
        while True:
            while len(parts) < _PARTS_AHEAD * len(self._workers) and (some := next(wanted, None)):
                parts.append(_Part(self._ray.put(some)))
                self._ask_for_lines(parts[-1], known, parts)
            if not parts:
                return
            try:
                for part in parts:
                    if part is not parts[0] and not self._is_made(part):
                        break
                    at = part.placed(at)
                    if part.written is None:
                        write = part.actor.write.options(concurrency_group="asks")
                        part.written = write.remote(known, part.sent, part.at)
                answer(parts[0].written)
            except lost() as exc:
                self._recover(exc)
                for part in parts:
                    self._ask_for_lines(part, known, parts)
                continue
            done = parts.popleft().lines
            assert done is not None
            yield done

    def _ask_for_lines(self, part: _Part, known: Any, parts: Iterable[_Part]) -> None:
        """Have a part made by who has the least to do, and written when its turn comes."""
        busy = [other.actor for other in parts if other is not part and not self._is_made(other)]
        part.actor = min((worker.actor for worker in self._workers), key=busy.count)
        part.made = part.actor.lines.remote(known, part.sent) if part.lines is None else None
        part.written = None

    def _is_made(self, part: _Part) -> bool:
        return part.lines is not None or bool(self._ray.wait([part.made], timeout=0)[0])

    # ---- what is asked of them ----

    def ranks(self) -> Iterator[list[Any]]:
        """Yield what the rows are ordered by, a partition after the other."""

        def ask(number: int) -> Any:
            return answer(self._owners[number].actor.ranks.remote(number))

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

    def walk(self, walk_plan: WalkPlan, step: Step) -> Iterator[Edges]:
        """Yield what all ranges of all tables have; some of it twice where a node died."""

        def done(count: int) -> None:
            step("ranges", count, walk_plan.count)

        for found in swept(walk_plan, walk_plan.tables, lambda: self._hosts, self._recover, done):
            if not isinstance(found, RangeEnd):
                yield found

    # ---- what is lost ----

    def _again(self, ask: Callable[[], _T]) -> _T:
        """Return what is asked of workers, as often as one of them is lost."""
        while True:
            try:
                return ask()
            except lost() as exc:
                self._recover(exc)

    def _recover(self, reason: Exception) -> None:
        """Make the partitions of lost nodes again, elsewhere."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until:
            try:
                self._hire()
                self._attend()
                if self._hosts.actors and self._unmade():
                    self._make()
                owners = [worker.actor.ready.remote() for worker in set(self._owners.values())]
                if not owners or len(self._ray.wait(owners, num_returns=len(owners), timeout=5)[0]) == len(
                    owners
                ):
                    return
            except lost():
                pass
            except _NoNodesError:
                if time.monotonic() + _PAUSE_SECONDS >= until:
                    raise
            time.sleep(_PAUSE_SECONDS)
        raise ScaleOutError(f"dedup: a worker is gone, and its node is not: {reason}") from reason


def _has_answer(reference: Any) -> bool:
    """Return whether a call that has come to its end has an answer."""
    try:
        answer(reference)
    except lost():
        return False
    return True


def _this_boot() -> str:
    """Return an id of this run of the system: what was written, not synced, is whole in it."""
    with suppress(OSError), open(_BOOT_FILE, encoding="ascii") as file:
        return file.read().strip()
    return f"process-{os.getpid()}-{time.time_ns()}"


def _cores(node: dict[str, Any]) -> int:
    return int(node["Resources"].get("CPU", 0))
