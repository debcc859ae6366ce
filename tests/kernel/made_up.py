"""Made-up directories for the kernel: segments laid out by hand, with no library code between.

Keeps every array alive that a directory has the address of.
"""

from typing import NamedTuple, TypedDict

import numpy as np

from simindex import _kernel
from simindex.format import rows


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
    sealed: bool


# What seals are made of: the arguments of `seal_blocks`.
SealArguments = tuple[np.ndarray, np.ndarray | None, np.ndarray | None, int, int]


class MadeUp:
    """A directory over made-up segments.

    Attributes:
        header: what the kernel's functions take first.
        tables: the row of every table, as (segment, table).
        bases: number of each segment's first document.
        arrays: every array laid out, in the order (segment, table or column, chunk, part).
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
        sealed: bool = True,
    ) -> None:
        self.arrays: dict[tuple[int, int, int, str], np.ndarray] = {}
        self._kept: list[np.ndarray] = []
        self._checked: list[np.ndarray] = []
        self._sealings: list[tuple[np.ndarray, SealArguments]] = []
        self._sealed, self._bands = sealed, bands
        self._entries, self._sketches = entries_per_chunk, sketches_per_chunk
        self._filter, self._bitmap_bits = (filter_bits, filter_chunks, filter_lines), bitmap_bits
        self.bases = [sum(s.span for s in segments[:at]) for at in range(len(segments))]
        table = np.zeros((len(segments), num_tables), rows.TABLE_ROW)
        segment_rows = b""
        for at, segment in enumerate(segments):
            for number, entries in enumerate(segment.tables):
                self._lay_table(table[at, number : number + 1], at, number, sorted(entries), num_tables)
            segment_rows += rows.segment_row(
                base=self.bases[at],
                span=segment.span,
                tables=self._address(table[at]),
                sketch_chunks=self._lay_sketches(at, num_tables, segment.sketches),
                num_sketches=len(segment.sketches),
            )
        self.tables = table
        header = rows.directory(
            segments=self._address(np.frombuffer(segment_rows, np.uint64)),
            num_segments=len(segments),
            num_tables=num_tables,
            entries_per_chunk=entries_per_chunk,
            sketches_per_chunk=sketches_per_chunk,
            bands=bands,
        )
        self.header = np.frombuffer(header, np.uint64)

    def forget_checked(self) -> None:
        """Let every block count as not yet verified."""
        for checked in self._checked:
            checked[:] = 0

    def seal_anew(self) -> None:
        """Make every seal fit what the arrays hold now, as somebody who means harm can."""
        for seals, arguments in self._sealings:
            seals[:] = np.frombuffer(_kernel.seal_blocks(*arguments), np.uint64)

    def _address(self, array: np.ndarray) -> int:
        self._kept.append(array)
        return _kernel.address(array)

    def _chunk(
        self,
        row: np.ndarray,
        where: tuple[int, int, int],
        keys: np.ndarray,
        numbers: np.ndarray | None,
        fingerprints: np.ndarray | None,
        words_per_key: int,
    ) -> None:
        segment, table, chunk = where
        seed = 1000 * segment + 10 * table + chunk
        row["keys"], row["seed"], row["count"] = self._address(keys), seed, keys.size // words_per_key
        self.arrays[(*where, "keys")] = keys
        if numbers is not None:
            row["numbers"] = self._address(numbers)
            row["count"] = len(numbers)
            self.arrays[(*where, "numbers")] = numbers
        if fingerprints is not None:
            row["fingerprints"] = self._address(fingerprints)
            self.arrays[(*where, "fingerprints")] = fingerprints
        if self._sealed:
            seals = _kernel.seal_blocks(keys, numbers, fingerprints, words_per_key, seed)
            self._sealings.append(
                (np.frombuffer(seals, np.uint64).copy(), (keys, numbers, fingerprints, words_per_key, seed))
            )
            row["seals"] = self._address(self._sealings[-1][0])
            self._checked.append(np.zeros(len(seals) // 8, np.uint8))
            row["checked"] = self._address(self._checked[-1])

    def _lay_table(
        self, row: np.ndarray, segment: int, table: int, entries: list[tuple[int, int]], num_tables: int
    ) -> None:
        keys = np.array([key for key, _ in entries], np.uint64)
        numbers = np.array([number for _, number in entries], np.uint32)
        starts = range(0, len(entries), self._entries)
        chunks = np.zeros(len(starts) + 1, rows.CHUNK_ROW)
        for chunk, at in enumerate(starts):
            part = slice(at, at + self._entries)
            where = segment, table, chunk
            self._chunk(chunks[chunk : chunk + 1], where, keys[part].copy(), numbers[part].copy(), None, 1)
        row["chunks"], row["num_entries"] = self._address(chunks), len(entries)
        if self._filter[0] and entries:
            self._lay_filter(row, segment, num_tables + 1 + table, keys)
        if self._bitmap_bits and entries:
            self._lay_bitmap(row, segment, 2 * num_tables + 1 + table, keys)

    def _lay_filter(self, row: np.ndarray, segment: int, table: int, keys: np.ndarray) -> None:
        (bits, num_chunks, num_lines), taken = self._filter, 0
        chunks = np.zeros(num_chunks, rows.CHUNK_ROW)
        for chunk in range(num_chunks):
            lines = np.zeros(num_lines * _kernel.LINE_WORDS, np.uint64)
            rest = np.ascontiguousarray(keys[taken:])
            taken += _kernel.add_to_filter(rest, bits, chunk, num_chunks, lines)
            self._chunk(chunks[chunk : chunk + 1], (segment, table, chunk), lines, None, None, 1)
        assert taken == len(keys)
        row["filter"] = self._address(chunks)
        row["filter_bits"], row["filter_chunks"], row["filter_lines"] = self._filter
        if num_chunks == 1:
            row["filter_words"], row["filter_checked"] = chunks[0]["keys"], chunks[0]["checked"]

    def _lay_bitmap(self, row: np.ndarray, segment: int, table: int, keys: np.ndarray) -> None:
        chunk = np.zeros(1, rows.CHUNK_ROW)
        bitmap = np.zeros(1 << self._bitmap_bits - _kernel.MIN_BITMAP_BITS, np.uint64)
        _kernel.set_bitmap(keys, bitmap)
        self._chunk(chunk, (segment, table, 0), bitmap, None, None, 1)
        row["bitmap"], row["bitmap_bits"] = self._address(chunk), self._bitmap_bits
        row["bitmap_words"], row["bitmap_checked"] = chunk[0]["keys"], chunk[0]["checked"]

    def _lay_sketches(self, segment: int, column: int, sketches: list[Stored]) -> int:
        starts = range(0, len(sketches), self._sketches)
        chunks = np.zeros(len(starts) + 1, rows.CHUNK_ROW)
        for chunk, at in enumerate(starts):
            part = sketches[at : at + self._sketches]
            words = np.array([s.words for s in part], np.uint64).reshape(len(part), self._bands)
            numbers = np.array([s.number for s in part], np.uint32)
            fingerprints = np.array([s.fingerprint for s in part], np.uint64)
            where = segment, column, chunk
            row = chunks[chunk : chunk + 1]
            self._chunk(row, where, words, numbers, fingerprints, self._bands)
        return self._address(chunks)
