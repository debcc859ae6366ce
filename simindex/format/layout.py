"""The geometry of a segment: what the manifest says of it, and the tables and columns that follow from it.

`columns` has the arithmetic of each. Invariant: all lengths and offsets follow from a segment's entry in the
manifest and the index's header; no value of a segment says anything about itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

from simindex import _kernel
from simindex.format.column import Chunks, Column, page_shape
from simindex.format.filters import (
    FILTER_BITS_A_KEY,
    LINE_BYTES,
    MOST_BITMAP_ENTRIES,
    NO_FILTER,
    FilterShape,
    bitmap_bits,
    bits_of_unstored,
    filter_lines,
    filter_size,
)

_Each = TypeVar("_Each")

KEY_TABLE, COPY_TABLE, FIRST_BAND_TABLE = 0, 1, 2
"""Table numbers. Band tables follow, then permutation tables, then the shingle table where there is one; the
sketch column comes last."""

FENCES, FILTERS, BITMAPS = 0x4000, 0x8000, 0xC000
"""Added to a table's number in the database keys of its fences, of its filter and of its bitmap."""

KEY_BYTES, FINGERPRINT_BYTES, NUMBER_BYTES = 8, 8, 4
"""Widths of what segments consist of: keys and band words, fingerprints, relative numbers."""

ENTRY_BYTES = KEY_BYTES + NUMBER_BYTES
"""Bytes of an entry of a sorted table."""

_WHOLE_KEY = 64

_LONG_PREFIX, _SHORT_PREFIX, _MOST_SHORT_LINES = 32, 25, (1 << 20) * 10 // 512
"""Leading bits of band words in a filter. 32 bits serve every threshold that compares four rows or more; in a
table of a million entries 25 are nearly as good, and serve prefixes of 24 bits, too."""

