"""Where everything of a segment lies: what the manifest says of it, how it is cut, and what follows.

Owns table numbers, widths, and the arithmetic from counts to lengths, offsets and chunks. Must not touch
values. Invariant: all lengths and offsets follow from a segment's entry in the manifest and the index's
header; no value of a segment says anything about itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.format.rows import CHUNK_ROW
from simindex.format.seals import SEAL_BYTES

KEY_TABLE, COPY_TABLE, FIRST_BAND_TABLE = 0, 1, 2
"""Table numbers. Band tables follow, then permutation tables; the sketch column comes last."""

FILTERS = 0x8000
"""Added to a table's number in the database keys of its filter."""

KEY_BYTES, FINGERPRINT_BYTES, NUMBER_BYTES = 8, 8, 4
"""Widths of what segments consist of: keys and band words, fingerprints, relative numbers."""

ENTRY_BYTES = KEY_BYTES + NUMBER_BYTES
"""Bytes of an entry of a sorted table."""

_MAX_FILTER_CHUNK_BITS = 30

_MAX_FACTOR, _MAX_CHUNK = 2**32, 1 << 28
"""A chunk of so many entries has 3 GiB of the 4 GiB that LMDB takes for a value."""

MAX_SPAN = 2**32 - 1
"""Relative numbers have 32 bits."""


