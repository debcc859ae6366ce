"""The partitions of one process, open for jobs that walk all of them.

`TableHost` is a plain class, and is tested as one. Owns which partitions are open, and which slices are under
way. Must not change anything. Invariant: a call may be repeated, by the same caller or after a restart: it is
answered the same, for a partition is opened when it is first asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from simindex.config import Config
from simindex.format.keys import Key
from simindex.pairs.ranges import RangeEnd, walk_range
from simindex.pairs.snapshot_tables import PinnedTables
from simindex.pairs.tables import LocalSource, Numbering, Piece, Slice, Source, Tables
from simindex.pairs.walk_plan import Earlier, Edges, WalkPlan
from simindex.queries.search import require_comparable

_Tables = TypeVar("_Tables", bound=Tables)

_UNDER_WAY = 256
"""Bundles that are remembered; one that was forgotten is read again up to where it was."""


class Bundle(NamedTuple):
    """Slices that are asked for together.

    Attributes:
        partitions: of these.
        slices: in order.
        capacity: entries that come in one go, about.
    """

    partitions: tuple[int, ...]
    slices: tuple[Slice, ...]
    capacity: int


Pieces = list[tuple[int, np.ndarray, np.ndarray]]
"""Place of a slice in its bundle, keys and numbers of some of its entries."""


class SeesHosts(Protocol):
    """All hosts, as one of them sees them."""

    def beside(self, place: int, own: TableHost[Any]) -> Source:
        """Return them, of which one is in this process."""


@dataclass
class _UnderWay:
    pieces: Iterator[Pieces]
    nth: int = 0


class TableHost(Generic[_Tables]):
    """Partitions that are open to be read. May be called from several threads.

    Args:
        opened: number of a partition -> what is read of it.
    """

    def __init__(self, opened: Callable[[int], _Tables]) -> None:
        self._opened = opened
        self._open: dict[int, _Tables] = {}
        self._under_way: OrderedDict[tuple[bytes, Bundle], _UnderWay] = OrderedDict()
        self._lock = Lock()

    def close(self) -> None:
        """Let go of all partitions."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def ready(self) -> None:
        """Return when it is there."""

    def _tables(self, number: int) -> _Tables:
        with self._lock:
            found = self._open.get(number)
            if found is None:
                found = self._open[number] = self._opened(number)
            return found

    def totals(self, numbers: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return number of each partition -> (its ranks, the id of its snapshot)."""
        opened = {number: self._tables(number) for number in numbers}
        return {number: (each.total, each.snapshot) for number, each in opened.items()}

    # ---- slices ----

    def bundle(self, token: bytes, numbering: Numbering, wanted: Bundle, nth: int) -> tuple[Pieces, bool]:
        """Return the nth part of a bundle, and whether there is none behind it.

        Args:
            token: of who reads it.
            numbering: of the documents of all partitions.
        """
        key = token, wanted
        with self._lock:
            found = self._under_way.pop(key, None)
        if found is None or found.nth > nth:
            found = _UnderWay(self.bundles(numbering, wanted))
        pieces: Pieces | None = None
        while found.nth <= nth:
            pieces = next(found.pieces, None)
            found.nth += 1
        if pieces is None or sum(len(keys) for _, keys, _ in pieces) < wanted.capacity:
            return pieces or [], True
        with self._lock:
            self._under_way[key] = found
            while len(self._under_way) > _UNDER_WAY:
                self._under_way.popitem(last=False)
        return pieces, False

    def bundles(self, numbering: Numbering, wanted: Bundle) -> Iterator[Pieces]:
        """Yield the entries of a bundle; all parts but the last have its capacity or more."""
        source = LocalSource({number: self._tables(number) for number in wanted.partitions}, numbering)
        pieces, count = Pieces(), 0
        for place, some in enumerate(source.slices(wanted.slices, wanted.capacity)):
            for keys, numbers in some:
                pieces.append((place, keys, numbers))
                count += len(keys)
                if count >= wanted.capacity:
                    yield pieces
                    pieces, count = [], 0
        if pieces:
            yield pieces

    # ---- documents ----

    def sketches(self, ranks: Mapping[int, np.ndarray]) -> dict[int, Piece]:
        """Return number of a partition -> (words, fingerprints) of some of its documents, by rank."""
        return {number: self._tables(number).sketches(some) for number, some in ranks.items()}

    def metadata(self, ranks: Mapping[int, np.ndarray]) -> dict[int, list[tuple[Any, int]]]:
        """Return number of a partition -> what `PinnedTables.metadata` has of some of its documents."""
        return {number: self._tables(number).metadata(some.tolist()) for number, some in ranks.items()}

    def copies(self, numbers: Sequence[int]) -> dict[int, Piece]:
        """Return number of each partition -> its copies; see `PinnedTables.copies`."""
        return {number: self._tables(number).copies() for number in numbers}

    # ---- ranges ----

    def walk(
        self,
        walk: tuple[WalkPlan, Earlier | None],
        tables: Sequence[int],
        hosts: SeesHosts,
        own: int,
        place: int,
    ) -> Iterator[Edges | RangeEnd]:
        """Yield what a range of some tables has; see `sweep`.

        Args:
            walk: what is compared in all ranges, and what the walks before have found.
            hosts: all of them, this one among them.
            own: its place there.
        """
        yield from walk_range(walk[0], tables, hosts.beside(own, self), place, walk[1])


class RangeHost(TableHost[PinnedTables]):
    """Partitions that are indexes.

    Args:
        path_of: number of a partition -> its folder.
        config: of all of them; the first call for a partition with another one raises ConfigMismatchError.
    """

    def __init__(self, path_of: Callable[[int], str], config: Config | None = None) -> None:
        super().__init__(lambda number: PinnedTables(path_of(number), config))

    def require(self, numbers: Sequence[int], half: int) -> None:
        """Raise ValueError where the documents of a partition cannot be compared by half of a sketch."""
        for number in numbers:
            self._tables(number).read(partial(require_comparable, compares=half))

    def documents(
        self, ranks: Mapping[int, np.ndarray], limit: int
    ) -> dict[int, list[list[tuple[Key, int]]]]:
        """Return number of a partition -> of some of its sketches, by rank, the live documents, oldest first:
        key, and which halves of a sketch it has."""
        return {number: self._tables(number).documents(some, limit) for number, some in ranks.items()}

    def keys(self, ranks: Mapping[int, np.ndarray]) -> dict[int, list[Key | None]]:
        """Return number of a partition -> the keys of some of its documents, by rank; ``None`` for one that
        is removed."""
        return {number: self._tables(number).keys(some) for number, some in ranks.items()}
