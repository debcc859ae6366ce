"""The tables of a stored segment, taken apart; what is damaged is left out and noted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from simindex.errors import CorruptIndexError, damaged
from simindex.format.chunks import Chunk, WholeSegment, hashes_of_shingle_keys, read_chunk, read_whole_segment
from simindex.format.keys import whole_segment_key
from simindex.format.layout import Geometry, SegmentEntry
from simindex.format.seals import unseal
from simindex.maintenance.backup_parts import Get, pieces_of_column
from simindex.queries.view import View
from simindex.sketching.sample import Samples, num_entries
from simindex.storage.environment import ReadTransaction


class StoredTables:
    """The tables of one segment, and the errors of the blocks that were left out of them so far."""

    def __init__(self, geometry: Geometry, entry: SegmentEntry, get: Get) -> None:
        """Raises CorruptIndexError where the segment is one value that is missing or damaged."""
        self._geometry, self._entry, self._get = geometry, entry, get
        self.errors: list[CorruptIndexError] = []
        self._whole: WholeSegment | None = None
        if not entry.chunked:
            key = whole_segment_key(entry.id)
            value = get(key)
            self._whole = None if value is None else read_whole_segment(geometry, entry, value)
            if value is None or self._whole is None:
                raise CorruptIndexError(f"segment {entry.id}: expected its value", segment=entry.id)
            unseal("segments", key, value, f"segment {entry.id}", segment=entry.id)

    def chunks(self, table: int) -> Iterator[tuple[bytes, Chunk | None]]:
        """Yield key and rows (``None``: missing) of each chunk of a table, or of the sketches behind them."""
        if self._whole is not None:
            words, prints, numbers = self._whole.words, self._whole.fingerprints, self._whole.numbers
            if table < self._geometry.count:
                words, numbers = self._whole.tables[table]
            if len(numbers):  # copies, for they lie anywhere in the value
                arrays = words.reshape(len(numbers), -1).copy(), prints.copy(), numbers.copy()
                no_seals, is_sound = np.empty(0, dtype=np.uint64), np.ones(1, dtype=bool)
                yield whole_segment_key(self._entry.id), Chunk(*arrays, no_seals, is_sound, len(numbers))
            return
        column = self._geometry.columns(self._entry)[table]
        for piece in pieces_of_column(self._entry, column):
            value = self._get(piece.key)
            is_there = value is not None and len(value) == piece.num_bytes
            yield piece.key, read_chunk(piece.key, column, piece.entries, value or b"") if is_there else None

    def entries(self, table: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (keys, numbers) of a sorted table, a chunk at a time."""
        return ((words[:, 0], numbers) for words, _, numbers in self._sound(table))

    def sketches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (words, fingerprints, numbers) of the sketch column, a chunk at a time."""
        return self._sound(self._geometry.count)

    def _sound(self, table: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield what is in sound blocks, ascends, and is of numbers in the segment."""
        is_sketches, last = table == self._geometry.count, -1
        for place, (_, chunk) in enumerate(self.chunks(table)):
            if chunk is None:
                self._note(table, place)
                continue
            order, is_sound = chunk.numbers if is_sketches else chunk.words[:, 0], chunk.is_sound.copy()
            every = np.arange(len(order))
            while True:
                rows = slice(None) if is_sound.all() else chunk.rows_of(is_sound)
                taken, numbers = order[rows], chunk.numbers[rows]
                is_wrong = numbers >= self._entry.span
                is_wrong[1:] |= taken[1:] <= taken[:-1] if is_sketches else taken[1:] < taken[:-1]
                is_wrong[:1] |= bool(len(taken)) and int(taken[0]) < last + is_sketches
                if not is_wrong.any():
                    break
                is_sound[every[rows][is_wrong] // chunk.block] = False
            for block in np.flatnonzero(~is_sound).tolist():
                self._note(table, place, block)
            if len(taken):
                last = int(taken[-1])
                yield chunk.words[rows], chunk.fingerprints[rows if is_sketches else []], numbers

    def _note(self, table: int, chunk: int, block: int | None = None) -> None:
        name = self._geometry.name(table)
        self.errors.append(
            damaged(
                f"segment {self._entry.id}, table {name}, chunk {chunk}, block {block}: expected entries "
                "that fit their seal and ascend, found others",
                segment=self._entry.id,
                table=name,
                chunk=chunk,
                block=block,
            )
        )


Entries = Iterable[tuple[np.ndarray, np.ndarray]]
"""Keys and relative numbers of the shingle table, in parts."""

Counts = tuple[np.ndarray, np.ndarray]
"""Distinct and sampled shingles of each document, as their records have them: uint32."""


class SegmentSamples:
    """The entries of one segment's shingle table, by document, with those of leaders in earlier segments."""

    def __init__(
        self, base: int, entries: Entries, earlier: SegmentSamples | None = None, leaders: Iterable[int] = ()
    ) -> None:
        """Take entries; `earlier`: of the segment before, of whose documents the `leaders` stay."""
        parts = [(hashes_of_shingle_keys(keys), numbers.copy()) for keys, numbers in entries]
        hashes = np.concatenate([np.empty(0, dtype=np.uint64), *(part for part, _ in parts)])
        numbers = np.concatenate([np.empty(0, dtype=np.uint32), *(part for _, part in parts)])
        order = np.lexsort((hashes, numbers))
        self._hashes, self._numbers = hashes[order], numbers[order].astype(np.uint64) + np.uint64(base)
        if earlier is not None:
            # Leaders come before their copies, so that all numbers ascend.
            stays = np.isin(earlier._numbers, np.fromiter(leaders, dtype=np.uint64))
            self._hashes = np.concatenate([earlier._hashes[stays], self._hashes])
            self._numbers = np.concatenate([earlier._numbers[stays], self._numbers])

    def of(self, numbers: np.ndarray, counts: Counts, one_in: int) -> tuple[Samples, np.ndarray]:
        """Return the samples that lie under some numbers, in any order, and which of them (left empty) are
        not as the records say."""
        firsts = np.searchsorted(self._numbers, numbers)
        found = np.searchsorted(self._numbers, numbers, side="right") - firsts
        is_lost = found != num_entries(*counts)
        lengths = np.where(is_lost, 0, found)
        begins = np.cumsum(lengths) - lengths
        at = np.arange(int(lengths.sum())) + np.repeat(firsts - begins, lengths)
        num_shingles, num_sampled = (np.where(is_lost, 0, count).astype(np.uint32) for count in counts)
        return Samples(self._hashes[at], num_shingles, num_sampled, one_in), is_lost


class StoredSamples:
    """The samples of one snapshot, read a segment at a time, for numbers that ascend from call to call."""

    def __init__(self, geometry: Geometry, one_in: int) -> None:
        self._geometry, self._one_in = geometry, one_in
        self._read: tuple[SegmentEntry, ...] = ()
        self._samples = SegmentSamples(0, [])

    def of(
        self, txn: ReadTransaction, view: View, numbers: np.ndarray, owners: np.ndarray, counts: Counts
    ) -> Samples:
        """Return the samples of documents; `owners`: under which numbers they lie, uint64.

        Raises CorruptIndexError where an entry is damaged or missing.
        """
        parts = [Samples.of([], self._one_in)]
        segments = np.array([entry.base for entry in view.manifest.segments], dtype=np.uint64)
        own = np.searchsorted(segments, numbers, side="right") - 1
        for place in np.unique(own).tolist():
            self._read_to(txn, view, place)
            is_own = own == place
            of_own = counts[0][is_own], counts[1][is_own]
            samples, is_lost = self._samples.of(owners[is_own], of_own, self._one_in)
            for number in numbers[is_own][is_lost].tolist():
                raise CorruptIndexError(
                    f"document {number}: expected its sampled shingles, found others; restore a backup, or "
                    "repair the index"
                )
            parts.append(samples)
        return Samples.joined(parts)

    def _read_to(self, txn: ReadTransaction, view: View, place: int) -> None:
        """Read the segments up to a place, those without documents among them: they may have leaders."""
        entries = view.manifest.segments[: place + 1]
        if self._read != entries[: len(self._read)]:  # compacted meanwhile
            self._read, self._samples = (), SegmentSamples(0, [])
        for entry in entries[len(self._read) :]:
            tables = StoredTables(self._geometry, entry, lambda key: txn.get("segments", key))
            of_table = tables.entries(self._geometry.shingle_table)
            self._samples = SegmentSamples(entry.base, of_table, self._samples, view.leaders())
            for error in tables.errors:
                raise error
            self._read += (entry,)
