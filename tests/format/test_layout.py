"""Where everything of a segment lies: counts, bytes and names of its tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex import Layout
from simindex.format.layout import (
    BITMAPS,
    COPY_TABLE,
    FENCES,
    FILTERS,
    FIRST_BAND_TABLE,
    KEY_TABLE,
    Chunks,
    Column,
    Geometry,
    SegmentEntry,
    filter_lines,
    filter_size,
    page_shape,
)


@pytest.mark.parametrize("bands", range(129))
def test_a_page_is_full_but_for_a_sixteenth(bands: int) -> None:
    width = 8 * bands + 12
    rows, page_bytes = page_shape((8 * bands, 8, 4))
    assert page_bytes in (4096, 8192, 16384)
    room = page_bytes - 16 - 8
    assert 0 <= room - rows * width < width
    assert room - rows * width <= room / 16
    if page_bytes > 4096:
        assert (page_bytes // 2 - 24) % width > (page_bytes // 2 - 24) / 16


@pytest.mark.parametrize(
    ("wanted", "entries"), [(1, 1), (338, 338), (339, 339), (1000, 678), (65_536, 65_427)]
)
def test_chunks_are_whole_pages_or_a_part_of_one(wanted: int, entries: int) -> None:
    geometry = Geometry(16, 0, Layout(entries_per_chunk=wanted))
    assert geometry.entries_per_chunk == entries
    assert geometry.sketches_per_chunk == 258 * 29
    assert geometry.num_fences(2 * entries + 1) == 2 * -(-entries // 339) + 1


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([(7, (8, 0, 4)), (7, (16, 8, 4)), (7, (8, 0, 0)), (FENCES, (8, 0, 0))]),
            st.integers(0, 3000),
            st.integers(1, 700),
        ),
        max_size=5,
    )
)
def test_chunks_of_columns_lie_one_after_the_other_and_all_but_the_last_are_full(
    shapes: list[tuple[tuple[int, tuple[int, int, int]], int, int]],
) -> None:
    columns = [
        Column(first + at, total, per_chunk, widths)
        for at, ((first, widths), total, per_chunk) in enumerate(shapes)
    ]
    chunks = Chunks.of(columns)
    bases = np.arange(len(chunks.sizes), dtype=np.uint64) * np.uint64(1 << 20) + np.uint64(5)
    rows = chunks.rows(bases, np.arange(len(bases), dtype=np.uint64), 77)
    expected: list[tuple[int, ...]] = []
    checked = 77
    for column in columns:
        keys, fingerprints, doc_ids = column.widths
        rows_of_page, page = page_shape(column.widths) if column.table < FENCES else (0, 0)
        for chunk, first in enumerate(range(0, column.total, column.per_chunk)):
            count, base = min(column.per_chunk, column.total - first), int(bases[len(expected)])
            behind_keys = base + keys * rows_of_page
            doc_ids_at = behind_keys + fingerprints * rows_of_page if doc_ids else 0
            seals = base + page - 16 - 8 if page else base + keys * count
            offsets = doc_ids_at, behind_keys if fingerprints else 0, seals
            where = column.table, chunk, column.chunk_bytes(count)
            assert where[2] == (
                page * column.blocks(count) - 16 if page else seals - base + 8 * -(-count // 128)
            )
            expected.append((*where, base, *offsets, checked, len(expected), count, page, page, page))
            checked += column.blocks(count)
    said = zip(chunks.tables.tolist(), chunks.numbers.tolist(), chunks.sizes.tolist(), strict=True)
    assert [(*own, *row) for own, row in zip(said, rows.tolist(), strict=True)] == expected
    assert chunks.num_blocks == checked - 77
    assert np.diff(chunks.firsts).tolist() == [column.chunks for column in columns]


@settings(max_examples=60)
@given(
    st.integers(0, 3),
    st.integers(0, 3),
    st.lists(st.integers(0, 500), min_size=5, max_size=5),
    st.none() | st.integers(0, 2000),
)
def test_bytes_of_a_segment_are_those_of_its_columns_without_seals(
    bands: int, permutations: int, counts: list[int], shingles: int | None
) -> None:
    geometry = Geometry(bands, permutations, Layout(2, 100, 3000), has_shingles=shingles is not None)
    entry = SegmentEntry._make([0, 0, 500, *counts, 1, bytes(6), shingles or 0])
    columns = geometry.columns(entry)
    fences, columns = columns[geometry.count + 1 :], columns[: geometry.count + 1]
    assert [(c.table - FENCES, c.total) for c in fences] == [
        (table, -(-count // 100)) for table, count in enumerate(geometry.entry_counts(entry)) if count
    ]
    assert geometry.segment_bytes(entry) == sum(sum(column.widths) * column.total for column in columns)


@pytest.mark.parametrize("table", range(5))
def test_segment_fits_one_value_unless_a_table_or_all_of_it_is_too_long(table: int) -> None:
    geometry = Geometry(2, 4, Layout(2, 3, 100))
    for longest, fits in (1, True), (3, table != 3), (4, False):
        counts = [longest if at == table else 0 for at in range(5)]
        assert geometry.fits_one_value(SegmentEntry._make([1, 0, 9, *counts, 0, b"", 0])) is fits


def test_table_names_tell_what_is_damaged() -> None:
    geometry = Geometry(2, 1, Layout())
    names = [geometry.name(t) for t in (KEY_TABLE, COPY_TABLE, FIRST_BAND_TABLE, 4, 5, 8, 10, 11, 15, 16, 20)]
    assert names == [
        *("keys", "copies", "band 1", "permutation 1", "sketches"),
        *("filter of band 1", "filter of permutation 1", "bitmap of keys", "bitmap of permutation 1"),
        *("fences of keys", "fences of permutation 1"),
    ]


@given(st.integers(1, 2**32 - 1))
def test_a_filter_has_ten_bits_an_entry_and_an_eighth_more_at_most(entries: int) -> None:
    """Fourteen where external keys are looked for, of which there are as many as inserts."""
    kinds = Geometry(1, 1, Layout()).filters_of(
        SegmentEntry(0, 0, entries, entries, entries, entries, entries, entries)
    )
    assert kinds[1] == kinds[2] == kinds[3] == filter_size(entries)
    for bits, size in ((14, kinds[0]), (10, kinds[1])):
        needed = -(-bits * entries // 512)
        assert needed <= filter_lines(size) <= needed * 9 / 8 + 1


@given(st.integers(0, 2**22), st.sampled_from([1, 100, 1 << 20]), st.integers(1, 64), st.integers(1, 2**20))
def test_the_bytes_of_filters_are_counted(signatures: int, chunk_bytes: int, prefix: int, span: int) -> None:
    geometry = Geometry(2, 3, Layout(2, 100, chunk_bytes), prefix)
    entry = SegmentEntry(0, 0, 2**22, span, span // 3, signatures, signatures // 2, signatures, 1)
    entry = entry._replace(filters=geometry.filters_of(entry))
    columns = geometry.columns(entry)
    assert geometry.stored_bytes([entry]) == sum(sum(column.widths) * column.total for column in columns)
    assert {column.table for column in columns if column.table >= BITMAPS} == (
        {BITMAPS + 2, BITMAPS + 3} if 0 < signatures <= 2**17 else set()
    )
    most = max(chunk_bytes // 64, -(-(2**22 * 10 // 512 * 2) // 65_535))
    assert all(column.per_chunk <= 8 * most for column in columns if FILTERS <= column.table < BITMAPS)
