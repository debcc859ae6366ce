"""Encode the chunks of a segment: sorted tables, sketch columns and filters.

Invariants: values are little-endian; a chunk has one seal for each of its blocks, seeded with its database
and its key, and a block of entries or sketches is a page that begins where one of LMDB's does; a segment of
one value ends in one seal.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.format.kernel_structs import CHUNK_ROW, STRIDES
from simindex.format.layout import (
    DOC_ID_BYTES,
    ENTRY_WIDTHS,
    FINGERPRINT_BYTES,
    KEY_BYTES,
    SHINGLE_WIDTHS,
    Column,
    Geometry,
    SegmentEntry,
    page_shape,
)
from simindex.format.seals import SEAL_BYTES, SEAL_SEEDS, seal

_ENTRY_ROWS, _ = page_shape(ENTRY_WIDTHS)


def table_key(value: int) -> bytes:
    """Return a key to search for in a sorted table, such as a leader's doc id, as 8 little-endian bytes."""
    return value.to_bytes(KEY_BYTES, "little")


def shingle_keys(hashes: np.ndarray) -> np.ndarray:
    """Return the keys of sampled hashes in the shingle table, without doc ids: uint64, of uint64. The low 26
    bits of each hash must be zero; those of its key are, too, and the caller puts the doc id there.

    Sampled hashes have zeros in front. Turned round (the top six bits go behind the others) they are spread
    evenly over all keys, as filters and fences take them to be.

    >>> [hex(key) for key in shingle_keys(np.array([2**26, 2**63], dtype=np.uint64)).tolist()]
    ['0x100000000', '0x80000000']
    """
    leading = hashes >> _FIRST
    leading <<= _DOC_ID_BITS
    leading |= hashes << _TURN
    return leading


def hashes_of_shingle_keys(keys: np.ndarray) -> np.ndarray:
    """Return the hashes in keys of the shingle table, without the doc ids: uint64; `shingle_keys` undone."""
    return keys >> _DOC_ID_BITS + _TURN << _DOC_ID_BITS | keys >> _DOC_ID_BITS << _FIRST


def doc_ids_of_shingle_keys(keys: np.ndarray) -> np.ndarray:
    """Return the doc ids, relative to the segment, in keys of the shingle table: uint32, of uint64."""
    return (keys & (np.uint64(1) << _DOC_ID_BITS) - np.uint64(1)).astype(np.uint32)


_TURN, _DOC_ID_BITS = np.uint64(6), np.uint64(_kernel.SHORT_DOC_ID_BITS)
"""Bits: the coarsest sample has six zeros in front."""

_FIRST = np.uint64(64) - _TURN


def chunk_seed(key: bytes) -> int:
    """Return the seed of a chunk's block seals: a hash, below 2^63, of its database key, so that they bind
    content to place."""
    return _kernel.xxh64(key, SEAL_SEEDS["segments"]) & (2**63 - 1)


def chunk_seeds(keys: np.ndarray) -> np.ndarray:
    """Return `chunk_seed` of many keys of one length: uint64, of uint8 of shape (n, bytes)."""
    seeds = np.empty(len(keys), dtype=np.uint64)
    _kernel.xxh64_each(keys, keys.shape[1], SEAL_SEEDS["segments"], seeds)
    return seeds & np.uint64(2**63 - 1)


def encode_chunk(key: bytes, keys: np.ndarray, doc_ids: np.ndarray | None = None) -> bytes:
    """Return a chunk of a sorted table, in pages: in each keys <u8, doc ids <u4, one seal <u8; the last page
    is filled up with zeros. `doc_ids`: ``None`` for the shingle table alone, whose keys contain them. `key`
    is the chunk's database key, which seeds the seals."""
    shape = page_shape(SHINGLE_WIDTHS if doc_ids is None else ENTRY_WIDTHS)
    return _kernel.fill_pages(keys, None, doc_ids, 1, *shape, chunk_seed(key))


def encode_sketch_chunk(
    key: bytes, words: np.ndarray, fingerprints: np.ndarray, doc_ids: np.ndarray
) -> bytes:
    """Return a chunk of the sketch column, in pages: in each words <u8, fingerprints <u8, doc ids <u4, one
    seal <u8; the last page is filled up with zeros. words: shape (n, bands)."""
    bands = words.shape[1]
    shape = page_shape((KEY_BYTES * bands, FINGERPRINT_BYTES, DOC_ID_BYTES))
    return _kernel.fill_pages(words, fingerprints, doc_ids, bands, *shape, chunk_seed(key))


