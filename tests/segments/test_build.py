"""Building segments against plain Python: sorting, writing, filters; keys in no order are damage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored import crowded, layouts, table_only

from simindex import Layout, _kernel
from simindex.errors import CorruptIndexError
from simindex.format.chunks import encode_words_chunk
from simindex.format.keys import segment_key
from simindex.format.layout import FILTERS, KEY_TABLE, FilterShape, Geometry, SegmentEntry, filter_size
from simindex.format.seals import SEAL_BYTES, seal
from simindex.segments.build import FilterWriter, SegmentData, SegmentWriter, segment_puts
from simindex.segments.directory import Segment


@settings(max_examples=60)
@given(layouts, st.lists(crowded, max_size=60), st.data())
def test_writer_makes_the_same_values_of_tables_that_come_in_parts(
    layout: Layout, keys: list[int], data: st.DataObject
) -> None:
    """As a merge brings them and as a commit does."""
    geometry, whole = Geometry(0, 0, layout), table_only(0, sorted(keys))
    expected_entry, expected = segment_puts(geometry, whole.entry(3), whole)
    writer, puts = SegmentWriter(geometry, whole.entry(3)), []
    hashes, doc_ids = whole.tables[KEY_TABLE]
    step = len(keys) + 1 if writer.is_whole else layout.entries_per_chunk * data.draw(st.integers(1, 4))
    for first in range(0, len(keys), step):
        part = slice(first, first + step)
        puts += writer.add_entries(hashes[0, part], doc_ids[part])
    puts += writer.end_table() + writer.end_table()
    puts += writer.add_sketches(whole.words, whole.fingerprints, whole.doc_ids) + writer.finish()
    assert (writer.entry, dict(puts)) == (expected_entry, dict(expected))
    assert writer.entry.num_keys == len(keys)


@settings(max_examples=150)
@given(
    st.sampled_from([1, 16, 64, 1 << 12]),
    st.lists(st.lists(crowded, max_size=60), max_size=5),
)
def test_a_filter_is_the_same_however_its_keys_come(chunk_bytes: int, parts: list[list[int]]) -> None:
    """What is in it is the kernel's affair; here, that each chunk gets the keys that belong to it."""
    keys = sorted(key for part in parts for key in part)
    entry = SegmentEntry(7, 0, 400, 400, 0, 0, 0, 0, chunked=1, filters=bytes([filter_size(400), *[0] * 5]))
    shape = Geometry(0, 0, Layout(2, 512, chunk_bytes)).filter_shapes(entry)[KEY_TABLE]
    assert shape.chunks * shape.lines * 512 >= 4000
    assert shape.lines == max(1, min(chunk_bytes // 64, 8))
    writer = FilterWriter(7, 3, shape)
    puts, at = [], 0
    for part in parts:
        puts += writer.add(np.array(keys[at : at + len(part)], np.uint64))
        at += len(part)
    puts += writer.finish()
    assert [key for key, _ in puts] == [segment_key(7, FILTERS + 3, chunk) for chunk in range(shape.chunks)]
    taken = 0
    for chunk, (key, value) in enumerate(puts):
        lines = np.zeros(shape.lines * 8, np.uint64)
        rest = np.array(keys[taken:], np.uint64)
        taken += _kernel.add_to_filter(rest, shape.bits, chunk, shape.chunks, lines)
        assert value == encode_words_chunk(key, lines)
    assert taken == len(keys)


def test_a_filter_of_keys_that_descend_is_refused() -> None:
    """It looked for the chunk of such a key behind the last one, without end."""
    writer = FilterWriter(7, 3, FilterShape(64, 2, 1))
    with pytest.raises(ValueError, match="keys: expected ascending ones, found 5 behind a larger one"):
        writer.add(np.array([2**63, 5], np.uint64))


@settings(max_examples=60)
@given(layouts, st.integers(0, 4), st.integers(0, 4), st.integers(1, 9), st.data())
def test_documents_are_stored_as_the_writer_stores_their_sorted_tables(
    layout: Layout, bands: int, permutations: int, count: int, data: st.DataObject
) -> None:
    """Some of them copies, some without half of a sketch, in one value and in chunks."""
    geometry = Geometry(bands, permutations, layout)
    chosen = st.lists(crowded, min_size=count, max_size=count)
    rows = np.array([data.draw(chosen) for _ in range(2 + bands + permutations)], np.uint64)
    doc_ids = np.sort(np.array(data.draw(st.permutations(range(20)))[:count], np.uint32))
    copies, signed, printed = (doc_ids[: data.draw(st.integers(0, count))] for _ in range(3))
    tables = [
        (rows[:1], doc_ids),
        (np.sort(rows[1:2, : len(copies)]), copies),
        (rows[2 : 2 + bands, : len(signed)], signed),
        (rows[2 + bands :, : len(printed)], printed),
    ]
    words = np.ascontiguousarray(rows[2 : 2 + bands].T)
    documents = SegmentData(7, int(doc_ids[-1]) + 1, tables, words, rows[0], doc_ids)
    writer, puts = SegmentWriter(geometry, documents.entry(3)), []
    for keys, some in documents.sorted_tables():
        puts += writer.add_entries(keys, some) + writer.end_table()
    puts += writer.add_sketches(words, rows[0], doc_ids) + writer.finish()
    assert segment_puts(geometry, documents.entry(3), documents) == (writer.entry, puts)
    given = [(row, doc_ids) for kind, doc_ids in tables for row in kind]
    for (keys, some), (unsorted, theirs) in zip(documents.sorted_tables(), given, strict=True):
        pairs = sorted(zip(unsorted.tolist(), theirs.tolist(), strict=True), key=lambda pair: pair[0])
        assert pairs == list(zip(keys.tolist(), some.tolist(), strict=True))


def test_segment_of_one_value_with_keys_in_no_order_is_damage_whatever_its_seal_says() -> None:
    geometry, data = Geometry(0, 0, Layout()), table_only(0, [5, 6, 7])
    entry, ((key, value),) = segment_puts(geometry, data.entry(7), data)
    keys = np.array([5, 7, 6], np.uint64).tobytes()
    harmful = seal("segments", key, keys + value[len(keys) : -SEAL_BYTES])
    with pytest.raises(CorruptIndexError, match="segment 7, table keys: expected keys in asc") as raised:
        Segment(geometry, entry, {key: harmful}.get)
    assert (raised.value.segment, raised.value.table) == (7, "keys")
