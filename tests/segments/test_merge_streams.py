"""Which chunks a merge asks for, and which it lets go."""

from collections import Counter
from typing import cast

import numpy as np
import pytest
from support.stored import load, table_only

from simindex import Layout
from simindex.format.layout import Geometry
from simindex.segments.directory import Places, Segment
from simindex.segments.merge import Merge, SourceStreams, System
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
        self.system = System(self._missing, self._stream, lambda found: self.touched.extend(found.tolist()))
        self.sizes: dict[int, int] = {}
        self.names = {
            int(address): number
            for number, address in enumerate(a for s in segments for a in places(s).addresses)
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


def places(segment: Segment) -> Places:
    assert segment.places is not None
    return segment.places


def sources() -> list[Segment]:
    """Three segments of four chunks each; chunks are numbered through all of them, fences and filters
    among them."""
    found = []
    for number in range(3):
        keys = np.sort(np.random.default_rng(number).integers(0, 2**64, ROWS, np.uint64)).tolist()
        found.append(load(GEOMETRY, number, table_only(number * ROWS, keys)))
        assert places(found[-1]).firsts.tolist() == [0, 4, 4, 4, 5, 6], "keys; fences; a filter"
    return found


def merged(segments: list[Segment], recorder: Recorder) -> Merge:
    loaded = {segment.entry.id: segment for segment in segments}
    merge = Merge.start(GEOMETRY, [segment.entry for segment in segments], 9, {})
    merge._streams = SourceStreams(GEOMETRY.count + 1, recorder.system)
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


def test_nothing_of_what_is_in_memory_is_let_go() -> None:
    segments = sources()
    recorder = Recorder(segments, set())
    assert not merged(segments, recorder).passes
    assert set(recorder.events) == {("step", 0)}


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


def test_what_the_sources_are_says_whether_the_result_passes() -> None:
    segments = sources()
    assert merged(segments, Recorder(segments, set(range(18)))).passes
    assert not merged(segments, Recorder(segments, {0, 1})).passes
