"""The geometry of a segment: what the manifest says of it, and the tables, columns and filters that follow.

How a column is cut into chunks, and where the arrays of each begin, has `Chunks`.

Invariant: all lengths and offsets follow from a segment's entry in the manifest and the index's header; no
value of a segment says anything about itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from simindex import _kernel
from simindex.format.kernel_structs import CHUNK_ROW, STRIDES
from simindex.format.seals import SEAL_BYTES

LINE_BYTES = 64
"""A line of a filter: what a processor fetches at once."""

_FILTER_BITS_AN_ENTRY = 10
"""About one absent prefix in ninety is then let through."""

FILTER_BITS_A_KEY = 14
"""One absent external key in three hundred and forty: every document that is inserted is asked for in every
segment, and beyond memory what is let through is a read of the disk. Half a byte a document."""

MOST_BITMAP_ENTRIES = 1 << 17
"""Of prefixes shorter than a filter serves, a larger table holds most."""

_UNSTORED_BITS = 15
"""A bitmap serves prefixes of three bits less, so that of a threshold of 0.4 is served."""


class FilterShape(NamedTuple):
    """How a filter is cut: leading bits of keys that it tells apart, chunks, lines of 512 bits in each."""

    bits: int
    chunks: int
    lines: int


NO_FILTER = FilterShape(0, 0, 0)


def filter_lines(size: int) -> int:
    """Return the lines, of 512 bits, of a filter whose size the manifest gives in a byte, 0 for no filter:
    8 + size % 8, times 2 to the power of size // 8, over 16, rounded down.

    >>> [filter_lines(size) for size in (0, 8, 16, 23, 24, 25)]
    [0, 1, 2, 3, 4, 4]
    """
    return (8 + size % 8) << size // 8 >> 4


def filter_size(entries: int, bits: int = _FILTER_BITS_AN_ENTRY) -> int:
    """Return the size, as the byte that `filter_lines` takes, of the smallest filter with `bits` bits for
    each of `entries` entries, 1 or more."""
    lines = -(-entries * bits // (8 * LINE_BYTES))
    size = 8 * (lines.bit_length() + 1)
    while filter_lines(size - 1) >= lines:
        size -= 1
    return size


def bitmap_bits(entries: int) -> int:
    """Return how many leading bits of keys a bitmap for `entries` entries (1 or more) tells apart: 6, or the
    least number above of which there are 8 prefixes or more for each entry. A bitmap has a bit a prefix."""
    return max(_kernel.MIN_BITMAP_BITS, (8 * entries - 1).bit_length())


def bits_of_unstored(entries: int) -> int:
    """Return what `bitmap_bits` does for a bitmap that is not stored, but made when a segment is loaded: one
    bit more, up to 15, which serve prefixes of twelve bits. It lets half as many absent prefixes through:
    `query_many` without matches takes 1.6 us a query for 1.85 in 7 segments of 1,000 documents, and 7.5 for
    10 in 40.

    >>> [(bitmap_bits(entries), bits_of_unstored(entries)) for entries in (1, 1_000, 2_048, 2_500, 8_000)]
    [(6, 6), (13, 14), (14, 15), (15, 15), (16, 16)]
    """
    return max(bitmap_bits(entries), min(bitmap_bits(2 * entries), _UNSTORED_BITS))


_ROOM_LEFT = 16
"""So much of a page may stay empty, as a fraction, before rows get pages of more bytes."""


@lru_cache(maxsize=64)
def page_shape(widths: tuple[int, int, int]) -> tuple[int, int]:
    """Return the rows of a page, and its bytes, for `widths` as in `Column`: 4,096, or two or four times as
    many where rows are so long that they would leave a good part of it empty. One of the shingle table has as
    many rows as those of the other sorted tables, and is shorter.

    >>> page_shape((8, 0, 4)), page_shape((128, 8, 4)), page_shape((1024, 8, 4)), page_shape((8, 0, 0))
    ((339, 4096), (29, 4096), (15, 16384), (339, 2736))
    """
    width = sum(widths)
    if widths == SHINGLE_WIDTHS:
        return _kernel.TABLE_BLOCK, _kernel.PAGE_HEAD + width * _kernel.TABLE_BLOCK + SEAL_BYTES
    for pages in (1, 2, 4):
        room = pages * _kernel.PAGE_BYTES - _kernel.PAGE_HEAD - SEAL_BYTES
        rows, left = divmod(room, width)
        if left * _ROOM_LEFT <= room:
            break
    return rows, pages * _kernel.PAGE_BYTES


class Column(NamedTuple):
    """A run of chunks: a sorted table, the sketch column, fences, a filter, or a bitmap; `widths` as of
    ENTRY_WIDTHS."""

    table: int
    total: int
    per_chunk: int  # but for the last
    widths: tuple[int, int, int]

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.total // self.per_chunk)

    @property
    def block(self) -> int:
        """Entries of a sealed block."""
        return _kernel.WORDS_BLOCK if self.table >= FENCES else page_shape(self.widths)[0]

    @property
    def page_bytes(self) -> int:
        """Bytes of a block that is a page; 0 of a column that is words."""
        return 0 if self.table >= FENCES else page_shape(self.widths)[1]

    def blocks(self, count: int) -> int:
        """Return the number of sealed blocks of a chunk of `count` entries."""
        return -(-count // self.block)

    def chunk_bytes(self, count: int) -> int:
        """Return the bytes of a chunk of `count` entries as stored: whole pages, without the head that LMDB
        puts before the first one, or words and their seals; 0 for no entries."""
        if self.page_bytes:
            return max(self.page_bytes * self.blocks(count) - _kernel.PAGE_HEAD, 0)
        return sum(self.widths) * count + SEAL_BYTES * self.blocks(count)


@dataclass(frozen=True, slots=True, eq=False)
class Chunks:
    """The chunks of some columns, one behind the other; of each `firsts`, of each chunk its table, number and
    bytes."""

    firsts: np.ndarray
    tables: np.ndarray
    numbers: np.ndarray
    sizes: np.ndarray
    num_blocks: int
    _offsets: np.ndarray
    _counts: np.ndarray
    _blocks: np.ndarray
    _strides: np.ndarray

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Chunks:
        """Return the chunks that columns consist of, column by column; computed, nothing is read."""
        figures = [
            (c.table, c.total, c.per_chunk, c.chunks, c.block, c.page_bytes, *c.widths) for c in columns
        ]
        fields = np.array(figures, dtype=np.int64).reshape(len(figures), 9)
        num_chunks = fields[:, 3]
        firsts = np.concatenate([[0], np.cumsum(num_chunks)])
        repeated = np.repeat(fields, num_chunks, axis=0).T
        table, total, per_chunk, _, block, page, keys, fingerprints, doc_ids = repeated
        at = np.arange(firsts[-1]) - np.repeat(firsts[:-1], num_chunks)
        counts = np.minimum(per_chunk, total - at * per_chunk)
        blocks = -(-counts // block)
        # Where the arrays of the first block begin; one that it has not lies nowhere.
        ends = block * np.cumsum([keys, fingerprints], axis=0)
        seals = np.where(page, page - _kernel.PAGE_HEAD - SEAL_BYTES, counts * keys)
        offsets = np.array([np.where(fingerprints, ends[0], -1), np.where(doc_ids, ends[1], -1), seals])
        sizes = np.where(page, page * blocks - _kernel.PAGE_HEAD, seals + SEAL_BYTES * blocks)
        return cls(firsts, table, at, sizes, int(blocks.sum()), offsets, counts, blocks, page)

    def rows(self, bases: np.ndarray, seeds: np.ndarray, checked: int) -> np.ndarray:
        """Return CHUNK_ROWs of all chunks. `bases`, uint64: their addresses; `seeds`: `chunk_seed` of each;
        `checked`: the address of the kernel's notes of checked blocks, a byte each."""
        rows = np.zeros(len(bases), dtype=CHUNK_ROW)
        rows["keys"] = bases
        for name, offsets in zip(("fingerprints", "doc_ids", "seals"), self._offsets, strict=True):
            rows[name] = np.where(offsets < 0, 0, bases + offsets.astype(np.uint64))
        rows["checked"] = checked + np.cumsum(self._blocks) - self._blocks
        rows["seed"] = seeds
        rows["count"] = self._counts
        for name in STRIDES:
            rows[name] = self._strides
        return rows


