"""Sort edges in bounded memory, spilling to disk.

Source: merging of sorted runs, Knuth, The Art of Computer Programming, volume 3, 5.4.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import IO, Any, Self

import numpy as np

from simindex.errors import DiskError, IndexFullError
from simindex.pairs.tables import Piece, merged

EDGE = np.dtype(np.uint64)

LEAST_BLOCK = 512
"""Edges of a run that are read in one go, at least: with very many runs the bound on memory gives way."""


class SortedEdges:
    """Takes edges in any order and gives them back ascending.

    Not thread-safe. Memory: `memory_bytes`, twice that for a moment while a run is sorted or merged.

    Args:
        dtype: of one: uint64, or a struct that has it as its field `edge`.
        folder: of what does not fit; ``None``: that of temporary files.
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
        """Take some edges, uint64."""
        first = 0
        while first < len(edges):
            some = edges[first : first + self._capacity - self._num_held]
            self._held.append(some)
            self._num_held += len(some)
            first += len(some)
            if self._num_held == self._capacity:
                self._spill()

    def _spill(self) -> None:
        run = self._sorted_held()
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115
                    prefix="simindex-edges-", buffering=0, dir=self._folder
                )
            self._file.seek(self.num_spilled * self._dtype.itemsize)
            rest = run.view(np.uint8).data
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as exc:
            raise _failure(exc, self._folder) from exc
        self._ends.append(self.num_spilled + len(run))

    def _sorted_held(self) -> np.ndarray:
        run = np.concatenate([np.empty(0, dtype=self._dtype), *self._held])
        self._held, self._num_held = [], 0
        return _in_order(run)

    def ascending(self) -> Iterator[np.ndarray]:
        """Yield all edges, some at a time; an edge comes as often as it was added. To be called once."""
        last = self._sorted_held()
        num_runs = len(self._ends) - 1
        if not num_runs:
            yield last
            return
        size = max(self._capacity // (2 * (num_runs + 1)), LEAST_BLOCK)
        runs = [self._run(first, behind, size) for first, behind in pairwise(self._ends)]
        newest = [iter([(_edges(last), last)])] if len(last) else []
        for _, rows in merged([*newest, *runs]):
            yield rows

    def _run(self, first: int, behind: int, size: int) -> Iterator[Piece]:
        """Yield the edges of a run in the file, and their rows, so many at a time."""
        assert self._file is not None
        for at in range(first, behind, size):
            block = np.empty(min(size, behind - at), dtype=self._dtype)
            rest = block.view(np.uint8).data
            try:
                self._file.seek(at * self._dtype.itemsize)
                while rest:
                    done = self._file.readinto(rest)  # type: ignore[attr-defined]
                    if not done:
                        raise OSError(errno.EIO, "the file of edges is shorter than what was written")
                    rest = rest[done:]
            except OSError as exc:
                raise _failure(exc, self._folder) from exc
            yield _edges(block), block

    def close(self) -> None:
        """Let go of the memory and of the disk. Closing twice is allowed."""
        self._held, self._num_held = [], 0
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _edges(rows: np.ndarray) -> np.ndarray:
    edges: np.ndarray = rows if rows.dtype.names is None else rows["edge"]
    return edges


def _in_order(rows: np.ndarray) -> np.ndarray:
    """Return rows by their edges; where these are structs, in an array of its own."""
    if rows.dtype.names is not None:
        return rows[np.argsort(rows["edge"], kind="stable")]
    rows.sort()
    return rows


def _failure(exc: OSError, folder: str | None) -> IndexFullError | DiskError:
    where = f"clusters: edges that do not fit into memory_bytes go to {folder or tempfile.gettempdir()}"
    remedy = "" if folder else "set TMPDIR to "
    if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return IndexFullError(
            f"{where}, and it is full ({exc}); {remedy or 'it needs '}a disk with more room"
        )
    return DiskError(f"{where}, and that failed ({exc}); {remedy or 'it needs '}another disk")
