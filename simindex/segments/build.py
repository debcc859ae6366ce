"""Build a segment: sort the entries of a batch and encode them.

Invariant: what is built depends on the documents and the geometry alone, so that a commit which is replayed
stores the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from simindex import _kernel
from simindex.format.chunks import (
    encode_chunk,
    encode_sketch_chunk,
    encode_whole_segment,
    encode_words_chunk,
)
from simindex.format.keys import segment_key, whole_segment_key
from simindex.format.layout import (
    BITMAPS,
    FENCES,
    FILTERS,
    FilterShape,
    Geometry,
    SegmentEntry,
)

Puts = list[tuple[bytes, Any]]
"""Database keys and values to be stored."""


def num_bytes(puts: Puts) -> int:
    """Return the bytes of the values together, keys left out."""
    return sum(map(len, map(itemgetter(1), puts)))


Entries = tuple[np.ndarray, np.ndarray]
"""Keys, uint64, and the relative doc id of each, uint32; of the shingle table NO_DOC_IDS, for its keys have
them in their low bits."""

NO_DOC_IDS = np.empty(0, dtype=np.uint32)

NO_ENTRIES: Entries = np.empty((1, 0), dtype=np.uint64), NO_DOC_IDS
"""Of a kind that has one table, which is empty."""


class SegmentData(NamedTuple):
    """The documents of a segment to be written: of each kind of table keys, a row a table, and doc ids
    relative to `base`; new sketches."""

    base: int
    span: int
    tables: list[Entries]
    words: np.ndarray
    fingerprints: np.ndarray
    doc_ids: np.ndarray

    def entry(self, segment: int) -> SegmentEntry:
        """Return what the manifest says of it under the id `segment`, as of one value:
        not chunked, no filters."""
        counts = [keys.shape[1] if len(keys) else 0 for keys, _ in self.tables]
        keys, copies, signatures, fingerprints = counts[:_ONE_ENTRY_KINDS]
        return SegmentEntry(
            *(segment, self.base, self.span, keys, copies, signatures, fingerprints, len(self.doc_ids)),
            num_shingles=sum(counts[_ONE_ENTRY_KINDS:]),
        )

    def _sorted(self) -> Iterator[Entries]:
        """Yield sorted keys, a row a table, and their doc ids, of the tables that have entries; kinds that
        share their array of doc ids come as one. Keys of the shingle table come without doc ids."""
        alike: list[tuple[np.ndarray, list[np.ndarray]]] = []
        for keys, doc_ids in self.tables:
            if keys.size:
                if not alike or alike[-1][0] is not doc_ids:
                    alike.append((doc_ids, []))
                alike[-1][1].append(keys)
        for doc_ids, rows in alike:
            keys = np.ascontiguousarray(np.concatenate(rows) if len(rows) > 1 else rows[0])
            ordered = np.empty(keys.shape, np.uint64)
            positions = np.empty(keys.shape, np.uint32) if len(doc_ids) else None
            _kernel.sort_tables(keys, keys.shape[1], ordered, positions)
            if positions is None:
                yield ordered, doc_ids
                continue
            # Of documents without gaps a position is its doc id.
            is_gapless = doc_ids is self.tables[0][1] and len(doc_ids) == self.span
            yield ordered, positions if is_gapless else doc_ids[positions]

    def laid_out(self) -> list[np.ndarray]:
        """Return the arrays of a segment that is one value, in the order in which their bytes are stored: one
        for each run of tables with entries that share their array of doc ids (uint8, a row a table: sorted
        keys, then doc ids, which the shingle table lacks); words, fingerprints, and doc ids of the sketches.
        """
        arrays = []
        for keys, doc_ids in self._sorted():
            columns = [keys, doc_ids] if doc_ids.size else [keys]
            arrays.append(np.concatenate([column.view(np.uint8) for column in columns], axis=1))
        return [*arrays, self.words, self.fingerprints, self.doc_ids]

    def sorted_tables(self) -> list[Entries]:
        """Return sorted (keys, doc ids) of every table, in the order of table numbers, empty ones too."""
        ordered = chain.from_iterable(
            zip(keys, doc_ids if len(doc_ids) else [doc_ids], strict=True) for keys, doc_ids in self._sorted()
        )
        none = NO_ENTRIES[0][0], NO_ENTRIES[1]
        has_entries = [keys.size > 0 for keys, _ in self.tables for _ in range(len(keys))]
        return [next(ordered) if has_some else none for has_some in has_entries]


_ONE_ENTRY_KINDS = 4
"""Kinds of tables that have one entry a document at most."""


def segment_puts(geometry: Geometry, entry: SegmentEntry, data: SegmentData) -> tuple[SegmentEntry, Puts]:
    """Return the stored form of a segment, one value or chunks where it is large, and its entry, which has
    the filters of a chunked one. `entry`: as of `SegmentData.entry`."""
    if geometry.fits_one_value(entry):
        key = whole_segment_key(entry.id)
        return entry, [(key, encode_whole_segment(key, data.laid_out()))]
    writer = SegmentWriter(geometry, entry)
    puts: Puts = []
    for keys, doc_ids in data.sorted_tables():
        puts += writer.add_entries(keys, doc_ids)
        puts += writer.end_table()
    puts += writer.add_sketches(data.words, data.fingerprints, data.doc_ids)
    puts += writer.finish()
    return writer.entry, puts


class SegmentWriter:
    """Turns sorted tables, each followed by `end_table`, then sketches into stored values, for commits and
    merges; arrays of a segment of one value are held until `finish`."""

    def __init__(self, geometry: Geometry, expected: SegmentEntry, *, is_stored: bool = False) -> None:
        """Begin; filters are sized by the `expected` counts. `is_stored`: a segment's own entry, whose form
        and filters stay."""
        self._geometry = geometry
        self.is_whole = not expected.chunked if is_stored else geometry.fits_one_value(expected)
        self.entry = expected
        if not self.is_whole and not is_stored:
            self.entry = expected._replace(chunked=1, filters=geometry.filters_of(expected))
        self._shapes = [] if self.is_whole else geometry.filter_shapes(self.entry)
        self._bitmap_bits = [] if self.is_whole else geometry.bitmap_bits(self.entry)
        self._arrays: list[np.ndarray] = []
        self._counts: list[int] = []
        self._added = 0  # to the table under way, or to the sketch column
        self._fences: list[np.ndarray] = []  # of the table under way
        self._filter, self._bitmap = self._next_filter(), self._next_bitmap()

    def add_entries(self, keys: np.ndarray, doc_ids: np.ndarray) -> Puts:
        """Take entries of the table under way, in order of key and doc id; all calls but the last of a table
        bring whole chunks. Returns values to be stored, none for a segment of one value."""
        table, capacity = len(self._counts), self._geometry.entries_per_chunk
        columns = [keys, doc_ids] if self._geometry.widths[table][2] else [keys]
        if self.is_whole:
            self._added += len(keys)
            self._arrays += columns
            return []
        puts: Puts = []
        for first in range(0, len(keys), capacity):
            chunk_keys, *chunk_numbers = (column[first : first + capacity] for column in columns)
            key = segment_key(self.entry.id, table, self._added // capacity)
            puts.append((key, encode_chunk(key, chunk_keys, *map(np.ascontiguousarray, chunk_numbers))))
            self._added += len(chunk_keys)
            self._fences.append(chunk_keys[:: _kernel.TABLE_BLOCK].copy())
            if self._filter:
                puts += self._filter.add(chunk_keys)
            if self._bitmap is not None:
                _kernel.set_bitmap(chunk_keys, self._bitmap)
        return puts

    def end_table(self) -> Puts:
        """Finish the table under way, so that the next one begins. Returns its fences, the rest of its
        filter, and its bitmap; none for a segment of one value."""
        self._counts.append(self._added)
        self._added = 0
        if self.is_whole:
            return []
        puts = self._fence_puts()
        puts += self._filter.finish() if self._filter else []
        if self._bitmap is not None:
            key = segment_key(self.entry.id, BITMAPS + len(self._counts) - 1, 0)
            puts.append((key, encode_words_chunk(key, self._bitmap)))
        self._filter, self._bitmap = self._next_filter(), self._next_bitmap()
        return puts

    def _fence_puts(self) -> Puts:
        """Return the fences, the first key of each block, of the table that has ended, and forget them."""
        puts: Puts = []
        fences = np.concatenate([np.empty(0, dtype=np.uint64), *self._fences])
        self._fences.clear()
        step = self._geometry.fences_per_chunk
        for chunk, first in enumerate(range(0, len(fences), step)):
            key = segment_key(self.entry.id, FENCES + len(self._counts) - 1, chunk)
            puts.append((key, encode_words_chunk(key, fences[first : first + step])))
        return puts

    def _next_filter(self) -> FilterWriter | None:
        """Return a filter writer for the next table; ``None`` where it has no filter, or there
        is no next one."""
        table = len(self._counts)
        if table < len(self._shapes) and self._shapes[table].lines:
            return FilterWriter(self.entry.id, table, self._shapes[table])
        return None

    def _next_bitmap(self) -> np.ndarray | None:
        """Return a bitmap of zeros for the next table; ``None`` where it has none, or there
        is no next one."""
        table = len(self._counts)
        bits = self._bitmap_bits[table] if table < len(self._bitmap_bits) else 0
        return np.zeros(1 << bits - _kernel.MIN_BITMAP_BITS, dtype=np.uint64) if bits else None

    def add_sketches(self, words: np.ndarray, fingerprints: np.ndarray, doc_ids: np.ndarray) -> Puts:
        """Take rows of the sketch column, by ascending doc id, after the last table; all calls but the last
        bring whole chunks. Returns values to be stored, none for a segment of one value."""
        if self.is_whole:
            self._added += len(doc_ids)
            self._arrays += words, fingerprints, doc_ids
            return []
        puts: Puts = []
        table, capacity = self._geometry.count, self._geometry.sketches_per_chunk
        for first in range(0, len(doc_ids), capacity):
            part = slice(first, first + capacity)
            key = segment_key(self.entry.id, table, self._added // capacity)
            puts.append((key, encode_sketch_chunk(key, words[part], fingerprints[part], doc_ids[part])))
            self._added += len(doc_ids[part])
        return puts

    def finish(self) -> Puts:
        """End the segment: `entry` gets the counts of what was added. Returns the value of a segment of one
        value, else nothing."""
        self.entry = self._geometry.counted(self.entry, self._counts, self._added)
        if not self.is_whole:
            return []
        key = whole_segment_key(self.entry.id)
        return [(key, encode_whole_segment(key, self._arrays))]


class FilterWriter:
    """Makes a Bloom filter (Bloom 1970) of lines (Putze et al. 2007) from ascending keys, a chunk at a time;
    see kernel.h."""

    def __init__(self, segment: int, table: int, shape: FilterShape) -> None:
        self._segment, self._table, self._shape = segment, table, shape
        self._lines = np.zeros(shape.lines * _kernel.LINE_WORDS, dtype=np.uint64)
        self._chunk = 0

    def add(self, keys: np.ndarray) -> Puts:
        """Set the bits of further keys in the filter; they ascend over all calls. Returns the chunks of the
        filter that are complete; raises ValueError for a key whose chunk is behind already."""
        puts: Puts = []
        shape = self._shape
        while True:
            taken = _kernel.add_to_filter(keys, shape.bits, self._chunk, shape.chunks, self._lines)
            if taken == len(keys):
                return puts
            if self._chunk + 1 == shape.chunks:
                raise ValueError(f"keys: expected ascending ones, found {keys[taken]} behind a larger one")
            keys = keys[taken:]
            puts.append(self._next())

    def finish(self) -> Puts:
        """Return the chunks not returned yet, empty ones too."""
        return [self._next() for _ in range(self._chunk, self._shape.chunks)]

    def _next(self) -> tuple[bytes, bytes]:
        key = segment_key(self._segment, FILTERS + self._table, self._chunk)
        value = encode_words_chunk(key, self._lines)
        self._lines[:] = 0
        self._chunk += 1
        return key, value
