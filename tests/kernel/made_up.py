"""Made-up directories for the kernel: segments laid out by hand, with no library code between.

Keeps every array alive that a directory has the address of.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import numpy as np
from support.stored import sketch_page

from simindex import _kernel
from simindex.format import kernel_structs
from simindex.format.chunks import chunk_rows
from simindex.format.kernel_structs import NO_VALUE as NO_VALUE
from simindex.format.kernel_structs import STRIDES
from simindex.format.layout import page_shape


class Stored(NamedTuple):
    """A sketch under a number relative to its segment."""

    number: int
    words: tuple[int, ...]
    fingerprint: int


class MadeUpSegment(NamedTuple):
    """What a segment holds: entries (key, number) a table, unsorted, and sketches by number."""

    span: int
    tables: list[list[tuple[int, int]]]
    sketches: list[Stored]


class Shape(TypedDict, total=False):
    """How the segments of a made-up directory are laid out; what is left out is as `MadeUp` has it."""

    entries_per_chunk: int
    sketches_per_chunk: int
    filter_bits: int
    filter_chunks: int
    filter_lines: int
    bitmap_bits: int
    fences_per_chunk: int
    sealed: bool
    numbers_in_keys: bool


ENTRY_WIDTHS = 8, 0, 4
SHORT = np.uint64(_kernel.SHORT_DOC_ID_BITS)
EACH_SEES_ALL = 2**64 - 1
"""Of the argument own_first: queries are no documents of the directory themselves."""


def matches_in(found: bytes) -> list[tuple[int, ...]]:
    """(number, place of the query, rows that agree, distance) of each match; `NO_VALUE` for none of them."""
    return list(kernel_structs.MATCH.iter_unpack(found))


def merge_sources(count: int) -> np.ndarray:
    """What a merge reads, with the fields segment, offset and position, all of them 0."""
    return np.zeros(count, kernel_structs.MERGE_SOURCE)


def whole_pages(count: int, of_page: int) -> int:
    """Round down to whole pages, as chunks are: a chunk has some of them, or a part of one."""
    return count if count < of_page else count // of_page * of_page


class InPages:
    """A column of a chunk in pages: elements are taken and set by the place of their row."""

    def __init__(self, view: np.ndarray, count: int) -> None:
        self._view, self._rows = view, np.arange(count)

    def __len__(self) -> int:
        return len(self._rows)

    def _at(self, index: Any) -> tuple[Any, ...]:
        row, *rest = index if isinstance(index, tuple) else (index,)
        return (*np.divmod(self._rows[row], self._view.shape[1]), *rest)

    def __getitem__(self, index: Any) -> Any:
        return self._view[self._at(index)]

    def __setitem__(self, index: Any, value: object) -> None:
        self._view[self._at(index)] = value


class MadeUp:
    """A directory over made-up segments.

    Sealed tables and sketches lie in pages and have fences, as stored ones do; others are one array a column.

    Attributes:
        header: what the kernel's functions take first.
        tables: the row of every table, as (segment, table).
        bases: number of each segment's first document.
        arrays: every array laid out, in the order (segment, table or column, chunk, part); one in pages is
            taken by the place of an entry.
        values: the octets of every chunk in pages, in the order (segment, table or column, chunk).
    """

    def __init__(
        self,
        segments: list[MadeUpSegment],
        *,
        num_tables: int,
        bands: int,
        entries_per_chunk: int = 1000,
        sketches_per_chunk: int = 1000,
        filter_bits: int = 0,
        filter_chunks: int = 1,
        filter_lines: int = 1,
        bitmap_bits: int = 0,
        fences_per_chunk: int = 1000,
        sealed: bool = True,
        numbers_in_keys: bool = False,
    ) -> None:
        self.arrays: dict[tuple[int, int, int, str], Any] = {}
        self.values: dict[tuple[int, int, int], np.ndarray] = {}
        self._kept: list[np.ndarray] = []
        self._checked: list[np.ndarray] = []
        self._sealings: list[tuple[np.ndarray, Callable[[], bytes]]] = []
        self._sealed, self._bands, self._numbers_in_keys = sealed, bands, numbers_in_keys
        self.sketch_page = sketch_page(bands)
        entries_per_chunk = whole_pages(entries_per_chunk, _kernel.TABLE_BLOCK)
        sketches_per_chunk = whole_pages(sketches_per_chunk, self.sketch_page[0])
        self._entries, self._sketches, self._fences = entries_per_chunk, sketches_per_chunk, fences_per_chunk
        self._filter, self._bitmap_bits = (filter_bits, filter_chunks, filter_lines), bitmap_bits
        self.bases = [sum(s.span for s in segments[:at]) for at in range(len(segments))]
        table = np.zeros((len(segments), num_tables), kernel_structs.TABLE_ROW)
        segment_rows = b""
        for at, segment in enumerate(segments):
            for number, entries in enumerate(segment.tables):
                self._lay_table(table[at, number : number + 1], at, number, sorted(entries), num_tables)
            addresses = self._address(table[at]), self._lay_sketches(at, num_tables, segment.sketches)
            segment_rows += kernel_structs.SEGMENT_ROW.pack(
                self.bases[at], segment.span, *addresses, len(segment.sketches)
            )
        self.tables = table
        per_chunk = entries_per_chunk, sketches_per_chunk, self.sketch_page[0], fences_per_chunk
        at_rows = self._address(np.frombuffer(segment_rows, np.uint64))
        header = kernel_structs.DIRECTORY.pack(
            at_rows, len(segments), num_tables, *per_chunk, bands, 0, 0, 0, 0
        )
        self.header = np.frombuffer(header, np.uint64)

    def forget_checked(self) -> None:
        """Let every block count as not yet verified."""
        for checked in self._checked:
            checked[:] = 0

    def seal_anew(self) -> None:
        """Make every seal fit what the arrays hold now, as somebody who means harm can."""
        for seals, make in self._sealings:
            seals[:] = np.frombuffer(make(), np.uint64).reshape(seals.shape)

    def _address(self, array: np.ndarray) -> int:
        self._kept.append(array)
        return _kernel.address(array)

    def _words(self, row: np.ndarray, where: tuple[int, int, int], words: np.ndarray) -> None:
        """Lay out a chunk of a filter, a bitmap or fences."""
        row["keys"], row["count"] = self._address(words), len(words)
        row["seed"] = seed = 1000 * where[0] + 10 * where[1] + where[2]
        self.arrays[(*where, "keys")] = words
        if self._sealed:
            seals = np.frombuffer(bytearray(_kernel.seal_words(words, seed)), np.uint64)
            self._seal(row, self._address(seals), seals, lambda: _kernel.seal_words(words, seed))

    def _seal(self, row: np.ndarray, address: int, seals: np.ndarray, make: Callable[[], bytes]) -> None:
        row["seals"] = address
        self._checked.append(np.zeros(len(seals), np.uint8))
        row["checked"] = self._address(self._checked[-1])
        self._sealings.append((seals, make))

    def _rows(
        self,
        row: np.ndarray,
        where: tuple[int, int, int],
        keys: np.ndarray,
        fingerprints: np.ndarray | None,
        doc_ids: np.ndarray | None,
    ) -> None:
        """Lay out a chunk of entries, or of sketches, in pages if it is sealed."""
        columns = {"keys": keys, "fingerprints": fingerprints, "doc_ids": doc_ids}
        is_sketch, seed = fingerprints is not None, 1000 * where[0] + 10 * where[1] + where[2]
        shape = (
            self.sketch_page if is_sketch else page_shape(ENTRY_WIDTHS if doc_ids is not None else (8, 0, 0))
        )
        form = chunk_rows(2, self._bands, self.sketch_page[0])
        row[:] = form[1:] if is_sketch else form[:1]
        row["seed"], row["count"] = seed, len(keys)
        if not self._sealed:
            for name, column in columns.items():
                if column is not None:
                    row[name] = self._address(column)
                    self.arrays[(*where, name)] = column
            return
        words = self._bands if is_sketch else 1
        value = np.frombuffer(
            bytearray(_kernel.fill_pages(keys, fingerprints, doc_ids, words, *shape, seed)), np.uint8
        )
        self.values[where] = value
        address, seals = self._lay_pages(row, where, value, shape, columns)
        self._seal(row, address, seals, lambda: _kernel.page_seals(value, shape[1], seed))

    def _lay_pages(
        self,
        row: np.ndarray,
        where: tuple[int, int, int],
        value: np.ndarray,
        shape: tuple[int, int],
        columns: dict[str, np.ndarray | None],
    ) -> tuple[int, np.ndarray]:
        """Say where the columns of pages lie; returns the address of the first seal, and the seals."""
        (rows_of_page, page_bytes), base, at = shape, self._address(value), 0
        blocks = (len(value) + _kernel.PAGE_HEAD) // page_bytes
        for name in STRIDES:
            row[name] = page_bytes
        for name, column in columns.items():
            if column is None:
                continue
            strides = page_bytes, *column.strides
            view = np.ndarray((blocks, rows_of_page, *column.shape[1:]), column.dtype, value, at, strides)
            row[name] = base + at
            at += rows_of_page * column.strides[0]
            self.arrays[(*where, name)] = InPages(view, len(column))
        at = page_bytes - _kernel.PAGE_HEAD - 8
        return base + at, np.ndarray((blocks,), np.uint64, value, at, (page_bytes,))

    def _lay_table(
        self, row: np.ndarray, segment: int, table: int, entries: list[tuple[int, int]], num_tables: int
    ) -> None:
        keys = np.array([key for key, _ in entries], np.uint64)
        doc_ids = np.array([number for _, number in entries], np.uint32)
        if self._numbers_in_keys:
            keys = np.sort(keys >> SHORT << SHORT | doc_ids)
        starts = range(0, len(entries), self._entries)
        chunks = np.zeros(len(starts) + 1, kernel_structs.CHUNK_ROW)
        for chunk, at in enumerate(starts):
            part = slice(at, at + self._entries)
            where = segment, table, chunk
            apart = None if self._numbers_in_keys else doc_ids[part].copy()
            self._rows(chunks[chunk : chunk + 1], where, keys[part].copy(), None, apart)
        row["chunks"], row["num_entries"] = self._address(chunks), len(entries)
        if self._sealed and entries:
            self._lay_fences(row, segment, 3 * num_tables + 1 + table, keys)
        if self._filter[0] and entries:
            self._lay_filter(row, segment, num_tables + 1 + table, keys)
        if self._bitmap_bits and entries:
            self._lay_bitmap(row, segment, 2 * num_tables + 1 + table, keys)

    def _lay_fences(self, row: np.ndarray, segment: int, table: int, keys: np.ndarray) -> None:
        fences = keys[:: min(self._entries, _kernel.TABLE_BLOCK)].copy()
        starts = range(0, len(fences), self._fences)
        chunks = np.zeros(len(starts), kernel_structs.CHUNK_ROW)
        for chunk, at in enumerate(starts):
            part = fences[at : at + self._fences].copy()
            self._words(chunks[chunk : chunk + 1], (segment, table, chunk), part)
        row["fences"] = self._address(chunks)
        if len(chunks) == 1:
            row["fence_words"] = chunks[0]["keys"]

    def _lay_filter(self, row: np.ndarray, segment: int, table: int, keys: np.ndarray) -> None:
        (bits, num_chunks, num_lines), taken = self._filter, 0
        chunks = np.zeros(num_chunks, kernel_structs.CHUNK_ROW)
        for chunk in range(num_chunks):
            lines = np.zeros(num_lines * _kernel.LINE_WORDS, np.uint64)
            rest = np.ascontiguousarray(keys[taken:])
            taken += _kernel.add_to_filter(rest, bits, chunk, num_chunks, lines)
            self._words(chunks[chunk : chunk + 1], (segment, table, chunk), lines)
        assert taken == len(keys)
        row["filter"] = self._address(chunks)
        row["filter_bits"], row["filter_chunks"], row["filter_lines"] = self._filter
        if num_chunks == 1:
            row["filter_words"], row["filter_checked"] = chunks[0]["keys"], chunks[0]["checked"]

    def _lay_bitmap(self, row: np.ndarray, segment: int, table: int, keys: np.ndarray) -> None:
        chunk = np.zeros(1, kernel_structs.CHUNK_ROW)
        bitmap = np.zeros(1 << self._bitmap_bits - _kernel.MIN_BITMAP_BITS, np.uint64)
        _kernel.set_bitmap(keys, bitmap)
        self._words(chunk, (segment, table, 0), bitmap)
        row["bitmap"], row["bitmap_bits"] = self._address(chunk), self._bitmap_bits
        row["bitmap_words"], row["bitmap_checked"] = chunk[0]["keys"], chunk[0]["checked"]

    def _lay_sketches(self, segment: int, column: int, sketches: list[Stored]) -> int:
        starts = range(0, len(sketches), self._sketches)
        chunks = np.zeros(len(starts) + 1, kernel_structs.CHUNK_ROW)
        for chunk, at in enumerate(starts):
            part = sketches[at : at + self._sketches]
            words = np.array([s.words for s in part], np.uint64).reshape(len(part), self._bands)
            doc_ids = np.array([s.number for s in part], np.uint32)
            fingerprints = np.array([s.fingerprint for s in part], np.uint64)
            where = segment, column, chunk
            row = chunks[chunk : chunk + 1]
            self._rows(row, where, words, fingerprints, doc_ids)
        return self._address(chunks)
