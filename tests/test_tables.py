"""Sorted tables: building, prefix search and merging against plain Python over sorted lists."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import uint64s

from simindex import _kernel
from simindex.errors import CorruptIndexError
from simindex.format.keys import segment_key
from simindex.format.layout import (
    COPY_TABLE,
    FILTERS,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    Geometry,
    Layout,
    SegmentEntry,
)
from simindex.segments.build import FilterWriter, SegmentData, SegmentWriter, segment_puts
from simindex.segments.directory import Directory
from simindex.segments.load import Segment
from simindex.segments.merge import Merge
from simindex.segments.merge_policy import pick_merges, tier_of

# Crowded keys, so that runs of equal ones and clusters come up; and uniform ones.
crowded = st.integers(0, 3) | st.integers(2**63, 2**63 + 40) | st.just(2**64 - 1) | uint64s
layouts = st.sampled_from([Layout(2, 3, 1), Layout(2, 7, 1), Layout(8, 65_536, 1 << 20)])


def table_only(base, keys):
    """A segment of documents with these key hashes and no sketches."""
    numbers = np.arange(len(keys), dtype=np.uint32)
    none64, none32 = np.empty(0, np.uint64), np.empty(0, np.uint32)
    nothing = np.empty((0, 0), np.uint64)
    hashes = np.array(keys, dtype=np.uint64)
    return SegmentData(
        base, len(keys), hashes, numbers, none64, none32, nothing, none64, none32,
        np.empty(0, bool), np.empty(0, bool), nothing,
    )  # fmt: skip


def load(geometry, segment, data):
    entry, puts = segment_puts(geometry, data.entry(segment), data)
    return Segment(geometry, entry, {key: bytes(value) for key, value in puts}.get)


def build(layout, runs):
    """(geometry, segments, {number: key}) of consecutive segments with these key hashes."""
    geometry, segments, entries, base = Geometry(0, 0, layout), [], {}, 0
    for segment, keys in enumerate(runs):
        if keys:
            segments.append(load(geometry, segment, table_only(base, keys)))
            entries |= {base + i: key for i, key in enumerate(keys)}
            base += len(keys)
    return geometry, segments, entries


@settings(max_examples=150)
@given(layouts, st.lists(st.lists(crowded, max_size=90), max_size=4), st.lists(crowded, max_size=8))
def test_find_keys_equals_a_plain_search(layout, runs, wanted):
    geometry, segments, entries = build(layout, runs)
    wanted += [runs[0][0]] if runs and runs[0] else []
    found = Directory(geometry, segments).find_keys(KEY_TABLE, np.array(wanted, np.uint64), 2**62)
    expected = [(place, n) for place, key in enumerate(wanted) for n, own in entries.items() if own == key]
    assert sorted(found) == sorted(expected)


@settings(max_examples=60)
@given(st.lists(uint64s, min_size=1, max_size=3000), st.integers(1, 3000))
def test_find_keys_takes_no_more_than_asked(keys, most):
    geometry, segments, _ = build(Layout(), [[5] * len(keys)])
    found = list(Directory(geometry, segments).find_keys(KEY_TABLE, np.array([5], np.uint64), most))
    assert [number for _, number in found] == list(range(min(most, len(keys))))


@settings(max_examples=60)
@given(st.lists(crowded, max_size=400), st.integers(1, 3))
def test_sort_tables_equals_a_stable_sort(keys, tables):
    count = len(keys) // tables
    rows = np.array(keys[: count * tables], np.uint64).reshape(tables, count)
    out, places = np.empty_like(rows), np.empty(rows.shape, np.uint32)
    if count:
        _kernel.sort_tables(rows, count, out, places)
    assert places.tolist() == np.argsort(rows, axis=1, kind="stable").tolist()
    assert out.tolist() == np.sort(rows, axis=1).tolist()


def test_sort_tables_of_a_crowded_prefix_equals_a_stable_sort():
    random = np.random.default_rng(1)
    rows = random.integers(0, 2**20, (2, 50_000), dtype=np.uint64)
    out, places = np.empty_like(rows), np.empty(rows.shape, np.uint32)
    _kernel.sort_tables(rows, 50_000, out, places)
    assert np.array_equal(places, np.argsort(rows, axis=1, kind="stable"))


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


def damaged_segment(at):
    """A segment of 2,000 keys with one bit flipped in the value of a database key."""
    geometry, data = Geometry(0, 0, Layout(2, 512, 256)), table_only(0, [n << 53 for n in range(2000)])
    entry, puts = segment_puts(geometry, data.entry(0), data)
    values = {key: bytearray(value) for key, value in puts}
    values[at][100] ^= 1
    return geometry, entry, Segment(geometry, entry, {key: bytes(value) for key, value in values.items()}.get)


def test_merge_refuses_a_damaged_source():
    """A broken chunk must not be given a fresh seal by being merged."""
    geometry, entry, segment = damaged_segment(segment_key(0, KEY_TABLE, 0))
    merge = Merge.start(geometry, [entry], 1, {})
    with pytest.raises(CorruptIndexError, match="segment 0, table keys, chunk 0, block 0"):
        merge.advance(1, lambda _: segment)


def place_of(error):
    return error.segment, error.table, error.chunk, error.block, error.key


@pytest.mark.parametrize("chunk", [0, 1, 3])
def test_damage_in_a_chunk_names_its_place(chunk):
    """What repairs an index goes by attributes, not by the text of a message."""
    geometry, _, segment = damaged_segment(segment_key(0, KEY_TABLE, chunk))
    with pytest.raises(CorruptIndexError) as raised:
        list(Directory(geometry, [segment]).find_keys(KEY_TABLE, np.array([512 * chunk << 53], np.uint64), 1))
    assert place_of(raised.value) == (0, "keys", chunk, 0, None)


@pytest.mark.parametrize("changed", [None, b"", b"other bytes"])
def test_value_of_another_length_names_its_segment_and_key(changed):
    geometry, data = Geometry(0, 0, Layout(2, 512, 256)), table_only(0, [n << 53 for n in range(2000)])
    entry, puts = segment_puts(geometry, data.entry(7), data)
    at = segment_key(7, KEY_TABLE, 2)
    with pytest.raises(CorruptIndexError, match=f"segment 7, entry {at.hex()}: expected") as raised:
        Segment(geometry, entry, (dict(puts) | {at: changed}).get)
    assert place_of(raised.value) == (7, None, None, None, at)


def test_damaged_segment_of_one_value_names_its_key():
    geometry, data = Geometry(0, 0, Layout()), table_only(0, [5, 6, 7])
    entry, ((key, value),) = segment_puts(geometry, data.entry(7), data)
    with pytest.raises(CorruptIndexError, match="segment 7: expected a value that fits its seal") as raised:
        Segment(geometry, entry, {key: bytes(len(value))}.get)
    assert place_of(raised.value) == (7, None, None, None, key)


@settings(max_examples=60)
@given(layouts, st.lists(crowded, max_size=60), st.data())
def test_writer_makes_the_same_values_of_tables_that_come_in_parts(layout, keys, data):
    """As a merge brings them and as a commit does."""
    geometry, whole = Geometry(0, 0, layout), table_only(0, sorted(keys))
    expected_entry, expected = segment_puts(geometry, whole.entry(3), whole)
    writer, puts = SegmentWriter(geometry, whole.entry(3)), []
    step = len(keys) + 1 if writer.is_whole else layout.entries_per_chunk * data.draw(st.integers(1, 4))
    for first in range(0, len(keys), step):
        part = slice(first, first + step)
        puts += writer.add_entries(whole.key_hashes[part], whole.key_numbers[part])
    puts += writer.end_table() + writer.end_table()
    puts += writer.add_sketches(whole.words, whole.fingerprints, whole.numbers) + writer.finish()
    assert (writer.entry, dict(puts)) == (expected_entry, dict(expected))
    assert writer.entry.num_keys == len(keys)


def test_a_damaged_filter_is_an_error():
    """What a filter denies nobody looks at again, so it must not deny by damage."""
    geometry, _, segment = damaged_segment(segment_key(0, FILTERS + KEY_TABLE, 1))
    keys = np.array([n << 53 for n in range(2000)], np.uint64)
    with pytest.raises(CorruptIndexError, match="segment 0, table filter of keys, chunk 1, block 0"):
        list(Directory(geometry, [segment]).find_keys(KEY_TABLE, keys + np.uint64(1), 1))


@settings(max_examples=150)
@given(
    st.sampled_from([1, 16, 64, 1 << 12]),
    st.integers(6, 14),
    st.lists(st.lists(crowded, max_size=60), max_size=5),
)
def test_a_filter_has_a_bit_for_each_prefix_that_is_there(chunk_bytes, bits, parts):
    keys = sorted(key for part in parts for key in part)
    writer = FilterWriter(Geometry(0, 0, Layout(2, 512, chunk_bytes)), 7, 3, bits)
    puts, at = [], 0
    for part in parts:
        puts += writer.add(np.array(keys[at : at + len(part)], np.uint64))
        at += len(part)
    puts += writer.finish()
    chunk_bits = min(max(64, 8 * chunk_bytes), 1 << bits)
    assert [key for key, _ in puts] == [
        segment_key(7, FILTERS + 3, chunk) for chunk in range((1 << bits) // chunk_bits)
    ]
    bitmap = b"".join(value[: chunk_bits // 8] for _, value in puts)
    places = {byte * 8 + bit for byte in range(len(bitmap)) for bit in range(8) if bitmap[byte] >> bit & 1}
    assert places == {key >> 64 - bits for key in keys}


def entries_of(*sizes):
    base, stored = 0, []
    for segment, size in enumerate(sizes):
        stored.append(SegmentEntry(segment, base, size, size, 0, size, size, size))
        base += size
    return stored


@pytest.mark.parametrize(("size", "tier"), [(0, 0), (1, 0), (7, 0), (8, 1), (63, 1), (64, 2), (4096, 4)])
def test_tier_is_the_power_that_the_size_reaches(size, tier):
    assert tier_of(SegmentEntry(0, 0, size, size, 0, 0, 0, 0), 8) == tier


def test_pick_merges_takes_neighbours_of_one_tier():
    merged = pick_merges(entries_of(64, *[1] * 9), set(), 8)
    assert [[entry.id for entry in run] for run in merged] == [list(range(1, 10))]


def test_pick_merges_takes_smaller_ones_between():
    merged = pick_merges(entries_of(*[64, 1] * 8), set(), 8)
    assert [[entry.id for entry in run] for run in merged] == [list(range(15))]


def test_pick_merges_leaves_out_busy_and_few():
    assert pick_merges(entries_of(*[1] * 7), set(), 8) == []
    assert pick_merges(entries_of(*[1] * 12), {5}, 8) == []


@settings(max_examples=30)
@given(st.integers(2, 9), st.lists(st.sampled_from([1, 1, 1, 3, 20, 500]), min_size=1, max_size=300))
def test_pick_merges_keeps_the_number_of_segments_small(factor, sizes):
    """Merged at once whenever due, segments stay within factor a tier, whatever the sizes of commits."""
    stored, base = [], 0
    for segment, size in enumerate(sizes):
        stored.append(SegmentEntry(segment, base, size, size, 0, 0, 0, 0))
        base += size
        while due := pick_merges(stored, set(), factor):
            run = due[0]
            total = sum(entry.num_keys for entry in run)
            joined = run[0]._replace(span=total, num_keys=total)
            at = stored.index(run[0])
            stored[at : at + len(run)] = [joined]
    tiers = max(tier_of(entry, factor) for entry in stored) + 1
    assert len(stored) <= (factor - 1) * tiers * tiers + factor


def test_table_names_tell_what_is_damaged():
    geometry = Geometry(2, 1, Layout())
    names = [geometry.name(t) for t in (KEY_TABLE, COPY_TABLE, FIRST_BAND_TABLE, 4, 5, 8)]
    assert names == ["keys", "copies", "band 1", "permutation 1", "sketches", "filter of band 1"]
