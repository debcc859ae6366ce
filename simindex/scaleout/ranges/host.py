"""The partitions of one machine, open for jobs that walk all of them.

`RangeHost` is a plain class, and is tested as one. Owns which slices are under way. Must not change anything.
Invariant: a call may be repeated, by the same caller or after a restart: it is answered the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simindex.config import Config
from simindex.queries.pairs.pinned import LiveDocument, PinnedTables
from simindex.scaleout.ranges.source import LocalSource, Numbering, Piece

_UNDER_WAY = 256
"""Slices that are remembered; one that was forgotten is read again up to where it was."""


class Slice(NamedTuple):
    """A slice of a table of several partitions.

    Attributes:
        table: its number.
        first, behind: the range of keys.
        capacity: entries in memory at a time.
    """

    table: int
    first: int
    behind: int
    capacity: int


@dataclass
class _UnderWay:
    pieces: Iterator[Piece]
    nth: int = 0


class RangeHost:
    """Partitions that are open to be read.

    Args:
        partitions: number -> folder.
        config: of all of them.

    Raises:
        ConfigMismatchError: one has another one.
    """

    def __init__(self, partitions: Mapping[int, str], config: Config | None = None) -> None:
        self._open: dict[int, PinnedTables] = {}
        try:
            for number, path in partitions.items():
                self._open[number] = PinnedTables(path, config)
        except BaseException:
            self.close()
            raise
        self._under_way: OrderedDict[tuple[bytes, Slice], _UnderWay] = OrderedDict()

    def close(self) -> None:
        """Let go of all partitions."""
        for each in self._open.values():
            each.close()

    def totals(self) -> dict[int, tuple[int, int]]:
        """Return number of each partition -> (its ranks, the id of its snapshot)."""
        return {number: (each.ranks.total, each.snapshot) for number, each in self._open.items()}

    def piece(self, token: bytes, numbering: Numbering, wanted: Slice, nth: int) -> Piece | None:
        """Return the nth piece of a slice, ``None`` behind the last.

        Args:
            token: of who reads it.
            numbering: of the documents of all partitions.
        """
        key = token, wanted
        found = self._under_way.pop(key, None)
        if found is None or found.nth > nth:
            found = _UnderWay(LocalSource(self._open, numbering).slices(*wanted))
        piece = None
        while found.nth <= nth:
            piece = next(found.pieces, None)
            found.nth += 1
        if piece is not None:
            self._under_way[key] = found
            while len(self._under_way) > _UNDER_WAY:
                self._under_way.popitem(last=False)
        return piece

    def sketches(self, ranks: Mapping[int, np.ndarray]) -> dict[int, Piece]:
        """Return number of a partition -> (words, fingerprints) of some of its documents, by rank."""
        return {number: self._open[number].sketches(some) for number, some in ranks.items()}

    def metadata(self, ranks: Mapping[int, np.ndarray]) -> dict[int, list[tuple[Any, int]]]:
        """Return number of a partition -> what `PinnedTables.metadata` has of some of its documents."""
        return {number: self._open[number].metadata(some.tolist()) for number, some in ranks.items()}

    def documents(self, ranks: Mapping[int, np.ndarray], limit: int) -> dict[int, list[list[LiveDocument]]]:
        """Return number of a partition -> the live documents of some of its sketches, by rank."""
        return {number: self._open[number].documents(some.tolist(), limit) for number, some in ranks.items()}

    def copies(self) -> dict[int, Piece]:
        """Return number of each partition -> its copies; see `PinnedTables.copies`."""
        return {number: each.copies() for number, each in self._open.items()}
