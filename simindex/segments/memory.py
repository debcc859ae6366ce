"""Segments of an open transaction: sorted in memory, never stored.

Invariant: a `MemorySegment` is never changed, so a query may keep it.

Nothing is encoded or sealed on the way, for these addresses never leave the process.
"""

from __future__ import annotations

import numpy as np

from simindex import _kernel
from simindex.format.chunks import chunk_rows
from simindex.format.kernel_structs import CHUNK_ROW, SEGMENT_ROW, TABLE_ROW
from simindex.format.layout import COPY_TABLE, FIRST_BAND_TABLE, KEY_TABLE, Geometry, SegmentEntry
from simindex.segments.build import SegmentData

MOST_GROWING = 64
"""Documents of a `GrowingSegment`: sorting them anew for each one more takes 10 us at most."""


class MemorySegment:
    """A segment that lies in arrays of its own, with the entry that a manifest would have."""

    def __init__(self, entry: SegmentEntry, tables: np.ndarray, sketches: np.ndarray, held: object) -> None:
        """Take over arrays. `sketches`: CHUNK_ROW, the chunks of the sketch column."""
        self.entry = entry
        addresses = _kernel.address(tables), _kernel.address(sketches)
        self.row = SEGMENT_ROW.pack(entry.base, entry.span, *addresses, entry.num_sketches)
        self._held = tables, sketches, held


