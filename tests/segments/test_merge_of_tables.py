"""Merges: which chunks one by streams asks for and lets go; merging values as a whole gives the same."""

from collections import Counter
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored import crowded, load, table_only

from simindex import Layout, _kernel
from simindex.errors import CorruptIndexError
from simindex.format.layout import Geometry
from simindex.format.seals import SEAL_BYTES, seal
from simindex.segments.build import SegmentData, segment_puts
from simindex.segments.directory import ChunkAddresses, Segment
from simindex.segments.merge import Merge
from simindex.storage.page_file import MappedFile

CHUNK = 5 * 339
GEOMETRY = Geometry(0, 0, Layout(2, CHUNK, 1 << 15))
ROWS = 3 * CHUNK + 700


class Recorder:
    """The system and a mapped file, of which some chunks are in memory."""

    def __init__(self, segments: list[Segment], missing: set[int]) -> None:
        self.events: list[tuple[str, int]] = []
        self.missing = missing
        self.touched: list[int] = []
        self.sizes: dict[int, int] = {}
        self.names = {
            int(address): number
            for number, address in enumerate(a for s in segments for a in chunk_addresses(s).addresses)
        }

    def _missing(self, address: int, size: int) -> int:
        return -(-size // 4096) if self.names[address] in self.missing else 0

    def _stream(self, address: int, size: int) -> None:
        self.sizes[address] = size
        self.events.append(("ask", self.names[address]))

    def let_go(self, address: int, size: int) -> None:
        """As a MappedFile does."""
        [number] = [n for start, n in self.names.items() if start < address < start + 4097]
        [start] = [start for start, n in self.names.items() if n == number]
        assert address % 4096 == 0, "the first page stays"
        assert address + size == start + self.sizes[start]
        self.events.append(("let go", number))

    def times(self, event: str) -> Counter[int]:
        return Counter(number for kind, number in self.events if kind == event)


def chunk_addresses(segment: Segment) -> ChunkAddresses:
    assert segment.chunk_addresses is not None
    return segment.chunk_addresses


def sources() -> list[Segment]:
    """Three segments of four chunks each; chunks are numbered through all of them, fences and filters
    among them."""
    found = []
    for number in range(3):
        keys = np.sort(np.random.default_rng(number).integers(0, 2**64, ROWS, np.uint64)).tolist()
        found.append(load(GEOMETRY, number, table_only(number * ROWS, keys)))
        assert chunk_addresses(found[-1]).firsts.tolist() == [0, 4, 4, 4, 5, 6], "keys; fences; a filter"
    return found


def merged(segments: list[Segment], recorder: Recorder) -> Merge:
    loaded = {segment.entry.id: segment for segment in segments}
    merge = Merge(GEOMETRY, [segment.entry for segment in segments], 9, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_kernel, "missing_pages", recorder._missing)
        patch.setattr(_kernel, "stream_ahead", recorder._stream)
        patch.setattr(_kernel, "ask_for_pages", lambda found: recorder.touched.extend(found.tolist()))
        while not merge.done:
            recorder.events.append(("step", 0))
            merge.advance(1, lambda entry: loaded[entry.id], cast("MappedFile", recorder))
    return merge


def test_chunk_that_is_missing_is_asked_for_once_and_let_go_once() -> None:
    segments = sources()
    missing = {0, 1, 2, 3, 7, 9, 12, 14, 16, 17}  # 4 and 5, ..., 16 and 17 no merge reads
    recorder = Recorder(segments, missing)
    merge = merged(segments, recorder)
    assert recorder.times("ask") == Counter(missing - {16, 17})
    assert recorder.times("let go") == Counter(missing - {16, 17})
    for number in missing - {16, 17}:
        assert recorder.events.index(("ask", number)) < recorder.events.index(("let go", number))
    assert sorted(recorder.touched) == sorted(recorder.names)
    assert merge.entry.num_keys == 3 * ROWS


def test_chunk_is_asked_for_some_steps_before_it_is_read() -> None:
    segments = sources()
    recorder = Recorder(segments, set(range(18)))
    merged(segments, recorder)
    steps = [i for i, event in enumerate(recorder.events) if event == ("step", 0)]
    before = {number: recorder.events.index(("ask", number)) for number in (0, 1, 2, 6, 7, 8, 12, 13, 14)}
    assert all(at < steps[1] for at in before.values()), "the first chunk of each source and two more"
    assert steps[1] < recorder.events.index(("ask", 3)) < recorder.events.index(("let go", 1))


def test_no_more_than_some_bytes_are_asked_for_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = sources()
    recorder = Recorder(segments, set(range(18)))
    monkeypatch.setattr("simindex.segments.merge._MOST_ASKED", 1)
    merged(segments, recorder)
    waiting, most = 0, 0
    for kind, _ in recorder.events:
        waiting += {"ask": 1, "let go": -1}.get(kind, 0)
        most = max(most, waiting)
    assert most == len(segments)


def test_merge_says_whether_its_sources_are_read_from_disk() -> None:
    segments = sources()
    for missing, expected in (set(range(18)), True), ({0, 1}, False), (set[int](), False):
        recorder = Recorder(segments, missing)
        assert merged(segments, recorder).reads_from_disk == expected
        assert missing or set(recorder.events) == {("step", 0)}, "what is in memory is not let go"


def some_documents(geometry: Geometry, base: int, data: st.DataObject) -> SegmentData:
    """Some of them copies, some without half of a sketch; with a gap in their numbers, or without."""
    count, span = data.draw(st.integers(1, 9)), data.draw(st.integers(9, 12))
    drawn = st.lists(crowded, min_size=count, max_size=count)
    rows = np.array([data.draw(drawn) for _ in range(geometry.count)], np.uint64)
    doc_ids = np.sort(np.array(data.draw(st.permutations(range(span)))[:count], np.uint32))
    copies, signed, printed = (doc_ids[: data.draw(st.integers(0, count))] for _ in range(3))
    bands, permuted = rows[2 : 2 + geometry.bands], rows[2 + geometry.bands :]
    tables = [
        (rows[:1], doc_ids),
        (rows[1:2, : len(copies)], copies),
        (bands[:, : len(signed)], signed),
        (permuted[:, : len(printed)], printed),
    ]
    return SegmentData(base, span, tables, np.ascontiguousarray(bands.T), rows[0], doc_ids)


@settings(max_examples=100)
@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5), st.data())
def test_merge_of_values_gives_what_streams_give(
    bands: int, permutations: int, num_sources: int, data: st.DataObject
) -> None:
    geometry = Geometry(bands, permutations, Layout())
    segments = [load(geometry, at, some_documents(geometry, 12 * at, data)) for at in range(num_sources)]
    doc_ids = st.integers(0, segments[-1].entry.base + 8)
    removed = data.draw(st.dictionaries(doc_ids, st.integers(1, 3)))
    merged = []
    for is_whole in (True, False):
        merge = Merge(geometry, [segment.entry for segment in segments], 99, removed)
        assert merge._is_whole
        merge._is_whole = is_whole
        puts = []
        while not merge.done:
            puts += merge.advance(1, lambda entry: segments[entry.id])[0]
        merged.append((merge.entry, [(key, bytes(value)) for key, value in puts]))
    assert merged[0] == merged[1]


