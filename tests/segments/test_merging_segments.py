"""Merging values as a whole against merging them by streams."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored import crowded, load

from simindex import Layout
from simindex.errors import CorruptIndexError
from simindex.format.layout import Geometry
from simindex.format.seals import SEAL_BYTES, seal
from simindex.segments.build import SegmentData, segment_puts
from simindex.segments.directory import Segment
from simindex.segments.merge import Merge


def some_documents(geometry: Geometry, base: int, data: st.DataObject) -> SegmentData:
    """Some of them copies, some without half of a sketch; with a gap in their numbers, or without."""
    count, span = data.draw(st.integers(1, 9)), data.draw(st.integers(9, 12))
    drawn = st.lists(crowded, min_size=count, max_size=count)
    rows = np.array([data.draw(drawn) for _ in range(geometry.count)], np.uint64)
    numbers = np.sort(np.array(data.draw(st.permutations(range(span)))[:count], np.uint32))
    copies, signed, printed = (numbers[: data.draw(st.integers(0, count))] for _ in range(3))
    bands, permuted = rows[2 : 2 + geometry.bands], rows[2 + geometry.bands :]
    tables = [
        (rows[:1], numbers),
        (rows[1:2, : len(copies)], copies),
        (bands[:, : len(signed)], signed),
        (permuted[:, : len(printed)], printed),
    ]
    return SegmentData(base, span, tables, np.ascontiguousarray(bands.T), rows[0], numbers)


@settings(max_examples=100)
@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5), st.data())
def test_merge_of_values_gives_what_streams_give(
    bands: int, permutations: int, num_sources: int, data: st.DataObject
) -> None:
    geometry = Geometry(bands, permutations, Layout())
    segments = [load(geometry, at, some_documents(geometry, 12 * at, data)) for at in range(num_sources)]
    numbers = st.integers(0, segments[-1].entry.base + 8)
    removed = data.draw(st.dictionaries(numbers, st.integers(1, 3)))
    merged = []
    for is_whole in (True, False):
        merge = Merge.start(geometry, [segment.entry for segment in segments], 99, removed)
        assert merge._is_whole
        merge._is_whole = is_whole
        puts = []
        while not merge.done:
            puts += merge.advance(1, lambda entry: segments[entry.id])[0]
        merged.append((merge.entry, [(key, bytes(value)) for key, value in puts]))
    assert merged[0] == merged[1]


@pytest.mark.parametrize(("table", "numbers"), [("keys", [0, 9]), ("sketches", [0, 9]), ("sketches", [1, 0])])
def test_merge_of_values_with_numbers_of_no_document_ends_in_an_error(table: str, numbers: list[int]) -> None:
    geometry, keys, right = (
        Geometry(1, 0, Layout()),
        np.array([[5, 6]], np.uint64),
        np.array([0, 1], np.uint32),
    )
    wrong, none = np.array(numbers, np.uint32), (np.empty((0, 2), np.uint64), right)
    no_copies = np.empty((1, 0), np.uint64), right[:0]
    tables = [(keys, wrong if table == "keys" else right), no_copies, (keys, right), none]
    harmful = SegmentData(3, 3, tables, keys.T, keys[0], wrong if table == "sketches" else right)
    segments = [
        load(geometry, 0, harmful._replace(base=0, numbers=right, tables=[(keys, right), *tables[1:]]))
    ]
    segments.append(load(geometry, 1, harmful))
    merge = Merge.start(geometry, [segment.entry for segment in segments], 99, {1: 3})
    with pytest.raises(CorruptIndexError, match=f"segment 1, table {table}, chunk 0"):
        merge.advance(1, lambda entry: segments[entry.id])


def test_merge_of_values_whose_tables_differ_in_length_ends_in_an_error() -> None:
    """Two tables of one kind, of which the dead are in the first alone."""
    geometry, keys = Geometry(0, 2, Layout()), np.array([[5, 6], [7, 8]], np.uint64)
    numbers, none = np.array([0, 1], np.uint32), np.empty(0, np.uint32)
    tables = [(keys[:1], numbers), (keys[:1, :0], none), (keys[:0], numbers), (keys, numbers)]
    data = SegmentData(0, 2, tables, np.empty((2, 0), np.uint64), keys[0], numbers)
    entry, ((key, value),) = segment_puts(geometry, data.entry(0), data)
    changed = bytearray(value[:-SEAL_BYTES])
    numbers_at = 2 * 24 + 16  # of the second permutation table, behind two tables and its keys
    changed[numbers_at : numbers_at + 8] = np.array([1, 1], np.uint32).tobytes()
    segment = Segment(geometry, entry, {key: seal("segments", key, bytes(changed))}.get)
    merge = Merge.start(geometry, [entry], 99, {0: 3})
    with pytest.raises(CorruptIndexError, match="expected as many live entries in each table of a kind"):
        merge.advance(1, lambda _: segment)
