"""The sorted tables that pairs are found in: what a table is, and those of several partitions as one.

Source: merging of sorted runs, Knuth, The Art of Computer Programming, volume 3, 5.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from simindex.errors import SimIndexError

Piece = tuple[np.ndarray, np.ndarray]
"""Entries in ascending order of their keys: (keys, numbers), uint64 and uint32."""

LEAST_PIECE = 1_024
"""Entries of a partition that come in one go, at least."""


class SketchSource(Protocol):
    """What sketches are read from."""

    def sketches(self, numbers: np.ndarray) -> Piece:
        """Return (words, fingerprints) of documents by their numbers, ascending."""


class Tables(SketchSource, Protocol):
    """Sorted tables, and what they are of: those of a snapshot (`PinnedTables`), of files, or of several."""

    @property
    def total(self) -> int:
        """How many numbers there are."""

    def pieces(self, table: int, first: int, behind: int, capacity: int) -> Iterator[Piece]:
        """Yield the entries of a table whose keys are in first..behind-1; `capacity` of them, about, are in
        memory at a time."""

    def copies(self) -> Piece:
        """Return (leaders, copies), uint32, of rows that are in no table, for their sketch is a leader's."""


def offsets_of(counts: Sequence[int], what: str) -> np.ndarray:
    """Return the number of the first document of each part, and of all behind the last: uint64.

    Raises SimIndexError where there are 2**32 or more; `what` the parts are, for the message.
    """
    offsets = np.zeros(len(counts) + 1, dtype=np.uint64)
    offsets[1:] = np.cumsum(np.array(counts, dtype=np.uint64))
    if offsets[-1] >= 2**32:
        raise SimIndexError(
            f"pairs: expected {what} of fewer than {2**32:,} documents in all, removed ones included, "
            f"found {int(offsets[-1]):,}"
        )
    return offsets


class MergedTables:
    """The tables of several partitions as one; see `Tables`. Documents are numbered through.

    Attributes:
        offsets: uint64: the number of the first document of each partition, and of all behind the last.
    """

    def __init__(self, partitions: Sequence[Tables]) -> None:
        self._partitions = partitions
        self.offsets = offsets_of([each.total for each in partitions], "partitions")
        self.total = int(self.offsets[-1])

    def parts(self, numbers: np.ndarray) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yield (partition, where they stand, ranks there) of ascending numbers."""
        ends = np.searchsorted(numbers, self.offsets)
        for partition in np.flatnonzero(np.diff(ends)).tolist():
            here = slice(int(ends[partition]), int(ends[partition + 1]))
            yield partition, here, numbers[here] - self.offsets[partition].astype(np.uint32)

    def pieces(self, table: int, first: int, behind: int, capacity: int) -> Iterator[Piece]:
        """Yield the entries of a range, those of all partitions; see `Tables.pieces`."""
        each = max(capacity // max(len(self._partitions), 1), LEAST_PIECE)
        wanted = table, first, behind, each
        return merged([self._numbered(number, wanted) for number in range(len(self._partitions))])

    def _numbered(self, partition: int, wanted: tuple[int, int, int, int]) -> Iterator[Piece]:
        offset = self.offsets[partition].astype(np.uint32)
        for keys, ranks in self._partitions[partition].pieces(*wanted):
            yield keys, ranks + offset

    def copies(self) -> Piece:
        """Return (leaders, copies) of all partitions, by number; see `Tables.copies`."""
        leaders, copies = [np.empty(0, dtype=np.uint32)], [np.empty(0, dtype=np.uint32)]
        for number, tables in enumerate(self._partitions):
            offset, some = self.offsets[number].astype(np.uint32), tables.copies()
            leaders.append(some[0] + offset)
            copies.append(some[1] + offset)
        return np.concatenate(leaders), np.concatenate(copies)

    def sketches(self, numbers: np.ndarray) -> Piece:
        """Return (words, fingerprints) of documents by their numbers, ascending."""
        parts = [
            self._partitions[number].sketches(ranks) for number, _, ranks in self.parts(numbers)
        ]
        return np.concatenate([words for words, _ in parts]), np.concatenate([bits for _, bits in parts])


def merged(sources: Sequence[Iterator[Piece]]) -> Iterator[Piece]:
    """Yield the entries of several sources as one, a piece of each in memory.

    Equal keys come in the order of their sources.
    """
    if len(sources) == 1:
        yield from sources[0]
        return
    rest = list(sources)
    blocks = [next(source, None) for source in rest]
    while True:
        here = [place for place, block in enumerate(blocks) if block is not None]
        rest, blocks = [rest[place] for place in here], [blocks[place] for place in here]
        held = [block for block in blocks if block is not None]
        if not held:
            return
        # Up to the least of the last keys no entry can be missing; more of that key may follow in a source
        # that ends with it, and those of the sources behind come after them.
        limit = min(keys[-1] for keys, _ in held)
        ends = next(place for place, (keys, _) in enumerate(held) if keys[-1] == limit)
        counts = [
            int(np.searchsorted(keys, limit, side="right" if place <= ends else "left"))
            for place, (keys, _) in enumerate(held)
        ]
        keys = np.concatenate([block[0][:count] for block, count in zip(held, counts, strict=True)])
        numbers = np.concatenate([block[1][:count] for block, count in zip(held, counts, strict=True)])
        order = np.argsort(keys, kind="stable")  # of sorted parts: it finds and merges them
        yield keys[order], numbers[order]
        for place, (block, count) in enumerate(zip(held, counts, strict=True)):
            whole = count == len(block[0])
            blocks[place] = next(rest[place], None) if whole else (block[0][count:], block[1][count:])
