"""Live segments: load them, and search all of a snapshot by the kernel.

Everything is one structure, the sorted table, and one operation: all entries whose key starts with these p
bits. Band tables answer every number of rows from 1 to 8 (LSH Forest, Bawa et al. 2005); permutation tables
every fingerprint within k bits (Manku et al. 2007); the key table external keys.

Invariant: every value has the length that the manifest says before an address of it reaches the kernel.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from simindex import _kernel
from simindex.errors import damaged
from simindex.format.chunks import chunk_seeds, whole_segment_rows
from simindex.format.kernel_structs import CHUNK_ROW, DIRECTORY, MATCH, MATCHES, SEGMENT_ROW, TABLE_ROW
from simindex.format.keys import segment_keys, whole_segment_key
from simindex.format.layout import FIRST_BAND_TABLE, Chunks, Geometry, SegmentEntry
from simindex.format.seals import SEAL_BYTES, unseal
from simindex.segments.memory import MemorySegment
from simindex.storage.page_file import FoundValues, MappedFile

Result = TypeVar("Result")

EVERY = 2**62
"""As a limit: all of them."""

ENTRIES_A_TIME = 1 << 22
"""Entries that are taken in one go, 16 bytes each."""

COPIED_BYTES = 1 << 15
"""A shorter value may lie in a B-tree page, which moves with its neighbours: it is copied. A longer one
has overflow pages of its own, which stay where they are for as long as the segment lives."""


class WholeForm(NamedTuple):
    """How a segment that is one value looks in memory, by its counts alone. In words of 64 bits:

        chunk rows: tables, sketch column | chunk rows: bitmaps | table rows | bitmaps

    Attributes:
        rows: uint64: all but the bitmaps; addresses in it are still to be moved.
        in_value, in_memory: which of `rows` are addresses in the stored value, and which in this memory.
        sketch_row, table_rows: where the sketch column's chunk row and the table rows begin.
    """

    rows: np.ndarray
    num_words: int
    in_value: np.ndarray
    in_memory: np.ndarray
    sketch_row: int
    table_rows: int
    value_bytes: int

    def header_of(self, value: bytes | memoryview) -> np.ndarray:
        """Return new memory, uint64, for a segment that is this value: `rows` with addresses of the
        value and of this memory, bitmaps filled. The caller keeps the value alive. Raises Damage where
        keys do not ascend."""
        memory, count = np.zeros(self.num_words, dtype=np.uint64), len(self.rows)
        memory[:count] = self.rows
        memory[self.in_value] += np.uint64(_kernel.address(value))
        memory[self.in_memory] += np.uint64(_kernel.address(memory))
        _kernel.fill_bitmaps(memory[self.table_rows : count])
        return memory


@lru_cache(maxsize=256)
def whole_form(geometry: Geometry, counts: tuple[Any, ...]) -> WholeForm:
    """Return the layout, in memory, of any segment of one value with these counts: the fields of its
    `SegmentEntry` after `span`."""
    entry = SegmentEntry._make((0, 0, 0, *counts))
    bits = np.array(geometry.bitmap_bits(entry), dtype=np.int64)
    mapped = np.flatnonzero(bits)
    bitmap_bytes = 8 << bits[mapped] - _kernel.MIN_BITMAP_BITS

    stored = whole_segment_rows(geometry, entry)
    bitmaps = np.zeros(len(mapped), dtype=CHUNK_ROW)
    table_rows = np.zeros(geometry.count, dtype=TABLE_ROW)
    tables_at = stored.nbytes + bitmaps.nbytes
    bitmaps_at = tables_at + table_rows.nbytes
    bitmaps["keys"] = bitmaps_at + np.cumsum(bitmap_bytes) - bitmap_bytes
    table_rows["chunks"] = CHUNK_ROW.itemsize * np.arange(geometry.count)
    table_rows["num_entries"] = geometry.entry_counts(entry)
    table_rows["bitmap_bits"] = bits
    table_rows["bitmap"][mapped] = stored.nbytes + CHUNK_ROW.itemsize * np.arange(len(mapped))
    table_rows["bitmap_words"][mapped] = bitmaps["keys"]

    sketch_row = stored.nbytes - CHUNK_ROW.itemsize
    has_doc_ids = [*(width > 0 for _, _, width in geometry.widths), True]
    in_value = [
        _word_offsets(stored, 0, "keys"),
        _word_offsets(stored, 0, "doc_ids")[has_doc_ids],
        _word_offsets(stored[-1:], sketch_row, "fingerprints"),
    ]
    in_memory = [
        _word_offsets(bitmaps, stored.nbytes, "keys"),
        _word_offsets(table_rows, tables_at, "chunks"),
        _word_offsets(table_rows, tables_at, "bitmap")[mapped],
        _word_offsets(table_rows, tables_at, "bitmap_words")[mapped],
    ]
    return WholeForm(
        rows=np.concatenate([rows.view(np.uint64) for rows in (stored, bitmaps, table_rows)]),
        num_words=(bitmaps_at + int(bitmap_bytes.sum())) // 8,
        in_value=np.concatenate(in_value),
        in_memory=np.concatenate(in_memory),
        sketch_row=sketch_row // 8,
        table_rows=tables_at // 8,
        value_bytes=geometry.segment_bytes(entry) + SEAL_BYTES,
    )


def _word_offsets(rows: np.ndarray, at: int, field: str) -> np.ndarray:
    """Return for each row where this field lies, as an index into the 64-bit words of a memory block in which
    the rows begin at byte `at`."""
    offset = rows.dtype.fields[field][1]  # type: ignore[index] # mypy takes rows without fields into account
    return np.arange(at + offset, at + offset + rows.nbytes, rows.itemsize) // 8


class ChunkAddresses(NamedTuple):
    """Where the chunks of a segment lie: `firsts`, int64, of each column, and the end; addresses and sizes,
    one a chunk."""

    firsts: np.ndarray
    addresses: np.ndarray
    sizes: np.ndarray


class Segment:
    """A live segment: the addresses of its chunks, if it is cut, and what keeps them valid."""

    __slots__ = "_held", "chunk_addresses", "entry", "row"

    def __init__(
        self,
        geometry: Geometry,
        entry: SegmentEntry,
        get: Callable[[bytes], Any],
        scan: Callable[[bytes, int], FoundValues | None] | None = None,
    ) -> None:
        """Load a segment; `get` returns the value of a database key, or ``None``, `scan` many neighbouring
        ones at once (40,000 chunks one by one took 0.3 s). Raises CorruptIndexError for a value that is
        missing or has another length; seals are checked here of a segment of one value alone."""
        self.entry = entry
        self.chunk_addresses: ChunkAddresses | None = None
        self._held: list[object] = []
        addresses = (
            self._load_chunks(geometry, get, scan) if entry.chunked else self._load_whole(geometry, get)
        )
        self.row = SEGMENT_ROW.pack(entry.base, entry.span, *addresses, entry.num_sketches)

    @classmethod
    def of_value(cls, form: WholeForm, entry: SegmentEntry, value: bytes) -> Segment:
        """Return a segment that is one value, from the value that this process has just made;
        no seal is checked."""
        memory, segment = form.header_of(value), cls.__new__(cls)
        segment.entry, segment.chunk_addresses, segment._held = entry, None, [memory, value]
        address = _kernel.address(memory)
        addresses = address + 8 * form.table_rows, address + 8 * form.sketch_row
        segment.row = SEGMENT_ROW.pack(entry.base, entry.span, *addresses, entry.num_sketches)
        return segment

    def _load_whole(self, geometry: Geometry, get: Callable[[bytes], Any]) -> tuple[int, int]:
        """Load a segment that is one value, check its seal, and make its bitmaps; returns the addresses of
        its table rows and of its sketch column's chunk rows. Raises CorruptIndexError."""
        form = whole_form(geometry, self.entry[3:])
        key = whole_segment_key(self.entry.id)
        value = self._checked(key, get(key), form.value_bytes)
        unseal("segments", key, value, f"segment {self.entry.id}", segment=self.entry.id)
        try:
            memory = form.header_of(value)
        except _kernel.Damage as exc:
            table = geometry.name(exc.args[1])
            raise damaged(
                f"segment {self.entry.id}, table {table}: expected keys in ascending order, found others",
                segment=self.entry.id,
                table=table,
            ) from exc
        self._held.append(memory)
        address = _kernel.address(memory)
        return address + 8 * form.table_rows, address + 8 * form.sketch_row

    def _load_chunks(
        self,
        geometry: Geometry,
        get: Callable[[bytes], Any],
        scan: Callable[[bytes, int], FoundValues | None] | None,
    ) -> tuple[int, int]:
        """Locate the chunks of a segment, large ones by `scan` without reading them; returns what
        `_load_whole` returns. Seals are checked at the first search of a block."""
        layout = Chunks.of(geometry.columns(self.entry))
        checked = np.zeros(layout.num_blocks, dtype=np.uint8)
        keys = segment_keys(self.entry.id, layout.tables, layout.numbers)
        bases = self._bases(keys, layout.sizes, get, scan)
        self.chunk_addresses = ChunkAddresses(layout.firsts, bases, layout.sizes)
        chunks, firsts = layout.rows(bases, chunk_seeds(keys), _kernel.address(checked)), layout.firsts
        addresses = _kernel.address(chunks) + CHUNK_ROW.itemsize * firsts
        table_rows = np.zeros(geometry.count, dtype=TABLE_ROW)
        table_rows["chunks"] = addresses[: geometry.count]
        table_rows["num_entries"] = geometry.entry_counts(self.entry)
        self._link_columns(geometry, table_rows, layout.firsts, chunks)
        self._held += [checked, chunks, table_rows]
        return _kernel.address(table_rows), int(addresses[geometry.count])

    def _link_columns(
        self, geometry: Geometry, table_rows: np.ndarray, firsts: np.ndarray, chunks: np.ndarray
    ) -> None:
        """Write into `table_rows` the shapes and addresses of each table's fences, filter and bitmap, whose
        chunk rows lie in `chunks` behind those of the sketch column."""
        shapes = np.array(geometry.filter_shapes(self.entry))
        table_rows["filter_bits"], table_rows["filter_chunks"], table_rows["filter_lines"] = shapes.T
        table_rows["bitmap_bits"] = geometry.bitmap_bits(self.entry)
        at, address = geometry.count + 1, _kernel.address(chunks)
        for counts, column, words, checked in (
            ("num_entries", "fences", "fence_words", None),
            ("filter_lines", "filter", "filter_words", "filter_checked"),
            ("bitmap_bits", "bitmap", "bitmap_words", "bitmap_checked"),
        ):
            tables = np.flatnonzero(table_rows[counts])
            begins, ends = firsts[at : at + len(tables)], firsts[at + 1 : at + len(tables) + 1]
            at += len(tables)
            table_rows[column][tables] = address + CHUNK_ROW.itemsize * begins
            # One of a single chunk is reached in one step.
            is_one = ends == begins + 1
            table_rows[words][tables[is_one]] = chunks["keys"][begins[is_one]]
            if checked:
                table_rows[checked][tables[is_one]] = chunks["checked"][begins[is_one]]

    def _bases(
        self,
        keys: np.ndarray,
        sizes: np.ndarray,
        get: Callable[[bytes], Any],
        scan: Callable[[bytes, int], FoundValues | None] | None,
    ) -> np.ndarray:
        """Return the address of each chunk, uint64, and hold what it needs. Raises CorruptIndexError for a
        value that is missing or not of the bytes that `sizes` says."""
        found = scan(keys[0].tobytes(), len(keys)) if scan is not None and len(keys) else None
        if found is None or not np.array_equal(found.keys, keys):
            bases = np.zeros(len(keys), dtype=np.uint64)
        else:
            bases = np.where(found.lengths == sizes, found.addresses, np.uint64(0))
            self._held += found.held
        # The error names a value that is missing or has another length.
        for at in np.flatnonzero(bases == 0).tolist():
            key = keys[at].tobytes()
            bases[at] = _kernel.address(self._checked(key, get(key), int(sizes[at])))
        return bases

    def _checked(self, key: bytes, value: Any, expected: int) -> Any:
        """Return a value, held for as long as the segment lives; a short view is copied first. Raises
        CorruptIndexError where it is ``None`` or not of `expected` bytes."""
        if value is None or len(value) != expected:
            found = "nothing" if value is None else f"{len(value)} bytes"
            raise damaged(
                f"segment {self.entry.id}, entry {key.hex()}: expected {expected} bytes, found {found}",
                segment=self.entry.id,
                key=key,
            )
        if isinstance(value, memoryview) and expected < COPIED_BYTES:
            value = bytes(value)
        if isinstance(value, bytes):
            self._held.append(value)
        return value


