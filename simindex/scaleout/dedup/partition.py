"""A partition of a deduplication: the sketches of a part's rows in files, and the tables of them, sorted.

Owns the files beside those of `corpus.dedup.sorting.sketches`: fingerprints, copies, runs of sorted tables.
Must not read inputs, nor know other partitions. Invariant: the runs of a table have every row that is
compared once, but for copies of another row of the partition.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from simindex import _kernel
from simindex.corpus.dedup.sorting.candidates import copies_among
from simindex.corpus.dedup.sorting.sketches import SketchFiles
from simindex.corpus.outputs.frames import naming
from simindex.format.layout import FIRST_BAND_TABLE
from simindex.pairs.tables import Piece, merged
from simindex.queries.scheme import Scheme
from simindex.sketching.sketch import HAS_SIGNATURE

_RUN = 1 << 20
"""Rows of a run: so many are sorted in memory, 40 bytes each."""

_FINGERPRINTS, _COPIES, _KEYS, _RANKS = "fingerprints", "copies", "sorted.keys", "sorted.ranks"


def write_tables(
    folder: str, files: SketchFiles, fingerprints: np.ndarray, scheme: Scheme, half: int
) -> None:
    """Write what a partition has beside its sketches.

    Args:
        folder: of both.
        files: the sketches; `present` is that of the rows.
        fingerprints: uint64, of all rows.
        half: of a sketch, that is compared: the tables are those of it.
    """
    numbers = np.arange(files.count, dtype=np.uint32)
    present = files.present(numbers)
    compared = (present & half) != 0
    # Rows of which both halves are equal; of equal words the fingerprints hardly ever differ.
    leaders, copies = copies_among(files, compared) if files.bands else _equal(fingerprints, compared)
    is_equal = (fingerprints[leaders] == fingerprints[copies]) & (present[leaders] == present[copies])
    leaders, copies = leaders[is_equal], copies[is_equal]
    compared[copies] = False
    numbers = numbers[compared]
    _write(folder, _FINGERPRINTS, [fingerprints])
    _write(folder, _COPIES, [leaders, copies])
    _write(folder, _KEYS, [])
    _write(folder, _RANKS, [])
    for keys in _tables(files, fingerprints, scheme, half):
        wanted = np.ascontiguousarray(keys[compared])
        for first in range(0, len(wanted), _RUN):
            run = wanted[first : first + _RUN]
            ordered, places = (
                np.empty((1, len(run)), dtype=np.uint64),
                np.empty((1, len(run)), dtype=np.uint32),
            )
            _kernel.sort_tables(run[None], len(run), ordered, places)
            _write(folder, _KEYS, [ordered[0]], mode="ab")
            _write(folder, _RANKS, [numbers[first : first + _RUN][places[0]]], mode="ab")


def _equal(fingerprints: np.ndarray, compared: np.ndarray) -> Piece:
    """Return (leaders, copies) of rows that have nothing but fingerprints."""
    numbers = np.flatnonzero(compared).astype(np.uint32)
    _, firsts, which = np.unique(fingerprints[numbers], return_index=True, return_inverse=True)
    leaders = numbers[firsts[which]]
    is_copy = leaders != numbers
    return leaders[is_copy], numbers[is_copy]


def _tables(files: SketchFiles, fingerprints: np.ndarray, scheme: Scheme, half: int) -> Iterator[np.ndarray]:
    """Yield the keys of each table, by row."""
    if half == HAS_SIGNATURE:
        yield from map(files.band, range(files.bands))
    else:
        yield from scheme.permute(fingerprints)


def _write(folder: str, name: str, columns: Sequence[np.ndarray], mode: str = "wb") -> None:
    path = os.path.join(folder, name)
    with naming(path), open(path, mode) as file:
        for column in columns:
            file.write(np.ascontiguousarray(column).data)


class SketchTables:
    """A partition that is whole, as ranges read it; see `simindex.pairs.tables.Tables`.

    Args:
        folder: of it.
        scheme: of the configuration.
        half: of a sketch, that is compared.
    """

    snapshot = 0

    def __init__(self, folder: str, scheme: Scheme, half: int) -> None:
        self._folder = folder
        self._files = SketchFiles(folder, scheme.config.bands)
        by_rows = half == HAS_SIGNATURE
        self._first = FIRST_BAND_TABLE if by_rows else scheme.tables.first_permutation
        num_tables = scheme.tables.bands if by_rows else scheme.plan.num_tables
        self.total = self._files.count
        self._fingerprints = self._mapped(_FINGERPRINTS, np.uint64)
        shape = num_tables, -1
        self._keys = self._mapped(_KEYS, np.uint64).reshape(shape)
        self._ranks = self._mapped(_RANKS, np.uint32).reshape(shape)

    def _mapped(self, name: str, dtype: Any) -> np.ndarray:
        path = os.path.join(self._folder, name)
        if not os.path.getsize(path):
            return np.empty(0, dtype=dtype)  # nothing can be mapped of it
        return np.memmap(path, dtype=dtype, mode="r")

    def slice(self, table: int, first: int, behind: int, capacity: int) -> TableSlice:
        """Return the entries of a table whose keys are in first..behind-1.

        Args:
            capacity: entries that are in memory at a time.
        """
        keys, ranks = self._keys[table - self._first], self._ranks[table - self._first]
        runs = range(0, len(keys), _RUN)
        each = max(capacity // max(len(runs), 1), 1)
        return TableSlice(
            merged(
                [_entries(keys[at : at + _RUN], ranks[at : at + _RUN], first, behind, each) for at in runs]
            )
        )

    def sketches(self, ranks: np.ndarray) -> Piece:
        """Return (words, fingerprints) of some rows."""
        return self._files.words(ranks), np.array(self._fingerprints[ranks])

    def copies(self) -> Piece:
        """Return (leaders, copies), uint32, of rows that are in no table, for their sketch is a leader's."""
        found = np.array(self._mapped(_COPIES, np.uint32)).reshape(2, -1)
        return found[0], found[1]

    def metadata(self, ranks: Sequence[int]) -> list[tuple[Any, int]]:
        """Return the labels of rows, and which halves of a sketch they have."""
        numbers = np.array(ranks, dtype=np.uint32)
        return list(zip(self._files.labels(numbers), self._files.present(numbers).tolist(), strict=True))

    def close(self) -> None:
        """There is nothing to let go of: files are mapped, or opened for a moment."""


class TableSlice:
    """The entries of a slice, a piece at a time."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces

    def next_piece(self) -> Piece | None:
        """Return the next (keys, ranks); ``None`` at the end."""
        return next(self._pieces, None)


def _entries(keys: np.ndarray, ranks: np.ndarray, first: int, behind: int, capacity: int) -> Iterator[Piece]:
    """Yield the entries of a run, some at a time."""
    begin = int(np.searchsorted(keys, np.uint64(first)))
    end = len(keys) if behind > int(_LAST_KEY) else int(np.searchsorted(keys, np.uint64(behind)))
    for at in range(begin, end, capacity):
        here = slice(at, min(at + capacity, end))
        yield np.array(keys[here]), np.array(ranks[here])


_LAST_KEY = np.uint64(2**64 - 1)
