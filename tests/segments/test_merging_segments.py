"""Merging against a sort of the live entries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored import build, crowded, damaged_segment, layouts, load, table_only

from simindex import Layout, _kernel
from simindex.errors import CorruptIndexError
from simindex.format.chunks import encode_chunk
from simindex.format.keys import segment_key
from simindex.format.layout import KEY_TABLE, Geometry
from simindex.segments.build import segment_puts
from simindex.segments.directory import Directory
from simindex.segments.load import Segment
from simindex.segments.merge import Merge


@settings(max_examples=150)
@given(layouts, st.lists(st.lists(crowded, min_size=1, max_size=40), min_size=1, max_size=5), st.data())
def test_merge_equals_a_sort_of_the_live_entries(
    layout: Layout, runs: list[list[int]], data: st.DataObject
) -> None:
    geometry, segments, entries = build(layout, runs)
    removed = data.draw(st.frozensets(st.sampled_from(sorted(entries))))
    sources = [segment.entry for segment in segments]
    loaded = {segment.entry.id: segment for segment in segments}
    merge = Merge.start(geometry, sources, 99, dict.fromkeys(removed, 3))
    values: dict[bytes, bytes] = {}
    while not merge.done:
        puts, _ = merge.advance(data.draw(st.integers(1, 200)), lambda entry: loaded[entry.id])
        values |= {key: bytes(value) for key, value in puts}
    assert merge.dead == list(removed) or set(merge.dead) == removed
    live = sorted((key, number) for number, key in entries.items() if number not in removed)
    assert merge.entry.num_keys == len(live)
    if live:
        merged = Segment(geometry, merge.entry, values.get)
        keys = np.array(sorted({key for key, _ in live}), np.uint64)
        found = list(Directory(geometry, [merged]).find_keys(KEY_TABLE, keys, 2**62))
        assert [(int(keys[place]), number) for place, number in found] == live


def test_merge_refuses_a_damaged_source() -> None:
    """A broken chunk must not be given a fresh seal by being merged."""
    geometry, entry, segment = damaged_segment(segment_key(0, KEY_TABLE, 0))
    merge = Merge.start(geometry, [entry], 1, {})
    with pytest.raises(CorruptIndexError, match="segment 0, table keys, chunk 0, block 0"):
        merge.advance(1, lambda _: segment)


CHUNK = _kernel.TABLE_BLOCK
KEYS = [n << 53 for n in range(2000)]
NUMBERS = list(range(2000))


@pytest.mark.parametrize(
    ("keys", "numbers"),
    [
        (KEYS[CHUNK - 2 :: -1] + KEYS[CHUNK - 1 :], NUMBERS),
        (KEYS[:700] + KEYS[1000:699:-1] + KEYS[1001:], NUMBERS),
        (KEYS[:CHUNK] + KEYS[2 * CHUNK : 3 * CHUNK] + KEYS[CHUNK : 2 * CHUNK] + KEYS[3 * CHUNK :], NUMBERS),
        (KEYS[:CHUNK] + [2**64 - 1] * CHUNK + KEYS[2 * CHUNK :], NUMBERS),
        ([2**64 - 1, *KEYS[1:]], NUMBERS),
        (KEYS, [*NUMBERS[:-1], 2000]),
        (KEYS, [0xFFFFFFF0, *NUMBERS[1:]]),
    ],
    ids=["first", "middle", "chunks", "behind", "start", "number", "far number"],
)
@pytest.mark.parametrize("neighbours", [0, 3])
def test_merge_of_an_index_made_to_harm_ends_in_an_error(
    keys: list[int], numbers: list[int], neighbours: int
) -> None:
    """Chunks in no order, or with numbers of no document, under right seals."""
    geometry, segments = Geometry(0, 0, Layout(2, CHUNK, 256)), []
    data = table_only(0, KEYS)
    entry, puts = segment_puts(geometry, data.entry(0), data)
    values = {key: bytes(value) for key, value in puts}
    for chunk in range(-(-len(KEYS) // CHUNK)):
        part = slice(CHUNK * chunk, CHUNK * chunk + CHUNK)
        key = segment_key(0, KEY_TABLE, chunk)
        values[key] = encode_chunk(key, np.array(keys[part], np.uint64), np.array(numbers[part], np.uint32))
    segments = [Segment(geometry, entry, values.get)]
    segments += [load(geometry, at, table_only(2000 * at, KEYS)) for at in range(1, neighbours + 1)]
    loaded = {segment.entry.id: segment for segment in segments}
    merge = Merge.start(geometry, [segment.entry for segment in segments], 99, {7: 3})
    with pytest.raises(CorruptIndexError, match="segment 0, table keys, chunk"):
        merge.advance(1 << 30, lambda entry: loaded[entry.id])
