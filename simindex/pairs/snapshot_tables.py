"""Provide the sorted tables of an index's pinned snapshot as keys and ranks.

A handle of its own, and what is read of it in pieces: ranges of sorted tables, sketches, copies, documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import RLock
from typing import TypeVar

import numpy as np

from simindex.config import Config
from simindex.errors import SimIndexError
from simindex.format.keys import Key
from simindex.format.layout import COPY_TABLE
from simindex.pairs.merged_entries import EVERY_KEY, Ranks, TableEntries
from simindex.pairs.tables import Piece
from simindex.queries.scheme import Scheme, scheme_of
from simindex.queries.view import Reader, View
from simindex.storage.lmdb_file import DEFAULT_MAP_BYTES
from simindex.storage.store import Store

_T = TypeVar("_T")

_COPIES_AT_ONCE = 4_096


class PinnedTables:
    """The newest commit of an index. Safe to share between threads, one of which reads at a time.

    Attributes:
        ranks: of its documents: 0 up to `ranks.total`, removed ones among them.
    """

    def __init__(self, path: str, config: Config | None = None, scheme: Scheme | None = None) -> None:
        self._store = Store(path, "r", DEFAULT_MAP_BYTES, None, pinned=True)
        self._lock = RLock()
        try:
            self.scheme = scheme or scheme_of(self._store, config, None)
            self._reader = Reader(self.scheme)
            with self._store.reading() as txn:
                view = self._reader.committed_view(txn)
                self.snapshot = txn.id
                self.ranks = Ranks(view)
        except BaseException:
            self._store.close()
            raise

    @property
    def path(self) -> str:
        """The folder."""
        return self._store.path

    @property
    def total(self) -> int:
        """How many ranks there are."""
        return self.ranks.total

    def close(self) -> None:
        """Let go of the snapshot. Closing twice is allowed."""
        self._store.close()

    def read(self, look: Callable[[View], _T]) -> _T:
        """Return what is to be seen in the snapshot. Raises SimIndexError where it is gone."""
        with self._lock, self._store.reading() as txn:
            if txn.id != self.snapshot:
                raise SimIndexError(
                    f"{self.path}: expected the snapshot of commit {self.snapshot}, found that of {txn.id}: "
                    "a pinned snapshot ends when another handle of the same process compacts or has to move "
                    "the map, or when the process forks; begin again"
                )
            return look(self._reader.committed_view(txn))

    def slice(
        self, table: int, first: int, behind: int, capacity: int, dead: np.ndarray | None = None
    ) -> TableEntries:
        """Return the entries of a sorted table whose keys are in first..behind-1, live ones alone.

        Args:
            capacity: entries that are in memory at a time.
            dead: a bit for each rank that is left out; ``None``: those of removed sketches.
        """
        dead = self.ranks.dead if dead is None else dead
        return TableEntries(self.read, self.ranks, table, dead, capacity, first, behind)

    def pieces(self, table: int, first: int, behind: int, capacity: int) -> Iterator[Piece]:
        """Yield the entries of a slice; see `Tables.pieces`."""
        entries = self.slice(table, first, behind, capacity)
        while (piece := entries.next_piece()) is not None:
            yield piece

    def sketches(self, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (words, fingerprints) that are stored under some ranks."""
        numbers = self.ranks.numbers(ranks)
        return self.read(lambda view: view.directory.read_sketches(numbers))

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies): ranks, uint32, of the documents that are stored as copies and live, each
        beside the rank that its sketch is stored under, ascending. 8 bytes a copy."""
        leaders, copies = [np.empty(0, dtype=np.uint32)], [np.empty(0, dtype=np.uint32)]
        for keys, ranks in self.pieces(COPY_TABLE, 0, EVERY_KEY, _COPIES_AT_ONCE):
            leaders.append(self.ranks.of(keys))
            copies.append(ranks)
        return np.concatenate(leaders), np.concatenate(copies)

    def keys(self, ranks: np.ndarray) -> list[Key | None]:
        """Return the keys of documents by their ranks; ``None`` for one that is removed."""
        numbers = self.ranks.numbers(ranks).tolist()
        records = self.read(lambda view: [view.record(number) for number in numbers])
        return [None if record is None else record.key for record in records]

    def documents(self, ranks: np.ndarray, limit: int) -> list[list[tuple[Key, int]]]:
        """Return the live documents of the sketches stored under some ranks, oldest first: key, and which
        halves of a sketch it has. `limit`: documents of each, at most."""
        numbers = self.ranks.numbers(ranks).tolist()
        found = self.read(lambda view: [view.documents_with(number, limit) for number in numbers])
        return [[(record.key, record.present) for _, record in some] for some in found]


class SnapshotSketches:
    """The sketches of a pinned index, compared where they lie; see `SketchesAtHand`."""

    def __init__(self, pinned: PinnedTables) -> None:
        self._pinned = pinned

    def local(self, numbers: np.ndarray) -> np.ndarray:
        """Return the numbers, which are ranks."""
        return numbers

    def numbers_of(self, ranks: np.ndarray) -> np.ndarray:
        """Return the ranks."""
        return ranks

    def run(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Call a function of the kernel on the sketches of the snapshot."""
        offsets = self._pinned.ranks.offsets
        return self._pinned.read(lambda view: view.directory.run(function, offsets, *arguments))
