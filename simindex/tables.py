"""Sorted tables: how segments are built, loaded into a directory, and searched.

Owns the in-memory side of segments: `SegmentData` (what a batch of documents adds), `Segment` (a live
segment by the addresses of its chunks) and `Directory` (all live segments of a snapshot, as the kernel
takes them). Must not open transactions, and knows bytes only through `format`.

Everything is one structure, the sorted table, and one operation: all entries whose key starts with
these p bits. Band tables answer every number of rows from 1 to 8 (LSH Forest, Bawa et al. 2005);
permutation tables every fingerprint within k bits (Manku et al. 2007); the key table external keys.
Segments are immutable (log-structured merge tree, O'Neil et al. 1996).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from simindex import _kernel
from simindex.errors import CorruptIndexError
from simindex.format.chunks import (
    chunk_seed,
    encode_chunk,
    encode_filter_chunk,
    encode_sketch_chunk,
    encode_whole_segment,
    whole_segment_rows,
)
from simindex.format.keys import segment_key, whole_segment_key
from simindex.format.layout import (
    COPY_TABLE,
    FILTERS,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    Column,
    Geometry,
    SegmentEntry,
)
from simindex.format.rows import CHUNK_ROW, MATCH, TABLE_ROW, directory, segment_row
from simindex.format.seals import SEAL_BYTES, unseal

Result = TypeVar("Result")

_COPIED_BYTES = 1 << 15
"""A shorter value may lie in a B-tree page, which moves with its neighbours: it is copied. A longer one
has overflow pages of its own, which stay where they are for as long as the segment lives."""

Puts = list[tuple[bytes, Any]]
"""Database keys and values to be stored."""


def num_bytes(puts: Puts) -> int:
    """Return the bytes of all values."""
    return sum(map(len, map(itemgetter(1), puts)))


def _sorted(keys: np.ndarray, numbers: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sort each row of keys; returns (keys, numbers) a row. Equal keys keep the order of numbers."""
    keys = np.ascontiguousarray(keys)
    if keys.shape[1] < 2:
        return [(row, numbers) for row in keys]
    out_keys = np.empty_like(keys)
    positions = np.empty(keys.shape, dtype=np.uint32)
    if keys.size:
        _kernel.sort_tables(keys, keys.shape[1], out_keys, positions)
    if numbers[-1] == len(numbers) - 1:  # no gaps: a position is its number
        return list(zip(out_keys, positions, strict=True))
    return [(row, numbers[place]) for row, place in zip(out_keys, positions, strict=True)]