_Each = TypeVar("_Each")

KEY_TABLE, COPY_TABLE, FIRST_BAND_TABLE = 0, 1, 2
"""Table numbers. Band tables follow, then permutation tables, then the shingle table where there is one; the
sketch column comes last."""

FENCES, FILTERS, BITMAPS = 0x4000, 0x8000, 0xC000
"""Added to a table's number in the database keys of its fences, of its filter and of its bitmap."""

KEY_BYTES, FINGERPRINT_BYTES, DOC_ID_BYTES = 8, 8, 4
"""Widths of what segments consist of: keys and band words, fingerprints, relative doc ids."""

ENTRY_WIDTHS, SHINGLE_WIDTHS = (KEY_BYTES, 0, DOC_ID_BYTES), (KEY_BYTES, 0, 0)
"""Of the arrays of a sorted table. An entry of the shingle table is one word; its low bits are the doc id."""

_WHOLE_KEY, SHINGLE_BITS = 64, 64 - _kernel.SHORT_DOC_ID_BITS
"""Leading bits of a key that a filter distinguishes; of the shingle table those of the hash."""

_LONG_PREFIX, _SHORT_PREFIX, _MOST_SHORT_LINES = 32, 25, (1 << 20) * 10 // 512
"""Leading bits of band words in a filter. 32 bits serve every threshold that compares four rows or more; in a
table of a million entries 25 are nearly as good, and serve prefixes of 24 bits, too."""