def encode_words_chunk(key: bytes, words: np.ndarray) -> bytes:
    """Return a chunk of fences, a filter, or a bitmap: words <u8[n], then one seal <u8 for each block."""
    return b"".join((words.data, _kernel.seal_words(words, chunk_seed(key))))


def encode_whole_segment(key: bytes, arrays: list[np.ndarray]) -> bytes:
    """Return the value of a segment that is one value: the bytes of `arrays`, one behind the other as given
    (those of its tables, then of the sketch column), and one seal."""
    # Of an array itself, join would tell a failed allocation as a wrong type.
    return seal("segments", key, b"".join(map(_data, arrays)))


_data = operator.attrgetter("data")


def whole_segment_rows(geometry: Geometry, entry: SegmentEntry) -> np.ndarray:
    """Return the kernel's rows of a one-value segment, as if its value lay at address 0: CHUNK_ROW, one a
    table, then the sketch column's. There are no seals, for the value has one of its own."""
    counts = np.array(geometry.entry_counts(entry), dtype=np.uint64)
    widths = np.array(geometry.widths, dtype=np.uint64)
    table_bytes = counts * widths.sum(axis=1)
    ends = np.cumsum(table_bytes)
    rows = chunk_rows(geometry.count + 1, geometry.bands, geometry.sketches_per_block)
    sorted_tables, sketches = rows[:-1], rows[-1]
    sorted_tables["keys"] = ends - table_bytes
    behind_keys = sorted_tables["keys"] + counts * np.uint64(KEY_BYTES)
    sorted_tables["doc_ids"] = np.where(widths[:, 2], behind_keys, 0)
    sorted_tables["count"] = counts
    fingerprints = int(ends[-1]) + KEY_BYTES * geometry.bands * entry.num_sketches
    sketches["keys"] = ends[-1]
    sketches["fingerprints"] = fingerprints
    sketches["doc_ids"] = fingerprints + FINGERPRINT_BYTES * entry.num_sketches
    sketches["count"] = entry.num_sketches
    return rows


def chunk_rows(count: int, bands: int, sketches_per_block: int) -> np.ndarray:
    """Return `count` CHUNK_ROWs for arrays that are not cut into pages, the last one of a sketch column, the
    others of sorted tables. Only the strides are set."""
    rows = np.zeros(count, dtype=CHUNK_ROW)
    rows["key_stride"], rows["doc_id_stride"] = KEY_BYTES * _ENTRY_ROWS, DOC_ID_BYTES * _ENTRY_ROWS
    widths = KEY_BYTES * bands, DOC_ID_BYTES, FINGERPRINT_BYTES
    for name, width in zip(STRIDES, widths, strict=True):
        rows[name][-1:] = width * sketches_per_block
    return rows


class WholeSegment(NamedTuple):
    """A segment that is one value, taken apart: views of it, nothing of which is proven."""

    tables: list[tuple[np.ndarray, np.ndarray]]
    words: np.ndarray
    fingerprints: np.ndarray
    doc_ids: np.ndarray