_MAX_FILTER_CHUNKS = 65_535

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
        chunked: 0 when the segment is one value, 1 when each table is cut into chunks.
        filters: of a chunked segment, one byte for each kind of table (key, copy, band, permutation):
            the size of its filter (`filter_lines`), 0 for none; one for the bits of the bitmaps of band
            tables, 0 for none; and, where there is a shingle table, the size of its filter. They follow
            the number of entries before a merge left out the dead, so they are said.
        num_shingles: entries of the shingle table, several a document.
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
    num_shingles: int = 0

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """Entries of each kind of table: key, copy, band, permutation, shingle."""
        return (
            self.num_keys,
            self.num_copies,
            self.num_signatures,
            self.num_fingerprints,
            self.num_shingles,
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How segments are cut and when they are merged. Stored on creation; no result depends on it.

    Attributes:
        tier_factor: this many neighbouring segments of a tier become one of the next.
        entries_per_chunk: entries of a sorted table in one value, rounded down to whole pages.
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
        first: number of the first table of the kind.
    """

    name: str
    first: int
    num_tables: int
    widths: tuple[int, int, int]
    block: int


KIND_NAMES = "key", "copy", "band", "permutation", "shingle", "sketch", "fence", "filter", "bitmap"
"""The kinds of tables, in the order of their numbers; an index without a shingle table does not name it."""


def _whole_blocks(rows: int, block: int) -> int:
    return rows if rows < block else rows // block * block


@dataclass(frozen=True)
class Geometry:
    """The tables that a configuration has: counts of entries and the place of everything.

    Attributes:
        shortest_prefix: bits of the shortest prefix that permutation tables are searched by.
        has_shingles: whether there is a shingle table.
    """

    bands: int
    permutations: int
    layout: Layout
    shortest_prefix: int = 64
    has_shingles: bool = False

    @cached_property
    def first_permutation(self) -> int:
        """Number of the first permutation table."""
        return FIRST_BAND_TABLE + self.bands

    @cached_property
    def count(self) -> int:
        """Number of sorted tables; also the number of the sketch column."""
        return FIRST_BAND_TABLE + self.bands + self.permutations + self.has_shingles

    @property
    def shingle_table(self) -> int:
        """Number of the shingle table, where there is one: the last of the sorted tables."""
        return self.count - 1

    @property
    def kinds(self) -> list[TableKind]:
        """Which tables there are, by kind."""
        entry, sketch = (
            (KEY_BYTES, 0, NUMBER_BYTES),
            (KEY_BYTES * self.bands, FINGERPRINT_BYTES, NUMBER_BYTES),
        )
        firsts = (
            *(KEY_TABLE, COPY_TABLE, FIRST_BAND_TABLE, self.first_permutation),
            *(self.shingle_table, self.count),
            *(FENCES, FILTERS, BITMAPS + FIRST_BAND_TABLE),
        )
        shingles = int(self.has_shingles)
        counts = 1, 1, self.bands, self.permutations, shingles, 1, self.count, self.count, self.bands
        words = KEY_BYTES, 0, 0
        widths = entry, entry, entry, entry, entry, sketch, words, words, words
        return [
            TableKind(name, first, count, width, Column(first, 0, 1, width).block)
            for name, first, count, width in zip(KIND_NAMES, firsts, counts, widths, strict=True)
            if name != "shingle" or self.has_shingles
        ]

    @cached_property
    def sketch_bytes(self) -> int:
        """Bytes of a row of the sketch column: band words, fingerprint, number."""
        return KEY_BYTES * self.bands + FINGERPRINT_BYTES + NUMBER_BYTES

    @cached_property
    def sketches_per_chunk(self) -> int:
        """Rows of the sketch column in one value: whole pages, or a part of one."""
        rows = max(1, self.layout.chunk_bytes // self.sketch_bytes)
        return _whole_blocks(rows, self.sketches_per_block)

    @cached_property
    def sketches_per_block(self) -> int:
        """Rows of the sketch column in a page."""
        return page_shape((KEY_BYTES * self.bands, FINGERPRINT_BYTES, NUMBER_BYTES))[0]

    @cached_property
    def entries_per_chunk(self) -> int:
        """Entries of a sorted table in one value: whole pages, or a part of one."""
        return _whole_blocks(self.layout.entries_per_chunk, _kernel.TABLE_BLOCK)

    @cached_property
    def fences_per_chunk(self) -> int:
        """Fences of a sorted table in one value."""
        return max(1, self.layout.chunk_bytes // KEY_BYTES)

    def num_fences(self, entries: int) -> int:
        """Return the blocks of a sorted table of so many entries, each of which has a fence."""
        return -(-entries // min(self.entries_per_chunk, _kernel.TABLE_BLOCK))

    def entry_counts(self, entry: SegmentEntry) -> list[int]:
        """Return the number of entries of each sorted table."""
        return self._for_each(entry.counts)

    def counted(self, entry: SegmentEntry, counts: Sequence[int], num_sketches: int) -> SegmentEntry:
        """Return an entry with so many entries of each sorted table, and so many sketches."""
        return entry._replace(
            num_keys=counts[KEY_TABLE],
            num_copies=counts[COPY_TABLE],
            num_signatures=counts[FIRST_BAND_TABLE] if self.bands else 0,
            num_fingerprints=counts[self.first_permutation] if self.permutations else 0,
            num_sketches=num_sketches,
            num_shingles=counts[self.shingle_table] if self.has_shingles else 0,
        )

    def _for_each(self, kinds: Iterable[_Each]) -> list[_Each]:
        """Return something for each table from one for each kind of table."""
        keys, copies, bands, permutations, shingles = kinds
        tables = [keys, copies, *[bands] * self.bands, *[permutations] * self.permutations]
        return [*tables, shingles] if self.has_shingles else tables

    def filters_of(self, entry: SegmentEntry) -> bytes:
        """Return the sizes of filters and bitmaps for so many entries: see SegmentEntry.filters.

        Where permutation tables hold more than half of all prefixes that they are searched by, a filter
        would deny little.
        """
        keys, copies, bands, permutations, shingles = entry.counts
        if permutations > 1 << self.shortest_prefix - 1 or self.shortest_prefix <= _kernel.FILTER_SLACK:
            permutations = 0
        sizes = [filter_size(n) if n else 0 for n in (copies, bands, permutations)]
        of_keys = filter_size(keys, FILTER_BITS_A_KEY) if keys else 0
        sizes.append(bitmap_bits(bands) if 0 < bands <= MOST_BITMAP_ENTRIES else 0)
        if self.has_shingles:
            sizes.append(filter_size(shingles) if shingles else 0)
        return bytes([of_keys, *sizes])

    def filter_shapes(self, entry: SegmentEntry) -> list[FilterShape]:
        """Return the filter of each sorted table; one of no lines stands for none."""
        if not entry.chunked:
            return [NO_FILTER] * self.count
        keys, copies, bands, permutations = map(filter_lines, entry.filters[:4])
        shingles = filter_lines(sum(entry.filters[5:]))
        prefix = _SHORT_PREFIX if bands <= _MOST_SHORT_LINES else _LONG_PREFIX
        return self._for_each(
            [
                self._shape(_WHOLE_KEY, keys),
                self._shape(_WHOLE_KEY, copies),
                self._shape(prefix, bands),
                self._shape(min(self.shortest_prefix, _WHOLE_KEY), permutations),
                self._shape(_WHOLE_KEY, shingles),
            ]
        )

    def _shape(self, bits: int, lines: int) -> FilterShape:
        if not lines:
            return NO_FILTER
        most = max(self.layout.chunk_bytes // LINE_BYTES, -(-lines // _MAX_FILTER_CHUNKS), 1)
        chunks = -(-lines // most)
        return FilterShape(bits, chunks, -(-lines // chunks))

    def bitmap_bits(self, entry: SegmentEntry) -> list[int]:
        """Return the bits of each sorted table's bitmap, 0 for none. A segment that is one value has them
        for all its tables, made when it is loaded."""
        if entry.chunked:
            return self._for_each([0, 0, entry.filters[4], 0, 0])
        return self._for_each([bits_of_unstored(n) if n else 0 for n in entry.counts])

    def columns(self, entry: SegmentEntry) -> list[Column]:
        """Return what a chunked segment consists of: sorted tables, the sketch column, fences, filters,
        bitmaps."""
        entries, counts = self.entries_per_chunk, self.entry_counts(entry)
        widths = KEY_BYTES, 0, NUMBER_BYTES
        columns = [Column(t, n, entries, widths) for t, n in enumerate(counts)]
        widths = KEY_BYTES * self.bands, FINGERPRINT_BYTES, NUMBER_BYTES
        columns.append(Column(self.count, entry.num_sketches, self.sketches_per_chunk, widths))
        for table, count in enumerate(counts):
            if count:
                words = KEY_BYTES, 0, 0
                columns.append(Column(FENCES + table, self.num_fences(count), self.fences_per_chunk, words))
        for table, shape in enumerate(self.filter_shapes(entry)):
            if shape.lines:
                each = shape.lines * _kernel.LINE_WORDS
                columns.append(Column(FILTERS + table, shape.chunks * each, each, (KEY_BYTES, 0, 0)))
        for table, bits in enumerate(self.bitmap_bits(entry)):
            if bits:
                each = 1 << bits - _kernel.MIN_BITMAP_BITS
                columns.append(Column(BITMAPS + table, each, each, (KEY_BYTES, 0, 0)))
        return columns

    def segment_bytes(self, entry: SegmentEntry) -> int:
        """Return the bytes of all entries and sketches of a segment, seals left out."""
        entries = entry.num_keys + entry.num_copies + entry.num_shingles
        entries += self.bands * entry.num_signatures + self.permutations * entry.num_fingerprints
        return ENTRY_BYTES * entries + self.sketch_bytes * entry.num_sketches

    def stored_bytes(self, entries: Collection[SegmentEntry]) -> int:
        """Return the bytes of segments with their stored fences and filters, seals left out."""
        if not entries:
            return 0
        # `segment_bytes` is linear in the counts: one call for the sums.
        columns = list(zip(*entries, strict=True))
        counts = [*map(sum, columns[3:8]), 0, b"", sum(columns[10])]
        total = self.segment_bytes(SegmentEntry._make([0, 0, 0, *counts]))
        for entry in entries:
            if entry.chunked:
                total += KEY_BYTES * sum(map(self.num_fences, self.entry_counts(entry)))
                total += sum(LINE_BYTES * shape.chunks * shape.lines for shape in self.filter_shapes(entry))
                total += sum(1 << bits >> 3 for bits in self.bitmap_bits(entry) if bits)
        return total

    def paged_bytes(self, entries: Iterable[SegmentEntry], alive: float) -> int:
        """Return about what segments take in the pages of the file when they are one. `alive`: the share of
        their entries that is to be stored; filters are sized by all of them."""
        columns = list(zip(*entries, strict=True))
        counts = [*map(sum, columns[3:8]), sum(columns[10])]
        *stored, shingles = [math.ceil(count * alive) for count in counts]
        filters = self.filters_of(SegmentEntry._make([0, 0, 0, *counts[:5], 1, b"", counts[5]]))
        entry = SegmentEntry._make([0, 0, 0, *stored, 1, filters, shingles])
        if self.fits_one_value(entry):
            return self.segment_bytes(entry) + _kernel.PAGE_BYTES
        sizes = Chunks.of(self.columns(entry)).sizes
        # On machines with larger pages the estimate is too low.
        return int((-(-(sizes + _kernel.PAGE_HEAD) // _kernel.PAGE_BYTES)).sum()) * _kernel.PAGE_BYTES

    def fits_one_value(self, entry: SegmentEntry) -> bool:
        """Whether a segment of so many entries is stored as one value, and not cut into chunks.

        A table of it is one chunk. Sketches outlive the keys of removed documents where copies need them, so
        any table may be the longest.
        """
        return (
            self.segment_bytes(entry) <= self.layout.chunk_bytes
            and max(entry.counts) <= self.entries_per_chunk
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
            if self.has_shingles and table == self.shingle_table:
                return "shingles"
            return f"permutation {table - self.first_permutation + 1}"
        if table == self.count:
            return "sketches"
        kind, of = divmod(table - self.count - 1, self.count)
        return f"{('filter', 'bitmap', 'fences')[kind]} of {self.name(of)}"
