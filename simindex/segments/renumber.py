"""Renumber a sealed segment, for merges of indexes.

What of a segment says where it lies: the seals, which are seeded with the database key, and the copy table,
which names leaders by their numbers. Invariant: other numbers are relative to the segment, so no other table,
sketch or filter changes.
"""

from __future__ import annotations

import numpy as np

from simindex.format.chunks import read_chunk, resealed_chunk, shifted_whole_segment
from simindex.format.layout import COPY_TABLE, FENCES, FILTERS, Geometry, SegmentEntry
from simindex.segments.build import Puts, SegmentWriter
from simindex.segments.portable import Piece, pieces_of


class MovedSegment:
    """A segment that comes into another index.

    Attributes:
        old, entry: what its own manifest says of it, and the other one.
        pieces: of each value, what it was and what it becomes.
    """

    def __init__(self, geometry: Geometry, entry: SegmentEntry, ids: int, numbers: int) -> None:
        """Begin.

        Args:
            ids, numbers: what its id and the numbers of its documents are raised by.
        """
        self._geometry, self.old, self._numbers = geometry, entry, numbers
        self.entry = entry._replace(id=entry.id + ids, base=entry.base + numbers)
        self.pieces = list(zip(pieces_of(geometry, entry), pieces_of(geometry, self.entry), strict=True))
        self._is_same = not ids and not numbers
        self._copies: SegmentWriter | None = None
        self._num_copies = 0
        if entry.chunked and entry.num_copies and numbers:
            self._copies = SegmentWriter(geometry, self.entry, is_stored=True)
            self._copies.end_table()  # the key table is taken as it is

    def puts(self, old: Piece, new: Piece, value: bytes) -> Puts:
        """Return the renumbered value, in the order of `pieces`; it fits its seals."""
        if self._is_same:
            return [(new.key, value)]
        if new.column is None:
            moved = shifted_whole_segment(self._geometry, self.old, new.key, value, self._numbers)
            return [(new.key, moved)]
        if self._copies is None or new.column.table not in _OF_COPIES:
            return [(new.key, resealed_chunk(new.key, new.column, new.entries, value))]
        if new.column.table != COPY_TABLE:
            return []  # fences and filter came with the table
        leaders, copies = read_chunk(value, old.entries)
        puts = self._copies.add_entries(leaders + np.uint64(self._numbers), copies)
        self._num_copies += len(copies)
        if self._num_copies == self.entry.num_copies:
            puts += self._copies.end_table()
        return puts


_OF_COPIES = COPY_TABLE, FENCES + COPY_TABLE, FILTERS + COPY_TABLE
