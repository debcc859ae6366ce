"""What is left of a damaged segment: its sketches, its keys and its samples.

A sketch stands in a segment more than once: its words are keys of the band tables, its fingerprint is one of
each permutation table. A chunk is laid out in blocks of a page with a seal each. Of a block whose seal is
broken, what sound blocks of the tables say takes the place of what is stored, and the seal says whether it is
right so; where it is not, sketches are taken that stand in sound blocks of all tables. A segment that is one
value has one seal for all of it. Where that is broken, and its keys are those of the records, so that it is
not the value of another segment, a sketch is taken where its tables confirm it (`_confirmed_rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import numpy as np

from simindex.distinct import distinct
from simindex.errors import CorruptIndexError
from simindex.format.chunks import Chunk, WholeSegment, read_chunk, read_whole_segment, seals_of_sketches
from simindex.format.keys import whole_segment_key
from simindex.format.layout import FIRST_BAND_TABLE, KEY_TABLE, SegmentEntry
from simindex.maintenance.stored_segment import Piece, SegmentSamples, StoredSegment
from simindex.queries.scheme import Scheme


def sketch_rows(bands: int) -> np.dtype[np.void]:
    """Return the dtype of a saved sketch: absolute doc id, band words, fingerprint, and `by_tables`: whether
    its seal is lost and the tables vouch for it."""
    fields = ("doc_id", "i8"), ("words", "u8", (bands,)), ("fingerprint", "u8"), ("by_tables", "?")
    return np.dtype([*fields], align=True)


class SegmentRemains:
    """What is left of one segment.

    Attributes:
        key_doc_ids, key_hashes: int64 absolute, and uint64: entries of the key table whose seals fit.
        is_lost: whether its one value is damaged or missing."""

    def __init__(self, scheme: Scheme, entry: SegmentEntry, values: dict[bytes, memoryview]) -> None:
        self._scheme, self._entry, self._values = scheme, entry, values
        self._tables = scheme.tables
        self.key_doc_ids = np.empty(0, dtype=np.int64)
        self.key_hashes = np.empty(0, dtype=np.uint64)
        self.is_key_table_whole = False
        self.is_lost = True
        self._stored = StoredSegment(self._tables, entry, values.get)
        self._load()

    def _load(self) -> None:
        with suppress(CorruptIndexError):
            self.key_hashes, doc_ids = self._table(KEY_TABLE)
            self.is_lost = False
            self.key_doc_ids = doc_ids + self._entry.base
            self.is_key_table_whole = len(doc_ids) == self._entry.num_keys

    def missing(self) -> list[Piece]:
        """Return the chunks of tables and sketches, or the one value, that are missing or of a wrong
        length."""
        return [piece for piece in self._stored.missing() if piece.column is None or piece.column.page_bytes]

    def adopt(self, piece: Piece, pages: memoryview) -> bool:
        """Take the begin of these pages for `piece`, a missing value, if its seal, or that of one of its
        blocks, fits; returns whether it does. A segment's one value is kept for `rows` even if it does
        not."""
        value = pages[: piece.num_bytes]
        if len(value) < piece.num_bytes:
            return False
        if piece.column is None:
            self._values[piece.key] = value
            self._load()
            return not self.is_lost
        if not read_chunk(piece.key, piece.column, piece.entries, value).is_sound.any():
            return False
        self._values[piece.key] = value
        return True

    def _table(self, table: int) -> tuple[np.ndarray, np.ndarray]:
        """Return keys (uint64) and relative doc ids (int64) of the entries of a table whose seals fit. Raises
        CorruptIndexError where the segment's one value is damaged or missing."""
        parts = [(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))]
        parts += [(keys, doc_ids.astype(np.int64)) for keys, doc_ids in self._stored.entries(table)]
        keys, doc_ids = map(np.concatenate, zip(*parts, strict=True))
        return keys, doc_ids

    def samples(self, earlier: SegmentSamples, leaders: Iterable[int]) -> SegmentSamples:
        """Return the entries of the shingle table whose seals fit, and from `earlier` those of these
        leaders."""
        entries = () if self.is_lost else self._stored.entries(self._tables.shingle_table)
        return SegmentSamples(self._entry.base, entries, earlier, leaders)

    # ---- rows ----

    def rows(self, known: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """Return the sketches of the segment that can be saved, of dtype `sketch_rows`, one a document, by
        doc id. `known`, `hashes`: ascending doc ids and key hashes of the records that are left, to tell
        whether a damaged value is this segment's."""
        found = self._confirmed(known, hashes) if self.is_lost else self._of_chunks()
        rows = np.concatenate([np.empty(0, dtype=sketch_rows(self._tables.bands)), *found])
        _, last = np.unique(rows["doc_id"][::-1], return_index=True)  # of one doc id the last
        rows = rows[len(rows) - 1 - last]
        return rows[: np.searchsorted(rows["doc_id"], self._entry.base + self._entry.span)]

    def _rows(
        self, doc_ids: np.ndarray, words: np.ndarray, prints: np.ndarray, *, by_tables: bool = False
    ) -> np.ndarray:
        rows = np.empty(len(doc_ids), dtype=sketch_rows(self._tables.bands))
        rows["doc_id"] = doc_ids.astype(np.int64) + self._entry.base
        rows["words"], rows["fingerprint"], rows["by_tables"] = words, prints, by_tables
        return rows

    def _of_chunks(self) -> list[np.ndarray]:
        """Return arrays of `sketch_rows` of a segment of chunks. A document can be in several of them, and
        then the last counts.

        Where every block is sound, these are the sketches of the blocks. Else all sketches that the tables
        know whole come first, then those of sound blocks, and of blocks that fit their seals once what the
        tables know is put into them.
        """
        by_tables: _ByDocId | None = None
        found = list[np.ndarray]()
        for key, chunk in self._stored.chunks(self._tables.count):
            if chunk is None or not chunk.is_sound.all():
                by_tables = by_tables or _ByDocId(self._scheme, self._table)
            if chunk is None:
                continue
            found.append(self._rows_of(chunk, chunk.is_sound))
            if by_tables is not None:
                healed = by_tables.put_into(chunk)
                found.append(self._rows_of(healed, seals_of_sketches(key, healed) == chunk.seals))
        return found if by_tables is None else [self._rows(*by_tables.whole(), by_tables=True), *found]

    def _rows_of(self, chunk: Chunk, blocks: np.ndarray) -> np.ndarray:
        rows = chunk.rows_of(blocks)
        return self._rows(chunk.doc_ids[rows], chunk.words[rows], chunk.fingerprints[rows])

    def _confirmed(self, known: np.ndarray, hashes: np.ndarray) -> list[np.ndarray]:
        """Return one array of the sketches that its tables confirm in a damaged segment of one value; no
        array where the value is missing or, by its keys, another segment's."""
        value = self._values.get(whole_segment_key(self._entry.id))
        whole = None if value is None else read_whole_segment(self._tables, self._entry, value)
        if whole is None or not _is_of(whole.tables[KEY_TABLE], self._entry.base, known, hashes):
            return []
        doc_ids, prints, is_kept = _confirmed_rows(self._scheme, self._entry.span, whole)
        _, first = np.unique(doc_ids[is_kept], return_index=True)
        rows = np.flatnonzero(is_kept)[first]
        return [self._rows(doc_ids[rows], whole.words[rows], prints[rows], by_tables=True)]


class _ByDocId:
    """What sound blocks of the tables of a segment say of its sketches: band words, then the fingerprint."""

    def __init__(self, scheme: Scheme, table: Callable[[int], tuple[np.ndarray, np.ndarray]]) -> None:
        tables = scheme.tables
        columns = [(band, *table(FIRST_BAND_TABLE + band)) for band in range(tables.bands)]
        for permutation in range(tables.permutations):
            keys, doc_ids = table(tables.first_permutation + permutation)
            columns.append((tables.bands, _unpermuted(scheme, permutation, keys), doc_ids))
        self._doc_ids = distinct(np.concatenate([doc_ids for *_, doc_ids in columns]))
        self._values = np.zeros((len(self._doc_ids), tables.bands + 1), dtype=np.uint64)
        self._has = np.zeros(self._values.shape, dtype=bool)
        self._has[:, -1] = not tables.permutations
        for column, keys, doc_ids in columns:
            at = np.searchsorted(self._doc_ids, doc_ids)
            self._values[at, column], self._has[at, column] = keys, True

    def whole(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return relative doc ids, ascending, words and fingerprints of the sketches of which the tables have
        every word, and the fingerprint."""
        is_whole = self._has.all(axis=1)
        return self._doc_ids[is_whole], self._values[is_whole, :-1], self._values[is_whole, -1]

    def put_into(self, chunk: Chunk) -> Chunk:
        """Return a copy of a chunk of sketches in which each word and fingerprint that the tables know
        replaces the stored one; the rest stays."""
        if not len(self._doc_ids):
            return chunk
        at = np.searchsorted(self._doc_ids, chunk.doc_ids)
        at[at == len(self._doc_ids)] = 0
        has = self._has[at] & (self._doc_ids[at] == chunk.doc_ids)[:, None]
        values = np.where(has, self._values[at], np.column_stack([chunk.words, chunk.fingerprints]))
        words, prints = np.ascontiguousarray(values[:, :-1]), np.ascontiguousarray(values[:, -1])
        return chunk._replace(words=words, fingerprints=prints)


_SECTOR = 512


def _confirmed_rows(
    scheme: Scheme, span: int, whole: WholeSegment
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the relative doc id and the fingerprint of each row of a segment of one value, and for each
    whether its tables confirm it, where no seal shows what is damaged.

    A word of a row is a key of its band's table under the row's doc id, and its fingerprint one of each
    permutation table. Damage comes in sectors: one in which more words are contradicted than confirmed, of
    rows or of a table, is damaged, and says nothing. A row is taken where at least half of its words are
    confirmed, no other lies in a damaged sector, none is contradicted by a sound one, and two places say the
    same of its fingerprint. Zeros confirm nothing: two places may be zeros by the same damage.
    """
    tables, words = scheme.tables, whole.words
    end = tables.first_permutation + tables.permutations
    bands = [_Table(*table, span) for table in whole.tables[FIRST_BAND_TABLE:][: tables.bands]]
    permuted = [_Table(*table, span) for table in whole.tables[tables.first_permutation : end]]
    found = [table.doc_ids for table in (*bands, *permuted)]
    named, counts = np.unique(np.concatenate([*found, np.empty(0, np.int64)]), return_counts=True)
    named, doc_ids = named[counts > 1], whole.doc_ids.astype(np.int64)
    if len(named) == len(doc_ids):
        doc_ids = named  # rows lie in the order of their doc ids

    has, is_same = np.zeros(words.shape, bool), np.zeros(words.shape, bool)
    sectors = np.zeros((4, *words.shape), dtype=np.int64)  # of a word's ends; of its key, and the doc id
    begin = _address(words) + 8 * np.arange(words.size, dtype=np.int64).reshape(words.shape)
    sectors[0], sectors[1] = begin // _SECTOR, (begin + 7) // _SECTOR
    for band, table in enumerate(bands):
        has[:, band], at = table.find(doc_ids)
        is_same[:, band] = has[:, band] & (table.keys[at] == words[:, band]) & (words[:, band] != 0)
        sectors[2, :, band], sectors[3, :, band] = table.key_sectors[at], table.doc_id_sectors[at]
    ids, inverse = np.unique(sectors, return_inverse=True)
    sectors, is_other = inverse.reshape(sectors.shape), has & ~is_same
    votes = np.zeros(len(ids), dtype=np.int64)
    for one in sectors:
        votes += np.bincount(one[is_same], minlength=len(ids)) - np.bincount(
            one[is_other], minlength=len(ids)
        )
    sound = votes[sectors] > 0
    is_fine = is_same | (sound[0] & sound[1] & ~(is_other & sound[2] & sound[3]))
    agrees = is_fine.all(axis=1) & (2 * is_same.sum(axis=1) >= max(len(bands), 1))

    has_words = has.any(axis=1) | words.any(axis=1)

    said = np.zeros((2 + len(permuted), len(doc_ids)), dtype=np.uint64)
    said[0] = whole.fingerprints if permuted else 0
    for permutation, table in enumerate(permuted, 1):
        is_there, at = table.find(doc_ids)
        said[permutation] = np.where(
            is_there, _unpermuted(scheme, permutation - 1, table.keys)[at], np.uint64(0)
        )
    said.sort(axis=0)  # what two places say stands side by side
    is_twice = (said[1:] == said[:-1]) & (said[1:] != 0)
    prints = said[1:][is_twice.argmax(axis=0), np.arange(len(doc_ids))]
    is_print, has_print = is_twice.any(axis=0), said.any(axis=0)
    is_kept = (agrees | ~has_words) & (is_print | ~has_print) & (agrees | is_print)
    return doc_ids, np.where(is_print, prints, np.uint64(0)), is_kept


class _Table:
    """The entries of a table whose doc ids it names once, ascending, and the sectors in which they lie."""

    def __init__(self, keys: np.ndarray, doc_ids: np.ndarray, span: int) -> None:
        found, first, counts = np.unique(doc_ids, return_index=True, return_counts=True)
        is_taken = (counts == 1) & (found < span)
        self.doc_ids, first = found[is_taken].astype(np.int64), first[is_taken]
        # One more, for `find` of what is not there.
        self.keys = np.append(keys[first], np.uint64(0))
        self.key_sectors = np.append((_address(keys) + 8 * first) // _SECTOR, 0)
        self.doc_id_sectors = np.append((_address(doc_ids) + 4 * first) // _SECTOR, 0)

    def find(self, doc_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which of these doc ids the table has (bool), and the index of each in `keys`; that of the
        zero at the end for one that it has not."""
        at = np.searchsorted(self.doc_ids, doc_ids)
        has: np.ndarray = np.equal(np.append(self.doc_ids, -2)[at], doc_ids)
        return has, np.where(has, at, len(self.doc_ids))


def _address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def _is_of(table: tuple[np.ndarray, np.ndarray], base: int, doc_ids: np.ndarray, hashes: np.ndarray) -> bool:
    """Return whether a key table, of (hashes, doc ids relative to `base`), is that of these records, given by
    ascending doc ids and key hashes: at least an eighth of the smaller of both agree in doc id and hash, as
    none would in another segment's. False without records."""
    if not len(doc_ids):
        return False
    found = table[1].astype(np.int64) + base
    at = np.minimum(np.searchsorted(doc_ids, found), len(doc_ids) - 1)
    is_same = (doc_ids[at] == found) & (hashes[at] == table[0])
    return 8 * int(is_same.sum()) >= min(len(doc_ids), len(found))


def _unpermuted(scheme: Scheme, table: int, keys: np.ndarray) -> np.ndarray:
    """Return the fingerprints whose bits a permutation table, the `table`-th from 0, has permuted to these
    keys."""
    moved = scheme.plan.permute(np.uint64(1) << np.arange(64, dtype=np.uint64))[table]
    found = np.zeros(len(keys), dtype=np.uint64)
    for bit, there in enumerate(moved):
        found |= ((keys & there) != 0).astype(np.uint64) << np.uint64(bit)
    return found