@pytest.mark.parametrize(("table", "doc_ids"), [("keys", [0, 9]), ("sketches", [0, 9]), ("sketches", [1, 0])])
def test_merge_of_values_with_numbers_of_no_document_ends_in_an_error(table: str, doc_ids: list[int]) -> None:
    geometry, keys, right = (
        Geometry(1, 0, Layout()),
        np.array([[5, 6]], np.uint64),
        np.array([0, 1], np.uint32),
    )
    wrong, none = np.array(doc_ids, np.uint32), (np.empty((0, 2), np.uint64), right)
    no_copies = np.empty((1, 0), np.uint64), right[:0]
    tables = [(keys, wrong if table == "keys" else right), no_copies, (keys, right), none]
    harmful = SegmentData(3, 3, tables, keys.T, keys[0], wrong if table == "sketches" else right)
    segments = [
        load(geometry, 0, harmful._replace(base=0, doc_ids=right, tables=[(keys, right), *tables[1:]]))
    ]
    segments.append(load(geometry, 1, harmful))
    merge = Merge(geometry, [segment.entry for segment in segments], 99, {1: 3})
    with pytest.raises(CorruptIndexError, match=f"segment 1, table {table}, chunk 0"):
        merge.advance(1, lambda entry: segments[entry.id])


def test_merge_of_values_whose_tables_differ_in_length_ends_in_an_error() -> None:
    """Two tables of one kind, of which the dead are in the first alone."""
    geometry, keys = Geometry(0, 2, Layout()), np.array([[5, 6], [7, 8]], np.uint64)
    doc_ids, none = np.array([0, 1], np.uint32), np.empty(0, np.uint32)
    tables = [(keys[:1], doc_ids), (keys[:1, :0], none), (keys[:0], doc_ids), (keys, doc_ids)]
    data = SegmentData(0, 2, tables, np.empty((2, 0), np.uint64), keys[0], doc_ids)
    entry, ((key, value),) = segment_puts(geometry, data.entry(0), data)
    changed = bytearray(value[:-SEAL_BYTES])
    doc_ids_at = 2 * 24 + 16  # of the second permutation table, behind two tables and its keys
    changed[doc_ids_at : doc_ids_at + 8] = np.array([1, 1], np.uint32).tobytes()
    segment = Segment(geometry, entry, {key: seal("segments", key, bytes(changed))}.get)
    merge = Merge(geometry, [entry], 99, {0: 3})
    with pytest.raises(CorruptIndexError, match="expected as many live entries in each table of a kind"):
        merge.advance(1, lambda _: segment)
