"""The bytes of segments: chunks of tables, sketch columns and filters, and segments that are one value.

Owns how arrays are joined and sealed, and where the arrays of a one-value segment lie in it. Must not decide
how a segment is cut. Invariants: values are little-endian; a chunk ends in one seal for each of its blocks,
seeded with its database and its key; a segment of one value ends in one seal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.format.layout import (
    ENTRY_BYTES,
    FINGERPRINT_BYTES,
    KEY_BYTES,
    NUMBER_BYTES,
    Column,
    Geometry,
    SegmentEntry,
)
from simindex.format.rows import CHUNK_ROW
from simindex.format.seals import SEAL_BYTES, SEAL_SEEDS, seal


def table_key(value: int) -> bytes:
    """Return the bytes of one key to be searched for in a sorted table, such as a leader's number."""
    return value.to_bytes(KEY_BYTES, "little")


def chunk_seed(key: bytes) -> int:
    """Return what the block seals of a chunk are seeded with, so that they bind content to place."""
    return _kernel.xxh64(key, SEAL_SEEDS["segments"]) & (2**63 - 1)


def encode_chunk(key: bytes, keys: np.ndarray, numbers: np.ndarray) -> bytes:
    """Return a chunk of a sorted table: keys <u8[n], numbers <u4[n], one seal <u8 a block."""
    seals = _kernel.seal_blocks(keys, numbers, None, 1, chunk_seed(key))
    return b"".join((keys.data, numbers.data, seals))


def encode_sketch_chunk(
    key: bytes, words: np.ndarray, fingerprints: np.ndarray, numbers: np.ndarray
) -> bytes:
    """Return a chunk of the sketch column: words, fingerprints, numbers, one seal <u8 a block."""
    seals = _kernel.seal_blocks(words, numbers, fingerprints, words.shape[1], chunk_seed(key))
    return b"".join((words.data, fingerprints.data, numbers.data, seals))


def encode_words_chunk(key: bytes, words: np.ndarray) -> bytes:
    """Return a chunk of a filter, or a bitmap: words <u8[n], one seal <u8 a block."""
    return b"".join((words.data, _kernel.seal_blocks(words, None, None, 1, chunk_seed(key))))


def encode_whole_segment(key: bytes, arrays: list[np.ndarray]) -> bytes:
    """Return a segment as one sealed value.

    Args:
        arrays: keys and numbers of each table, then words, fingerprints and numbers of the sketch column.
    """
    return seal("segments", key, b"".join(arrays))  # type: ignore[arg-type] # arrays are buffers


def whole_segment_rows(geometry: Geometry, entry: SegmentEntry) -> np.ndarray:
    """Return the kernel's rows of a one-value segment, as if its value lay at address 0: CHUNK_ROW, one a
    table, then the sketch column's. There are no seals, for the value has one of its own."""
    counts = np.array(geometry.entry_counts(entry), dtype=np.uint64)
    ends = np.cumsum(counts * np.uint64(ENTRY_BYTES))
    rows = np.zeros(geometry.count + 1, dtype=CHUNK_ROW)
    sorted_tables, sketches = rows[:-1], rows[-1]
    sorted_tables["keys"] = ends - counts * np.uint64(ENTRY_BYTES)
    sorted_tables["numbers"] = sorted_tables["keys"] + counts * np.uint64(KEY_BYTES)
    sorted_tables["count"] = counts
    fingerprints = int(ends[-1]) + KEY_BYTES * geometry.bands * entry.num_sketches
    sketches["keys"] = ends[-1]
    sketches["fingerprints"] = fingerprints
    sketches["numbers"] = fingerprints + FINGERPRINT_BYTES * entry.num_sketches
    sketches["count"] = entry.num_sketches
    return rows


def seals_of(column: Column, count: int, value: bytes | memoryview) -> bytes:
    """Return the block seals that a chunk of so many entries ends in; they stand for all of it."""
    return bytes(value[len(value) - SEAL_BYTES * column.blocks(count) :])


def is_sealed_chunk(key: bytes, column: Column, count: int, value: bytes) -> bool:
    """Whether a chunk has the length of so many entries, and every block of it fits its seal."""
    if len(value) != column.chunk_bytes(count):
        return False
    words, fingerprints, numbers = (width * count for width in column.widths)
    arrays = memoryview(value)
    seals = _kernel.seal_blocks(
        arrays[:words],
        arrays[words + fingerprints :][:numbers] if numbers else None,
        arrays[words:][:fingerprints] if fingerprints else None,
        column.widths[0] // KEY_BYTES,
        chunk_seed(key),
    )
    return seals == seals_of(column, count, value)


class SketchChunk(NamedTuple):
    """A chunk of the sketch column, taken apart.

    Attributes:
        words, fingerprints, numbers: of each row; the last two are copies.
        seals: uint64, as they are stored, one a block.
    """

    words: np.ndarray
    fingerprints: np.ndarray
    numbers: np.ndarray
    seals: np.ndarray


def read_sketch_chunk(value: bytes | memoryview, count: int, bands: int) -> SketchChunk:
    """Take apart a chunk of so many rows, whose length fits; nothing of it is proven."""
    octets = np.frombuffer(value, dtype=np.uint8)
    ends = np.cumsum([KEY_BYTES * bands * count, FINGERPRINT_BYTES * count, NUMBER_BYTES * count])
    words, prints, numbers, seals = np.split(octets, ends)
    return SketchChunk(
        words.copy().view(np.uint64).reshape(count, bands),
        prints.copy().view(np.uint64),
        numbers.copy().view(np.uint32),
        seals.copy().view(np.uint64),
    )


def seals_of_sketches(chunk: SketchChunk, seed: int) -> np.ndarray:
    """Return the block seals that the rows of a chunk of that seed (`chunk_seed`) should have: uint64."""
    bands = chunk.words.shape[1]
    found = _kernel.seal_blocks(chunk.words, chunk.numbers, chunk.fingerprints, bands, seed)
    return np.frombuffer(found, dtype=np.uint64)