class SegmentEntry(NamedTuple):
    """What the manifest says of a live segment; all lengths and offsets follow from it.

    Attributes:
        id: the segment's id; never used again.
        base: number of its first document; stored numbers are relative to it.
        span: every relative number is below.
        num_keys: entries of the key table: its documents.
        num_copies: entries of the copy table: documents that share an earlier sketch.
        num_signatures: entries of each band table.
        num_fingerprints: entries of each permutation table.
        num_sketches: rows of the sketch column.
        chunked: 0 when the segment is one value, 1 when each table is cut into chunks.
        filters: of a chunked segment, one byte for each kind of table (key, copy, band, permutation):
            the bits of its filter, 0 for none. They follow the number of entries before a merge left out
            the dead, so they are said.
    """

    id: int
    base: int
    span: int
    num_keys: int
    num_copies: int
    num_signatures: int
    num_fingerprints: int
    num_sketches: int
    chunked: int = 0
    filters: bytes = b""

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Entries of each kind of table: key, copy, band, permutation."""
        return self.num_keys, self.num_copies, self.num_signatures, self.num_fingerprints


@dataclass(frozen=True, slots=True)
class Layout:
    """How segments are cut and when they are merged. Stored on creation; no result depends on it.

    Attributes:
        tier_factor: this many neighbouring segments of a tier become one of the next.
        entries_per_chunk: entries of a sorted table in one value.
        chunk_bytes: about how many bytes of sketches go in one value, and the size from which a
            segment is cut into chunks.
    """

    tier_factor: int = 8
    entries_per_chunk: int = 65_536
    chunk_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        for value in (self.tier_factor, self.entries_per_chunk, self.chunk_bytes):
            if type(value) is not int:
                raise TypeError(f"layout: expected ints, found {value!r}")
        if self.tier_factor < 2 or self.entries_per_chunk < 1 or self.chunk_bytes < 1:
            raise ValueError(f"layout: expected tier_factor >= 2 and sizes >= 1, found {self}")
        if self.tier_factor > _MAX_FACTOR or max(self.entries_per_chunk, self.chunk_bytes) > _MAX_CHUNK:
            raise ValueError(f"layout: expected sizes up to {_MAX_CHUNK}, found {self}")


class TableKind(NamedTuple):
    """What the header says of one kind of table, so that a reader knows which it does not know.

    Attributes:
        name: of the kind.
        first: number of the first table of the kind.
        num_tables: how many there are.
        widths: as in `Column`.
        block: entries of a sealed block.
    """

    name: str
    first: int
    num_tables: int
    widths: tuple[int, int, int]
    block: int


KIND_NAMES = "key", "copy", "band", "permutation", "sketch", "filter"
"""The kinds of tables, in the order of their numbers."""


class Column(NamedTuple):
    """A run of chunks in a segment: a sorted table, the sketch column, or a filter.

    Attributes:
        table: table number in the database keys.
        total: entries, rows or words in all.
        per_chunk: how many of them a chunk has, but for the last.
        widths: bytes of each of its arrays an entry: keys or words, fingerprints, numbers; 0: no such array.
    """

    table: int
    total: int
    per_chunk: int
    widths: tuple[int, int, int]

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.total // self.per_chunk)

    @property
    def block(self) -> int:
        """Entries of a sealed block."""
        return _kernel.SKETCH_BLOCK if self.widths[1] else _kernel.TABLE_BLOCK

    def counts(self) -> list[int]:
        """Return the entries of each chunk."""
        chunks = self.chunks
        return (
            [self.per_chunk] * (chunks - 1) + [self.total - self.per_chunk * (chunks - 1)] if chunks else []
        )

    def blocks(self, count: int) -> int:
        """Return the sealed blocks of a chunk of `count` entries."""
        return -(-count // self.block)

    @property
    def all_blocks(self) -> int:
        """Sealed blocks of all its chunks."""
        full = max(0, self.chunks - 1)
        return full * self.blocks(self.per_chunk) + self.blocks(self.total - full * self.per_chunk)

    def chunk_bytes(self, count: int) -> int:
        """Return the bytes of a chunk of `count` entries, seals included."""
        return sum(self.widths) * count + SEAL_BYTES * self.blocks(count)

    def rows(self, bases: list[int], seeds: list[int], checked: int) -> np.ndarray:
        """Return the kernel's rows of its chunks: CHUNK_ROW, one a chunk.

        Args:
            bases: the address of each chunk.
            seeds: `chunk_seed` of each chunk's database key.
            checked: address of one byte for each block of the column.
        """
        counts = np.array(self.counts(), dtype=np.uint64)
        keys, fingerprints, numbers = self.widths
        rows = np.zeros(self.chunks, dtype=CHUNK_ROW)
        rows["keys"] = start = np.array(bases, dtype=np.uint64)
        if fingerprints:
            rows["fingerprints"] = start + counts * np.uint64(keys)
        if numbers:
            rows["numbers"] = start + counts * np.uint64(keys + fingerprints)
        rows["seals"] = start + counts * np.uint64(keys + fingerprints + numbers)
        rows["checked"] = checked + self.blocks(self.per_chunk) * np.arange(self.chunks)
        rows["seed"] = seeds
        rows["count"] = counts
        return rows


@dataclass(frozen=True)
class Geometry:
    """The tables that a configuration has: counts of entries and the place of everything.

    Attributes:
        bands: number of band tables.
        permutations: number of permutation tables.
        layout: how segments are cut.
        shortest_prefix: bits of the shortest prefix that permutation tables are searched by.
    """

    bands: int
    permutations: int
    layout: Layout
    shortest_prefix: int = 64

    @property
    def first_permutation(self) -> int:
        """Number of the first permutation table."""
        return FIRST_BAND_TABLE + self.bands

    @property
    def count(self) -> int:
        """Number of sorted tables; also the number of the sketch column."""
        return FIRST_BAND_TABLE + self.bands + self.permutations

    @property
    def kinds(self) -> list[TableKind]:
        """Which tables there are, by kind."""
        entry, sketch = (
            (KEY_BYTES, 0, NUMBER_BYTES),
            (KEY_BYTES * self.bands, FINGERPRINT_BYTES, NUMBER_BYTES),
        )
        firsts = KEY_TABLE, COPY_TABLE, FIRST_BAND_TABLE, self.first_permutation, self.count, FILTERS
        counts = 1, 1, self.bands, self.permutations, 1, self.count
        widths = entry, entry, entry, entry, sketch, (KEY_BYTES, 0, 0)
        return [
            TableKind(name, first, count, width, Column(first, 0, 1, width).block)
            for name, first, count, width in zip(KIND_NAMES, firsts, counts, widths, strict=True)
        ]

    @property
    def sketch_bytes(self) -> int:
        """Bytes of a row of the sketch column: band words, fingerprint, number."""
        return KEY_BYTES * self.bands + FINGERPRINT_BYTES + NUMBER_BYTES

    @property
    def sketches_per_chunk(self) -> int:
        """Rows of the sketch column in one value."""
        return max(1, self.layout.chunk_bytes // self.sketch_bytes)

    def entry_counts(self, entry: SegmentEntry) -> list[int]:
        """Return the number of entries of each sorted table."""
        return self._for_each(entry.counts)

    def _for_each(self, kinds: Iterable[int]) -> list[int]:
        """Return a figure for each table from one for each kind of table."""
        keys, copies, bands, permutations = kinds
        return [keys, copies, *[bands] * self.bands, *[permutations] * self.permutations]

    def filters_of(self, entry: SegmentEntry) -> bytes:
        """Return the filter bits of each kind of table for so many entries: see SegmentEntry.filters.

        Eight to sixteen bits an entry, so that about one absent prefix in ten is looked up in vain. Where
        the prefixes searched by are more than three bits shorter than that a filter serves nothing.
        """
        bits = [self.most_filter_bits(n) if n else 0 for n in entry.counts]
        if bits[3] > self.shortest_prefix + 3:
            bits[3] = 0
        return bytes(bits)

    @staticmethod
    def most_filter_bits(entries: int) -> int:
        """Return the bits of a filter of so many entries, 1 or more."""
        return max(_kernel.MIN_FILTER_BITS, (8 * entries - 1).bit_length())

    def filter_bits(self, entry: SegmentEntry) -> list[int]:
        """Return the bits of each table's filter, 0 for none."""
        return self._for_each(entry.filters if entry.chunked else self.filters_of(entry))

    def columns(self, entry: SegmentEntry) -> list[Column]:
        """Return what a chunked segment consists of: its sorted tables, the sketch column, its filters."""
        entries = self.layout.entries_per_chunk
        widths = KEY_BYTES, 0, NUMBER_BYTES
        columns = [Column(t, n, entries, widths) for t, n in enumerate(self.entry_counts(entry))]
        widths = KEY_BYTES * self.bands, FINGERPRINT_BYTES, NUMBER_BYTES
        columns.append(Column(self.count, entry.num_sketches, self.sketches_per_chunk, widths))
        words = 1 << self.filter_chunk_bits - _kernel.MIN_FILTER_BITS
        columns += [
            Column(FILTERS + table, 1 << bits - _kernel.MIN_FILTER_BITS, words, (KEY_BYTES, 0, 0))
            for table, bits in enumerate(self.filter_bits(entry))
            if bits
        ]
        return columns

    @property
    def filter_chunk_bits(self) -> int:
        """Binary logarithm of the bits of a filter in one value."""
        bits = (8 * self.layout.chunk_bytes).bit_length() - 1
        return min(max(bits, _kernel.MIN_FILTER_BITS), _MAX_FILTER_CHUNK_BITS)

    def segment_bytes(self, entry: SegmentEntry) -> int:
        """Return the bytes of all entries and sketches of a segment, seals left out."""
        entries = entry.num_keys + entry.num_copies
        entries += self.bands * entry.num_signatures + self.permutations * entry.num_fingerprints
        return ENTRY_BYTES * entries + self.sketch_bytes * entry.num_sketches

    def stored_bytes(self, entries: Collection[SegmentEntry]) -> int:
        """Return the bytes of segments with their stored filters, seals left out."""
        if not entries:
            return 0
        # `segment_bytes` is linear in the counts: one call for the sums.
        columns = list(zip(*entries, strict=True))
        keys, copies, signatures, fingerprints, sketches = map(sum, columns[3:8])
        total = self.segment_bytes(SegmentEntry(0, 0, 0, keys, copies, signatures, fingerprints, sketches))
        if any(columns[8]):
            bits = [bits for entry in entries if entry.chunked for bits in self.filter_bits(entry) if bits]
            total += sum(1 << bit >> 3 for bit in bits)
        return total

    def fits_one_value(self, entry: SegmentEntry) -> bool:
        """Whether a segment of so many entries is stored as one value, and not cut into chunks."""
        return (
            self.segment_bytes(entry) <= self.layout.chunk_bytes
            and entry.num_keys <= self.layout.entries_per_chunk
            and entry.num_sketches <= self.sketches_per_chunk
        )

    def name(self, table: int) -> str:
        """Return a table's name for people."""
        if table == KEY_TABLE:
            return "keys"
        if table == COPY_TABLE:
            return "copies"
        if table < self.first_permutation:
            return f"band {table - FIRST_BAND_TABLE + 1}"
        if table < self.count:
            return f"permutation {table - self.first_permutation + 1}"
        return "sketches" if table == self.count else f"filter of {self.name(table - self.count - 1)}"
