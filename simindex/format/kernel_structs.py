"""The structs that Python and the kernel exchange, as NumPy dtypes or Structs.

kernel.h says what each one means. Invariant: each is as long as the kernel's own struct
(`_kernel.STRUCT_BYTES`, compared by a test). All addresses are in bytes.
"""

from __future__ import annotations

import struct

import numpy as np

from simindex import _kernel


def _words(*names: str) -> np.dtype[np.void]:
    """Return the dtype of a struct of unsigned 64-bit fields with these names, in order."""
    return np.dtype([(name, np.uint64) for name in names])


# Laid out many at a time: arrays whose columns have names.

STRIDES = "key_stride", "doc_id_stride", "fingerprint_stride"
"""Of a chunk row: how far the arrays of a block are from those of the next one."""
CHUNK_ROW = np.dtype(
    [
        *_words("keys", "doc_ids", "fingerprints", "seals", "checked", "seed").descr,
        *[(name, np.uint32) for name in ("count", *STRIDES)],
    ]
)
_FENCES = "fences", "fence_words"
_FILTER = "filter", "filter_words", "filter_checked"
_BITMAP = "bitmap", "bitmap_words", "bitmap_checked"
_SHAPES: list[tuple[str, type]] = [
    ("filter_lines", np.uint32),
    ("filter_chunks", np.uint16),
    ("filter_bits", np.uint8),
    ("bitmap_bits", np.uint8),
]
TABLE_ROW = np.dtype([*_words("chunks", "num_entries", *_FENCES, *_FILTER, *_BITMAP).descr, *_SHAPES])
MERGE_SOURCE = _words("segment", "table", "position", "offset")
LONG_RUN = np.dtype([("prefix", np.uint64), ("ranks", np.uint32, _kernel.REPRESENTATIVES)])
PAIR_CURSOR = _words(
    *("begin", "end", "right", "left", "is_long", "prefix", "nth", "num_longs"),
    *("bounded_runs", "bounded_entries", "compared"),
)
COPY_CURSOR = _words("next", "key", "num_used")
PAIR_ROW = np.dtype([("a", np.uint32), ("b", np.uint32), ("agree", np.uint16), ("distance", np.uint16)])
HELD_DOCUMENT = np.dtype([("text", np.uint32), ("sketch", np.uint32), ("hits", np.uint32)])
SHINGLE_RUN = np.dtype([("sketch", np.uint32), ("first", np.uint32), ("end", np.uint32)])

# Laid out or taken one at a time, where a Struct costs a tenth of an array.

SEGMENT_ROW = struct.Struct("=5Q")
"""A segment: base, span, the addresses of its table rows and of its sketch column's chunk rows, sketches."""

DIRECTORY = struct.Struct("=12Q")
"""The address of the segments' rows, segments, tables; entries and sketches a chunk, sketches a block, fences
a chunk; bands; address and bytes of the map of a file, and its descriptor; the address of a count of compared
sketches."""

MATCH = struct.Struct("<QIHH")
"""A match: doc id, query, agreeing rows, distance."""

MATCHES = np.dtype(
    [("doc_id", np.uint64), ("query", np.uint32), ("agree", np.uint16), ("distance", np.uint16)]
)
"""The same, for many at a time."""


def rows_without(rows: bytes, doc_id: int) -> bytes:
    """Return packed rows of `MATCH`, each of another document, without the row of document `doc_id`; as given
    where it has none."""
    own = doc_id.to_bytes(8, "little")
    for at in range(0, len(rows), MATCH.size):
        if rows.startswith(own, at):  # mostly the first: a document is like itself
            return rows[:at] + rows[at + MATCH.size :]
    return rows


NO_VALUE = 0xFFFF
"""Stands for agreeing rows or a distance where there is nothing to compare."""
