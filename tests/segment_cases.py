"""Segments of a few documents, made without an index."""

import numpy as np
from hypothesis import strategies as st
from strategies import uint64s

from simindex.errors import CorruptIndexError
from simindex.format.layout import Geometry, Layout, SegmentEntry
from simindex.segments.build import SegmentData, segment_puts
from simindex.segments.load import Segment

# Crowded keys, so that runs of equal ones and clusters come up; and uniform ones.
crowded = st.integers(0, 3) | st.integers(2**63, 2**63 + 40) | st.just(2**64 - 1) | uint64s

layouts = st.sampled_from([Layout(2, 3, 1), Layout(2, 7, 1), Layout(8, 65_536, 1 << 20)])


def table_only(base: int, keys: list[int]) -> SegmentData:
    """A segment of documents with these key hashes and no sketches."""
    numbers = np.arange(len(keys), dtype=np.uint32)
    none64, none32 = np.empty(0, np.uint64), np.empty(0, np.uint32)
    nothing = np.empty((0, 0), np.uint64)
    hashes = np.array(keys, dtype=np.uint64)
    return SegmentData(
        base, len(keys), hashes, numbers, none64, none32, nothing, none64, none32,
        np.empty(0, bool), np.empty(0, bool), nothing,
    )  # fmt: skip


def load(geometry: Geometry, segment: int, data: SegmentData) -> Segment:
    entry, puts = segment_puts(geometry, data.entry(segment), data)
    return Segment(geometry, entry, {key: bytes(value) for key, value in puts}.get)


def build(layout: Layout, runs: list[list[int]]) -> tuple[Geometry, list[Segment], dict[int, int]]:
    """(geometry, segments, {number: key}) of consecutive segments with these key hashes."""
    geometry, base = Geometry(0, 0, layout), 0
    segments: list[Segment] = []
    entries: dict[int, int] = {}
    for segment, keys in enumerate(runs):
        if keys:
            segments.append(load(geometry, segment, table_only(base, keys)))
            entries |= {base + i: key for i, key in enumerate(keys)}
            base += len(keys)
    return geometry, segments, entries


def damaged_segment(at: bytes) -> tuple[Geometry, SegmentEntry, Segment]:
    """A segment of 2,000 keys with one bit flipped in the value of a database key."""
    geometry, data = Geometry(0, 0, Layout(2, 512, 256)), table_only(0, [n << 53 for n in range(2000)])
    entry, puts = segment_puts(geometry, data.entry(0), data)
    values = {key: bytearray(value) for key, value in puts}
    values[at][20] ^= 1
    return geometry, entry, Segment(geometry, entry, {key: bytes(value) for key, value in values.items()}.get)


def place_of(error: CorruptIndexError) -> tuple[int | None, str | None, int | None, int | None, bytes | None]:
    return error.segment, error.table, error.chunk, error.block, error.key
