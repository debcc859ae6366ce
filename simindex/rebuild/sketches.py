"""The sketches of a damaged index: what is left of sketch columns, healed from the tables where a part is
lost.

Owns which row of which segment is taken, and on what ground. Must not read pages. Invariant: a row is taken
where the seal of its block fits, or, where the seals themselves are lost, where at least half of its words
stand in tables whose seals fit and none of these says otherwise.

A sketch stands in a segment more than once: its words are keys of the band tables, its fingerprint is a key
of each permutation table, and its number one of each. A chunk is laid out in blocks of a page each, which
hold words, fingerprints and numbers of some sketches and their seal. Where a part of a block is damaged,
fingerprints and numbers are put in from the tables, and the seal says whether it is right so.
A segment that is one value has one seal for all of it: where that is broken nothing of it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from simindex.errors import CorruptIndexError
from simindex.format.chunks import SketchChunk, chunk_seed, read_sketch_chunk, seals_of_sketches
from simindex.format.keys import segment_key, segment_keys
from simindex.format.layout import FIRST_BAND_TABLE, KEY_TABLE, Chunks, SegmentEntry
from simindex.queries.scheme import Scheme
from simindex.segments.directory import Directory
from simindex.segments.load import Segment
from simindex.upkeep.tables import StoredTables


@dataclass
class Rows:
    """Sketches that were saved of a segment.

    Attributes:
        numbers: int64, absolute.
        words, fingerprints: of each.
        by_tables: bool: which have lost their seals.
    """

    numbers: np.ndarray
    words: np.ndarray
    fingerprints: np.ndarray
    by_tables: np.ndarray


class SegmentRemains:
    """What is left of one segment.

    Attributes:
        key_numbers, key_hashes: int64 absolute, and uint64: entries of the key table whose seals fit.
        is_key_table_whole: whether these are all.
        is_lost: whether nothing of it can be read, for its one value is damaged or missing.
    """

    def __init__(self, scheme: Scheme, entry: SegmentEntry, values: dict[bytes, memoryview]) -> None:
        self._scheme, self._entry, self._values = scheme, entry, values
        self._tables = scheme.tables
        self.key_numbers = np.empty(0, dtype=np.int64)
        self.key_hashes = np.empty(0, dtype=np.uint64)
        self.is_key_table_whole = False
        self.is_lost = True
        self._stored: StoredTables | None = None
        try:
            segment = Segment(scheme.tables, entry, self._loaded())
        except CorruptIndexError:
            return
        self.is_lost = False
        self._stored = StoredTables(scheme.tables, entry, Directory(scheme.tables, [segment]))
        hashes, numbers = self._table(KEY_TABLE)
        self.key_hashes, self.key_numbers = hashes, numbers + entry.base
        self.is_key_table_whole = len(numbers) == entry.num_keys

    def _loaded(self) -> Callable[[bytes], object]:
        """Return what gives values to a loading, zeros in the place of those that are lost."""
        if not self._entry.chunked:
            return self._values.get
        layout = Chunks.of(self._tables.columns(self._entry))
        keys = [bytes(key) for key in segment_keys(self._entry.id, layout.tables, layout.numbers)]
        sizes = dict(zip(keys, layout.sizes.tolist(), strict=True))

        def get(key: bytes) -> object:
            value = self._values.get(key)
            return value if value is not None and len(value) == sizes[key] else bytes(sizes[key])

        return get

    def missing(self) -> Iterator[tuple[bytes, int]]:
        """Yield key and number of rows of the chunks of sketches that are not there."""
        if self._entry.chunked:
            for key, count in self._chunks():
                value = self._values.get(key)
                if value is None or len(value) != self._bytes(count):
                    yield key, count

    def is_chunk(self, key: bytes, count: int, pages: memoryview) -> bool:
        """Whether the pages of a large value are that chunk of sketches: whether a block fits its seal."""
        size = self._bytes(count)
        if len(pages) < size:
            return False
        chunk = read_sketch_chunk(pages[:size], count, self._tables.bands)
        found = seals_of_sketches(chunk, chunk_seed(key))
        return bool((found == chunk.seals).any())

    def adopt(self, key: bytes, count: int, pages: memoryview) -> None:
        """Take the pages of a large value for a chunk."""
        self._values[key] = pages[: self._bytes(count)]

    def _bytes(self, count: int) -> int:
        column = self._tables.columns(self._entry)[self._tables.count]
        return column.chunk_bytes(count)

    @property
    def _block(self) -> int:
        return self._tables.sketches_per_block

    def _chunks(self) -> Iterator[tuple[bytes, int]]:
        per_chunk, total = self._tables.sketches_per_chunk, self._entry.num_sketches
        for chunk, first in enumerate(range(0, total, per_chunk)):
            yield segment_key(self._entry.id, self._tables.count, chunk), min(per_chunk, total - first)

    def _table(self, table: int) -> tuple[np.ndarray, np.ndarray]:
        """Return keys and relative numbers, int64, of the entries of a table whose seals fit."""
        assert self._stored is not None
        parts = [(keys.copy(), numbers.astype(np.int64)) for keys, numbers in self._stored.entries(table)]
        if not parts:
            return np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        return np.concatenate([keys for keys, _ in parts]), np.concatenate([numbers for _, numbers in parts])

    # ---- rows ----

    def rows(self) -> Iterator[Rows]:
        """Yield the sketches that can be had."""
        if self._stored is None:
            return
        if not self._entry.chunked:
            for words, fingerprints, numbers in self._stored.sketches():
                yield self._rows(words.copy(), fingerprints.copy(), numbers, np.zeros(len(numbers), bool))
            return
        healer: _Healer | None = None
        for key, count in self._chunks():
            value = self._values.get(key)
            if value is None or len(value) != self._bytes(count):
                continue
            chunk = read_sketch_chunk(value, count, self._tables.bands)
            seed = chunk_seed(key)
            is_sound = seals_of_sketches(chunk, seed) == chunk.seals
            by_tables = np.zeros(count, bool)
            kept = np.repeat(is_sound, self._block)[:count]
            if not is_sound.all():
                healer = healer or _Healer(self._scheme, self._entry, self._table)
                kept, by_tables = healer.heal(chunk, seed, is_sound, self._block)
            yield self._rows(
                chunk.words[kept], chunk.fingerprints[kept], chunk.numbers[kept], by_tables[kept]
            )

    def _rows(
        self, words: np.ndarray, fingerprints: np.ndarray, numbers: np.ndarray, by_tables: np.ndarray
    ) -> Rows:
        return Rows(numbers.astype(np.int64) + self._entry.base, words, fingerprints, by_tables)


class _Healer:
    """What the tables of a segment say of its sketches."""

    def __init__(
        self, scheme: Scheme, entry: SegmentEntry, table: Callable[[int], tuple[np.ndarray, np.ndarray]]
    ) -> None:
        tables = scheme.tables
        self._words = [table(FIRST_BAND_TABLE + band) for band in range(tables.bands)]
        self._words = [_by_number(keys, numbers) for keys, numbers in self._words]
        self._prints = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        keys, numbers = [], []
        bits = scheme.permute(np.uint64(1) << np.arange(64, dtype=np.uint64))
        for at in range(tables.permutations):
            permuted, found = table(tables.first_permutation + at)
            keys.append(_unpermuted(permuted, bits[at]))
            numbers.append(found)
        if keys:
            self._prints = _by_number(np.concatenate(keys), np.concatenate(numbers))
        self._has_no_prints = not tables.permutations
        named = [numbers for _, numbers in self._words] + [self._prints[1]]
        self._numbers = np.unique(np.concatenate(named))
        self._span = entry.span

    def heal(
        self, chunk: SketchChunk, seed: int, is_sound: np.ndarray, block: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Put right what can be; returns which rows are proven, and which of them by tables alone."""
        count = len(chunk.numbers)
        kept = np.repeat(is_sound, block)[:count]
        numbers, prints = chunk.numbers.copy(), chunk.fingerprints.copy()
        filled = self._filled(numbers, kept)
        guesses = [numbers, np.where(filled >= 0, filled, numbers).astype(np.uint32)]
        by_tables = np.zeros(count, bool)
        for guess in guesses:
            has, known = _looked_up(self._prints, guess.astype(np.int64))
            for some_prints in (prints, np.where(has, known, prints)):
                tried = chunk._replace(numbers=guess, fingerprints=some_prints)
                fits = np.repeat(seals_of_sketches(tried, seed) == chunk.seals, block)[:count] & ~kept
                chunk.numbers[fits], chunk.fingerprints[fits] = guess[fits], some_prints[fits]
                kept |= fits
        for guess in guesses:
            has, known = _looked_up(self._prints, guess.astype(np.int64))
            agrees = self._agrees(chunk.words, guess.astype(np.int64)) & (has | self._has_no_prints) & ~kept
            chunk.numbers[agrees], chunk.fingerprints[agrees & has] = guess[agrees], known[agrees & has]
            by_tables |= agrees
            kept |= agrees
        return kept, by_tables

    def _filled(self, numbers: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return the numbers of rows, -1 where they are not known: between two that are proven, there are
        those that the tables name, if they are as many."""
        filled = np.where(kept, numbers.astype(np.int64), -1)
        place = 0
        while place < len(kept):
            if kept[place]:
                place += 1
                continue
            end = place
            while end < len(kept) and not kept[end]:
                end += 1
            low = int(numbers[place - 1]) + 1 if place else 0
            high = int(numbers[end]) if end < len(kept) else self._span
            first, behind = np.searchsorted(self._numbers, [low, high])
            between = self._numbers[first:behind]
            if place == 0 and end < len(kept):
                between = between[-(end - place) :]  # what lies before belongs to another chunk
            elif end == len(kept):
                between = between[: end - place]
            if len(between) == end - place:
                filled[place:end] = between
            place = end
        return filled

    def _agrees(self, words: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return which rows at least half of the bands say the same of, and none another thing."""
        same = np.zeros(len(words), dtype=np.int64)
        other = np.zeros(len(words), dtype=np.int64)
        for band, table in enumerate(self._words):
            has, found = _looked_up(table, numbers)
            is_same = found == words[:, band]
            same += has & is_same
            other += has & ~is_same
        agrees: np.ndarray = (2 * same >= max(len(self._words), 1)) & (other == 0)
        return agrees


def _by_number(keys: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found, first = np.unique(numbers, return_index=True)
    return keys[first], found


def _looked_up(table: tuple[np.ndarray, np.ndarray], numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which numbers a table has, and the keys there."""
    keys, known = table
    if not len(known):
        return np.zeros(len(numbers), bool), np.zeros(len(numbers), np.uint64)
    at = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return known[at] == numbers, keys[at]


def _unpermuted(keys: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return fingerprints from keys of a permutation table; bits: where each bit of a fingerprint goes."""
    found = np.zeros(len(keys), dtype=np.uint64)
    for bit, there in enumerate(bits):
        found |= ((keys & there) != 0).astype(np.uint64) << np.uint64(bit)
    return found
