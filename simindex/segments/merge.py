"""Merge neighbouring segments into one, in bounded steps.

Invariants: chunks of an unfinished merge lie under a segment id that no manifest names; steps depend on the
sources alone.

A merge reads its sources from one end to the other, once. Read by page faults, an index larger than memory
would read in small pieces, one wait each; and what a merge has read stays in memory in the place of what
queries need. So each source's next chunks are asked for (`SourceStreams`), and a chunk that had to be read
for the merge leaves the memory behind it. One that was there before stays: others read it, too.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter

import numpy as np

from simindex import _kernel
from simindex.errors import damaged
from simindex.format.chunks import encode_whole_segment
from simindex.format.kernel_structs import MERGE_SOURCE
from simindex.format.keys import whole_segment_key
from simindex.format.layout import FIRST_BAND_TABLE, KEY_TABLE, Geometry, SegmentEntry
from simindex.format.records import REMOVED_DOCUMENT
from simindex.segments.build import Puts, SegmentWriter, num_bytes
from simindex.segments.directory import ChunkAddresses, Directory, Segment
from simindex.storage.page_file import MappedFile

_AHEAD = 2
"""Chunks of a source that are asked for beyond the one that is read: the disk reads them while this one is
merged, and while the commit waits for what it has written."""

_MOST_ASKED = 1 << 26
"""Bytes that are asked for at once, of all sources."""

_PAGE_BYTES = 4096
"""Of LMDB's pages. The first one of a chunk is not let go: LMDB reads it when the chunk is deleted."""