def read_whole_segment(
    geometry: Geometry, entry: SegmentEntry, value: bytes | memoryview
) -> WholeSegment | None:
    """Take apart a segment that is one value, into views; neither seal nor order is checked. Returns ``None``
    where its length does not fit."""
    if len(value) != geometry.segment_bytes(entry) + SEAL_BYTES:
        return None

    def array(kind: str, count: int, at: int) -> np.ndarray:
        return np.frombuffer(value, dtype=kind, count=count, offset=at)

    def sorted_table(keys_at: int, doc_ids_at: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        keys = array("<u8", count, keys_at)
        return keys, array("<u4", count, doc_ids_at) if doc_ids_at else doc_ids_of_shingle_keys(keys)

    *tables, column = whole_segment_rows(geometry, entry)[["keys", "doc_ids", "fingerprints", "count"]]
    begin, doc_ids, prints, count = map(int, column)
    return WholeSegment(
        [sorted_table(int(keys), int(doc_ids), int(n)) for keys, doc_ids, _, n in tables],
        array("<u8", count * geometry.bands, begin).reshape(count, geometry.bands),
        array("<u8", count, prints),
        array("<u4", count, doc_ids),
    )


def seals_of(column: Column, count: int, value: bytes | memoryview) -> bytes:
    """Return the stored seals of the blocks of a chunk of `count` entries, joined; the caller has checked its
    length."""
    if not column.page_bytes:
        return bytes(value[len(value) - SEAL_BYTES * column.blocks(count) :])
    return bytes(np.frombuffer(value, dtype=np.uint8)[_seal_places(column, count)])


def _seal_places(column: Column, count: int) -> np.ndarray:
    """Return the offset of each byte of the block seals in a chunk in pages: shape (blocks, SEAL_BYTES)."""
    ends = np.arange(1, column.blocks(count) + 1) * column.page_bytes - _kernel.PAGE_HEAD
    return ends[:, None] + np.arange(-SEAL_BYTES, 0)


def is_sealed_chunk(key: bytes, column: Column, count: int, value: bytes) -> bool:
    """Return whether a chunk has the length of `count` entries, and every block of it fits its seal."""
    if len(value) != column.chunk_bytes(count):
        return False
    return expected_seals(key, column, count, value) == seals_of(column, count, value)


def expected_seals(key: bytes, column: Column, count: int, value: bytes | memoryview) -> bytes:
    """Compute the block seals that belong to the content of a chunk of `count` entries, joined, whatever
    seals are stored; the caller has checked its length."""
    if column.page_bytes:
        return _kernel.page_seals(value, column.page_bytes, chunk_seed(key))
    return _kernel.seal_words(memoryview(value)[: KEY_BYTES * count], chunk_seed(key))


class Chunk(NamedTuple):
    """A chunk of a sorted table or of the sketch column, as copies: words, a row each; which blocks fit their
    seals."""

    words: np.ndarray
    fingerprints: np.ndarray
    doc_ids: np.ndarray
    seals: np.ndarray
    is_sound: np.ndarray
    block: int

    def rows_of(self, blocks: np.ndarray) -> np.ndarray:
        """Return the indices, ascending, of the rows in some blocks; `blocks`: bool for each block."""
        return np.flatnonzero(np.repeat(blocks, self.block)[: len(self.doc_ids)])


def read_chunk(key: bytes, column: Column, count: int, value: bytes | memoryview) -> Chunk:
    """Copy a chunk in pages (of a sorted table or the sketch column) into arrays, and compare each block with
    its seal; damage is noted in `is_sound`, not raised. The caller has checked the length."""
    rows, page_bytes = page_shape(column.widths)
    head = bytes(_kernel.PAGE_HEAD)
    pages = np.frombuffer(b"".join((head, value)), dtype=np.uint8).reshape(-1, page_bytes)
    ends = _kernel.PAGE_HEAD + rows * np.cumsum(column.widths)
    _, *parts, _ = np.split(pages, [_kernel.PAGE_HEAD, *ends], axis=1)
    sizes = zip(parts, column.widths, strict=True)
    first, prints, doc_ids = (part.reshape(-1)[: width * count].copy() for part, width in sizes)
    words = first.view(np.uint64).reshape(count, column.widths[0] // KEY_BYTES)
    seals = pages[:, -SEAL_BYTES:].copy().reshape(-1).view(np.uint64)
    return Chunk(
        words,
        prints.view(np.uint64),
        doc_ids.view(np.uint32) if column.widths[2] else doc_ids_of_shingle_keys(words[:, 0]),
        seals,
        np.frombuffer(expected_seals(key, column, count, value), dtype=np.uint64) == seals,
        column.block,
    )


def seals_of_sketches(key: bytes, chunk: Chunk) -> np.ndarray:
    """Compute the block seals that these rows of the sketch column would have under a database key: uint64,
    one a block; those that the chunk has are not looked at."""
    value = encode_sketch_chunk(key, *chunk[:3])
    widths = KEY_BYTES * chunk.words.shape[1], FINGERPRINT_BYTES, DOC_ID_BYTES
    count = len(chunk.doc_ids)
    return np.frombuffer(seals_of(Column(0, count, count, widths), count, value), dtype=np.uint64)
