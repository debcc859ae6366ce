"""The kernel's structs as NumPy dtypes: what Python lays out for C and takes back from it.

Owns the names and the order of their fields; kernel.h says what each one means. Must not hold values.
Invariant: each dtype is as long as the kernel's own struct (`_kernel.STRUCT_BYTES`, compared by a test).
All addresses are in bytes.
"""

from __future__ import annotations

import struct

import numpy as np


def _words(*names: str) -> np.dtype[np.void]:
    """Return a struct of fields of 64 bits."""
    return np.dtype([(name, np.uint64) for name in names])


CHUNK_ROW = _words("keys", "numbers", "fingerprints", "seals", "checked", "seed", "count")
TABLE_ROW = _words("chunks", "num_entries", "filter", "filter_bits", "bitmap", "bitmap_checked")
SEGMENT_ROW = _words("base", "span", "tables", "sketch_chunks", "num_sketches")
DIRECTORY = _words(
    "segments",
    "num_segments",
    "num_tables",
    "entries_per_chunk",
    "sketches_per_chunk",
    "bands",
    "filter_chunk_bits",
)
MERGE_SOURCE = _words("segment", "table", "position", "offset")

MATCH = struct.Struct("<QIHH")
"""A match: number, query, agreeing rows, distance. A Struct, for matches are taken one by one."""

NO_FIGURE = 0xFFFF
"""Stands for agreeing rows or a distance where there is nothing to compare."""
