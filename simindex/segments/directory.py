"""Search all live segments of a snapshot, by the kernel.

Everything is one structure, the sorted table, and one operation: all entries whose key starts with these p
bits. Band tables answer every number of rows from 1 to 8 (LSH Forest, Bawa et al. 2005); permutation tables
every fingerprint within k bits (Manku et al. 2007); the key table external keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from simindex import _kernel
from simindex.errors import CorruptIndexError
from simindex.format.layout import FIRST_BAND_TABLE, Geometry
from simindex.format.rows import DIRECTORY, MATCH, MATCHES
from simindex.segments.load import Segment
from simindex.segments.memory import MemorySegment
from simindex.storage.pages import MappedFile

Result = TypeVar("Result")


class Directory:
    """All live segments of a snapshot, oldest first, and the searches over them.

    Thread safety: immutable; searches release the GIL. Valid only while the transaction that the
    segments were loaded in, or a later one on an unmoved map, is open.
    """

    def __init__(
        self,
        geometry: Geometry,
        segments: Sequence[Segment | MemorySegment],
        mapped: MappedFile | None = None,
        rows: bytes | None = None,
    ) -> None:
        """Join segments.

        Args:
            mapped: the file that stored ones are mapped from, for the kernel to say which pages are used.
            rows: those of the segments, where they are joined already.
        """
        self.geometry, self.mapped, self.segments = geometry, mapped, segments
        self._rows = b"".join([segment.row for segment in segments]) if rows is None else rows
        self.header = DIRECTORY.pack(
            _kernel.address(self._rows) if segments else 0,
            len(segments),
            geometry.count,
            geometry.entries_per_chunk,
            geometry.sketches_per_chunk,
            geometry.sketches_per_block,
            geometry.fences_per_chunk,
            geometry.bands,
            *(mapped.place if mapped else (0, 0, 0)),
        )

    def with_newest(self, segment: Segment) -> Directory:
        """Return a directory with one segment more."""
        return Directory(self.geometry, [*self.segments, segment], self.mapped, self._rows + segment.row)

    def warm(self) -> int:
        """Read the filters, fences and bitmaps that are not in memory: what every search looks at.

        Returns:
            The bytes that were read.
        """
        behind = self.geometry.count + 1  # tables and the sketch column, which lie before
        stored = [segment.places for segment in self.segments if isinstance(segment, Segment)]
        places = [place for place in stored if place is not None]
        if not places or self.mapped is None:
            return 0
        firsts = [int(place.firsts[behind]) for place in places]
        return self.mapped.bring(
            np.concatenate([place.addresses[first:] for place, first in zip(places, firsts, strict=True)]),
            np.concatenate([place.sizes[first:] for place, first in zip(places, firsts, strict=True)]),
        )

    def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Return function(header, *arguments) of a kernel function."""
        try:
            return function(self.header, *arguments)
        except _kernel.Damage as exc:
            place, table_number, chunk, block = exc.args
            segment, table = self.segments[place].entry.id, self.geometry.name(table_number)
            raise CorruptIndexError(
                f"segment {segment}, table {table}, chunk {chunk}, block {block}: "
                "the stored entries do not fit their seal or their order; "
                "restore a backup or rebuild the index",
                segment=segment,
                table=table,
                chunk=chunk,
                block=block,
            ) from exc

    def find_keys(self, table: int, keys: np.ndarray, most: int) -> list[tuple[int, int]]:
        """Return (place in keys, number) of entries whose key, uint64, is equal, at most `most` for each."""
        found = self.run(_kernel.find_keys, table, keys, most)
        return [(place, number) for number, place, _, _ in MATCH.iter_unpack(found)] if found else []

    def find_key(self, table: int, key: bytes, most: int) -> list[int]:
        """Return the numbers of entries of one key, its little-endian bytes, at most so many."""
        found = self.run(_kernel.find_keys, table, key, most)
        # Mostly there are none, and a query asks this for each match.
        return [number for number, _, _, _ in MATCH.iter_unpack(found)] if found else []

    def find_entries(self, table: int, keys: np.ndarray, most: int) -> np.ndarray:
        """Return what `find_keys` does as an array of MATCHES, whose `query` is the place in keys."""
        return np.frombuffer(self.run(_kernel.find_keys, table, keys, most), dtype=MATCHES)

    def count_keys(self, table: int, keys: np.ndarray) -> np.ndarray:
        """Return how many entries of a table have each key, uint64, those of removed documents included."""
        counts = np.empty(len(keys), dtype=np.uint64)
        self.run(_kernel.count_keys, table, keys, counts)
        return counts

    def find_equal(
        self, table: int, keys: np.ndarray, words: np.ndarray, fingerprints: np.ndarray, most: int
    ) -> list[tuple[int, int]]:
        """Return (place, number) of stored sketches equal to the query's whole sketch, whose entry in a table
        has the query's key."""
        next_keys = None
        if table == FIRST_BAND_TABLE and self.geometry.bands > 1:
            next_keys = np.ascontiguousarray(words[:, 1])
        found = self.run(_kernel.find_equal, table, keys, next_keys, words, fingerprints, most)
        return [(place, number) for number, place, _, _ in MATCH.iter_unpack(found)] if found else []

    def read_sketch(self, number: int) -> tuple[np.ndarray, int] | None:
        """Return (words, fingerprint) of a number's stored sketch, or ``None``."""
        words = np.empty(self.geometry.bands, dtype=np.uint64)
        fingerprint = self.run(_kernel.read_sketch, number, words)
        return None if fingerprint is None else (words, fingerprint)

    def read_sketches(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the stored sketches of many numbers, uint64: words, a row each, and fingerprints."""
        words = np.empty((len(numbers), self.geometry.bands), dtype=np.uint64)
        fingerprints = np.empty(len(numbers), dtype=np.uint64)
        numbers = np.ascontiguousarray(numbers, dtype=np.uint64)
        found = self.run(_kernel.read_sketches, numbers, words, fingerprints)
        if found < len(numbers):
            raise CorruptIndexError(
                f"document {numbers[found]}: expected a stored sketch, found none; "
                "restore a backup or rebuild the index"
            )
        return words, fingerprints
