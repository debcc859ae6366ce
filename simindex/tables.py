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

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from simindex import _kernel
from simindex.errors import CorruptIndexError
from simindex.format import (
    WHOLE_SEGMENT,
    Shape,
    Tables,
    chunk_bytes,
    chunk_row,
    chunk_seed,
    encode_chunk,
    encode_sketch_chunk,
    encode_whole_segment,
    num_blocks,
    segment_key,
    unseal,
    whole_segment_rows,
)

MATCH = struct.Struct("<QIHH")
"""What the kernel returns of a match: number, query, agreeing rows, distance; NO_FIGURE where there is
nothing to compare."""

NO_FIGURE = 0xFFFF

_COPIED_BYTES = 1 << 15
"""A shorter value may lie in a B-tree page, which moves with its neighbours: it is copied. A longer one
has overflow pages of its own, which stay where they are for as long as the segment lives."""

Puts = list[tuple[bytes, Any]]
"""Database keys and values to be stored."""


def _sorted(keys: np.ndarray, numbers: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Sort each row of keys; returns (keys, numbers) a row. Equal keys keep the order of numbers."""
    keys = np.ascontiguousarray(keys)
    if keys.shape[1] < 2:
        return [(row, numbers) for row in keys]
    out_keys = np.empty_like(keys)
    positions = np.empty(keys.shape, dtype=np.uint32)
    if keys.size:
        _kernel.sort_tables(keys, keys.shape[1], out_keys, positions)
    return [(row, numbers[place]) for row, place in zip(out_keys, positions, strict=True)]


@dataclass
class SegmentData:
    """The documents of a segment to be written. Numbers are relative to `base`, ascending, uint32.

    Attributes:
        key_hashes, key_numbers: every document.
        leaders, copies: documents that share the sketch of the document numbered `leaders` (uint64,
            absolute).
        words, fingerprints, numbers: sketches that are new: (n, bands), (n,), (n,).
        signed, marked: which of those are in band tables, in permutation tables (bool).
        permuted: uint64, shape (permutations, number of marked): permuted fingerprints.
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
    signed: np.ndarray
    marked: np.ndarray
    permuted: np.ndarray

    def shape(self, segment: int) -> Shape:
        """Return what the manifest says of it."""
        return Shape(
            id=segment,
            base=self.base,
            span=self.span,
            num_keys=len(self.key_hashes),
            num_copies=len(self.leaders),
            num_signatures=int(self.signed.sum()) if self.words.shape[1] else 0,
            num_fingerprints=int(self.marked.sum()) if len(self.permuted) else 0,
            num_sketches=len(self.numbers),
        )

    def sorted_tables(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return every table's (keys, numbers), in the order of table numbers."""
        tables = _sorted(self.key_hashes[None], self.key_numbers)
        tables += _sorted(self.leaders[None], self.copies)
        if self.words.shape[1]:
            all_signed = bool(self.signed.all())
            words = self.words if all_signed else self.words[self.signed]
            tables += _sorted(words.T, self.numbers if all_signed else self.numbers[self.signed])
        if len(self.permuted):
            tables += _sorted(self.permuted, self.numbers[self.marked])
        return tables


def segment_puts(tables: Tables, shape: Shape, data: SegmentData) -> tuple[Shape, Puts]:
    """Return the shape and the stored form of a segment: one value, or chunks when it is large."""
    sorted_tables = data.sorted_tables()
    layout = tables.layout
    if (
        tables.segment_bytes(shape) <= layout.chunk_bytes
        and shape.num_keys <= layout.entries_per_chunk
        and shape.num_sketches <= tables.sketches_per_chunk
    ):
        key = segment_key(shape.id, WHOLE_SEGMENT, 0)
        value = encode_whole_segment(key, sorted_tables, data.words, data.fingerprints, data.numbers)
        return shape, [(key, value)]
    puts: Puts = []
    for table, (keys, numbers) in enumerate(sorted_tables):
        for chunk, first in enumerate(range(0, len(keys), layout.entries_per_chunk)):
            part = slice(first, first + layout.entries_per_chunk)
            key = segment_key(shape.id, table, chunk)
            puts.append((key, encode_chunk(key, keys[part], np.ascontiguousarray(numbers[part]))))
    for chunk, first in enumerate(range(0, shape.num_sketches, tables.sketches_per_chunk)):
        part = slice(first, first + tables.sketches_per_chunk)
        key = segment_key(shape.id, tables.count, chunk)
        value = encode_sketch_chunk(key, data.words[part], data.fingerprints[part], data.numbers[part])
        puts.append((key, value))
    return shape._replace(chunked=1), puts


_FILTERED_ENTRIES = 1 << 17
"""Larger tables have no filter: there are few of them, and filling one means reading the table."""


def _filters(counts: list[int]) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Return memory for the filters of tables with so many entries, and (address, bits) of each.

    Eight to sixteen bits an entry, so that about one absent prefix in ten is looked up in vain.
    """
    bits = [(8 * n - 1).bit_length() if 0 < n <= _FILTERED_ENTRIES else 0 for n in counts]
    sizes = [1 << max(b - 3, 0) if b else 0 for b in bits]
    memory = np.zeros(sum(sizes), dtype=np.uint8)
    place = _kernel.address(memory)
    rows = []
    for b, size in zip(bits, sizes, strict=True):
        rows.append((place if b else 0, b))
        place += size
    return memory, rows


class Segment:
    """A live segment: the addresses of its chunks, and what keeps them valid.

    Attributes:
        shape: what the manifest says of it.
        row: (base, span, address of table rows, address of sketch rows, number of sketches).
    """

    def __init__(self, tables: Tables, shape: Shape, get: Callable[[bytes], Any]) -> None:
        """Load from the values that `get` returns for database keys.

        Raises:
            CorruptIndexError: a value is missing, has another length, or fails its seal.
        """
        self.shape = shape
        self._held: list[object] = []
        counts = tables.entry_counts(shape)
        table_rows = np.zeros((tables.count, 4), dtype=np.uint64)
        table_rows[:, 1] = counts
        if shape.chunked:
            chunks, firsts = self._load_chunks(tables, counts, get)
        else:
            chunks = self._load_whole(tables, get)
            firsts = list(range(tables.count + 1))
        place = _kernel.address(chunks)
        table_rows[:, 0] = [place + first * chunks.itemsize * chunks.shape[1] for first in firsts[:-1]]
        filters, table_rows[:, 2:] = _filters(counts)
        self._held += [chunks, table_rows, filters]
        self.row = (
            shape.base,
            shape.span,
            _kernel.address(table_rows),
            place + firsts[-1] * chunks.itemsize * chunks.shape[1],
            shape.num_sketches,
        )
        if len(filters):
            directory = Directory(tables, [self])
            try:
                _kernel.fill_filters(directory.header)
            except _kernel.Damage as exc:
                raise directory.damaged(exc) from exc

    def _load_whole(self, tables: Tables, get: Callable[[bytes], Any]) -> np.ndarray:
        key = segment_key(self.shape.id, WHOLE_SEGMENT, 0)
        value = self._value(get, key, tables.segment_bytes(self.shape) + 8)
        unseal(key, value, f"segment {self.shape.id}")
        return whole_segment_rows(_kernel.address(value), tables, self.shape)

    def _load_chunks(
        self, tables: Tables, counts: list[int], get: Callable[[bytes], Any]
    ) -> tuple[np.ndarray, list[int]]:
        """Return the chunk rows of all tables in a row, and where each table's begin."""
        rows: list[tuple[int, ...]] = []
        firsts = []
        columns: list[tuple[int, int, int | None]] = [
            (n, tables.layout.entries_per_chunk, None) for n in counts
        ]
        columns.append((self.shape.num_sketches, tables.sketches_per_chunk, tables.bands))
        for table, (count, per_chunk, bands) in enumerate(columns):
            firsts.append(len(rows))
            for chunk, first in enumerate(range(0, count, per_chunk)):
                here = min(per_chunk, count - first)
                key = segment_key(self.shape.id, table, chunk)
                value = self._value(get, key, chunk_bytes(here, bands))
                checked = np.zeros(num_blocks(here, sketches=bands is not None), dtype=np.uint8)
                self._held.append(checked)
                rows.append(
                    chunk_row(_kernel.address(value), here, bands, chunk_seed(key), _kernel.address(checked))
                )
        return np.array(rows, dtype=np.uint64).reshape(-1, 7), firsts

    def _value(self, get: Callable[[bytes], Any], key: bytes, expected: int) -> Any:
        value = get(key)
        if value is None or len(value) != expected:
            found = "nothing" if value is None else f"{len(value)} bytes"
            raise CorruptIndexError(
                f"segment {self.shape.id}, entry {key.hex()}: expected {expected} bytes, found {found}; "
                "restore a backup or rebuild the index"
            )
        if isinstance(value, memoryview) and expected < _COPIED_BYTES:
            value = bytes(value)
        if isinstance(value, bytes):
            self._held.append(value)
        return value


class Directory:
    """All live segments of a snapshot, oldest first, and the searches over them.

    Thread safety: immutable; searches release the GIL. Valid only while the transaction that the
    segments were loaded in, or a later one on an unmoved map, is open.
    """

    def __init__(self, tables: Tables, segments: list[Segment]) -> None:
        self.tables = tables
        self.segments = segments
        self._rows = np.array([segment.row for segment in segments], dtype=np.uint64).reshape(-1, 5)
        self.header = np.array(
            [
                _kernel.address(self._rows) if segments else 0,
                len(segments),
                tables.count,
                tables.layout.entries_per_chunk,
                tables.sketches_per_chunk,
                tables.bands,
            ],
            dtype=np.uint64,
        )

    def damaged(self, error: _kernel.Damage) -> CorruptIndexError:
        """Return the error for a seal that the kernel found broken."""
        segment, table, chunk, block = error.args
        return CorruptIndexError(
            f"segment {self.segments[segment].shape.id}, table {self.tables.name(table)}, chunk {chunk}, "
            f"block {block}: the stored entries do not fit their seal; restore a backup or rebuild the index"
        )

    def find_keys(self, table: int, keys: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
        """Return (place in keys, number) of entries whose key is equal, at most `most` for each key."""
        try:
            found = _kernel.find_keys(self.header, table, keys, most)
        except _kernel.Damage as exc:
            raise self.damaged(exc) from exc
        return ((place, number) for number, place, _, _ in MATCH.iter_unpack(found))

    def find_equal(
        self, table: int, keys: np.ndarray, words: np.ndarray, fingerprints: np.ndarray, most: int
    ) -> Iterator[tuple[int, int]]:
        """Return (place, number) of stored sketches equal to the query's whole sketch."""
        try:
            found = _kernel.find_equal(self.header, table, keys, words, fingerprints, most)
        except _kernel.Damage as exc:
            raise self.damaged(exc) from exc
        return ((place, number) for number, place, _, _ in MATCH.iter_unpack(found))

    def read_sketch(self, number: int) -> tuple[np.ndarray, int] | None:
        """Return (words, fingerprint) of a number's stored sketch, or ``None``."""
        words = np.empty(self.tables.bands, dtype=np.uint64)
        try:
            fingerprint = _kernel.read_sketch(self.header, number, words)
        except _kernel.Damage as exc:
            raise self.damaged(exc) from exc
        return None if fingerprint is None else (words, fingerprint)
