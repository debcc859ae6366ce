"""The samples of stored documents, from the shingle table: its entries by document.

The table has them by hash, so those of a segment are read and sorted at once: some 30 bytes an entry of the
largest segment.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simindex.errors import CorruptIndexError
from simindex.format.chunks import hashes_of_shingle_keys
from simindex.format.layout import Geometry, SegmentEntry
from simindex.maintenance.check_segments import StoredTables
from simindex.queries.view import View
from simindex.segments.directory import Directory
from simindex.sketching.sample import Samples, num_entries

Entries = Iterable[tuple[np.ndarray, np.ndarray]]
"""Keys and relative numbers of the shingle table, in parts."""

Counts = tuple[np.ndarray, np.ndarray]
"""Distinct and sampled shingles of each document, as their records have them: uint32."""


class SegmentSamples:
    """The entries of one segment's shingle table, by document."""

    def __init__(self, base: int, entries: Entries) -> None:
        parts = [(hashes_of_shingle_keys(keys), numbers.copy()) for keys, numbers in entries]
        hashes = np.concatenate([np.empty(0, dtype=np.uint64), *(part for part, _ in parts)])
        numbers = np.concatenate([np.empty(0, dtype=np.uint32), *(part for _, part in parts)])
        order = np.lexsort((hashes, numbers))
        self._hashes, self._numbers = hashes[order], numbers[order].astype(np.uint64) + np.uint64(base)

    def of(self, numbers: np.ndarray, counts: Counts, one_in: int) -> tuple[Samples, np.ndarray]:
        """Return the samples of documents, and which of them are not there as their records say (bool); these
        are left empty.

        Args:
            numbers: uint64.
        """
        firsts = np.searchsorted(self._numbers, numbers)
        found = np.searchsorted(self._numbers, numbers, side="right") - firsts
        is_lost = found != num_entries(*counts)
        lengths = np.where(is_lost, 0, found)
        begins = np.cumsum(lengths) - lengths
        at = np.arange(int(lengths.sum())) + np.repeat(firsts - begins, lengths)
        num_shingles, num_sampled = (np.where(is_lost, 0, count).astype(np.uint32) for count in counts)
        return Samples(self._hashes[at], num_shingles, num_sampled, one_in), is_lost


class StoredSamples:
    """Reads the samples of one snapshot, for numbers that ascend from call to call."""

    def __init__(self, geometry: Geometry, one_in: int) -> None:
        self._geometry, self._one_in = geometry, one_in
        self._entry: SegmentEntry | None = None
        self._samples = SegmentSamples(0, [])

    def of(self, view: View, numbers: np.ndarray, counts: Counts) -> Samples:
        """Return the samples of documents.

        Raises:
            CorruptIndexError: an entry is damaged, or one that a record speaks of is missing.
        """
        parts = [Samples.none(self._one_in)]
        segments = np.array([entry.base for entry in view.manifest.segments], dtype=np.uint64)
        own = np.searchsorted(segments, numbers, side="right") - 1
        for place in np.unique(own).tolist():
            self._follow(view, view.manifest.segments[place])
            is_own = own == place
            of_own = counts[0][is_own], counts[1][is_own]
            samples, is_lost = self._samples.of(numbers[is_own], of_own, self._one_in)
            for number in numbers[is_own][is_lost].tolist():
                raise CorruptIndexError(
                    f"document {number}: expected its sampled shingles, found others; restore a backup, or "
                    "repair the index"
                )
            parts.append(samples)
        return Samples.joined(parts)

    def _follow(self, view: View, entry: SegmentEntry) -> None:
        if self._entry == entry:
            return
        tables = StoredTables(self._geometry, entry, Directory(self._geometry, [view.segment(entry)]))
        self._samples = SegmentSamples(entry.base, tables.entries(self._geometry.shingle_table))
        for error in tables.errors:
            raise error
        self._entry = entry
