"""The tables of one stored segment, read whole: their entries in order, and every damaged block on the way.

Owns how a table is read on behind damage, and the sum that tells two sets of entries apart. Must not know
documents.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np

from simindex import _kernel
from simindex.errors import CorruptIndexError
from simindex.format.column import Column
from simindex.format.layout import Geometry, SegmentEntry
from simindex.format.rows import MERGE_SOURCE
from simindex.segments.directory import Directory

_FIRST, _SECOND, _THIRD = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x94D049BB133111EB))


class Sum:
    """Adds up entries, so that two sets of them can be compared without sorting: what is added is a hash of
    key and number under a secret of this process, so that different sets have different sums, up to one
    chance in 2**64, whoever made them."""

    def __init__(self) -> None:
        self._secrets = np.frombuffer(os.urandom(16), dtype=np.uint64)

    def of(self, keys: np.ndarray, numbers: np.ndarray) -> int:
        """Return the sum of entries, modulo 2**64: uint64 keys, and numbers of any width."""
        first, second = self._secrets
        with np.errstate(over="ignore"):
            mixed = keys ^ first
            mixed *= _FIRST
            mixed ^= mixed >> np.uint64(32)
            mixed += numbers.astype(np.uint64) * _SECOND
            mixed ^= second
            mixed ^= mixed >> np.uint64(29)
            mixed *= _THIRD
            mixed ^= mixed >> np.uint64(32)
            mixed *= _SECOND
            mixed ^= mixed >> np.uint64(31)
        return int(mixed.sum(dtype=np.uint64))


class StoredTables:
    """The tables of a segment that is loaded, alone in a directory.

    Attributes:
        errors: damage that was met so far.
    """

    def __init__(self, geometry: Geometry, entry: SegmentEntry, directory: Directory) -> None:
        self._geometry, self._entry, self._directory = geometry, entry, directory
        self.errors: list[CorruptIndexError] = []

    def entries(self, table: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (keys, numbers) of a sorted table, a chunk at a time; what is damaged is left out, and told
        in `errors`. The arrays are written anew for the next ones."""
        count = self._geometry.entry_counts(self._entry)[table]
        room = min(count, self._geometry.entries_per_chunk)
        keys, numbers = np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.uint32)
        source = np.zeros(1, dtype=MERGE_SOURCE)
        source["table"] = table

        def read(position: int, wanted: int) -> int:
            source["position"] = position
            return self._directory.run(_kernel.merge, source, None, keys[:wanted], numbers[:wanted])

        column = Column(table, count, self._geometry.entries_per_chunk, (8, 0, 4))
        for taken in self._parts(column, room, read):
            yield keys[:taken], numbers[:taken]

    def sketches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (words, fingerprints, numbers) of the sketch column, as `entries` does."""
        geometry, count = self._geometry, self._entry.num_sketches
        room = min(count, geometry.sketches_per_chunk)
        words = np.empty((room, geometry.bands), dtype=np.uint64)
        fingerprints, numbers = np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.uint32)

        def read(position: int, wanted: int) -> int:
            out = words[:wanted], numbers[:wanted], fingerprints[:wanted]
            _, copied = self._directory.run(_kernel.copy_sketches, 0, position, 0, None, *out)
            return int(copied)

        column = Column(geometry.count, count, geometry.sketches_per_chunk, (8 * geometry.bands, 8, 4))
        for taken in self._parts(column, room, read):
            yield words[:taken], fingerprints[:taken], numbers[:taken]

    def _parts(self, column: Column, room: int, read: object) -> Iterator[int]:
        """Read a column part by part and yield how much each part has; a damaged block is passed over."""
        assert callable(read)
        position = 0
        while position < column.total:
            wanted = min(room, column.total - position, column.per_chunk - position % column.per_chunk)
            while wanted:
                try:
                    taken = int(read(position, wanted))
                except CorruptIndexError as exc:
                    start, end = self._damaged(column, position, wanted, exc)
                    if start <= position:
                        self.errors.append(exc)
                        position, wanted = end, 0
                        break
                    wanted = start - position  # what lies before the block, then the block again
                else:
                    position += taken
                    yield taken
                    break

    @staticmethod
    def _damaged(column: Column, position: int, wanted: int, error: CorruptIndexError) -> tuple[int, int]:
        """Return the first entry of the block that an error is about, and the one behind its last."""
        if error.chunk is not None and error.block is not None:
            start = error.chunk * column.per_chunk + error.block * column.block
            if start < position + wanted and position < _block_end(column, start):
                return start, _block_end(column, start)
        # It was met beside the part: nothing here can be told to be sound.
        return position, _block_end(column, position)


def _block_end(column: Column, position: int) -> int:
    chunk, place = divmod(position, column.per_chunk)
    end = min((place // column.block + 1) * column.block, column.per_chunk)
    return min(chunk * column.per_chunk + end, column.total)
