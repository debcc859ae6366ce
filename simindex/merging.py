"""Merging: which segments become one, and the merge itself in bounded steps.

Owns the merge policy and the generator that joins neighbouring segments. Must not open transactions:
a step returns what is to be stored, so that a commit which has to be replayed stays a pure function.
Invariants: only neighbours are merged, so segments stay in order of their documents' numbers; chunks
of an unfinished merge lie under a segment id that no manifest names.

Source: log-structured merge tree, O'Neil et al. 1996; tiers of equal size as in Lucene.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from simindex import _kernel
from simindex.format import (
    FIRST_BAND_TABLE,
    REMOVED_DOCUMENT,
    WHOLE_SEGMENT,
    Manifest,
    Shape,
    Tables,
    encode_chunk,
    encode_sketch_chunk,
    encode_whole_segment,
    segment_key,
)
from simindex.tables import Directory, FilterWriter, Puts, Segment, num_bytes

MAX_SPAN = 2**32 - 1
"""Relative numbers have 32 bits."""

MAX_SOURCES = 4096
"""So many segments are merged at once, at most."""

_FREE_SHARE = 16


def tier_of(shape: Shape, factor: int) -> int:
    """Return the tier of a segment: the power of the factor that its size reaches."""
    return _tier(shape.num_keys if shape.num_keys > shape.num_sketches else shape.num_sketches, factor)


@lru_cache(maxsize=4096)
def _tier(size: int, factor: int) -> int:
    tier = 0
    while size >= factor:
        size //= factor
        tier += 1
    return tier


def pick_merges(shapes: list[Shape], busy: set[int], factor: int) -> list[list[Shape]]:
    """Return runs of neighbouring segments that are due to be merged, smallest tier first.

    A run is due when it has `factor` segments of one tier, with none of a higher tier between them;
    smaller ones that lie between are taken along. Segments in `busy` are being merged already and
    part the runs.
    """
    due: list[list[Shape]] = []
    taken = set(busy)
    tiers = {shape.id: tier_of(shape, factor) for shape in shapes}
    idle = [tier for segment, tier in tiers.items() if segment not in taken]
    for tier in [tier for tier in sorted(set(idle)) if idle.count(tier) >= factor]:
        run: list[Shape] = []
        for shape in [*shapes, None]:
            if (
                shape is not None
                and shape.id not in taken
                and tiers[shape.id] <= tier
                and (not run or shape.base + shape.span - run[0].base <= MAX_SPAN)
                and len(run) < MAX_SOURCES
            ):
                run.append(shape)
                continue
            places = [i for i, item in enumerate(run) if tiers[item.id] == tier]
            if len(places) >= factor:
                due.append(run[places[0] : places[-1] + 1])
                taken.update(item.id for item in due[-1])
            run = []
    return due


def step_budget(factor: int, manifest: Manifest, written_documents: int, written_bytes: int) -> int:
    """Return how many bytes of merging a commit is to do: in proportion to what it wrote.

    Every byte is rewritten once a tier, so a commit's share is the number of tiers that stand between
    its own size and the whole; two more let a backlog shrink.
    """
    tiers = math.log(max(manifest.num_documents / max(written_documents, 1), 1), factor) + 2
    backlog = len(manifest.segments) / (factor * (tiers + 1))
    return int(written_bytes * tiers * max(1.0, backlog))


def is_free(merge: Merge) -> bool:
    """Whether a merge costs a commit hardly anything: less than a sixteenth of a chunk.

    Such a merge is never put off, or the segments of single inserts would pile up.
    """
    return _FREE_SHARE * merge.source_bytes <= merge.tables.layout.chunk_bytes


@dataclass(eq=False)
class Merge:
    """One merge of neighbouring segments, advanced step by step.

    Attributes:
        sources: the segments that it replaces, oldest first.
        shape: of the new segment; counts are known when it is done.
        source_bytes: bytes of the segments that are merged.
        done: True when all its values have been returned.
        dead: numbers left out for good, whose removal marks may go.
    """

    tables: Tables
    sources: list[Shape]
    shape: Shape
    dead_documents: np.ndarray
    dead_sketches: np.ndarray
    dead: list[int]
    done: bool = False
    _steps: Iterator[tuple[Puts, int]] | None = field(default=None, repr=False)
    _directory: Directory = field(init=False, repr=False)
    source_bytes: int = field(init=False)
    _offsets: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.source_bytes = sum(map(self.tables.segment_bytes, self.sources))
        self._offsets = [source.base - self.shape.base for source in self.sources]

    @classmethod
    def start(
        cls,
        tables: Tables,
        sources: list[Shape],
        segment: int,
        removed: dict[int, int],
    ) -> Merge:
        """Prepare a merge into segment id `segment`.

        Args:
            removed: number -> REMOVED flags of the numbers that are gone in the sources' range.
        """
        base, last = sources[0].base, sources[-1].base + sources[-1].span
        marks = np.zeros((2, (last - base + 7) // 8), dtype=np.uint8)
        for number, flags in removed.items():
            byte, bit = divmod(number - base, 8)
            marks[0, byte] |= (flags & REMOVED_DOCUMENT) << bit
            marks[1, byte] |= (flags >> 1 & 1) << bit
        shape = Shape(segment, base, last - base, 0, 0, 0, 0, 0)
        dead = [number for number, flags in removed.items() if flags == 3]
        return cls(tables, sources, shape, marks[0], marks[1], dead)

    def advance(self, budget: int, load: Callable[[Shape], Segment]) -> tuple[Puts, int]:
        """Do up to about `budget` bytes of work, at least one step.

        Args:
            load: returns a live segment whose addresses are valid during this call.

        Returns:
            Values to store, and how many bytes they have.
        """
        self._directory = Directory(self.tables, [load(shape) for shape in self.sources])
        if self._steps is None:
            self._steps = self._whole() if self.tables.fit_one_value(self.sources) else self._chunked()
        puts: Puts = []
        spent = 0
        while spent < budget:
            step = next(self._steps, None)
            if step is None:
                self.done = True
                break
            puts += step[0]
            spent += step[1]
        return puts, spent

    def _dead(self, table: int) -> np.ndarray | None:
        marks = self.dead_documents if table < FIRST_BAND_TABLE else self.dead_sketches
        return marks if marks.any() else None

    def _table_sources(self, table: int) -> np.ndarray:
        """Return where each source's part of a table begins, as the kernel takes it: see merge_source."""
        sources = np.zeros((len(self.sources), 4), dtype=np.uint64)
        sources[:, 0] = np.arange(len(self.sources))
        sources[:, 1] = table
        sources[:, 3] = self._offsets
        return sources

    def _merge_into(self, sources: np.ndarray, table: int, keys: np.ndarray, numbers: np.ndarray) -> int:
        """Merge the next entries of a table into keys and numbers; returns how many were written."""
        return self._directory.run(_kernel.merge, sources, self._dead(table), keys, numbers)

    def _merge_table(self, table: int, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (keys, numbers) of a merged table of `count` source entries, chunk by chunk."""
        capacity = self.tables.layout.entries_per_chunk
        sources = self._table_sources(table)
        keys, numbers = np.empty(capacity, dtype=np.uint64), np.empty(capacity, dtype=np.uint32)
        filled = 0
        while int(sources[:, 2].sum()) < count:
            filled += self._merge_into(sources, table, keys[filled:], numbers[filled:])
            if filled == capacity:
                yield keys, numbers
                filled = 0
        if filled:
            yield keys[:filled], numbers[:filled]

    def _merge_sketches(self, capacity: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (words, fingerprints, numbers) of the merged sketch column in chunks of `capacity`."""
        words = np.empty((capacity, self.tables.bands), dtype=np.uint64)
        fingerprints, numbers = np.empty(capacity, dtype=np.uint64), np.empty(capacity, dtype=np.uint32)
        filled = 0
        for source, shape in enumerate(self.sources):
            position = 0
            while position < shape.num_sketches:
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

    def _counted(self, counts: list[int], num_sketches: int) -> Shape:
        """Return the shape with so many entries in each table."""
        tables = self.tables
        return self.shape._replace(
            num_keys=counts[0],
            num_copies=counts[1],
            num_signatures=counts[FIRST_BAND_TABLE] if tables.bands else 0,
            num_fingerprints=counts[tables.first_permutation] if tables.permutations else 0,
            num_sketches=num_sketches,
        )

    def _source_counts(self) -> list[int]:
        """Return how many entries the sources have in each table together."""
        counts = zip(*(self.tables.entry_counts(shape) for shape in self.sources), strict=True)
        return [sum(own) for own in counts]

    def _whole(self) -> Iterator[tuple[Puts, int]]:
        tables = self.tables
        merged = []
        for table, count in enumerate(self._source_counts()):
            keys, numbers = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.uint32)
            written = self._merge_into(self._table_sources(table), table, keys, numbers) if count else 0
            merged.append((keys[:written], numbers[:written]))
        total = max(1, sum(shape.num_sketches for shape in self.sources))
        column = next(self._merge_sketches(total), None)
        if column is None:
            column = (
                np.empty((0, tables.bands), dtype=np.uint64),
                np.empty(0, dtype=np.uint64),
                np.empty(0, dtype=np.uint32),
            )
        self.shape = self._counted([len(keys) for keys, _ in merged], len(column[2]))
        key = segment_key(self.shape.id, WHOLE_SEGMENT, 0)
        value = encode_whole_segment(key, merged, *column)
        yield [(key, value)], len(value)

    def _chunked(self) -> Iterator[tuple[Puts, int]]:
        tables, segment = self.tables, self.shape.id
        counts = []
        source_counts = self._source_counts()
        # Sized for all entries of the sources: how many are dead is known only when they are merged.
        filters = tables.filters_of(self._counted(source_counts, 0))
        self.shape = self.shape._replace(chunked=1, filters=filters)
        for table, bits in enumerate(tables.filter_bits(self.shape)):
            count = 0
            filter_writer = FilterWriter(tables, segment, table, bits) if bits else None
            for chunk, (keys, numbers) in enumerate(self._merge_table(table, source_counts[table])):
                count += len(keys)
                key = segment_key(segment, table, chunk)
                puts = [(key, encode_chunk(key, keys, numbers))]
                if filter_writer:
                    puts += filter_writer.add(keys)
                yield puts, num_bytes(puts)
            if filter_writer:
                puts = filter_writer.finish()
                yield puts, num_bytes(puts)
            counts.append(count)
        num_sketches = 0
        for chunk, (words, fingerprints, numbers) in enumerate(
            self._merge_sketches(tables.sketches_per_chunk)
        ):
            num_sketches += len(numbers)
            key = segment_key(segment, tables.count, chunk)
            value = encode_sketch_chunk(key, words, fingerprints, numbers)
            yield [(key, value)], len(value)
        self.shape = self._counted(counts, num_sketches)
