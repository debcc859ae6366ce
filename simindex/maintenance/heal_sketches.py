"""Repair of sketches: rows of damaged sketch columns, healed from the tables where a part is lost.

A row is taken where the seal of its block fits, or, where the seals themselves are lost, where at least half
of its words stand in tables whose seals fit and none of these says otherwise.

A sketch stands in a segment more than once: its words are keys of the band tables, its fingerprint is a key
of each permutation table, and its number one of each. A chunk is laid out in blocks of a page each, which
hold words, fingerprints and numbers of some sketches and their seal. Where a part of a block is damaged,
fingerprints and numbers are put in from the tables, and the seal says whether it is right so. A segment that
is one value has one seal for all of it. Where that is broken, and its keys are those of the records, so that
it is not the value of another segment, what its tables confirm is taken (`_Agreement`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simindex.errors import CorruptIndexError
from simindex.format.chunks import (
    SketchChunk,
    WholeSegment,
    chunk_seed,
    read_sketch_chunk,
    read_whole_segment,
    seals_of_sketches,
)
from simindex.format.keys import segment_key, whole_segment_key
from simindex.format.layout import FIRST_BAND_TABLE, KEY_TABLE, SegmentEntry
from simindex.format.seals import SEAL_BYTES, unseal
from simindex.maintenance.check_segments import StoredTables, with_zeros
from simindex.maintenance.stored_samples import SegmentSamples
from simindex.queries.scheme import Scheme
from simindex.segments.directory import Directory
from simindex.segments.load import Segment


class Rows(NamedTuple):
    """Sketches that were saved of a segment.

    Attributes:
        numbers: int64, absolute.
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
        is_lost: whether its one value is damaged or missing.
    """

    def __init__(self, scheme: Scheme, entry: SegmentEntry, values: dict[bytes, memoryview]) -> None:
        self._scheme, self._entry, self._values = scheme, entry, values
        self._tables = scheme.tables
        self.key_numbers = np.empty(0, dtype=np.int64)
        self.key_hashes = np.empty(0, dtype=np.uint64)
        self.is_key_table_whole = False
        self.is_lost = True
        self._stored: StoredTables | None = None
        self._load()

    def _load(self) -> None:
        try:
            values = with_zeros(self._tables, self._entry, self._values)
            segment = Segment(self._tables, self._entry, values)
        except CorruptIndexError:
            return
        self.is_lost = False
        self._stored = StoredTables(self._tables, self._entry, Directory(self._tables, [segment]))
        hashes, numbers = self._table(KEY_TABLE)
        self.key_hashes, self.key_numbers = hashes, numbers + self._entry.base
        self.is_key_table_whole = len(numbers) == self._entry.num_keys

    def missing(self) -> Iterator[tuple[bytes, int]]:
        """Yield key and number of rows of the chunks of sketches, or of the one value, that are not there."""
        if not self._entry.chunked:
            key = whole_segment_key(self._entry.id)
            if key not in self._values:
                yield key, self._entry.num_sketches
        else:
            for key, count in self._chunks():
                value = self._values.get(key)
                if value is None or len(value) != self._bytes(count):
                    yield key, count

    def is_chunk(self, key: bytes, count: int, pages: memoryview) -> bool:
        """Whether the pages of a large value are that chunk of sketches: whether a block fits its seal, or
        all of the one value."""
        size = self._bytes(count)
        if len(pages) < size:
            return False
        if not self._entry.chunked:
            with suppress(CorruptIndexError):
                unseal("segments", key, pages[:size], "pages of a value")
                return True
            return False
        chunk = read_sketch_chunk(pages[:size], count, self._tables.bands)
        found = seals_of_sketches(chunk, chunk_seed(key))
        return bool((found == chunk.seals).any())

    def adopt(self, key: bytes, count: int, pages: memoryview) -> None:
        """Take the pages of a large value for a chunk."""
        self._values[key] = pages[: self._bytes(count)]
        if not self._entry.chunked:
            self._load()

    def _bytes(self, count: int) -> int:
        if not self._entry.chunked:
            return self._tables.segment_bytes(self._entry) + SEAL_BYTES
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

    @cached_property
    def samples(self) -> SegmentSamples:
        """The entries of the shingle table whose seals fit, by document."""
        stored = self._stored
        return SegmentSamples(
            self._entry.base, () if stored is None else stored.entries(self._tables.shingle_table)
        )

    # ---- rows ----

    def rows(self, known: np.ndarray, hashes: np.ndarray) -> Rows:
        """Return the sketches that can be had, in order of numbers."""
        parts = list(self._parts(known, hashes))
        if not parts:
            none = np.empty(0, dtype=np.int64)
            words = np.empty((0, self._tables.bands), dtype=np.uint64)
            return Rows(none, words, none.astype(np.uint64), none.astype(bool))
        joined = Rows(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        _, first = np.unique(joined.numbers[::-1], return_index=True)
        return Rows(*(column[len(column) - 1 - first] for column in joined))  # of one number the last

    def _parts(self, known: np.ndarray, hashes: np.ndarray) -> Iterator[Rows]:
        if self._stored is None:
            yield from self._agreed(known, hashes)
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

    def _agreed(self, known: np.ndarray, hashes: np.ndarray) -> Iterator[Rows]:
        """Yield the sketches of a damaged segment of one value."""
        value = self._values.get(whole_segment_key(self._entry.id))
        whole = None if value is None else read_whole_segment(self._tables, self._entry, value)
        if whole is None or not _is_of(whole.tables[KEY_TABLE], self._entry.base, known, hashes):
            return
        agreement = _Agreement(self._scheme, self._entry.span, whole)
        numbers = whole.numbers.astype(np.int64)
        kept, prints = agreement.proven(numbers)
        filled = _filled(numbers, kept, agreement.named, self._entry.span)
        more, others = agreement.proven(filled)
        numbers, prints = np.where(kept, numbers, filled), np.where(kept, prints, others)
        kept |= more
        _, first = np.unique(numbers[kept], return_index=True)
        rows = np.flatnonzero(kept)[first]
        yield self._rows(whole.words[rows], prints[rows], numbers[rows], np.ones(len(rows), bool))

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
        filled = _filled(numbers, kept, self._numbers, self._span)
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


def _filled(numbers: np.ndarray, kept: np.ndarray, named: np.ndarray, span: int) -> np.ndarray:
    """Return the numbers of rows, -1 where they are not known: between two that are proven, there are those
    that the tables name, if they are as many.

    Args:
        named: what the tables name, ascending.
    """
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
        high = int(numbers[end]) if end < len(kept) else span
        first, behind = np.searchsorted(named, [low, high])
        between = named[first:behind]
        if place == 0 and end < len(kept):
            between = between[-(end - place) :]  # what lies before belongs to another chunk
        elif end == len(kept):
            between = between[: end - place]
        if len(between) == end - place:
            filled[place:end] = between
        place = end
    return filled


class _Agreement:
    """Which rows of a segment of one value its tables confirm, where no seal shows what is damaged.

    A word of a row is a key of its band's table under the row's number, and its fingerprint one of each
    permutation table. Damage comes in sectors: one in which more words are contradicted than confirmed, of
    rows or of a table, is damaged, and says nothing. A row is taken where at least half of its words are
    confirmed, no other lies in a damaged sector, none is contradicted by a sound one, and most places say
    the same of its fingerprint. Zeros confirm nothing: two places may be zeros by the same damage.
    """

    def __init__(self, scheme: Scheme, span: int, whole: WholeSegment) -> None:
        tables, self._whole = scheme.tables, whole
        self._bands = [
            _Table(keys, keys, numbers, span)
            for keys, numbers in whole.tables[FIRST_BAND_TABLE : FIRST_BAND_TABLE + tables.bands]
        ]
        bits = scheme.permute(np.uint64(1) << np.arange(64, dtype=np.uint64))
        permuted = whole.tables[tables.first_permutation : tables.first_permutation + tables.permutations]
        self._prints = [
            _Table(_unpermuted(keys, bits[at]), keys, numbers, span)
            for at, (keys, numbers) in enumerate(permuted)
        ]
        found = [table.numbers for table in (*self._bands, *self._prints)]
        named, counts = np.unique(np.concatenate([*found, np.empty(0, np.int64)]), return_counts=True)
        self.named: np.ndarray = named[counts > 1]
        """Numbers that two tables name, ascending."""

    def proven(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows are proven if these are their numbers, and the fingerprints of those."""
        has_words, agrees = self._words_agree(numbers)
        prints, has_prints, is_print = self._agreed_prints(numbers)
        return (agrees | ~has_words) & (is_print | ~has_prints) & (agrees | is_print), prints

    def _words_agree(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which rows have words, or are named in a band, and of which rows the bands say the same."""
        words = self._whole.words
        has, is_same = np.zeros(words.shape, bool), np.zeros(words.shape, bool)
        sectors = np.zeros((4, *words.shape), dtype=np.int64)  # of a word's ends; of its key, and the number
        begin = _address(words) + 8 * np.arange(words.size, dtype=np.int64).reshape(words.shape)
        sectors[0], sectors[1] = begin // _SECTOR, (begin + 7) // _SECTOR
        for band, table in enumerate(self._bands):
            has[:, band], at = table.places(numbers)
            is_same[:, band] = has[:, band] & (table.keys[at] == words[:, band]) & (words[:, band] != 0)
            sectors[2, :, band], sectors[3, :, band] = table.key_sectors[at], table.number_sectors[at]
        found, places = np.unique(sectors, return_inverse=True)
        sectors, is_other = places.reshape(sectors.shape), has & ~is_same
        votes = np.zeros(len(found), dtype=np.int64)
        for one in sectors:
            votes += np.bincount(one[is_same], minlength=len(found))
            votes -= np.bincount(one[is_other], minlength=len(found))
        sound = votes[sectors] > 0
        is_fine = is_same | (sound[0] & sound[1] & ~(is_other & sound[2] & sound[3]))
        agrees = is_fine.all(axis=1) & (2 * is_same.sum(axis=1) >= max(len(self._bands), 1))
        return np.logical_or(has.any(axis=1), words.any(axis=1)), agrees

    def _agreed_prints(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the fingerprint of each row, which rows have one or are named with one, and of which two
        places, and half of those that there are, say the same."""
        own = self._whole.fingerprints
        votes = [(own, own != 0)] if self._prints else []
        for table in self._prints:
            has, at = table.places(numbers)
            votes.append((table.keys[at], has))
        prints, most = own.copy(), np.zeros(len(own), dtype=np.int64)
        named = sum((has.astype(np.int64) for _, has in votes), np.zeros(len(own), dtype=np.int64))
        for found, has in votes:
            same = sum(
                (has & other & (found == value) & (found != 0)).astype(np.int64) for value, other in votes
            )
            prints, most = np.where(same > most, found, prints), np.maximum(same, most)
        return prints, named > 0, (most >= 2) & (2 * most >= named)


class _Table:
    """The entries of a table that name a number which no other entry of it names.

    Attributes:
        numbers: int64, ascending.
        key_sectors, number_sectors: of the memory, which are those of the file.
    """

    def __init__(self, keys: np.ndarray, stored: np.ndarray, numbers: np.ndarray, span: int) -> None:
        """Take the entries; `stored`: the keys as they lie in the value."""
        found, first, counts = np.unique(numbers, return_index=True, return_counts=True)
        is_taken = (counts == 1) & (found < span)
        self.numbers, first = found[is_taken].astype(np.int64), first[is_taken]
        # One more, for `places` of what is not there.
        self.keys = np.append(keys[first], np.uint64(0))
        self.key_sectors = np.append((_address(stored) + 8 * first) // _SECTOR, 0)
        self.number_sectors = np.append((_address(numbers) + 4 * first) // _SECTOR, 0)

    def places(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which numbers it has, and their places in `keys`."""
        at = np.searchsorted(self.numbers, numbers)
        has: np.ndarray = np.equal(np.append(self.numbers, -2)[at], numbers)
        return has, np.where(has, at, len(self.numbers))


_SECTOR = 512


def _address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def _is_of(table: tuple[np.ndarray, np.ndarray], base: int, numbers: np.ndarray, hashes: np.ndarray) -> bool:
    """Whether an eighth of the entries of a key table have the hashes of the records that they name: of
    another segment none has, but by chance."""
    if not len(numbers):
        return False
    found = table[1].astype(np.int64) + base
    at = np.minimum(np.searchsorted(numbers, found), len(numbers) - 1)
    is_same = (numbers[at] == found) & (hashes[at] == table[0])
    return 8 * int(is_same.sum()) >= min(len(numbers), len(found))


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
