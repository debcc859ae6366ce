"""Merge neighbouring segments into one, in bounded steps.

Invariants: chunks of an unfinished merge lie under a segment id that no manifest names; steps depend on the
sources alone.

A merge reads its sources from one end to the other, once. Read by page faults, an index larger than memory
would read in small pieces, one wait each; and what a merge has read stays in memory in the place of what
queries need. So each source's next chunks are asked for (`SourceStreams`), and a chunk that had to be read
for the merge leaves the memory behind it. One that was there before stays: others read it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple, cast

import numpy as np

from simindex import _kernel
from simindex.errors import CorruptIndexError
from simindex.format.chunks import encode_whole_segment
from simindex.format.keys import whole_segment_key
from simindex.format.layout import FIRST_BAND_TABLE, KEY_TABLE, Geometry, SegmentEntry
from simindex.format.records import REMOVED_DOCUMENT
from simindex.format.rows import MERGE_SOURCE
from simindex.segments.build import Puts, SegmentWriter, num_bytes
from simindex.segments.directory import Directory, Places, Segment
from simindex.storage.page_file import MappedFile

_AHEAD = 2
"""Chunks of a source that are asked for beyond the one that is read: the disk reads them while this one is
merged, and while the commit waits for what it has written."""

_MOST_ASKED = 1 << 26
"""Bytes that are asked for at once, of all sources."""

_PAGE_BYTES = 4096
"""Of LMDB's pages. The first one of a chunk is not let go: LMDB reads it when the chunk is deleted."""


class System(NamedTuple):
    """A call of madvise for some bytes of the map, by (address, length)."""

    missing: Callable[[int, int], int] = _kernel.missing_pages
    stream: Callable[[int, int], None] = _kernel.stream_ahead
    touch: Callable[[np.ndarray], None] = _kernel.ask_for_pages


