"""The sorted tables that pairs are found in: those of a pinned snapshot, and of several partitions as one.

The entries of all segments are merged in key order, a buffer at a time, and documents are numbered without
gaps.

Source: merging of sorted runs, Knuth, The Art of Computer Programming, volume 3, 5.4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import RLock
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from simindex import _kernel
from simindex.config import Config
from simindex.errors import SimIndexError
from simindex.format.kernel_structs import MERGE_SOURCE
from simindex.format.keys import Key
from simindex.format.layout import COPY_TABLE
from simindex.format.records import REMOVED_SKETCH
from simindex.queries.container import Walk
from simindex.queries.scheme import Scheme, scheme_of
from simindex.queries.view import Reader, View
from simindex.segments.directory import Directory
from simindex.storage.store import Store

Piece = tuple[np.ndarray, np.ndarray]
"""Entries in ascending order of their keys: (keys, numbers), uint64 and uint32."""

_NO_NUMBERS = np.empty(0, dtype=np.uint32)

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

    def pieces(self, table: int, first: int, end: int, capacity: int) -> Iterator[Piece]:
        """Yield the entries of a table whose keys are in first..end-1, about `capacity` at a time."""

    def copies(self) -> Piece:
        """Return (leaders, copies), uint32, of rows that are in no table, for their sketch is a leader's."""

    def columns_of(self, numbers: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the words of each band of documents by ascending numbers, uint64, then their fingerprints."""


class Document(NamedTuple):
    """A document; `present`: the halves of a sketch that it has; `num_shingles`: 0 where not known."""

    rank: int
    key: Key
    present: int
    num_shingles: int = 0


class DocumentTables(Tables, Protocol):
    """The tables of a partition with its documents."""

    def keys(self, ranks: np.ndarray) -> list[Key | None]:
        """Return the keys of documents by ascending ranks; ``None`` for one that is removed."""

    def documents(self, ranks: np.ndarray, limit: int) -> list[list[Document]]:
        """Return the live documents of the sketches under ascending ranks, oldest first; `limit`: documents
        of each, at most."""

    def times(self) -> np.ndarray:
        """Return when each was inserted, int64, in microseconds; of removed documents the greatest number."""

    def close(self) -> None:
        """Let go of it."""


def offsets_of(counts: Sequence[int], what: str) -> np.ndarray:
    """Return the number of the first document of each part, and how many there are in all: uint64. Raises
    SimIndexError, in which `what` names the parts, where there are 2**32 documents or more."""
    offsets = np.zeros(len(counts) + 1, dtype=np.uint64)
    offsets[1:] = np.cumsum(np.array(counts, dtype=np.uint64))
    if offsets[-1] >= 2**32:
        raise SimIndexError(
            f"pairs: expected {what} of fewer than {2**32:,} documents in all, removed ones included, "
            f"found {int(offsets[-1]):,}"
        )
    return offsets


class MergedTables:
    """The tables of several partitions as one; see `Tables`. `offsets` are the numbers of their first
    documents."""

    def __init__(self, partitions: Sequence[Tables]) -> None:
        self.offsets = offsets_of([each.total for each in partitions], "partitions")
        self.total = int(self.offsets[-1])
        self._partitions = list(zip(partitions, self.offsets.astype(np.uint32), strict=False))

    def parts(self, numbers: np.ndarray) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yield, for each partition that has some of the ascending numbers, (its index, the slice of
        `numbers` that it has, their ranks in it)."""
        ends = np.searchsorted(numbers, self.offsets)
        for partition in np.flatnonzero(np.diff(ends)).tolist():
            here = slice(int(ends[partition]), int(ends[partition + 1]))
            yield partition, here, numbers[here] - self._partitions[partition][1]

    def pieces(self, table: int, first: int, end: int, capacity: int) -> Iterator[Piece]:
        """Yield the entries of a range, those of all partitions; see `Tables.pieces`."""
        each = max(capacity // max(len(self._partitions), 1), LEAST_PIECE)

        def numbered(tables: Tables, offset: np.uint32) -> Iterator[Piece]:
            return ((keys, ranks + offset) for keys, ranks in tables.pieces(table, first, end, each))

        return merged([numbered(*partition) for partition in self._partitions])

    def copies(self) -> Piece:
        """Return (leaders, copies) of all partitions, by number; see `Tables.copies`."""
        some = [[column + offset for column in tables.copies()] for tables, offset in self._partitions]
        leaders, copies = map(np.concatenate, zip([_NO_NUMBERS] * 2, *some, strict=True))
        return leaders, copies

    def sketches(self, numbers: np.ndarray) -> Piece:
        """Return (words, fingerprints) of documents by their numbers, ascending and one at least."""
        parts = [self._partitions[index][0].sketches(ranks) for index, _, ranks in self.parts(numbers)]
        words, fingerprints = map(np.concatenate, zip(*parts, strict=True))
        return words, fingerprints

    def columns_of(self, numbers: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the words of each band of documents by ascending numbers, then their fingerprints, as
        `Tables.columns_of` does; nothing for no numbers."""
        parts = [self._partitions[index][0].columns_of(ranks) for index, _, ranks in self.parts(numbers)]
        return map(np.concatenate, zip(*parts, strict=True))


def merged(sources: Sequence[Iterator[Piece]]) -> Iterator[Piece]:
    """Yield the entries of several sources merged by key, with a piece of each source in memory; entries of
    one key stay in the order of their sources."""
    held = [(block, source) for source in sources if (block := next(source, None)) is not None]
    while len(held) > 1:
        # Up to the least of the last keys no entry can be missing; more of that key may follow in a source
        # that ends with it, and those of the sources behind come after them.
        limit, more_follow = min(keys[-1] for (keys, _), _ in held), False
        parts, rest = list[Piece](), list[tuple[Piece, Iterator[Piece]]]()
        for (keys, numbers), source in held:
            end = int(np.searchsorted(keys, limit, side="left" if more_follow else "right"))
            more_follow |= bool(keys[-1] == limit)
            parts.append((keys[:end], numbers[:end]))
            block = (keys[end:], numbers[end:]) if end < len(keys) else next(source, None)
            if block is not None:
                rest.append((block, source))
        keys, numbers = map(np.concatenate, zip(*parts, strict=True))
        order, held = np.argsort(keys, kind="stable"), rest  # of sorted parts: it finds and merges them
        yield keys[order], numbers[order]
    for block, source in held:
        yield block
        yield from source


def merged_by_age(pieces: Iterator[Piece], more: Piece, ages: np.ndarray) -> Iterator[Piece]:
    """Yield entries by key, those of one key by number, with `more` sorted in among them, each by its one of
    `ages` in place of its number."""
    order = np.lexsort((ages, more[0]))
    keys, numbers, ages = more[0][order], more[1][order], ages[order]
    for block_keys, block in pieces:
        first, stop = (int(np.searchsorted(keys, block_keys[-1], side)) for side in ("left", "right"))
        end = first + int(np.searchsorted(ages[first:stop], block[-1]))
        if not end:
            yield block_keys, block
            continue
        joined = np.concatenate([block_keys, keys[:end]]), np.concatenate([block, numbers[:end]])
        order = np.lexsort((np.concatenate([block, ages[:end]]), joined[0]))
        yield joined[0][order], joined[1][order]
        keys, numbers, ages = keys[end:], numbers[end:], ages[end:]
    if len(keys):
        yield keys, numbers


_WINDOW = 1 << 16
"""Numbers whose marks of removal are read in one go."""


def set_bits(bits: np.ndarray, ranks: np.ndarray) -> None:
    """Set the bits of some ranks in place, bit 0 of byte 0 being that of rank 0."""
    ranks = ranks.astype(np.int64)
    np.bitwise_or.at(bits, ranks >> 3, (1 << (ranks & 7)).astype(np.uint8))


class Ranks:
    """The documents of a snapshot's segments, numbered from 0 without the gaps between segments; `dead` has a
    bit for each, set where no live document has the sketch; `orphaned` are those whose sketch copies alone
    have, ascending."""

    def __init__(self, view: View) -> None:
        entries = [segment.entry for segment in view.directory.segments]
        self._bases = np.array([entry.base for entry in entries], dtype=np.uint64)
        self.offsets = offsets_of([entry.span for entry in entries], "segments")
        self.dead, orphaned = np.zeros(self.total // 8 + 1, dtype=np.uint8), [_NO_NUMBERS]
        for entry, offset in zip(entries, self.offsets.tolist(), strict=False):
            end = entry.base + entry.span
            for first in range(entry.base, end, _WINDOW):
                removed = view.removed_between(first, min(first + _WINDOW, end))
                ranks = np.array([*removed], dtype=np.uint64) - np.uint64(entry.base) + np.uint64(offset)
                is_dead = np.array([*removed.values()], dtype=np.uint8) & REMOVED_SKETCH != 0
                set_bits(self.dead, ranks[is_dead])
                orphaned.append(ranks[~is_dead].astype(np.uint32))
        self.orphaned = np.concatenate(orphaned)

    @property
    def total(self) -> int:
        """How many ranks there are: those of removed documents that segments still hold are among them."""
        return int(self.offsets[-1])

    def of(self, doc_ids: np.ndarray) -> np.ndarray:
        """Return the ranks, uint32, of documents by their doc ids, which must be in a segment."""
        doc_ids = doc_ids.astype(np.uint64)
        segments = np.searchsorted(self._bases, doc_ids, side="right") - 1
        ranks: np.ndarray = (doc_ids - self._bases[segments] + self.offsets[segments]).astype(np.uint32)
        return ranks

    def doc_ids(self, ranks: np.ndarray) -> np.ndarray:
        """Return the doc ids, uint64, by their ranks."""
        ranks = ranks.astype(np.uint64)
        segments = np.searchsorted(self.offsets, ranks, side="right") - 1
        doc_ids: np.ndarray = self._bases[segments] + ranks - self.offsets[segments]
        return doc_ids


EVERY_KEY = 2**64
"""What lies behind all keys."""


def _counts_of(directory: Directory, table: int) -> list[int]:
    """Return how many entries of a table each segment has."""
    return [directory.geometry.entry_counts(segment.entry)[table] for segment in directory.segments]


def _position_of(directory: Directory, source: np.void, count: int, key: int) -> int:
    """Return how many entries of one segment's table have a key less than `key`: where `key` belongs among
    `count` entries, found by bisection."""
    probe = np.array([source], dtype=MERGE_SOURCE)
    found, doc_id = np.empty(1, dtype=np.uint64), np.empty(1, dtype=np.uint32)

    def key_at(position: int) -> int:
        probe["position"] = position
        directory.run(_kernel.merge, probe, None, found, doc_id)
        return int(found[0])

    return count if key >= EVERY_KEY else bisect_left(range(count), key, key=key_at) if key else 0


_T = TypeVar("_T")

_AT_ONCE = 4_096


class PinnedTables:
    """The newest commit of an index. Safe to share between threads, one of which reads at a time."""

    def __init__(self, path: str, config: Config | None = None, scheme: Scheme | None = None) -> None:
        self._store = Store(path, "r", pinned=True)
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
        """Return look(view), of a view of the snapshot. Raises SimIndexError where that is gone."""
        with self._lock, self._store.reading() as txn:
            if txn.id != self.snapshot:
                raise SimIndexError(
                    f"{self.path}: expected the snapshot of commit {self.snapshot}, found that of {txn.id}: "
                    "a pinned snapshot ends when the process forks; begin again"
                )
            return look(self._reader.committed_view(txn))

    def run(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Return what a function of the kernel returns for the sketches of the snapshot, under their
        ranks."""
        return self.read(lambda view: view.directory.run(function, self.ranks.offsets, *arguments))

    def num_entries(self) -> list[int]:
        """Return how many entries each table has, in order of the tables, those of removed documents
        included."""
        tables = range(self.scheme.tables.count)
        return self.read(lambda view: [sum(_counts_of(view.directory, table)) for table in tables])

    def pieces(
        self, table: int, first: int, stop: int, capacity: int, dead: np.ndarray | None = None
    ) -> Iterator[Piece]:
        """Yield the live entries of the keys first..stop-1; `dead`: a bitmap of the ranks that are left out,
        by default those of removed sketches. See `Tables.pieces`."""
        dead = self.ranks.dead if dead is None else dead
        sources, end = self.read(partial(self._sources, table, first, stop))

        def next_piece(room: int, view: View) -> Piece:
            keys, ranks = np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.uint32)
            count = view.directory.run(_kernel.merge, sources, dead, keys, ranks)
            return keys[:count], ranks[:count]

        while (left := end - int(sources["position"].sum())) > 0:
            piece = self.read(partial(next_piece, min(capacity, left)))
            if len(piece[0]):
                yield piece

    def _sources(self, table: int, first: int, end: int, view: View) -> tuple[np.ndarray, int]:
        """Return (where the keys first..end-1 begin, MERGE_SOURCE, for each segment that has entries in the
        table; the sum of the positions where they end, exclusive)."""
        counts = np.array(_counts_of(view.directory, table))
        segments = np.flatnonzero(counts)
        sources = np.zeros(len(segments), dtype=MERGE_SOURCE)
        sources["segment"], sources["table"] = segments, table
        sources["offset"] = self.ranks.offsets[segments]
        begins, ends = (
            [
                _position_of(view.directory, *of, key)
                for of in zip(sources, counts[segments].tolist(), strict=True)
            ]
            for key in (first, end)
        )
        sources["position"] = begins
        return sources, sum(ends)

    def sketches(self, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (words, shape (n, bands), fingerprints) that are stored under some ranks, in their order."""
        doc_ids = self.ranks.doc_ids(ranks)
        return self.read(lambda view: view.directory.read_sketches(doc_ids))

    def columns_of(self, numbers: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the columns of the sketches of documents; see `Tables.columns_of`."""
        different, inverse = np.unique(numbers, return_inverse=True)
        words, fingerprints = self.sketches(different)
        return (column[inverse] for column in (*words.T, fingerprints))

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies): ranks, uint32, of the documents that are stored as copies and live, each
        beside the rank that its sketch is stored under; leaders ascend. 8 bytes a copy."""
        pieces = self.pieces(COPY_TABLE, 0, EVERY_KEY, _AT_ONCE)
        some = ((self.ranks.of(leaders), copies) for leaders, copies in pieces)
        leaders, copies = map(np.concatenate, zip([_NO_NUMBERS] * 2, *some, strict=True))
        return leaders, copies

    def times(self) -> np.ndarray:
        """Return when documents were inserted, int64 by rank, in microseconds; of removed ones the greatest
        number."""
        walk, found = Walk(), np.full(self.total, np.iinfo(np.int64).max)
        while some := self.read(lambda view: walk.part(view, _AT_ONCE)):
            doc_ids = np.array([doc_id for doc_id, _ in some], dtype=np.uint64)
            found[self.ranks.of(doc_ids)] = [record.inserted_at for _, record in some]
        return found

    def keys(self, ranks: np.ndarray) -> list[Key | None]:
        """Return the keys of documents by their ranks; ``None`` for one that is removed."""
        doc_ids = self.ranks.doc_ids(ranks).tolist()
        records = self.read(lambda view: [view.record(doc_id) for doc_id in doc_ids])
        return [None if record is None else record.key for record in records]

    def documents(self, ranks: np.ndarray, limit: int) -> list[list[Document]]:
        """Return, for each of some ranks, the live documents of the sketch that is stored under it, oldest
        first; `limit`: documents of each, at most."""
        doc_ids = self.ranks.doc_ids(ranks).tolist()
        found = self.read(lambda view: [view.documents_with(doc_id, limit) for doc_id in doc_ids])
        own = iter(self.ranks.of(np.array([n for some in found for n, _ in some], dtype=np.uint64)).tolist())
        return [[Document(next(own), r.key, r.present, r.num_shingles) for _, r in some] for some in found]
