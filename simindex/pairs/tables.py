"""Provider of the tables and sketches of a range, and the numbering of the documents of all partitions.

Source: merging of sorted runs, Knuth, The Art of Computer Programming, volume 3, 5.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from simindex.errors import SimIndexError

Piece = tuple[np.ndarray, np.ndarray]
"""Entries in ascending order of their keys: (keys, numbers), uint64 and uint32."""

LEAST_PIECE = 1_024
"""Entries of a slice that come in one go, at least."""


class Slice(NamedTuple):
    """A range of keys of one table."""

    table: int
    first: int
    behind: int


class Tables(Protocol):
    """The sorted tables of a partition, and what they are of; as `PinnedTables` has them."""

    @property
    def total(self) -> int:
        """How many ranks there are."""

    def pieces(self, table: int, first: int, behind: int, capacity: int) -> Iterator[Piece]:
        """Yield the entries of a table whose keys are in first..behind-1: keys and ranks."""

    def sketches(self, ranks: np.ndarray) -> Piece:
        """Return (words, fingerprints)."""

    def copies(self) -> Piece:
        """Return (leaders, copies), uint32, of rows that are in no slice, for their sketch is a leader's."""

    def close(self) -> None:
        """Let go of it."""


class SketchSource(Protocol):
    """What sketches are read from."""

    def sketches(self, numbers: np.ndarray) -> Piece:
        """Return (words, fingerprints) of documents by their numbers, ascending."""


class Source(SketchSource, Protocol):
    """What a range is read from."""

    def slices(self, wanted: Sequence[Slice], capacity: int) -> Iterator[Iterator[Piece]]:
        """Yield for each slice its entries, of all partitions, in order; each is read to its end before the
        next one is asked for. `capacity`: entries that are in memory at a time, about."""


class Numbering:
    """The documents of all partitions, numbered one partition after the other.

    Attributes:
        offsets: uint64: the number of the first document of each partition, and of all behind the last.
    """

    def __init__(self, totals: Sequence[int]) -> None:
        """Raises SimIndexError where there are 2**32 or more."""
        self.offsets = np.zeros(len(totals) + 1, dtype=np.uint64)
        self.offsets[1:] = np.cumsum(np.array(totals, dtype=np.uint64))
        if self.total >= 2**32:
            raise SimIndexError(
                f"ranges: expected partitions of fewer than {2**32:,} documents in all, removed ones "
                f"included, found {self.total:,}"
            )

    @property
    def total(self) -> int:
        """How many numbers there are."""
        return int(self.offsets[-1])

    def parts(self, numbers: np.ndarray) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yield (partition, where they stand, ranks there) of ascending numbers."""
        ends = np.searchsorted(numbers, self.offsets)
        for partition in np.flatnonzero(np.diff(ends)).tolist():
            here = slice(int(ends[partition]), int(ends[partition + 1]))
            yield partition, here, numbers[here] - self.offsets[partition].astype(np.uint32)


class LocalSource:
    """Partitions that are open in this process.

    Args:
        partitions: number of each partition -> what is read of it.
        numbering: of the documents of all partitions, those of other processes included.
    """

    def __init__(self, partitions: Mapping[int, Tables], numbering: Numbering) -> None:
        self._partitions, self.numbering = partitions, numbering

    def slices(self, wanted: Sequence[Slice], capacity: int) -> Iterator[Iterator[Piece]]:
        """Yield the entries of each; see `Source`."""
        each = max(capacity // max(len(self._partitions), 1), LEAST_PIECE)
        for one in wanted:
            yield merged([self._slice(number, one, each) for number in sorted(self._partitions)])

    def _slice(self, partition: int, wanted: Slice, capacity: int) -> Iterator[Piece]:
        offset = self.numbering.offsets[partition].astype(np.uint32)
        for keys, ranks in self._partitions[partition].pieces(*wanted, capacity):
            yield keys, ranks + offset

    def copies(self) -> Piece:
        """Return (leaders, copies) of all partitions, by number; see `Tables.copies`."""
        leaders, copies = [np.empty(0, dtype=np.uint32)], [np.empty(0, dtype=np.uint32)]
        for number, tables in self._partitions.items():
            offset, some = self.numbering.offsets[number].astype(np.uint32), tables.copies()
            leaders.append(some[0] + offset)
            copies.append(some[1] + offset)
        return np.concatenate(leaders), np.concatenate(copies)

    def sketches(self, numbers: np.ndarray) -> Piece:
        """Return (words, fingerprints); see `Source`."""
        parts = [
            self._partitions[number].sketches(ranks) for number, _, ranks in self.numbering.parts(numbers)
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