_MAX_FILTER_CHUNKS = 65_535

_MAX_FACTOR, _MAX_CHUNK = 2**32, 1 << 28
"""A chunk of so many entries has 3 GiB of the 4 GiB that LMDB takes for a value."""

MAX_SPAN, MAX_SPAN_WITH_SHINGLES = 2**32 - 1, 2**_kernel.SHORT_DOC_ID_BITS
"""Relative doc ids have 32 bits, in an index with a shingle table 26."""


class SegmentEntry(NamedTuple):
    """What the manifest says of a live segment; all lengths and offsets follow from it and `filters`: of one
    in chunks a size for each kind of table, and bits of band bitmaps."""

    id: int
    base: int
    span: int
    num_keys: int
    num_copies: int
    num_band_entries: int
    num_fingerprints: int
    num_sketches: int
    chunked: int = 0
    filters: bytes = b""
    num_shingles: int = 0

    @property
    def counts(self) -> tuple[int, int, int, int, int]:
        """Entries of one table of each kind: key, copy, band, permutation, shingle."""
        return (
            self.num_keys,
            self.num_copies,
            self.num_band_entries,
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


def _whole_blocks(rows: int, block: int) -> int:
    return rows if rows < block else rows // block * block


@dataclass(frozen=True)
class Geometry:
    """The tables that a configuration has: counts of entries and the place of everything."""

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

    @cached_property
    def widths(self) -> list[tuple[int, int, int]]:
        """The bytes of an entry of each sorted table: (key, fingerprint, doc id), 0 for what it lacks."""
        return self._for_each([*[ENTRY_WIDTHS] * 4, SHINGLE_WIDTHS])

    @property
    def max_span(self) -> int:
        """The most doc ids that a segment may span: 2^32 - 1, or 2^26 with a shingle table."""
        return MAX_SPAN_WITH_SHINGLES if self.has_shingles else MAX_SPAN

    @cached_property
    def sketch_bytes(self) -> int:
        """Bytes of a row of the sketch column: band words, fingerprint, doc id."""
        return KEY_BYTES * self.bands + FINGERPRINT_BYTES + DOC_ID_BYTES

    @cached_property
    def sketches_per_chunk(self) -> int:
        """Rows of the sketch column in one value: whole pages, or a part of one."""
        rows = max(1, self.layout.chunk_bytes // self.sketch_bytes)
        return _whole_blocks(rows, self.sketches_per_block)

    @cached_property
    def sketches_per_block(self) -> int:
        """Rows of the sketch column in a page."""
        return page_shape((KEY_BYTES * self.bands, FINGERPRINT_BYTES, DOC_ID_BYTES))[0]

    @cached_property
    def entries_per_chunk(self) -> int:
        """Entries of a sorted table in one value: whole pages, or a part of one."""
        return _whole_blocks(self.layout.entries_per_chunk, _kernel.TABLE_BLOCK)

    @cached_property
    def fences_per_chunk(self) -> int:
        """Fences of a sorted table in one value."""
        return max(1, self.layout.chunk_bytes // KEY_BYTES)

    @cached_property
    def figures(self) -> tuple[int, ...]:
        """What a directory tells the kernel: sorted tables, entries and sketches a chunk, sketches a block,
        fences a chunk, bands; see `DIRECTORY`."""
        chunks = self.entries_per_chunk, self.sketches_per_chunk, self.sketches_per_block
        return self.count, *chunks, self.fences_per_chunk, self.bands

    def num_fences(self, entries: int) -> int:
        """Return the number of blocks of a sorted table of `entries` entries: each has a fence."""
        return -(-entries // min(self.entries_per_chunk, _kernel.TABLE_BLOCK))

    def entry_counts(self, entry: SegmentEntry) -> list[int]:
        """Return the number of entries of each sorted table."""
        return self._for_each(entry.counts)

    def counted(self, entry: SegmentEntry, counts: Sequence[int], num_sketches: int) -> SegmentEntry:
        """Return `entry` with other counts, all else as it was, its `filters` too: `counts` has the entries
        of each sorted table (of the band tables and of the permutation tables the first is taken for all)."""
        return entry._replace(
            num_keys=counts[KEY_TABLE],
            num_copies=counts[COPY_TABLE],
            num_band_entries=counts[FIRST_BAND_TABLE] if self.bands else 0,
            num_fingerprints=counts[self.first_permutation] if self.permutations else 0,
            num_sketches=num_sketches,
            num_shingles=counts[self.shingle_table] if self.has_shingles else 0,
        )

    def _for_each(self, kinds: Iterable[_Each]) -> list[_Each]:
        """Return a list with a value for each sorted table, from five: of the key table, the copy table, each
        band table, each permutation table, the shingle table (left out where there is none)."""
        keys, copies, bands, permutations, shingles = kinds
        tables = [keys, copies, *[bands] * self.bands, *[permutations] * self.permutations]
        return [*tables, shingles] if self.has_shingles else tables

    def filters_of(self, entry: SegmentEntry) -> bytes:
        """Return the `SegmentEntry.filters` that suit the counts of an entry, a byte each: sizes of the
        filters of keys, copies, bands, permutations and shingles, and bits of the band bitmaps; 0 for none.
        Permutations have none where a table holds more than half of all prefixes, or these are too short for
        a filter, bands no bitmap in a large table."""
        keys, copies, bands, permutations, shingles = entry.counts
        if permutations > 1 << self.shortest_prefix - 1 or self.shortest_prefix <= _kernel.FILTER_SLACK:
            permutations = 0
        of_keys = filter_size(keys, FILTER_BITS_A_KEY) if keys else 0
        sizes = [filter_size(n) if n else 0 for n in (copies, bands, permutations, shingles)]
        return bytes([of_keys, *sizes, bitmap_bits(bands) if 0 < bands <= MOST_BITMAP_ENTRIES else 0])

    def filter_shapes(self, entry: SegmentEntry) -> list[FilterShape]:
        """Return the shape of each sorted table's filter; `NO_FILTER` where it has none, as in a segment that
        is one value."""
        if not entry.chunked:
            return [NO_FILTER] * self.count
        keys, copies, bands, permutations, shingles = map(filter_lines, entry.filters[:-1])
        prefix = _SHORT_PREFIX if bands <= _MOST_SHORT_LINES else _LONG_PREFIX
        return self._for_each(
            [
                self._shape(_WHOLE_KEY, keys),
                self._shape(_WHOLE_KEY, copies),
                self._shape(prefix, bands),
                self._shape(min(self.shortest_prefix, _WHOLE_KEY), permutations),
                self._shape(SHINGLE_BITS, shingles),
            ]
        )

    def _shape(self, bits: int, lines: int) -> FilterShape:
        if not lines:
            return NO_FILTER
        most = max(self.layout.chunk_bytes // LINE_BYTES, -(-lines // _MAX_FILTER_CHUNKS), 1)
        chunks = -(-lines // most)
        return FilterShape(bits, chunks, -(-lines // chunks))

    def bitmap_bits(self, entry: SegmentEntry) -> list[int]:
        """Return how many leading bits each sorted table's bitmap tells apart, 0 where it has none: of a
        chunked segment those of its stored bitmaps, of one that is one value those that are made when it is
        loaded."""
        if entry.chunked:
            return self._for_each([0, 0, entry.filters[-1], 0, 0])
        return self._for_each([bits_of_unstored(n) if n else 0 for n in entry.counts])

    def columns(self, entry: SegmentEntry) -> list[Column]:
        """Return the columns of a chunked segment: each sorted table and the sketch column, empty ones too;
        then the fences, filters and bitmaps that are not empty."""
        entries, counts = self.entries_per_chunk, self.entry_counts(entry)
        columns = [Column(t, n, entries, self.widths[t]) for t, n in enumerate(counts)]
        widths = KEY_BYTES * self.bands, FINGERPRINT_BYTES, DOC_ID_BYTES
        columns.append(Column(self.count, entry.num_sketches, self.sketches_per_chunk, widths))
        fences, words = self.fences_per_chunk, _kernel.LINE_WORDS
        derived = [(FENCES + table, self.num_fences(n), fences) for table, n in enumerate(counts)]
        for table, (_, chunks, lines) in enumerate(self.filter_shapes(entry)):
            derived.append((FILTERS + table, chunks * lines * words, lines * words))
        for table, bits in enumerate(self.bitmap_bits(entry)):
            each = 1 << bits - _kernel.MIN_BITMAP_BITS if bits else 0
            derived.append((BITMAPS + table, each, each))
        return columns + [Column(*column, (KEY_BYTES, 0, 0)) for column in derived if column[1]]

    def segment_bytes(self, entry: SegmentEntry) -> int:
        """Return the bytes of all entries and sketches of a segment, without seals, fences, filters and
        bitmaps."""
        entries = entry.num_keys + entry.num_copies
        entries += self.bands * entry.num_band_entries + self.permutations * entry.num_fingerprints
        of_tables = sum(ENTRY_WIDTHS) * entries + sum(SHINGLE_WIDTHS) * entry.num_shingles
        return of_tables + self.sketch_bytes * entry.num_sketches

    def stored_bytes(self, entries: Iterable[SegmentEntry]) -> int:
        """Return the bytes of these segments without seals; of chunked ones with fences, filters and
        bitmaps."""
        return sum(_stored_bytes(self, entry) for entry in entries)

    def paged_bytes(self, entries: Iterable[SegmentEntry], alive: float) -> int:
        """Estimate the bytes that these segments, one or more, take in a file, in whole pages, once they are
        merged into one that keeps the share `alive` of their entries."""
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
        """Return whether a segment of these counts is stored as one value: its bytes, its sketches and each
        table are no more than a chunk holds. Sketches outlive keys, so any table may be the longest."""
        return (
            self.segment_bytes(entry) <= self.layout.chunk_bytes
            and max(entry.counts) <= self.entries_per_chunk
            and entry.num_sketches <= self.sketches_per_chunk
        )

    def name(self, table: int) -> str:
        """Return a table's name for messages, such as "band 3" or "filter of band 3"; `table` counts as the
        kernel does: sorted tables, sketch column, then the filter of each sorted table, the bitmap of each,
        the fences of each."""
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


@lru_cache(maxsize=1_024)  # most segments of a manifest were in the one before
def _stored_bytes(geometry: Geometry, entry: SegmentEntry) -> int:
    if not entry.chunked:
        return geometry.segment_bytes(entry)
    return sum(column.total * sum(column.widths) for column in geometry.columns(entry))
