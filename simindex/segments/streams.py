"""Read the sources of a merge: prefetch chunk by chunk, and release pages behind.

A source is read from one end to the other: its tables, then its sketch column, which is the order of its
chunks. LMDB's map is advised as random, so a chunk that was not requested comes in pages of 4 KiB, one
wait each; and what a merge has read stays in memory in the place of what queries need. So each source's next
chunks are asked for, and a chunk that had to be read for the merge leaves the memory behind it. One that was
there before stays: others read it, too.

No result depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np

from simindex import _kernel
from simindex.segments.load import Places, Segment
from simindex.storage.pages import MappedFile

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
    """The sources of one merge, as streams of chunks.

    Attributes:
        passes: whether what was asked for last was mostly not in memory, so that what the merge writes
            should not stay there either.
    """

    def __init__(self, num_columns: int, system: System | None = None) -> None:
        """Begin to read. `num_columns`: tables and sketch column, which a merge reads; not fences, filters
        and bitmaps."""
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
