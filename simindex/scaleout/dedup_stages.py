"""The stages of a deduplication, over a folder that all nodes see: sketch a part of the input, compare a
range of band words, write the lines of a part.

What a stage makes depends on the input and on what was decided alone: so it may be made again, by any node.
"""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import xxhash

from simindex.corpus.dedup.second_pass import InputPart
from simindex.corpus.dedup.writer_loop import Lines
from simindex.pairs.ranges import walk_range
from simindex.pairs.tables import LocalSource, Numbering
from simindex.pairs.walk_plan import Edges, WalkPlan
from simindex.scaleout.dedup_parts import (
    Making,
    Wanted,
    Writing,
    lines_of,
    make_partition,
    ranks_of,
    tables_of,
    write_lines,
)
from simindex.scaleout.errors import ScaleOutError
from simindex.scaleout.tasks import Tasks, read_found, write_found

Step = Callable[[str, int, int], object]
"""Is called as step(name, done, total)."""


def no_step(name: str, done: int, total: int) -> None:
    """Take no note of progress."""


_BOOT_FILE = "/proc/sys/kernel/random/boot_id"


# ---- the stages ----


class Comparing(NamedTuple):
    """What the ranges of a job have in common.

    Attributes:
        folder: of the partitions, and of what is found.
        numbering: of the rows of all partitions.
    """

    making: Making
    folder: str
    numbering: Numbering
    walk_plan: WalkPlan

    def source(self) -> LocalSource:
        """Return all partitions, open to be read."""
        count = len(self.numbering.offsets) - 1
        opened = {number: tables_of(self.making, _part(self.folder, number)) for number in range(count)}
        return LocalSource(opened, self.numbering)


def _part(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number:06}")


def _range(folder: str, walk_plan: WalkPlan, place: int) -> str:
    name = f"range-{walk_plan.plan.max_run}-{place:06}-of-{walk_plan.count}"
    return os.path.join(folder, name)


def sketch_part(common: tuple[Making, str], job: tuple[int, InputPart]) -> None:
    """Make the partition of a part, unless it is there."""
    making, folder = common
    if not os.path.isdir(folder):
        raise ScaleOutError(
            f"node {socket.gethostname()}: expected the folder {folder}, which the calling process has made, "
            "found none; give work= a folder that all nodes see under the same path"
        )
    make_partition(making, job[1], _part(folder, job[0]))


def compare_range(common: Comparing, place: int) -> None:
    """Write what a range of all tables has into a file, unless it is there."""
    path = _range(common.folder, common.walk_plan, place)
    if os.path.exists(path):
        return
    plan = common.walk_plan
    write_found(path, walk_range(plan, plan.tables, common.source(), place))


def found_in_range(common: Comparing, place: int) -> Iterator[Edges]:
    """Yield what a range has."""
    for found in read_found(_range(common.folder, common.walk_plan, place)):
        if isinstance(found, Edges):
            yield found


def size_lines(writing: Writing, wanted: Wanted) -> Lines:
    """Return what is to be known of the lines of a part."""
    return lines_of(writing, wanted).lines


def write_part(writing: Writing, job: tuple[Wanted, int]) -> bool:
    """Write the lines of a part that stay to their place; returns whether the output is seen here."""
    path, content = writing.seen
    try:
        with open(path, encoding="ascii") as file:
            is_seen = file.read() == content
    except OSError:
        return False
    if is_seen:
        write_lines(writing.path, lines_of(writing, job[0]).kept, job[1])
    return is_seen


# ---- all of them ----


class Stages:
    """The stages of one job.

    Args:
        home: folder that all nodes see, of this job alone.
        tasks: run them.

    Attributes:
        tasks: as given.
        num_written: parts of the output that were written.
    """

    def __init__(self, home: str, tasks: Tasks) -> None:
        self._home, self.tasks = os.path.abspath(home), tasks
        self.num_written = 0

    def make(self, making: Making, parts: Sequence[InputPart], step: Step) -> Numbering:
        """Make the partitions of all parts, and number their rows."""
        # How the input is cut says what its partitions hold.
        cuts = repr([(part.place, *(part.extent or ())[:2]) for part in parts])
        name = xxhash.xxh3_64_hexdigest(f"{_this_boot()} {cuts}".encode())
        self._making, self._folder = making, os.path.join(self._home, name)
        os.makedirs(self._folder, exist_ok=True)
        made = self.tasks.run(sketch_part, (making, self._folder), enumerate(parts))
        for done, _ in enumerate(made, 1):
            step("parts", done, len(parts))
        self._tables = [tables_of(making, _part(self._folder, number)) for number in range(len(parts))]
        self._numbering = Numbering([tables.total for tables in self._tables])
        self._source = LocalSource(dict(enumerate(self._tables)), self._numbering)
        return self._numbering

    def ranks(self) -> Iterator[list[Any]]:
        """Yield what the rows are ordered by, a partition after the other."""
        for number in range(len(self._tables)):
            yield ranks_of(_part(self._folder, number))

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies), by number."""
        return self._source.copies()

    def sketches(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (words, fingerprints) of ascending numbers."""
        return self._source.sketches(numbers)

    def labels(self, numbers: np.ndarray) -> list[tuple[str, int]]:
        """Return what the partitions know of rows, and which halves of a sketch these have."""
        parts = self._numbering.parts(numbers)
        return [each for part, _, ranks in parts for each in self._tables[part].metadata(ranks.tolist())]

    def walk(self, walk_plan: WalkPlan, step: Step) -> Iterator[Edges]:
        """Yield what all ranges of all tables have."""
        common, count = Comparing(self._making, self._folder, self._numbering, walk_plan), walk_plan.count
        for place, _ in enumerate(self.tasks.run(compare_range, common, range(count))):
            yield from found_in_range(common, place)
            step("ranges", place + 1, count)

    def lines(self, writing: Writing, at: int, wanted: Iterable[Wanted]) -> Iterator[Lines]:
        """Write the lines of parts from a place on, and yield what is to be known of them, in order."""
        asked, placed = deque[Wanted](), deque[tuple[Wanted, int, Lines]]()

        def asking() -> Iterator[Wanted]:
            for one in wanted:
                asked.append(one)
                yield one

        def placing(at: int) -> Iterator[tuple[Wanted, int]]:
            for lines in self.tasks.run(size_lines, writing, asking()):
                one = asked.popleft()
                placed.append((one, at, lines))
                yield one, at
                at += int(lines.sizes[lines.stays].sum())

        for is_written in self.tasks.run(write_part, writing, placing(at)):
            one, place, lines = placed.popleft()
            if not is_written:  # that node does not see the output
                write_part(writing, (one, place))
            self.num_written += 1
            yield lines

    def drop(self) -> None:
        """Remove the partitions, and what was found."""
        shutil.rmtree(self._home, ignore_errors=True)


def _this_boot() -> str:
    """Return an id of this run of the system: what was written, not synced, is whole in it."""
    with suppress(OSError), open(_BOOT_FILE, encoding="ascii") as file:
        return file.read().strip()
    return f"process-{os.getpid()}-{time.time_ns()}"
