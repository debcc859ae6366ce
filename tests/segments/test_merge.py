"""Merging against a sort of the live entries."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from segment_cases import build, crowded, damaged_segment, layouts

from simindex.errors import CorruptIndexError
from simindex.format.keys import segment_key
from simindex.format.layout import KEY_TABLE
from simindex.segments.directory import Directory
from simindex.segments.load import Segment
from simindex.segments.merge import Merge


@settings(max_examples=150)
@given(layouts, st.lists(st.lists(crowded, min_size=1, max_size=40), min_size=1, max_size=5), st.data())
def test_merge_equals_a_sort_of_the_live_entries(layout, runs, data):
    geometry, segments, entries = build(layout, runs)
    removed = data.draw(st.frozensets(st.sampled_from(sorted(entries))))
    sources = [segment.entry for segment in segments]
    loaded = {segment.entry.id: segment for segment in segments}
    merge = Merge.start(geometry, sources, 99, dict.fromkeys(removed, 3))
    values = {}
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


def test_merge_refuses_a_damaged_source():
    """A broken chunk must not be given a fresh seal by being merged."""
    geometry, entry, segment = damaged_segment(segment_key(0, KEY_TABLE, 0))
    merge = Merge.start(geometry, [entry], 1, {})
    with pytest.raises(CorruptIndexError, match="segment 0, table keys, chunk 0, block 0"):
        merge.advance(1, lambda _: segment)