def memory_segment(geometry: Geometry, segment: int, data: SegmentData) -> MemorySegment:
    """Sort the documents of `data` into a segment in memory, with bitmaps and without filters; `segment` is
    the id that an error would name."""
    entry = data.entry(segment)
    sorted_tables = data.sorted_tables()
    table_chunks = [
        _chunk_rows(geometry, keys, None, doc_ids if len(doc_ids) else None, geometry.entries_per_chunk)
        for keys, doc_ids in sorted_tables
    ]
    per_chunk = geometry.sketches_per_chunk
    sketches = _chunk_rows(geometry, data.words, data.fingerprints, data.doc_ids, per_chunk)
    chunks = np.concatenate(table_chunks)
    firsts = np.cumsum([0, *map(len, table_chunks[:-1])])
    bits = np.array(geometry.bitmap_bits(entry), dtype=np.int64)
    mapped = np.flatnonzero(bits)
    bitmap_bytes = 8 << bits[mapped] - _kernel.MIN_BITMAP_BITS
    words = np.zeros(int(bitmap_bytes.sum()) // 8, dtype=np.uint64)
    bitmaps = np.zeros(len(mapped), dtype=CHUNK_ROW)
    bitmaps["keys"] = _kernel.address(words) + np.cumsum(bitmap_bytes) - bitmap_bytes
    tables = np.zeros(geometry.count, dtype=TABLE_ROW)
    tables["chunks"] = _kernel.address(chunks) + CHUNK_ROW.itemsize * firsts
    tables["num_entries"] = geometry.entry_counts(entry)
    tables["bitmap_bits"] = bits
    tables["bitmap"][mapped] = _kernel.address(bitmaps) + CHUNK_ROW.itemsize * np.arange(len(mapped))
    tables["bitmap_words"][mapped] = bitmaps["keys"]
    _kernel.fill_bitmaps(tables)
    return MemorySegment(entry, tables, sketches, (sorted_tables, data, chunks, words, bitmaps))


def sketch_segment(geometry: Geometry, words: np.ndarray, fingerprints: np.ndarray) -> MemorySegment:
    """Return a segment of sketches alone, with doc ids from 0 in the order of the arrays (which it keeps, not
    copies): a search of its tables finds nothing."""
    count = len(fingerprints)
    doc_ids = np.arange(count, dtype=np.uint32)
    entry = SegmentEntry(2**63 - 1, 0, count, 0, 0, 0, 0, count)
    sketches = _chunk_rows(geometry, words, fingerprints, doc_ids, geometry.sketches_per_chunk)
    tables = np.zeros(geometry.count, dtype=TABLE_ROW)
    return MemorySegment(entry, tables, sketches, (words, fingerprints, doc_ids))


def _chunk_rows(
    geometry: Geometry,
    keys: np.ndarray,
    fingerprints: np.ndarray | None,
    doc_ids: np.ndarray | None,
    per_chunk: int,
) -> np.ndarray:
    """Return CHUNK_ROWs of arrays in memory, `per_chunk` entries each: of a sorted table, whose `doc_ids` are
    ``None`` for shingles; or, with `fingerprints`, of the sketch column, whose words are `keys`. The caller
    keeps the arrays alive."""
    firsts = np.arange(0, len(keys), per_chunk, dtype=np.uint64)
    kind = 0 if fingerprints is None else 1
    form = chunk_rows(2, geometry.bands, geometry.sketches_per_block)[kind : kind + 1]
    rows = np.repeat(form, len(firsts))
    for name, array in (("keys", keys), ("doc_ids", doc_ids), ("fingerprints", fingerprints)):
        if array is not None:
            rows[name] = _addresses(array, firsts)
    rows["count"] = np.minimum(np.uint64(per_chunk), np.uint64(len(keys)) - firsts)
    return rows


def _addresses(array: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Return the addresses of some rows of an array, uint64; `indices`: the indices of the rows."""
    return indices * array.strides[0] + _kernel.address(array)


class GrowingSegment:
    """The newest documents, each with its whole sketch. Not thread-safe; the segments that it gives are."""

    def __init__(self, geometry: Geometry, segment: int, base: int) -> None:
        self.base = base
        self.count = 0
        self.capacity = min(MOST_GROWING, geometry.entries_per_chunk, geometry.sketches_per_chunk)
        self._entry_row = chunk_rows(2, geometry.bands, geometry.sketches_per_block)[:1]
        self._entry = SegmentEntry(segment, base, 0, 0, 0, 0, 0, 0)
        # A row a table, that of copies among them, which stays empty.
        self._keys = np.zeros((geometry.count, self.capacity), dtype=np.uint64)
        self._bands = slice(FIRST_BAND_TABLE, geometry.first_permutation)
        self._permutations = slice(geometry.first_permutation, geometry.count)
        self._words = np.empty((self.capacity, geometry.bands), dtype=np.uint64)
        self._fingerprints = np.empty(self.capacity, dtype=np.uint64)
        self._doc_ids = np.arange(self.capacity, dtype=np.uint32)
        self._sketches = _chunk_rows(geometry, self._words, self._fingerprints, self._doc_ids, self.capacity)
        self._held = self._words, self._fingerprints, self._doc_ids
        self._table_indices = np.arange(geometry.count, dtype=np.uint64)
        self._made: MemorySegment | None = None

    @property
    def room(self) -> int:
        """How many more documents it takes; 0: it is full."""
        return self.capacity - self.count

    def add(
        self, key_hashes: np.ndarray, words: np.ndarray, fingerprints: np.ndarray, permuted: np.ndarray
    ) -> None:
        """Add the next documents, `room` at most, unchecked: hashes of keys, words, fingerprints,
        and `permuted`: the fingerprints in each permuted order, a row an order. Segments given
        out before stay unchanged."""
        here = slice(self.count, self.count + len(key_hashes))
        self._keys[KEY_TABLE, here] = key_hashes
        self._keys[self._bands, here] = words.T
        self._keys[self._permutations, here] = permuted
        self._words[here] = words
        self._fingerprints[here] = fingerprints
        self.count = here.stop
        self._made = None

    def segment(self) -> MemorySegment:
        """Return a segment of all documents added so far; the same object until more are added. Without
        bitmaps: they would cost more than they spare."""
        if self._made is not None:
            return self._made
        count = self.count
        keys = np.ascontiguousarray(self._keys[:, :count])
        ordered, indices = np.empty_like(keys), np.empty(keys.shape, dtype=np.uint32)
        _kernel.sort_tables(keys, count, ordered, indices)
        chunks = np.repeat(self._entry_row, len(keys))
        chunks["keys"] = _addresses(ordered, self._table_indices)
        chunks["doc_ids"] = _addresses(indices, self._table_indices)
        tables = np.zeros(len(keys), dtype=TABLE_ROW)
        tables["chunks"] = _addresses(chunks, self._table_indices)
        tables["num_entries"] = count
        tables["num_entries"][COPY_TABLE] = 0
        entry = self._entry._replace(span=count, num_keys=count, num_sketches=count)
        self._made = MemorySegment(entry, tables, self._sketches, (ordered, indices, chunks, self._held))
        return self._made
