"""Where everything of a segment lies: counts, bytes and names of its tables."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex.format.layout import (
    COPY_TABLE,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    Column,
    Geometry,
    Layout,
    SegmentEntry,
)


@settings(max_examples=60)
@given(st.integers(0, 3000), st.integers(1, 700), st.sampled_from([(8, 0, 4), (16, 8, 4), (8, 0, 0)]))
def test_chunks_of_a_column_hold_all_of_it_and_all_but_the_last_are_full(
    total: int, per_chunk: int, widths: tuple[int, int, int]
) -> None:
    column = Column(2, total, per_chunk, widths)
    counts = column.counts()
    assert (sum(counts), len(counts)) == (total, column.chunks)
    assert set(counts[:-1]) <= {per_chunk}
    assert all(0 < count <= per_chunk for count in counts)
    assert column.all_blocks >= sum(map(column.blocks, counts))


@settings(max_examples=60)
@given(st.integers(0, 3), st.integers(0, 3), st.lists(st.integers(0, 500), min_size=5, max_size=5))
def test_bytes_of_a_segment_are_those_of_its_columns_without_seals(
    bands: int, permutations: int, counts: list[int]
) -> None:
    geometry = Geometry(bands, permutations, Layout(2, 100, 3000))
    entry = SegmentEntry._make([0, 0, 500, *counts, 1, bytes(4)])
    columns = geometry.columns(entry)
    assert len(columns) == geometry.count + 1
    assert geometry.segment_bytes(entry) == sum(sum(column.widths) * column.total for column in columns)


@pytest.mark.parametrize(
    ("num_keys", "num_sketches", "fits"), [(40, 40, True), (101, 0, False), (40, 100, False)]
)
def test_small_segments_fit_one_value(num_keys: int, num_sketches: int, fits: bool) -> None:
    geometry = Geometry(2, 0, Layout(2, 100, 3000))
    assert geometry.fits_one_value(SegmentEntry(0, 0, 200, num_keys, 0, 40, 0, num_sketches)) == fits


def test_table_names_tell_what_is_damaged() -> None:
    geometry = Geometry(2, 1, Layout())
    names = [geometry.name(t) for t in (KEY_TABLE, COPY_TABLE, FIRST_BAND_TABLE, 4, 5, 8)]
    assert names == ["keys", "copies", "band 1", "permutation 1", "sketches", "filter of band 1"]