class Directory:
    """All live segments of a snapshot, oldest first, and searches, which release the GIL; valid while the map
    stays."""

    __slots__ = "_rows", "compared", "geometry", "header", "mapped", "segments"

    def __init__(
        self,
        geometry: Geometry,
        segments: Sequence[Segment | MemorySegment],
        mapped: MappedFile | None = None,
        compared: array[int] | None = None,
        rows: bytes | None = None,
    ) -> None:
        """Join segments; `mapped` is the file that they are mapped from, `compared` counts the stored
        sketches that queries compare, `rows` are the segments' where they are joined already."""
        self.geometry, self.mapped, self.segments, self.compared = geometry, mapped, segments, compared
        self._rows = b"".join([segment.row for segment in segments]) if rows is None else rows
        self.header = DIRECTORY.pack(
            _kernel.address(self._rows) if segments else 0,
            len(segments),
            *geometry.figures,
            *(mapped.mapping if mapped else (0, 0, 0)),
            0 if compared is None else _kernel.address(compared),
        )

    def with_newest(self, segment: Segment) -> Directory:
        """Return a new directory with one segment more, which has the latest doc ids."""
        rows = self._rows + segment.row
        return Directory(self.geometry, [*self.segments, segment], self.mapped, self.compared, rows)

    def warm(self) -> int:
        """Read the fences, filters and bitmaps of chunked segments, which every search looks at, as far as
        they are not in memory; returns how many bytes were read, 0 where no file is mapped."""
        end = self.geometry.count + 1  # tables and the sketch column, which lie before
        stored = [segment.chunk_addresses for segment in self.segments if isinstance(segment, Segment)]
        cuts = [cut for cut in stored if cut is not None]
        if not cuts or self.mapped is None:
            return 0
        firsts = [int(cut.firsts[end]) for cut in cuts]
        return self.mapped.bring(
            np.concatenate([cut.addresses[first:] for cut, first in zip(cuts, firsts, strict=True)]),
            np.concatenate([cut.sizes[first:] for cut, first in zip(cuts, firsts, strict=True)]),
        )

    def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Call a kernel function as function(header, *arguments) and return its result. Damage that it met is
        raised as CorruptIndexError, with segment, table, chunk and block."""
        try:
            return function(self.header, *arguments)
        except _kernel.Damage as exc:
            index, table_number, chunk, block = exc.args
            segment, table = self.segments[index].entry.id, self.geometry.name(table_number)
            raise damaged(
                f"segment {segment}, table {table}, chunk {chunk}, block {block}: "
                "the stored entries do not fit their seal or their order",
                segment=segment,
                table=table,
                chunk=chunk,
                block=block,
            ) from exc

    def find_rows(self, table: int, keys: np.ndarray | array[int] | bytes, most: int) -> bytes:
        """Return packed rows of `MATCH`, one for each entry of a table, of removed documents too, whose key
        equals one of `keys` (uint64, or their little-endian bytes), at most `most` a key. A row's `query` is
        the index of the key. Rows of one key are in order of doc id; keys are in no order."""
        return self.run(_kernel.find_keys, table, keys, most, False)

    def find_keys(self, table: int, keys: np.ndarray | array[int], most: int) -> list[tuple[int, int]]:
        """Return what `find_rows` finds as pairs (index in keys, doc id)."""
        found = self.find_rows(table, keys, most)
        return [(index, doc_id) for doc_id, index, _, _ in MATCH.iter_unpack(found)] if found else []

    def find_key(self, table: int, key: bytes, most: int) -> list[int]:
        """Return the doc ids, ascending and at most `most`, of the entries with one key, given as 8
        little-endian bytes."""
        found = self.find_rows(table, key, most)
        # Mostly there are none, and a query asks this for each match.
        return [doc_id for doc_id, _, _, _ in MATCH.iter_unpack(found)] if found else []

    def find_entries(self, table: int, keys: np.ndarray, most: int) -> np.ndarray:
        """Return what `find_rows` finds as an array of dtype MATCHES."""
        return np.frombuffer(self.find_rows(table, keys, most), dtype=MATCHES)

    def entries_of(
        self, table: int, keys: np.ndarray, counts: np.ndarray
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield (first, end, `find_entries` of keys[first:end], all of them), a part of the keys with at most
        ENTRIES_A_TIME entries at a time, or one key with more; `counts`: entries of each key, as `count_keys`
        returns them."""
        ends, first = np.cumsum(counts), 0
        while first < len(keys):
            most = (int(ends[first - 1]) if first else 0) + ENTRIES_A_TIME
            end = max(first + 1, int(ends.searchsorted(np.uint64(most), "right")))
            yield first, end, self.find_entries(table, keys[first:end], EVERY)
            first = end

    def has_shingles(self, doc_id: int, keys: np.ndarray) -> bool:
        """Return whether the shingle table has an entry of a document for each of some distinct
        `shingle_keys`, whose low bits are 0. The doc id must lie in a segment."""
        bases = [segment.entry.base for segment in self.segments]
        base = bases[bisect_right(bases, doc_id) - 1]
        keys = keys | np.uint64(doc_id - base)
        found = self.run(_kernel.find_keys, self.geometry.shingle_table, keys, EVERY, True)
        # Another segment may have a document at the same place.
        return int(np.count_nonzero(np.frombuffer(found, dtype=MATCHES)["doc_id"] == doc_id)) == len(keys)

    def count_keys(self, table: int, keys: np.ndarray) -> np.ndarray:
        """Return how many entries of a table have each key, uint64; those of removed documents count, too."""
        counts = np.empty(len(keys), dtype=np.uint64)
        self.run(_kernel.count_keys, table, keys, counts)
        return counts

    def find_equal(
        self, table: int, keys: np.ndarray, words: np.ndarray, fingerprints: np.ndarray, most: int
    ) -> list[tuple[int, int]]:
        """Return pairs (index of the query, doc id) of stored sketches that equal a query's, words and
        fingerprint, found under its key (`keys`) in a table; those of one query in order of doc id. Of each
        segment the first `most` entries of a key are compared."""
        next_keys = None
        if table == FIRST_BAND_TABLE and self.geometry.bands > 1:
            next_keys = np.ascontiguousarray(words[:, 1])
        found = self.run(_kernel.find_equal, table, keys, next_keys, words, fingerprints, most)
        return [(index, doc_id) for doc_id, index, _, _ in MATCH.iter_unpack(found)] if found else []

    def read_sketches(self, doc_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the stored sketches of doc ids, uint64, in their order: words, shape (n, bands), and
        fingerprints. Raises CorruptIndexError where one has none."""
        words = np.empty((len(doc_ids), self.geometry.bands), dtype=np.uint64)
        fingerprints = np.empty(len(doc_ids), dtype=np.uint64)
        doc_ids = np.ascontiguousarray(doc_ids, dtype=np.uint64)
        found = self.run(_kernel.read_sketches, doc_ids, words, fingerprints)
        if found < len(doc_ids):
            raise damaged(f"document {doc_ids[found]}: expected a stored sketch, found none")
        return words, fingerprints