@dataclass
class SegmentData:
    """The documents of a segment to be written. Numbers are relative to `base`, ascending, uint32.

    Attributes:
        key_hashes, key_numbers: every document.
        leaders, copies: documents that share the sketch of the document numbered `leaders` (uint64,
            absolute).
        words, fingerprints, numbers: sketches that are new: (n, bands), (n,), (n,).
        has_signature, has_fingerprint: which of those are in band tables, in permutation tables (bool).
        permuted: uint64, shape (permutations, number of has_fingerprint set): permuted fingerprints.
    """

    base: int
    span: int
    key_hashes: np.ndarray
    key_numbers: np.ndarray
    leaders: np.ndarray
    copies: np.ndarray
    words: np.ndarray
    fingerprints: np.ndarray
    numbers: np.ndarray
    has_signature: np.ndarray
    has_fingerprint: np.ndarray
    permuted: np.ndarray

    def entry(self, segment: int) -> SegmentEntry:
        """Return what the manifest says of it."""
        return SegmentEntry(
            id=segment,
            base=self.base,
            span=self.span,
            num_keys=len(self.key_hashes),
            num_copies=len(self.leaders),
            num_signatures=int(self.has_signature.sum()) if self.words.shape[1] else 0,
            num_fingerprints=int(self.has_fingerprint.sum()) if len(self.permuted) else 0,
            num_sketches=len(self.numbers),
        )

    def sorted_tables(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return every table's (keys, numbers), in the order of table numbers."""
        tables = _sorted(self.key_hashes[None], self.key_numbers)
        tables += _sorted(self.leaders[None], self.copies)
        if self.words.shape[1]:
            all_signed = bool(self.has_signature.all())
            words = self.words if all_signed else self.words[self.has_signature]
            tables += _sorted(words.T, self.numbers if all_signed else self.numbers[self.has_signature])
        if len(self.permuted):
            tables += _sorted(self.permuted, self.numbers[self.has_fingerprint])
        return tables


def segment_puts(geometry: Geometry, entry: SegmentEntry, data: SegmentData) -> tuple[SegmentEntry, Puts]:
    """Return the entry and the stored form of a segment: one value, or chunks when it is large."""
    writer = SegmentWriter(geometry, entry)
    puts: Puts = []
    for keys, numbers in data.sorted_tables():
        puts += writer.add_entries(keys, numbers)
        puts += writer.end_table()
    puts += writer.add_sketches(data.words, data.fingerprints, data.numbers)
    puts += writer.finish()
    return writer.entry, puts


class SegmentWriter:
    """Turns sorted tables and sketches into stored values: the one way, for commits and for merges.

    Takes table after table in order of their numbers, each followed by `end_table`, then the sketches;
    every call returns the values that are complete by then. A segment that fits one value is held until
    `finish`, so its arrays must stay as they are until then; of one in chunks nothing is held but the
    open chunk of a filter.

    Attributes:
        is_whole: whether the segment becomes one value.
        entry: of the segment; after `finish` with the counts of what was added.
    """

    def __init__(self, geometry: Geometry, expected: SegmentEntry) -> None:
        """Begin a segment.

        Args:
            expected: the most entries that each kind of table can have; filters are sized by it, and
                whether the segment becomes one value follows from it.
        """
        self._geometry = geometry
        self.is_whole = geometry.fits_one_value(expected)
        self.entry = expected
        if not self.is_whole:
            self.entry = expected._replace(chunked=1, filters=geometry.filters_of(expected))
        self._filter_bits = [] if self.is_whole else geometry.filter_bits(self.entry)
        self._arrays: list[np.ndarray] = []
        self._counts: list[int] = []
        self._added = 0  # to the table under way, or to the sketch column
        self._filter = self._next_filter()

    def add_entries(self, keys: np.ndarray, numbers: np.ndarray) -> Puts:
        """Take entries of the table under way, in order of key, then of number. All calls for a table but
        the last bring whole chunks; for a segment of one value there is one call at most."""
        if self.is_whole:
            self._added += len(keys)
            self._arrays += keys, numbers
            return []
        puts: Puts = []
        table, capacity = len(self._counts), self._geometry.layout.entries_per_chunk
        for first in range(0, len(keys), capacity):
            chunk_keys, chunk_numbers = keys[first : first + capacity], numbers[first : first + capacity]
            key = segment_key(self.entry.id, table, self._added // capacity)
            puts.append((key, encode_chunk(key, chunk_keys, np.ascontiguousarray(chunk_numbers))))
            self._added += len(chunk_keys)
            if self._filter:
                puts += self._filter.add(chunk_keys)
        return puts

    def end_table(self) -> Puts:
        """Finish the table under way; returns the rest of its filter."""
        self._counts.append(self._added)
        self._added = 0
        if self.is_whole:
            return []
        puts = self._filter.finish() if self._filter else []
        self._filter = self._next_filter()
        return puts

    def _next_filter(self) -> FilterWriter | None:
        """Return the filter of the table that comes next, if it has one."""
        table = len(self._counts)
        bits = self._filter_bits[table] if table < len(self._filter_bits) else 0
        return FilterWriter(self._geometry, self.entry.id, table, bits) if bits else None

    def add_sketches(self, words: np.ndarray, fingerprints: np.ndarray, numbers: np.ndarray) -> Puts:
        """Take rows of the sketch column; the same rules hold as for entries."""
        if self.is_whole:
            self._added += len(numbers)
            self._arrays += words, fingerprints, numbers
            return []
        puts: Puts = []
        table, capacity = self._geometry.count, self._geometry.sketches_per_chunk
        for first in range(0, len(numbers), capacity):
            part = slice(first, first + capacity)
            key = segment_key(self.entry.id, table, self._added // capacity)
            puts.append((key, encode_sketch_chunk(key, words[part], fingerprints[part], numbers[part])))
            self._added += len(numbers[part])
        return puts

    def finish(self) -> Puts:
        """End the segment."""
        geometry, counts = self._geometry, self._counts
        self.entry = self.entry._replace(
            num_keys=counts[KEY_TABLE],
            num_copies=counts[COPY_TABLE],
            num_signatures=counts[FIRST_BAND_TABLE] if geometry.bands else 0,
            num_fingerprints=counts[geometry.first_permutation] if geometry.permutations else 0,
            num_sketches=self._added,
        )
        if not self.is_whole:
            return []
        key = whole_segment_key(self.entry.id)
        return [(key, encode_whole_segment(key, self._arrays))]


class FilterWriter:
    """Makes the filter of a sorted table from its keys as they come, a chunk at a time.

    A filter has one bit for each pattern of the leading `bits` bits of a key, set where a key has it.
    """

    def __init__(self, geometry: Geometry, segment: int, table: int, bits: int) -> None:
        self._segment, self._table, self._bits = segment, table, bits
        self._chunks = 1 << max(0, bits - geometry.filter_chunk_bits)
        words = 1 << min(bits, geometry.filter_chunk_bits) - _kernel.MIN_FILTER_BITS
        self._bitmap = np.zeros(words, dtype=np.uint64)
        self._chunk = 0

    def add(self, keys: np.ndarray) -> Puts:
        """Take further keys, ascending; returns the chunks that are complete."""
        puts: Puts = []
        while True:
            first = self._chunk * self._bitmap.nbytes * 8
            taken = _kernel.set_filter_bits(keys, self._bits, first, self._bitmap)
            if taken == len(keys):
                return puts
            keys = keys[taken:]
            puts.append(self._next())

    def finish(self) -> Puts:
        """Return the rest of the chunks."""
        return [self._next() for _ in range(self._chunk, self._chunks)]

    def _next(self) -> tuple[bytes, bytes]:
        key = segment_key(self._segment, FILTERS + self._table, self._chunk)
        value = encode_filter_chunk(key, self._bitmap)
        self._bitmap[:] = 0
        self._chunk += 1
        return key, value


class _WholeForm(NamedTuple):
    """How a segment that is one value looks in memory, by its counts alone: rows of the kernel whose
    addresses are still to be moved, and behind them the bitmaps of its filters. In words of 64 bits.

    Attributes:
        rows: chunk rows of the tables and of the sketch column, chunk rows of the filters, table rows.
        num_words: their number with the bitmaps.
        in_value, in_memory: which of `rows` are addresses in the stored value, and in this memory.
        sketch_row, table_rows: where the sketch column's chunk row and the table rows begin.
        value_bytes: length of the stored value.
    """

    rows: np.ndarray
    num_words: int
    in_value: np.ndarray
    in_memory: np.ndarray
    sketch_row: int
    table_rows: int
    value_bytes: int


@lru_cache(maxsize=256)
def _whole_form(geometry: Geometry, entry: SegmentEntry) -> _WholeForm:
    bits = np.array(geometry.filter_bits(entry), dtype=np.int64)
    filtered = np.flatnonzero(bits)
    bitmap_bytes = 8 << bits[filtered] - _kernel.MIN_FILTER_BITS

    stored = whole_segment_rows(geometry, entry)
    filters = np.zeros(len(filtered), dtype=CHUNK_ROW)
    table_rows = np.zeros(geometry.count, dtype=TABLE_ROW)
    tables_at = stored.nbytes + filters.nbytes
    bitmaps_at = tables_at + table_rows.nbytes
    filters["keys"] = bitmaps_at + np.cumsum(bitmap_bytes) - bitmap_bytes
    table_rows["chunks"] = CHUNK_ROW.itemsize * np.arange(geometry.count)
    table_rows["num_entries"] = geometry.entry_counts(entry)
    table_rows["filter_bits"] = bits
    table_rows["filter"][filtered] = stored.nbytes + CHUNK_ROW.itemsize * np.arange(len(filtered))
    table_rows["bitmap"][filtered] = filters["keys"]

    sketch_row = stored.nbytes - CHUNK_ROW.itemsize
    in_value = [
        _places(stored, 0, "keys"),
        _places(stored, 0, "numbers"),
        _places(stored[-1:], sketch_row, "fingerprints"),
    ]
    in_memory = [
        _places(filters, stored.nbytes, "keys"),
        _places(table_rows, tables_at, "chunks"),
        _places(table_rows, tables_at, "filter")[filtered],
        _places(table_rows, tables_at, "bitmap")[filtered],
    ]
    return _WholeForm(
        rows=np.concatenate([rows.view(np.uint64) for rows in (stored, filters, table_rows)]),
        num_words=(bitmaps_at + int(bitmap_bytes.sum())) // 8,
        in_value=np.concatenate(in_value),
        in_memory=np.concatenate(in_memory),
        sketch_row=sketch_row // 8,
        table_rows=tables_at // 8,
        value_bytes=geometry.segment_bytes(entry) + SEAL_BYTES,
    )


def _places(rows: np.ndarray, at: int, field: str) -> np.ndarray:
    """Return where a field of each row lies, in words, when the rows begin at byte `at`."""
    offset = rows.dtype.fields[field][1]  # type: ignore[index] # mypy takes rows without fields into account
    return np.arange(at + offset, at + offset + rows.nbytes, rows.itemsize) // 8


class Segment:
    """A live segment: the addresses of its chunks, and what keeps them valid.

    Attributes:
        entry: what the manifest says of it.
        row: the kernel's segment_row.
    """

    def __init__(self, geometry: Geometry, entry: SegmentEntry, get: Callable[[bytes], Any]) -> None:
        """Load from the values that `get` returns for database keys.

        Raises:
            CorruptIndexError: a value is missing, has another length, or fails its seal.
        """
        self.entry = entry
        self._held: list[object] = []
        load = self._load_chunks if entry.chunked else self._load_whole
        table_rows, sketch_rows = load(geometry, get)
        self.row = segment_row(
            base=entry.base,
            span=entry.span,
            tables=table_rows,
            sketch_chunks=sketch_rows,
            num_sketches=entry.num_sketches,
        )

    def _load_whole(self, geometry: Geometry, get: Callable[[bytes], Any]) -> tuple[int, int]:
        """Load a segment that is one value. Its filters are not stored with it, but made anew.

        Returns:
            The addresses of the table rows and of the sketch column's chunk rows.
        """
        form = _whole_form(geometry, self.entry._replace(id=0, base=0, span=0))
        key = whole_segment_key(self.entry.id)
        value = self._kept(key, get(key), form.value_bytes)
        unseal(key, value, f"segment {self.entry.id}", segment=self.entry.id)
        memory = np.zeros(form.num_words, dtype=np.uint64)
        memory[: len(form.rows)] = form.rows
        place = _kernel.address(memory)
        memory[form.in_value] += np.uint64(_kernel.address(value))
        memory[form.in_memory] += np.uint64(place)
        self._held.append(memory)
        _kernel.fill_filters(memory[form.table_rows : len(form.rows)])
        return place + 8 * form.table_rows, place + 8 * form.sketch_row

    def _load_chunks(self, geometry: Geometry, get: Callable[[bytes], Any]) -> tuple[int, int]:
        """Load a segment that is cut into chunks; returns what `_load_whole` does."""
        columns = geometry.columns(self.entry)
        checked = np.zeros(sum(column.all_blocks for column in columns), dtype=np.uint8)
        place = _kernel.address(checked)
        rows = []
        for column in columns:
            rows.append(self._column_rows(column, get, place))
            place += column.all_blocks
        chunks = np.concatenate(rows)
        firsts = np.cumsum([0, *map(len, rows[:-1])])  # of the chunks of each column
        places = _kernel.address(chunks) + CHUNK_ROW.itemsize * firsts
        first_filter = geometry.count + 1  # tables, sketch column, filters
        bits = np.array(geometry.filter_bits(self.entry))
        filtered = np.flatnonzero(bits)
        table_rows = np.zeros(geometry.count, dtype=TABLE_ROW)
        table_rows["chunks"] = places[: geometry.count]
        table_rows["num_entries"] = geometry.entry_counts(self.entry)
        table_rows["filter_bits"] = bits
        table_rows["filter"][filtered] = places[first_filter:]
        filters = chunks[firsts[first_filter:]]
        is_one_chunk = bits[filtered] <= geometry.filter_chunk_bits
        table_rows["bitmap"][filtered] = np.where(is_one_chunk, filters["keys"], 0)
        table_rows["bitmap_checked"][filtered] = np.where(is_one_chunk, filters["checked"], 0)
        self._held += [checked, chunks, table_rows]
        return _kernel.address(table_rows), int(places[geometry.count])

    def _column_rows(self, column: Column, get: Callable[[bytes], Any], checked: int) -> np.ndarray:
        """Return the kernel's rows of a column's chunks; `checked`: address of a byte for each block."""
        keys = [segment_key(self.entry.id, column.table, chunk) for chunk in range(column.chunks)]
        expected = map(column.chunk_bytes, column.counts())
        bases = [self._address(get, key, size) for key, size in zip(keys, expected, strict=True)]
        return column.rows(bases, list(map(chunk_seed, keys)), checked)

    def _kept(self, key: bytes, value: Any, expected: int) -> Any:
        """Return a value so that it lives as long as the segment."""
        self._require_bytes(key, expected, None if value is None else len(value))
        if isinstance(value, memoryview) and expected < _COPIED_BYTES:
            value = bytes(value)
        if isinstance(value, bytes):
            self._held.append(value)
        return value

    def _address(self, get: Callable[[bytes], Any], key: bytes, expected: int) -> int:
        """Return the address of a value, which `get` may give as (address, length)."""
        value = get(key)
        if isinstance(value, tuple):
            address, found = value
            self._require_bytes(key, expected, found)
            return int(address)
        return _kernel.address(self._kept(key, value, expected))

    def _require_bytes(self, key: bytes, expected: int, found: int | None) -> None:
        if found != expected:
            raise CorruptIndexError(
                f"segment {self.entry.id}, entry {key.hex()}: expected {expected} bytes, found "
                f"{'nothing' if found is None else f'{found} bytes'}; restore a backup or rebuild the index",
                segment=self.entry.id,
                key=key,
            )


class Directory:
    """All live segments of a snapshot, oldest first, and the searches over them.

    Thread safety: immutable; searches release the GIL. Valid only while the transaction that the
    segments were loaded in, or a later one on an unmoved map, is open.
    """

    def __init__(self, geometry: Geometry, segments: list[Segment]) -> None:
        self.geometry = geometry
        self.segments = segments
        self._rows = b"".join([segment.row for segment in segments])
        self.header = directory(
            segments=_kernel.address(self._rows) if segments else 0,
            num_segments=len(segments),
            num_tables=geometry.count,
            entries_per_chunk=geometry.layout.entries_per_chunk,
            sketches_per_chunk=geometry.sketches_per_chunk,
            bands=geometry.bands,
            filter_chunk_bits=geometry.filter_chunk_bits,
        )

    def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Return function(header, *arguments) of a kernel function.

        Raises:
            CorruptIndexError: it found a broken seal.
        """
        try:
            return function(self.header, *arguments)
        except _kernel.Damage as exc:
            place, table_number, chunk, block = exc.args
            segment, table = self.segments[place].entry.id, self.geometry.name(table_number)
            raise CorruptIndexError(
                f"segment {segment}, table {table}, chunk {chunk}, block {block}: "
                "the stored entries do not fit their seal; restore a backup or rebuild the index",
                segment=segment,
                table=table,
                chunk=chunk,
                block=block,
            ) from exc

    def find_keys(self, table: int, keys: np.ndarray | bytes, most: int) -> Iterator[tuple[int, int]]:
        """Return (place in keys, number) of entries whose key is equal, at most `most` for each key.

        Args:
            keys: uint64, or their little-endian bytes.
        """
        found = self.run(_kernel.find_keys, table, keys, most)
        return ((place, number) for number, place, _, _ in MATCH.iter_unpack(found))

    def find_equal(
        self, table: int, keys: np.ndarray, words: np.ndarray, fingerprints: np.ndarray, most: int
    ) -> Iterator[tuple[int, int]]:
        """Return (place, number) of stored sketches equal to the query's whole sketch."""
        found = self.run(_kernel.find_equal, table, keys, words, fingerprints, most)
        return ((place, number) for number, place, _, _ in MATCH.iter_unpack(found))

    def read_sketch(self, number: int) -> tuple[np.ndarray, int] | None:
        """Return (words, fingerprint) of a number's stored sketch, or ``None``."""
        words = np.empty(self.geometry.bands, dtype=np.uint64)
        fingerprint = self.run(_kernel.read_sketch, number, words)
        return None if fingerprint is None else (words, fingerprint)
