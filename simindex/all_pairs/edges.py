"""Edges between documents: sorted in bounded memory, spilling to disk, and the groups that they make.

`Forest` is a union-find over the numbers 0..n-1 in four bytes a number; the kernel's forest.c says how it is
used: edges first, then the groups, once. Source of the sorting: merging of sorted runs, Knuth, The Art of
Computer Programming, volume 3, 5.4.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import IO, Any, Self

import numpy as np

from simindex import _kernel
from simindex.all_pairs.tables import Piece, merged
from simindex.errors import DiskError, IndexFullError, SimIndexError

MOST_NUMBERS = 2**32 - 1

_ROOM = 1 << 16
"""Members that are listed in one go."""


def edges_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the edges between numbers, uint64: the later one in the upper half, the earlier in the lower."""
    later, earlier = np.maximum(a, b).astype(np.uint64), np.minimum(a, b).astype(np.uint64)
    edges: np.ndarray = later << np.uint64(32) | earlier
    return edges


def ends_of(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what `edges_between` was given, uint64: the later numbers, and the earlier ones.

    >>> ends_of(edges_between(np.array([7]), np.array([9])))
    (array([9], dtype=uint64), array([7], dtype=uint64))
    """
    return edges >> np.uint64(32), edges & np.uint64(2**32 - 1)


def edges_without(edges: Iterator[np.ndarray], known: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield, for each array of edges, those that are not `known`, maybe none; both ascend."""
    others = np.empty(0, dtype=np.uint64)
    for some in edges:
        left = some[~np.isin(some, others)]
        while len(some) and (not len(others) or others[-1] < some[-1]):
            if (more := next(known, None)) is None:
                break
            others = more
            left = left[~np.isin(left, others)]
        yield left


class Forest:
    """The numbers 0..count-1, each a group by itself at first, in 4 bytes a number."""

    def __init__(self, count: int) -> None:
        """Raises SimIndexError where there are 2**32 or more."""
        if count > MOST_NUMBERS:
            raise SimIndexError(f"clusters: expected fewer than {2**32:,} documents, found {count:,}")
        self._links = np.arange(count, dtype=np.uint32)

    def join(self, edges: np.ndarray) -> int:
        """Unite the groups of both ends of each edge (`edges_between`); returns how many fewer there are."""
        return _kernel.join_edges(self._links, np.ascontiguousarray(edges, dtype=np.uint64))

    def assign(self, edges: np.ndarray) -> int:
        """Let numbers belong to the first earlier centre that an edge leads to; returns how many now do.
        `edges`: ascending, in one call or several."""
        return _kernel.assign_stars(self._links, np.ascontiguousarray(edges, dtype=np.uint64))

    def roots(self, numbers: np.ndarray) -> np.ndarray:
        """Return, for each of the numbers, the first number of its group: uint32."""
        found = numbers
        while True:
            above: np.ndarray = self._links[found]
            if np.array_equal(above, found):
                return above
            found = above

    def groups(self) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield the groups of two or more in the order of their first members: (members, is_last), uint32,
        ascending; a large one comes in parts, the last of which is `is_last`. The forest is used up."""
        _kernel.make_circles(self._links)
        cursor, room = np.zeros(2, dtype=np.uint64), np.empty(_ROOM, dtype=np.uint64)
        while count := _kernel.next_members(self._links, cursor, room):
            roots, members = room[:count] >> np.uint64(32), room[:count].astype(np.uint32)
            ends = [*(np.flatnonzero(np.diff(roots)) + 1).tolist(), count]
            first = 0
            for end in ends:
                yield members[first:end], end < count or bool(cursor[0] == cursor[1])
                first = end


EDGE = np.dtype(np.uint64)

LEAST_BLOCK = 512
"""Edges of a run that are read in one go, at least: with very many runs the bound on memory gives way."""


class SortedEdges:
    """Takes edges, uint64 or structs with a field `edge`, in any order and gives them back ascending.

    Not thread-safe. Memory: `memory_bytes`, twice that for a moment while a run is sorted or merged.
    """

    def __init__(self, memory_bytes: int, dtype: np.dtype[Any] = EDGE, *, folder: str | None = None) -> None:
        self._dtype, self._folder = dtype, folder
        self._capacity = max(memory_bytes // dtype.itemsize, 1)
        self._held: list[np.ndarray] = []
        self._num_held = 0
        self._ends = [0]
        """Behind each run in the file, in edges."""
        self._file: IO[bytes] | None = None

    @property
    def num_spilled(self) -> int:
        """Edges that lie on the disk."""
        return self._ends[-1]

    def add(self, edges: np.ndarray) -> None:
        """Take some edges; what does not fit into the memory goes, sorted, to the file. Raises IndexFullError
        or DiskError where that cannot be written."""
        first = 0
        while first < len(edges):
            some = edges[first : first + self._capacity - self._num_held]
            self._held.append(some)
            self._num_held += len(some)
            first += len(some)
            if self._num_held == self._capacity:
                self._spill()

    def add_all(self, batches: Iterable[np.ndarray]) -> None:
        """Take the edges of some batches."""
        for some in batches:
            self.add(some)

    def _spill(self) -> None:
        run = self._sorted_held()
        with self._naming_the_folder():
            if self._file is None:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115
                    prefix="simindex-edges-", buffering=0, dir=self._folder
                )
            self._file.seek(self.num_spilled * self._dtype.itemsize)
            rest = run.view(np.uint8).data
            while rest:
                rest = rest[self._file.write(rest) :]
        self._ends.append(self.num_spilled + len(run))

    def _sorted_held(self) -> np.ndarray:
        run = np.concatenate([np.empty(0, dtype=self._dtype), *self._held])
        self._held, self._num_held = [], 0
        if self._dtype.names is not None:
            return run[np.argsort(run["edge"], kind="stable")]
        run.sort()
        return run

    def ascending(self) -> Iterator[np.ndarray]:
        """Yield all edges in ascending order, in arrays of the dtype given, maybe one empty array; an edge
        comes as often as it was added. Empties the memory: to be called once."""
        last = self._sorted_held()
        num_runs = len(self._ends) - 1
        if not num_runs:
            yield last
            return
        size = max(self._capacity // (2 * (num_runs + 1)), LEAST_BLOCK)
        runs = [self._run(first, end, size) for first, end in pairwise(self._ends)]
        newest = [iter([(self._edges(last), last)])] if len(last) else []
        for _, rows in merged([*newest, *runs]):
            yield rows

    def _run(self, first: int, end: int, size: int) -> Iterator[Piece]:
        """Read the rows first..end-1 of the file, `size` at a time, and yield (their edges, the rows as
        added). Raises DiskError where that fails or the file is too short."""
        assert self._file is not None
        for at in range(first, end, size):
            count = min(size, end - at)
            with self._naming_the_folder():
                self._file.seek(at * self._dtype.itemsize)
                block = np.fromfile(self._file, dtype=self._dtype, count=count)
                if len(block) < count:
                    raise OSError(errno.EIO, "the file of edges is shorter than what was written")
            yield self._edges(block), block

    def _edges(self, rows: np.ndarray) -> np.ndarray:
        edges: np.ndarray = rows if self._dtype.names is None else rows["edge"]
        return edges

    @contextmanager
    def _naming_the_folder(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            where = self._folder or tempfile.gettempdir()
            remedy = "it needs" if self._folder else "set TMPDIR to"
            what = f"clusters: edges that do not fit into memory_bytes go to {where}, and"
            if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                full = f"{what} it is full ({exc}); {remedy} a disk with more room"
                raise IndexFullError(full) from exc
            raise DiskError(f"{what} that failed ({exc}); {remedy} another disk") from exc

    def close(self) -> None:
        """Let go of the memory and of the disk. Closing twice is allowed."""
        self._held, self._num_held = [], 0
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
