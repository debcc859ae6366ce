"""The values of one stored segment, and what is in them.

Backups, restores, merges and rebuilds read strictly: what does not fit its seal is an error. `check` and
`repair` leave out what is damaged, and note it. Queries read by address, in the kernel
(`segments/directory.py`).

A segment never changes, so its digest stands for it for good: the XXH3-128 of all its database keys and
seals. The seals depend on every byte of the values, so it costs reading a hundredth of them. Like the seals
it protects against accidents, not against a forger, who makes up both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import xxhash

from simindex.distinct import distinct
from simindex.errors import CorruptIndexError, damaged
from simindex.format.chunks import (
    Chunk,
    WholeSegment,
    hashes_of_shingle_keys,
    is_sealed_chunk,
    read_chunk,
    read_whole_segment,
    seals_of,
)
from simindex.format.keys import segment_key, whole_segment_key
from simindex.format.layout import Column, Geometry, SegmentEntry
from simindex.format.seals import SEAL_BYTES, unseal
from simindex.queries.view import View
from simindex.sketching.sample import Samples, num_entries
from simindex.storage.environment import ReadTransaction

Value = bytes | memoryview
Get = Callable[[bytes], Value | None]
"""Returns the stored value of a database key."""


class Piece(NamedTuple):
    """One stored value of a segment.

    Attributes:
        column: what it is a chunk of, and `chunk`, which one; ``None``: it is the whole segment.
    """

    key: bytes
    column: Column | None
    entries: int
    num_bytes: int
    chunk: int = 0


def pieces_of(geometry: Geometry, entry: SegmentEntry) -> list[Piece]:
    """Return the values that a segment consists of, in the order of their keys."""
    if not entry.chunked:
        return [Piece(whole_segment_key(entry.id), None, 1, geometry.segment_bytes(entry) + SEAL_BYTES)]
    return [piece for column in geometry.columns(entry) for piece in pieces_of_column(entry, column)]


def pieces_of_column(entry: SegmentEntry, column: Column) -> Iterator[Piece]:
    """Yield where the chunks of a column lie, in order, and their lengths, by computing alone: nothing is
    read."""
    for chunk in range(column.chunks):
        count = min(column.per_chunk, column.total - chunk * column.per_chunk)
        key = segment_key(entry.id, column.table, chunk)
        yield Piece(key, column, count, column.chunk_bytes(count), chunk)


def checked_value(entry: SegmentEntry, piece: Piece, value: Value | None) -> bytes:
    """Return a copy of a stored value of a segment. Raises CorruptIndexError where it is missing, has another
    length, or does not fit its seals."""
    found = b"" if value is None else bytes(value)
    if piece.column is None and len(found) == piece.num_bytes:
        unseal("segments", piece.key, found, f"segment {entry.id}", segment=entry.id)
    elif piece.column is None or not is_sealed_chunk(piece.key, piece.column, piece.entries, found):
        raise damaged(
            f"segment {entry.id}, entry {piece.key.hex()}: expected {piece.num_bytes} bytes that fit their "
            f"seals, found {'nothing' if value is None else f'{len(found)} others'}",
            segment=entry.id,
            key=piece.key,
        )
    return found


class StoredSegment:
    """One segment, read by `get`.

    Attributes:
        errors: of the blocks that `entries` and `sketches` have left out so far.
    """

    def __init__(self, geometry: Geometry, entry: SegmentEntry, get: Get, *, is_strict: bool = False) -> None:
        """Nothing is read yet. `is_strict`: a damaged block is an error, and not left out."""
        self._geometry, self._entry, self._get, self._is_strict = geometry, entry, get, is_strict
        self.errors: list[CorruptIndexError] = []

    # ---- its values ----

    @cached_property
    def pieces(self) -> list[Piece]:
        """The values that it consists of, in the order of their keys."""
        return pieces_of(self._geometry, self._entry)

    def stored(self, piece: Piece) -> Value | None:
        """Return a value as it lies there; ``None`` where it is missing or has another length."""
        value = self._get(piece.key)
        return value if value is not None and len(value) == piece.num_bytes else None

    def missing(self) -> list[Piece]:
        """Return the values that are missing or have another length."""
        return [piece for piece in self.pieces if self.stored(piece) is None]

    def digest(self) -> bytes:
        """Return its digest; only seals are read. Raises CorruptIndexError where a value is missing or has
        another length."""
        digest = Digest()
        for piece in self.pieces:
            value = self.stored(piece)
            digest.add([piece], [checked_value(self._entry, piece, None) if value is None else value])
        return digest.value()

    # ---- its tables ----

    @cached_property
    def whole(self) -> WholeSegment | None:
        """Return the segment's one value, decoded; ``None`` where the segment is cut into chunks. Raises
        CorruptIndexError where it is damaged."""
        if self._entry.chunked:
            return None
        [piece] = self.pieces
        value = checked_value(self._entry, piece, self._get(piece.key))
        return read_whole_segment(self._geometry, self._entry, value)

    def chunks(self, table: int) -> Iterator[tuple[bytes, Chunk | None]]:
        """Yield the database key and the rows (``None``: missing) of each chunk of a table, or of the sketch
        column, whose number is that after the tables. Blocks are marked as sound, and none is left out.

        A segment of one value gives one chunk without seals, or none where it has no rows. Raises as `whole`.
        """
        if self.whole is not None:
            words, prints, doc_ids = self.whole.words, self.whole.fingerprints, self.whole.doc_ids
            if table < self._geometry.count:
                words, doc_ids = self.whole.tables[table]
            if len(doc_ids):  # copies, for they lie anywhere in the value
                arrays = words.reshape(len(doc_ids), -1).copy(), prints.copy(), doc_ids.copy()
                no_seals, is_sound = np.empty(0, dtype=np.uint64), np.ones(1, dtype=bool)
                yield whole_segment_key(self._entry.id), Chunk(*arrays, no_seals, is_sound, len(doc_ids))
            return
        column = self._geometry.columns(self._entry)[table]
        for piece in pieces_of_column(self._entry, column):
            value = self.stored(piece)
            yield piece.key, None if value is None else read_chunk(piece.key, column, piece.entries, value)

    def entries(self, table: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (keys, relative doc ids) of a sorted table, a chunk at a time. Damaged blocks and chunks are
        left out and added to `errors`; a strict segment raises CorruptIndexError."""
        return ((words[:, 0], doc_ids) for words, _, doc_ids in self._sound(table))

    def sketches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (words, fingerprints, relative doc ids) of the sketch column, a chunk at a time, as `entries`
        does."""
        return self._sound(self._geometry.count)

    def _sound(self, table: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (words, fingerprints, relative doc ids) of a table or the sketch column, without missing
        chunks and without blocks whose seal is broken, whose order does not ascend or whose doc ids are
        outside of the segment; each of these goes to `_note`. Of a table `words` has one column, and no
        fingerprints."""
        is_sketches, last = table == self._geometry.count, -1
        for index, (_, chunk) in enumerate(self.chunks(table)):
            if chunk is None:
                self._note(table, index)
                continue
            order, is_sound = chunk.doc_ids if is_sketches else chunk.words[:, 0], chunk.is_sound.copy()
            every = np.arange(len(order))
            while True:
                rows = slice(None) if is_sound.all() else chunk.rows_of(is_sound)
                taken, doc_ids = order[rows], chunk.doc_ids[rows]
                is_wrong = doc_ids >= self._entry.span
                is_wrong[1:] |= taken[1:] <= taken[:-1] if is_sketches else taken[1:] < taken[:-1]
                is_wrong[:1] |= bool(len(taken)) and int(taken[0]) < last + is_sketches
                if not is_wrong.any():
                    break
                is_sound[every[rows][is_wrong] // chunk.block] = False
            for block in np.flatnonzero(~is_sound).tolist():
                self._note(table, index, block)
            if len(taken):
                last = int(taken[-1])
                yield chunk.words[rows], chunk.fingerprints[rows if is_sketches else []], doc_ids

    def _note(self, table: int, chunk: int, block: int | None = None) -> None:
        """Add the error of a damaged block, or of a missing chunk, to `errors`; raise it if strict."""
        name = self._geometry.name(table)
        error = damaged(
            f"segment {self._entry.id}, table {name}, chunk {chunk}, block {block}: expected entries "
            "that fit their seal and ascend, found others",
            segment=self._entry.id,
            table=name,
            chunk=chunk,
            block=block,
        )
        if self._is_strict:
            raise error
        self.errors.append(error)


class Digest:
    """The digest of a segment, from its values in the order of their keys."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()
        self.value = self._hash.digest

    def add(self, pieces: Iterable[Piece], values: Iterable[Value]) -> None:
        """Hash the database keys of a segment's next pieces, in order, and the seals in their values."""
        for piece, value in zip(pieces, values, strict=True):
            self._hash.update(piece.key)
            if piece.column is None:
                self._hash.update(bytes(value[-SEAL_BYTES:]))
            else:
                self._hash.update(seals_of(piece.column, piece.entries, value))


Entries = Iterable[tuple[np.ndarray, np.ndarray]]
"""Keys and relative doc ids of the shingle table, in parts."""

Counts = tuple[np.ndarray, np.ndarray]
"""Distinct and sampled shingles of each document, as their records have them: uint32."""


class SegmentSamples:
    """The entries of one segment's shingle table, by document, with those of leaders in earlier segments."""

    def __init__(
        self, base: int, entries: Entries, earlier: SegmentSamples | None = None, leaders: Iterable[int] = ()
    ) -> None:
        """Take entries; `earlier`: of the segment before, of whose documents the `leaders` stay."""
        parts = [(hashes_of_shingle_keys(keys), doc_ids.copy()) for keys, doc_ids in entries]
        hashes = np.concatenate([np.empty(0, dtype=np.uint64), *(part for part, _ in parts)])
        doc_ids = np.concatenate([np.empty(0, dtype=np.uint32), *(part for _, part in parts)])
        order = np.lexsort((hashes, doc_ids))
        self._hashes, self._doc_ids = hashes[order], doc_ids[order].astype(np.uint64) + np.uint64(base)
        if earlier is not None:
            # Leaders come before their copies, so that all doc ids ascend.
            stays = np.isin(earlier._doc_ids, np.fromiter(leaders, dtype=np.uint64))
            self._hashes = np.concatenate([earlier._hashes[stays], self._hashes])
            self._doc_ids = np.concatenate([earlier._doc_ids[stays], self._doc_ids])

    def of(self, doc_ids: np.ndarray, counts: Counts, one_in: int) -> tuple[Samples, np.ndarray]:
        """Return the samples of these doc ids, which may be in any order, and for each whether it is lost:
        the table has not as many hashes as `counts` say, and its sample is empty. `one_in`: one in so many
        shingles is sampled."""
        firsts = np.searchsorted(self._doc_ids, doc_ids)
        found = np.searchsorted(self._doc_ids, doc_ids, side="right") - firsts
        is_lost = found != num_entries(*counts)
        lengths = np.where(is_lost, 0, found)
        begins = np.cumsum(lengths) - lengths
        at = np.arange(int(lengths.sum())) + np.repeat(firsts - begins, lengths)
        num_shingles, num_sampled = (np.where(is_lost, 0, count).astype(np.uint32) for count in counts)
        return Samples(self._hashes[at], num_shingles, num_sampled, one_in), is_lost


class StoredSamples:
    """The samples of one snapshot, read a segment at a time, for doc ids that ascend from call to call."""

    def __init__(self, geometry: Geometry, one_in: int) -> None:
        self._geometry, self._one_in = geometry, one_in
        self._read: tuple[SegmentEntry, ...] = ()
        self._samples = SegmentSamples(0, [])

    def of(
        self, txn: ReadTransaction, view: View, doc_ids: np.ndarray, owners: np.ndarray, counts: Counts
    ) -> Samples:
        """Return the samples of documents, whose doc ids ascend, also from call to call. `owners`: under
        which doc id each lies, its leader's or its own, uint64; `counts`: what the records say.

        Raises CorruptIndexError where an entry is damaged or missing.
        """
        parts = [Samples.of([], self._one_in)]
        segments = np.array([entry.base for entry in view.manifest.segments], dtype=np.uint64)
        own = np.searchsorted(segments, doc_ids, side="right") - 1
        for index in distinct(own).tolist():
            self._read_to(txn, view, index)
            is_own = own == index
            of_own = counts[0][is_own], counts[1][is_own]
            samples, is_lost = self._samples.of(owners[is_own], of_own, self._one_in)
            for doc_id in doc_ids[is_own][is_lost].tolist():
                raise CorruptIndexError(
                    f"document {doc_id}: expected its sampled shingles, found others; restore a backup, or "
                    "repair the index"
                )
            parts.append(samples)
        return Samples.joined(parts)

    def _read_to(self, txn: ReadTransaction, view: View, index: int) -> None:
        """Read the shingle tables up to that of segment `index` of the manifest, also of segments without
        documents to be returned: leaders may be in them."""
        entries = view.manifest.segments[: index + 1]
        if self._read != entries[: len(self._read)]:  # compacted meanwhile
            self._read, self._samples = (), SegmentSamples(0, [])
        for entry in entries[len(self._read) :]:
            stored = StoredSegment(self._geometry, entry, partial(txn.get, "segments"), is_strict=True)
            of_table = stored.entries(self._geometry.shingle_table)
            self._samples = SegmentSamples(entry.base, of_table, self._samples, view.leaders())
            self._read += (entry,)
