"""Fetch the entries and sketches of a range from several partitions.

How many sketches are in memory: those of one buffer of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from simindex.format.layout import Geometry
from simindex.pairs.merged_entries import bits_of
from simindex.pairs.plan import PairPlan
from simindex.pairs.runs import BLOCK
from simindex.pairs.tables import Piece, SketchSource
from simindex.segments.directory import Directory
from simindex.segments.memory import sketch_segment

_T = TypeVar("_T")

ABSENT = 2**32 - 1
"""Place of a number whose sketch is not at hand."""


@dataclass(frozen=True)
class Sketches:
    """Sketches that were fetched, of ascending numbers."""

    numbers: np.ndarray
    words: np.ndarray
    fingerprints: np.ndarray

    @classmethod
    def fetched(cls, source: SketchSource, numbers: np.ndarray) -> Sketches:
        """Return those of some documents."""
        wanted = np.unique(numbers)
        words, fingerprints = source.sketches(wanted)
        return cls(wanted, np.ascontiguousarray(words), np.ascontiguousarray(fingerprints))

    def local(self, numbers: np.ndarray) -> np.ndarray:
        """Return the places of numbers, `ABSENT` for those that are not here."""
        places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[places] == numbers, places, ABSENT).astype(np.uint32)


class FetchedSketches:
    """Fetches the sketches of a buffer of entries; see `SketchReader`."""

    def __init__(self, source: SketchSource, geometry: Geometry) -> None:
        self._source, self._geometry = source, geometry

    def at_hand(self, numbers: np.ndarray, more: np.ndarray) -> _AtHand:
        """Fetch the sketches of some documents."""
        sketches = Sketches.fetched(self._source, np.concatenate([numbers, more]))
        segment = sketch_segment(self._geometry, sketches.words, sketches.fingerprints)
        return _AtHand(sketches, Directory(self._geometry, [segment]))


class _AtHand:
    def __init__(self, sketches: Sketches, directory: Directory) -> None:
        self._sketches, self._directory = sketches, directory
        self._offsets = np.array([0, len(sketches.numbers)], dtype=np.uint64)

    def local(self, numbers: np.ndarray) -> np.ndarray:
        return self._sketches.local(numbers)

    def numbers_of(self, ranks: np.ndarray) -> np.ndarray:
        numbers: np.ndarray = self._sketches.numbers[ranks]
        return numbers

    def run(self, function: Callable[..., _T], *arguments: object) -> _T:
        return self._directory.run(function, self._offsets, *arguments)


class PieceEntries:
    """The entries of a range that comes in pieces, a buffer at a time; see `Entries`.

    What is alone with its prefix is left out, so that its sketch is not fetched.

    Args:
        pieces: in order.
        plan: how many entries may be in memory, and the room that a run needs.
        copies: a bit for each number that is left out, if any are.
    """

    total = done = 0

    def __init__(
        self, pieces: Iterator[Piece], bits: int, plan: PairPlan, copies: np.ndarray | None = None
    ) -> None:
        if copies is not None:
            left_out = copies
            pieces = (_without(piece, left_out) for piece in pieces)
        self._pieces = entries_in_runs(pieces, bits)
        self._room = min(plan.capacity, max(BLOCK, 2 * plan.max_run))
        self._rest: Piece | None = None
        self.keys, self.numbers = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32)
        self.is_last = False

    def refill(self, begin: int) -> None:
        """Drop the entries before `begin` and read more behind the others, as many as there is room for."""
        keys, numbers = [self.keys[begin:]], [self.numbers[begin:]]
        room = self._room - len(keys[0])
        while room:
            piece = self._rest or next(self._pieces, None)
            if piece is None:
                self.is_last = True
                break
            keys.append(piece[0][:room])
            numbers.append(piece[1][:room])
            self._rest = (piece[0][room:], piece[1][room:]) if len(piece[0]) > room else None
            room -= len(keys[-1])
        self.keys, self.numbers = np.concatenate(keys), np.concatenate(numbers)


def _without(piece: Piece, left_out: np.ndarray) -> Piece:
    stays = ~bits_of(left_out, piece[1])
    return piece[0][stays], piece[1][stays]


def entries_in_runs(pieces: Iterator[Piece], bits: int) -> Iterator[Piece]:
    """Yield the entries that have their prefix with a neighbour. `pieces`: entries in order."""
    free = np.uint64(64 - bits)
    keys, numbers = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32)
    has_left = False
    """Whether the last entry so far has its prefix with the one before it; it waits for the next one."""
    for more_keys, more_numbers in pieces:
        if not len(more_keys):
            continue
        keys, numbers = np.concatenate([keys, more_keys]), np.concatenate([numbers, more_numbers])
        is_equal = (keys[1:] ^ keys[:-1]) >> free == 0
        is_in = np.zeros(len(keys), dtype=bool)
        is_in[1:] |= is_equal
        is_in[:-1] |= is_equal
        is_in[0] |= has_left
        has_left = bool(is_in[-1])
        is_in[-1] = False
        yield keys[is_in], numbers[is_in]
        keys, numbers = keys[-1:], numbers[-1:]
    if has_left:
        yield keys, numbers