class SourceStreams:
    """Reads ahead in the sources of one merge, and lets go of what was read for it; `reads_from_disk`: the
    chunk asked for last was mostly not in memory."""

    def __init__(self, num_columns: int) -> None:
        """Begin; `num_columns`: the sorted tables and the sketch column, for a merge reads nothing else."""
        self.reads_from_disk = False
        self._num_columns = num_columns
        self._segments: Sequence[Segment] = ()
        self._file: MappedFile | None = None
        self._ahead = _AHEAD
        self._asked: defaultdict[int, int] = defaultdict(int)
        """Source -> the first chunk, of all its chunks, that was not asked for yet."""
        self._brought: defaultdict[int, deque[int]] = defaultdict(deque)
        """Source -> chunks that were not in memory when they were asked for, and are not let go yet."""

    def set_sources(self, segments: Sequence[Segment], file: MappedFile | None) -> None:
        """Take the sources as they were loaded for the next steps, and the file that they are mapped from;
        where they were read up to is kept."""
        self._segments, self._file = segments, file
        a_chunk_each = sum(int(s.chunk_addresses.sizes.max(initial=0)) for s in segments if s.chunk_addresses)
        self._ahead = min(_AHEAD, max(_MOST_ASKED // max(a_chunk_each, 1) - 1, 0))

    def advance_to(self, source: int, column: int, chunk: int) -> None:
        """Let go of the pages of a source's chunks before this one that were read for the merge, and ask the
        system for the pages of this one and the next. Without effect for a source of one value."""
        chunk_addresses = self._segments[source].chunk_addresses
        if chunk_addresses is None:
            return
        at = min(int(chunk_addresses.firsts[column]) + chunk, int(chunk_addresses.firsts[column + 1]))
        brought = self._brought[source]
        while brought and brought[0] < at:
            self._let_go(chunk_addresses, brought.popleft())
        end = min(at + self._ahead + 1, int(chunk_addresses.firsts[self._num_columns]))
        for index in range(max(at, self._asked[source]), end):
            address, size = int(chunk_addresses.addresses[index]), int(chunk_addresses.sizes[index])
            missing = _kernel.missing_pages(address, size)
            self.reads_from_disk = 2 * missing * _PAGE_BYTES > size
            if missing:
                _kernel.stream_ahead(address, size)
            if self.reads_from_disk:
                brought.append(index)
        self._asked[source] = max(at, self._asked[source], end)

    def finish(self) -> None:
        """Let go of all pages still held that were read for the merge, and ask for the first page of each
        chunk, which LMDB reads when the caller deletes the sources."""
        for source, segment in enumerate(self._segments):
            if segment.chunk_addresses is not None:
                for index in self._brought[source]:
                    self._let_go(segment.chunk_addresses, index)
                _kernel.ask_for_pages(segment.chunk_addresses.addresses)

    def _let_go(self, chunk_addresses: ChunkAddresses, index: int) -> None:
        address, size = int(chunk_addresses.addresses[index]), int(chunk_addresses.sizes[index])
        second_page = (address // _PAGE_BYTES + 1) * _PAGE_BYTES
        if self._file is not None and second_page < address + size:
            self._file.let_go(second_page, address + size - second_page)


_COUNTS = {name: attrgetter(name) for name in SegmentEntry._fields if name.startswith("num_")}


class Merge:
    """One merge of neighbouring segments, step by step; `done` after the last step. `dead`: the doc ids of
    which neither document nor sketch is left. Not thread-safe."""

    def __init__(
        self, geometry: Geometry, sources: list[SegmentEntry], segment: int, removed: dict[int, int]
    ) -> None:
        """Prepare to merge `sources`, in order of doc ids, into the segment id `segment`. `removed`: REMOVED
        flags of removed doc ids, which all lie in the range of the sources."""
        base, last = sources[0].base, sources[-1].base + sources[-1].span
        marks = np.zeros((2, (last - base + 7) // 8), dtype=np.uint8)
        for doc_id, flags in removed.items():
            byte, bit = divmod(doc_id - base, 8)
            marks[0, byte] |= (flags & REMOVED_DOCUMENT) << bit
            marks[1, byte] |= (flags >> 1 & 1) << bit
        self._dead_documents, self._dead_sketches = (m if removed and m.any() else None for m in marks)
        self.dead = [doc_id for doc_id, flags in removed.items() if flags == 3]
        counts = {name: sum(map(count, sources)) for name, count in _COUNTS.items()}
        self.geometry, self.sources, self.done = geometry, sources, False
        self.entry = SegmentEntry(segment, base, last - base, **counts)
        self.source_bytes = geometry.segment_bytes(self.entry)
        self._offsets = [source.base - base for source in sources]
        are_chunked = any(source.chunked for source in sources)
        self._is_whole = not are_chunked and geometry.fits_one_value(self.entry)
        self._streams = SourceStreams(geometry.count + 1)
        self._steps = filter(None, self._run())
        self._directory: Directory

    @property
    def reads_from_disk(self) -> bool:
        """Whether the chunk that was asked for last was mostly not in memory; then what it returns need not
        stay there."""
        return self._streams.reads_from_disk

    def advance(
        self, budget: int, load: Callable[[SegmentEntry], Segment], file: MappedFile | None = None
    ) -> tuple[Puts, int]:
        """Do steps until they have made about `budget` bytes, one at least; `load` returns each source
        as it lies now. Returns (values to be stored, their bytes); after the last step, `done` is set
        and `entry` is final."""
        segments = [load(entry) for entry in self.sources]
        self._directory = Directory(self.geometry, segments)
        if self._is_whole:
            self.done = True
            puts = self._merge_whole()
            return puts, num_bytes(puts)
        self._streams.set_sources(segments, file)
        puts, spent = [], 0
        while spent < budget and not self.done:
            step = next(self._steps, None)
            if step is None:
                self._streams.finish()
            self.done = step is None
            puts += step or []
            spent += num_bytes(step or [])
        return puts, spent

    def _merge_whole(self) -> Puts:
        """Return one value, to be stored, of small sources that are one value each, and set `entry`: in one
        step, for streams would cost a few documents as much as thousands. Raises CorruptIndexError where
        tables of one kind differ in the number of live entries."""
        geometry = self.geometry
        content, counts = np.empty(self.source_bytes, np.uint8), np.empty(geometry.count + 1, np.uint64)
        dead = self._dead(KEY_TABLE), self._dead(FIRST_BAND_TABLE)
        size = self._directory.run(
            _kernel.merge_whole, self._table_sources(KEY_TABLE), FIRST_BAND_TABLE, *dead, content, counts
        )
        *of_tables, num_sketches = counts.tolist()
        self.entry = geometry.counted(self.entry, of_tables, num_sketches)
        if geometry.entry_counts(self.entry) != of_tables:
            raise damaged(
                f"segments {self.sources[0].id} to {self.sources[-1].id}: expected as many live entries in "
                f"each table of a kind, found {of_tables}",
                segment=self.sources[0].id,
            )
        key = whole_segment_key(self.entry.id)
        return [(key, encode_whole_segment(key, [content[:size]]))]

    def _dead(self, table: int) -> np.ndarray | None:
        return self._dead_documents if table < FIRST_BAND_TABLE else self._dead_sketches

    def _table_sources(self, table: int) -> np.ndarray:
        """Return a MERGE_SOURCE for each source, at the begin of a table, with what is added
        to its doc ids."""
        sources = np.zeros(len(self.sources), dtype=MERGE_SOURCE)
        sources["segment"] = np.arange(len(self.sources))
        sources["table"] = table
        sources["offset"] = self._offsets
        return sources

    def _run(self) -> Iterator[Puts]:
        """Yield the new segment's values, those of a chunk or so at a time or none; at the
        end `entry` is set."""
        writer = SegmentWriter(self.geometry, self.entry)
        for table, count in enumerate(self.geometry.entry_counts(self.entry)):
            # One value is held until all of it is there: its arrays have room for everything.
            capacity = count if writer.is_whole else min(count, self.geometry.entries_per_chunk)
            for keys, doc_ids in self._merge_table(table, count, capacity):
                yield writer.add_entries(keys, doc_ids)
            yield writer.end_table()
        count = self.entry.num_sketches
        capacity = count if writer.is_whole else min(count, self.geometry.sketches_per_chunk)
        for words, fingerprints, doc_ids in self._merge_sketches(capacity):
            yield writer.add_sketches(words, fingerprints, doc_ids)
        puts = writer.finish()
        self.entry = writer.entry
        yield puts

    def _merge_table(self, table: int, count: int, capacity: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the live (keys, doc ids) of a table of all sources, merged by key, `capacity` at a time;
        `count`: its entries, dead ones too. The next ones are written into the same arrays."""
        sources, per_chunk = self._table_sources(table), self.geometry.entries_per_chunk
        keys, doc_ids = np.empty(capacity, dtype=np.uint64), np.empty(capacity, dtype=np.uint32)
        filled, left = 0, count
        while left:
            # The kernel takes as many source entries as there is room for, and leaves out the dead.
            taken = min(left, capacity - filled)
            for source, position in enumerate(sources["position"].tolist()):
                self._streams.advance_to(source, table, position // per_chunk)
            filled += self._directory.run(
                _kernel.merge, sources, self._dead(table), keys[filled:], doc_ids[filled:]
            )
            left -= taken
            if filled == capacity:
                yield keys, doc_ids
                filled = 0
        if filled:
            yield keys[:filled], doc_ids[:filled]

    def _merge_sketches(self, capacity: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the live (words, fingerprints, doc ids) of the sketch columns of all sources, `capacity` at a
        time. The next ones are written into the same arrays."""
        words = np.empty((capacity, self.geometry.bands), dtype=np.uint64)
        fingerprints, doc_ids = np.empty(capacity, dtype=np.uint64), np.empty(capacity, dtype=np.uint32)
        filled = 0
        for source, entry in enumerate(self.sources):
            position = 0
            while position < entry.num_sketches:
                chunk = position // self.geometry.sketches_per_chunk
                self._streams.advance_to(source, self.geometry.count, chunk)
                position, copied = self._directory.run(
                    _kernel.copy_sketches,
                    source,
                    position,
                    self._offsets[source],
                    self._dead(FIRST_BAND_TABLE),
                    words[filled:],
                    doc_ids[filled:],
                    fingerprints[filled:],
                )
                filled += copied
                if filled == capacity:
                    yield words, fingerprints, doc_ids
                    filled = 0
        if filled:
            yield words[:filled], fingerprints[:filled], doc_ids[:filled]