class SourceStreams:
    """The sources of one merge, as streams of chunks; `passes` where what was asked for last was mostly not
    in memory."""

    def __init__(self, num_columns: int, system: System | None = None) -> None:
        """Begin to read tables and sketch column; not fences, filters and bitmaps."""
        self.passes = False
        self._num_columns = num_columns
        self._system = system or System()
        self._segments: Sequence[Segment] = ()
        self._file: MappedFile | None = None
        self._ahead = _AHEAD
        self._reading: dict[int, int] = {}
        """Source -> the chunk that is read, of all its chunks."""
        self._asked: dict[int, int] = {}
        """Source -> the first chunk that was not asked for yet."""
        self._brought: set[tuple[int, int]] = set()
        """(source, chunk) that were not in memory when they were asked for."""

    def follow(self, segments: Sequence[Segment], file: MappedFile | None) -> None:
        """Go on with the sources as they lie in the map now."""
        self._segments, self._file = segments, file
        a_chunk_each = sum(int(s.places.sizes.max(initial=0)) for s in segments if s.places)
        self._ahead = min(_AHEAD, max(_MOST_ASKED // max(a_chunk_each, 1) - 1, 0))

    def reach(self, source: int, column: int, chunk: int) -> None:
        """Take note that a source is read from this chunk of a column on."""
        places = self._segments[source].places
        if places is None:
            return
        at = min(int(places.firsts[column]) + chunk, int(places.firsts[column + 1]))
        before = self._reading.get(source, at)
        if before == at and source in self._reading:
            return
        self._reading[source] = at
        for number in range(before, at):
            self._let_go(source, places, number)
        first = max(at, self._asked.get(source, 0))
        behind = min(at + self._ahead + 1, int(places.firsts[self._num_columns]))
        for number in range(first, behind):
            self._ask(source, places, number)
        self._asked[source] = max(first, behind)

    def finish(self) -> None:
        """Take note that all is read, and that the sources are about to be deleted."""
        for source, number in sorted(self._brought):
            self._let_go(source, cast("Places", self._segments[source].places), number)
        for segment in self._segments:
            if segment.places is not None:
                self._system.touch(segment.places.addresses)

    def _ask(self, source: int, places: Places, number: int) -> None:
        address, size = int(places.addresses[number]), int(places.sizes[number])
        missing = self._system.missing(address, size)
        self.passes = 2 * missing * _PAGE_BYTES > size
        if missing:
            self._system.stream(address, size)
        if self.passes:
            self._brought.add((source, number))

    def _let_go(self, source: int, places: Places, number: int) -> None:
        if (source, number) in self._brought:
            self._brought.remove((source, number))
            address, size = int(places.addresses[number]), int(places.sizes[number])
            second_page = (address // _PAGE_BYTES + 1) * _PAGE_BYTES
            if self._file is not None and second_page < address + size:
                self._file.let_go(second_page, address + size - second_page)


_COUNTS = {name: attrgetter(name) for name in SegmentEntry._fields if name.startswith("num_")}


@dataclass(eq=False)
class Merge:
    """One merge of neighbouring segments, step by step; `dead` are numbers left out for good. Not thread-safe
    by itself."""

    geometry: Geometry
    sources: list[SegmentEntry]
    entry: SegmentEntry
    dead_documents: np.ndarray | None
    dead_sketches: np.ndarray | None
    dead: list[int]
    done: bool = False
    _steps: Iterator[Puts] | None = field(default=None, repr=False)
    _passes: bool = False
    _directory: Directory = field(init=False, repr=False)
    source_bytes: int = field(init=False)
    _streams: SourceStreams = field(init=False, repr=False)
    _offsets: list[int] = field(init=False, repr=False)
    _is_whole: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.source_bytes = self.geometry.segment_bytes(self.entry)
        self._streams = SourceStreams(self.geometry.count + 1)
        self._offsets = [source.base - self.entry.base for source in self.sources]
        are_chunked = any(source.chunked for source in self.sources)
        self._is_whole = not are_chunked and self.geometry.fits_one_value(self.entry)

    @property
    def passes(self) -> bool:
        """Whether its sources are mostly not in memory, and what it has returned need not stay there."""
        return self._passes

    @classmethod
    def start(
        cls,
        geometry: Geometry,
        sources: list[SegmentEntry],
        segment: int,
        removed: dict[int, int],
    ) -> Merge:
        """Prepare a merge into a segment id; `removed`: number -> REMOVED flags in the sources' range."""
        base, last = sources[0].base, sources[-1].base + sources[-1].span
        marks = np.zeros((2, (last - base + 7) // 8), dtype=np.uint8)
        for number, flags in removed.items():
            byte, bit = divmod(number - base, 8)
            marks[0, byte] |= (flags & REMOVED_DOCUMENT) << bit
            marks[1, byte] |= (flags >> 1 & 1) << bit
        counts = {name: sum(map(count, sources)) for name, count in _COUNTS.items()}
        entry = SegmentEntry(segment, base, last - base, **counts)
        dead = [number for number, flags in removed.items() if flags == 3]
        documents, sketches = (mark if removed and mark.any() else None for mark in marks)
        return cls(geometry, sources, entry, documents, sketches, dead)

    def advance(
        self, budget: int, load: Callable[[SegmentEntry], Segment], file: MappedFile | None = None
    ) -> tuple[Puts, int]:
        """Do up to about `budget` bytes of work, a step at least, on segments that `load` returns; (values,
        their bytes)."""
        if self._is_whole:
            self.done = True
            puts = self._merge_whole(Directory(self.geometry, [load(entry) for entry in self.sources]))
            return puts, num_bytes(puts)
        puts = []
        spent = 0
        is_following = False
        while spent < budget:
            if not is_following:
                self._follow(load, file)
                is_following = True
            step = self._step()
            if step is None:
                self.done = True
                break
            puts += step
            spent += num_bytes(step)
            self._passes = self._streams.passes
        return puts, spent

    def _merge_whole(self, directory: Directory) -> Puts:
        """Merge sources of one value each into one value: steps of streams would cost a few documents as much
        as thousands."""
        geometry = self.geometry
        content, counts = np.empty(self.source_bytes, np.uint8), np.empty(geometry.count + 1, np.uint64)
        dead = self._dead(KEY_TABLE), self._dead(FIRST_BAND_TABLE)
        size = directory.run(
            _kernel.merge_whole, self._table_sources(KEY_TABLE), FIRST_BAND_TABLE, *dead, content, counts
        )
        *of_tables, num_sketches = counts.tolist()
        self.entry = geometry.counted(self.entry, of_tables, num_sketches)
        if geometry.entry_counts(self.entry) != of_tables:
            raise CorruptIndexError(
                f"segments {self.sources[0].id} to {self.sources[-1].id}: expected as many live entries in "
                f"each table of a kind, found {of_tables}; restore a backup or rebuild the index",
                segment=self.sources[0].id,
            )
        key = whole_segment_key(self.entry.id)
        return [(key, encode_whole_segment(key, [content[:size]]))]

    def _follow(self, load: Callable[[SegmentEntry], Segment], file: MappedFile | None) -> None:
        """Go on with the sources as they lie in the map now."""
        segments = [load(entry) for entry in self.sources]
        self._directory = Directory(self.geometry, segments)
        self._streams.follow(segments, file)
        if self._steps is None:
            self._steps = filter(None, self._run())

    def _step(self) -> Puts | None:
        puts = next(self._steps, None) if self._steps is not None else None
        if puts is None:
            self._streams.finish()
        return puts

    def _dead(self, table: int) -> np.ndarray | None:
        return self.dead_documents if table < FIRST_BAND_TABLE else self.dead_sketches

    def _table_sources(self, table: int) -> np.ndarray:
        """Return where each source's part of a table begins: MERGE_SOURCE, one a source."""
        sources = np.zeros(len(self.sources), dtype=MERGE_SOURCE)
        sources["segment"] = np.arange(len(self.sources))
        sources["table"] = table
        sources["offset"] = self._offsets
        return sources

    def _run(self) -> Iterator[Puts]:
        """Yield the new segment's values, about a chunk at a time."""
        writer = SegmentWriter(self.geometry, self.entry)
        for table, count in enumerate(self.geometry.entry_counts(self.entry)):
            # One value is held until all of it is there: its arrays have room for everything.
            capacity = count if writer.is_whole else min(count, self.geometry.entries_per_chunk)
            for keys, numbers in self._merge_table(table, count, capacity):
                yield writer.add_entries(keys, numbers)
            yield writer.end_table()
        count = self.entry.num_sketches
        capacity = count if writer.is_whole else min(count, self.geometry.sketches_per_chunk)
        for words, fingerprints, numbers in self._merge_sketches(capacity):
            yield writer.add_sketches(words, fingerprints, numbers)
        puts = writer.finish()
        self.entry = writer.entry
        yield puts

    def _merge_table(self, table: int, count: int, capacity: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (keys, numbers) of a merged table, `capacity` at a time; the arrays are written anew for the
        next ones."""
        sources, per_chunk = self._table_sources(table), self.geometry.entries_per_chunk
        keys, numbers = np.empty(capacity, dtype=np.uint64), np.empty(capacity, dtype=np.uint32)
        filled, left = 0, count
        while left:
            # The kernel takes as many source entries as there is room for, and leaves out the dead.
            taken = min(left, capacity - filled)
            for source, position in enumerate(sources["position"].tolist()):
                self._streams.reach(source, table, position // per_chunk)
            filled += self._directory.run(
                _kernel.merge, sources, self._dead(table), keys[filled:], numbers[filled:]
            )
            left -= taken
            if filled == capacity:
                yield keys, numbers
                filled = 0
        if filled:
            yield keys[:filled], numbers[:filled]

    def _merge_sketches(self, capacity: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (words, fingerprints, numbers) of the merged sketch column in parts of `capacity`."""
        words = np.empty((capacity, self.geometry.bands), dtype=np.uint64)
        fingerprints, numbers = np.empty(capacity, dtype=np.uint64), np.empty(capacity, dtype=np.uint32)
        filled = 0
        for source, entry in enumerate(self.sources):
            position = 0
            while position < entry.num_sketches:
                chunk = position // self.geometry.sketches_per_chunk
                self._streams.reach(source, self.geometry.count, chunk)
                position, copied = self._directory.run(
                    _kernel.copy_sketches,
                    source,
                    position,
                    self._offsets[source],
                    self._dead(FIRST_BAND_TABLE),
                    words[filled:],
                    numbers[filled:],
                    fingerprints[filled:],
                )
                filled += copied
                if filled == capacity:
                    yield words, fingerprints, numbers
                    filled = 0
        if filled:
            yield words[:filled], fingerprints[:filled], numbers[:filled]
