"""The sorted tables that pairs are found in: those of a pinned snapshot, and of several partitions as one.

The entries of all segments are merged in key order, a buffer at a time, and documents are numbered without
gaps.

Source: merging of sorted runs, Knuth, The Art of Computer Programming, volume 3, 5.4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import RLock
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from simindex import _kernel
from simindex.config import Config
from simindex.errors import SimIndexError
from simindex.format.keys import Key
from simindex.format.layout import COPY_TABLE
from simindex.format.records import REMOVED_SKETCH
from simindex.format.rows import MERGE_SOURCE
from simindex.queries.container import Walk
from simindex.queries.scheme import Scheme, scheme_of
from simindex.queries.view import Reader, View
from simindex.segments.directory import Directory
from simindex.storage.lmdb_file import DEFAULT_MAP_BYTES
from simindex.storage.store import Store

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

    def columns_of(self, numbers: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the words of a band of documents, uint64, band after band, and then their fingerprints;
        `numbers` ascending, a number may come several times."""


class Document(NamedTuple):
    """A document; `present`: the halves of a sketch that it has."""

    rank: int
    key: Key
    present: int


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
        parts = [self._partitions[number].sketches(ranks) for number, _, ranks in self.parts(numbers)]
        return np.concatenate([words for words, _ in parts]), np.concatenate([bits for _, bits in parts])

    def columns_of(self, numbers: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the columns of the sketches of documents; see `Tables.columns_of`."""
        parts = [self._partitions[number].columns_of(ranks) for number, _, ranks in self.parts(numbers)]
        return map(np.concatenate, zip(*parts, strict=True))


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


_WINDOW = 1 << 16
"""Numbers whose marks of removal are read in one go."""


def set_bits(bits: np.ndarray, ranks: np.ndarray) -> None:
    """Set the bits of some ranks, bit 0 of byte 0 being that of rank 0."""
    ranks = ranks.astype(np.int64)
    np.bitwise_or.at(bits, ranks >> 3, (1 << (ranks & 7)).astype(np.uint8))


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


_T = TypeVar("_T")

_COPIES_AT_ONCE = _TIMES_AT_ONCE = 4_096


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

    def columns_of(self, numbers: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the columns of the sketches of documents; see `Tables.columns_of`."""
        different, places = np.unique(numbers, return_inverse=True)
        words, fingerprints = self.sketches(different)
        return (column[places] for column in (*words.T, fingerprints))

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies): ranks, uint32, of the documents that are stored as copies and live, each
        beside the rank that its sketch is stored under, ascending. 8 bytes a copy."""
        leaders, copies = [np.empty(0, dtype=np.uint32)], [np.empty(0, dtype=np.uint32)]
        for keys, ranks in self.pieces(COPY_TABLE, 0, EVERY_KEY, _COPIES_AT_ONCE):
            leaders.append(self.ranks.of(keys))
            copies.append(ranks)
        return np.concatenate(leaders), np.concatenate(copies)

    def times(self) -> np.ndarray:
        """Return when documents were inserted, by rank; see `DocumentTables.times`."""
        walk, found = Walk(), np.full(self.total, np.iinfo(np.int64).max)
        while some := self.read(lambda view: walk.part(view, _TIMES_AT_ONCE)):
            numbers = np.array([number for number, _ in some], dtype=np.uint64)
            found[self.ranks.of(numbers)] = [record.inserted_at for _, record in some]
        return found

    def keys(self, ranks: np.ndarray) -> list[Key | None]:
        """Return the keys of documents by their ranks; ``None`` for one that is removed."""
        numbers = self.ranks.numbers(ranks).tolist()
        records = self.read(lambda view: [view.record(number) for number in numbers])
        return [None if record is None else record.key for record in records]

    def documents(self, ranks: np.ndarray, limit: int) -> list[list[Document]]:
        """Return the live documents of the sketches stored under some ranks, oldest first; `limit`: documents
        of each, at most."""
        numbers = self.ranks.numbers(ranks).tolist()
        found = self.read(lambda view: [view.documents_with(number, limit) for number in numbers])
        own = iter(self.ranks.of(np.array([n for some in found for n, _ in some], dtype=np.uint64)).tolist())
        return [[Document(next(own), record.key, record.present) for _, record in some] for some in found]


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
