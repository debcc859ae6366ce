"""Merge the entries of one table over all segments in key order, a buffer at a time.

Source: merging of sorted runs, Knuth, The Art of Computer Programming, volume 3, 5.4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simindex import _kernel
from simindex.format.records import REMOVED_SKETCH
from simindex.format.rows import MERGE_SOURCE
from simindex.pairs.tables import offsets_of
from simindex.queries.view import View
from simindex.segments.directory import Directory

_WINDOW = 1 << 16
"""Numbers whose marks of removal are read in one go."""


def set_bits(bits: np.ndarray, ranks: np.ndarray) -> None:
    """Set the bits of some ranks, bit 0 of byte 0 being that of rank 0."""
    ranks = ranks.astype(np.int64)
    np.bitwise_or.at(bits, ranks >> 3, (1 << (ranks & 7)).astype(np.uint8))


def bits_of(bits: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Return whether the bit of each rank is set."""
    found: np.ndarray = bits[ranks >> 3] >> (ranks & 7).astype(np.uint8) & 1 != 0
    return found


class Ranks:
    """The documents of a snapshot's segments, numbered from 0 without the gaps between segments.

    Attributes:
        offsets: uint64: the rank of each segment's first document, and their number behind the last.
        dead: a bit for each rank: set where no live document has the sketch.
    """

    def __init__(self, view: View) -> None:
        entries = [segment.entry for segment in view.directory.segments]
        self._bases = np.array([entry.base for entry in entries], dtype=np.uint64)
        self.offsets = offsets_of([entry.span for entry in entries], "segments")
        self.dead = np.zeros(self.total // 8 + 1, dtype=np.uint8)
        for entry, offset in zip(entries, self.offsets.tolist(), strict=False):
            behind = entry.base + entry.span
            for first in range(entry.base, behind, _WINDOW):
                removed = view.removed_between(first, min(first + _WINDOW, behind))
                gone = [number for number, flags in removed.items() if flags & REMOVED_SKETCH]
                ranks = np.array(gone, dtype=np.uint64) - np.uint64(entry.base) + np.uint64(offset)
                set_bits(self.dead, ranks)

    @property
    def total(self) -> int:
        """How many ranks there are: those of removed documents that segments still hold are among them."""
        return int(self.offsets[-1])

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the ranks, uint32, of documents by their numbers, which must be in a segment."""
        numbers = numbers.astype(np.uint64)
        places = np.searchsorted(self._bases, numbers, side="right") - 1
        ranks: np.ndarray = (numbers - self._bases[places] + self.offsets[places]).astype(np.uint32)
        return ranks

    def numbers(self, ranks: np.ndarray) -> np.ndarray:
        """Return the numbers of documents, uint64, by their ranks."""
        ranks = ranks.astype(np.uint64)
        places = np.searchsorted(self.offsets, ranks, side="right") - 1
        numbers: np.ndarray = self._bases[places] + ranks - self.offsets[places]
        return numbers


EVERY_KEY = 2**64
"""What lies behind all keys."""


class TableEntries:
    """The entries of a table, in order of (key, rank): all, or those whose keys are in a range.

    A range is found by halving, some twenty entries a segment; what lies outside of it is not read.

    Args:
        read: calls a function with a view of the snapshot.
        dead: a bit for each rank that is left out.
        capacity: entries that are in memory at a time.

    Attributes:
        keys, numbers: those in memory, uint64, and their ranks, uint32.
        is_last: whether no more follow them.
        total: how many the table has in the range, those that are left out included.
    """

    def __init__(
        self,
        read: Callable[[Callable[[View], object]], object],
        ranks: Ranks,
        table: int,
        dead: np.ndarray,
        capacity: int,
        first: int,
        behind: int,
    ) -> None:
        self._read, self._dead = read, dead

        def begin(view: View) -> None:
            directory = view.directory
            counts = [directory.geometry.entry_counts(segment.entry)[table] for segment in directory.segments]
            places = np.flatnonzero(counts)
            self._sources = np.zeros(len(places), dtype=MERGE_SOURCE)
            self._sources["segment"] = places
            self._sources["table"] = table
            self._sources["offset"] = ranks.offsets[places]
            self._sources["position"] = [_place_of(directory, at, first) for at in self._sources]
            self._skipped = int(self._sources["position"].sum())
            self.total = sum(_place_of(directory, at, behind) for at in self._sources) - self._skipped

        read(begin)
        room = min(capacity, self.total)
        self._keys = np.empty(room, dtype=np.uint64)
        self._ranks = np.empty(room, dtype=np.uint32)
        self._count = 0
        self.is_last = not self.total
        self.keys, self.numbers = self._keys[:0], self._ranks[:0]

    @property
    def done(self) -> int:
        """How many entries have been read so far, those that were left out included."""
        return int(self._sources["position"].sum()) - self._skipped

    def refill(self, begin: int) -> None:
        """Drop the entries before `begin` and read more behind the others, as many as there is room for."""
        count = self._count - begin
        self._keys[:count] = self._keys[begin : self._count]
        self._ranks[:count] = self._ranks[begin : self._count]
        self._count = count
        self._read(self._fill)
        self.keys, self.numbers = self._keys[: self._count], self._ranks[: self._count]

    def _fill(self, view: View) -> None:
        count = self._count
        while count < len(self._keys) and not self.is_last:
            # Entries come in order, so these are of the range, whatever follows it in the segments.
            end = count + min(len(self._keys) - count, self.total - self.done)
            count += view.directory.run(
                _kernel.merge, self._sources, self._dead, self._keys[count:end], self._ranks[count:end]
            )
            self.is_last = self.done == self.total
        self._count = count

    def next_piece(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the next (keys, ranks), uint64 and uint32, in order of both; ``None`` at the end."""
        while not self.is_last:
            self.refill(self._count)
            if self._count:
                return self.keys.copy(), self.numbers.copy()
        return None


def _place_of(directory: Directory, source: np.void, key: int) -> int:
    """Return how many entries of a segment's table have keys below one."""
    entry = directory.segments[int(source["segment"])].entry
    low, high = 0, directory.geometry.entry_counts(entry)[int(source["table"])]
    if key <= 0 or key >= EVERY_KEY:
        return low if key <= 0 else high
    probe = np.array([source], dtype=MERGE_SOURCE)
    found, number = np.empty(1, dtype=np.uint64), np.empty(1, dtype=np.uint32)
    guess = int(high * (key / EVERY_KEY))  # hashes lie evenly
    step = 1
    while low < high:
        middle = min(max(guess, low), high - 1)
        probe["position"] = middle
        directory.run(_kernel.merge, probe, None, found, number)
        if int(found[0]) < key:
            low = middle + 1
            guess = low + step - 1
        else:
            high = middle
            guess = high - step
        step *= 2
        if step > high - low:
            guess = (low + high) // 2
    return low
