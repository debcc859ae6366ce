"""Merging of segments: which are to be merged, and how many bytes of that each commit does.

Invariants: only neighbours are merged, so segments stay in order of their documents' doc ids; which merges a
commit stores follows from what it writes.

Source: log-structured merge tree, O'Neil et al. 1996; tiers of equal size as in Lucene.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from simindex.format.keys import segment_prefix, table_of, whole_segment_key
from simindex.format.layout import FILTERS, MAX_SPAN, Layout, SegmentEntry
from simindex.format.meta import Manifest
from simindex.queries.scheme import Scheme
from simindex.queries.view import View
from simindex.segments.build import Puts
from simindex.segments.merge import Merge
from simindex.storage.environment import WriteTransaction

MAX_SOURCES = 4096
"""Segments that become one at once, at most; a compaction of more takes several rounds."""

_FREE_SHARE = 16

_UNBOUNDED = 1 << 20
"""Documents that may become one segment however few others there are: half a gigabyte is there twice then."""

_MOST_SHARE = 3
"""Of all documents, a third at most is merged at once. A merge of everything, which tiers of equal size come
to again and again, has the whole index in the file twice, and its space stays in the file."""

_TIERS_FOR_DEAD = 0.5
"""To spare for segments that are rewritten because most of them is removed. A large merge takes the whole
budget of each commit until it is done: with more to spare it is done sooner, and those commits are slower."""

_SPARE_TIERS = 2.0
"""To spare up to `_UNBOUNDED` documents, and down to none at twice as many. A merge waits for smaller ones,
and queries ask all of its sources until it is done: without this the first half million would wait for as
many more. A larger index may not be in memory, and its commits would feel it."""


def tiers_of(segments: Collection[SegmentEntry], factor: int) -> list[int]:
    """Return the tier of each segment: the exponent of the largest power of the factor that its number of
    documents reaches."""
    return [_tier(max(entry.num_keys, entry.num_sketches), factor) for entry in segments]


@lru_cache(maxsize=4096)
def _tier(size: int, factor: int) -> int:
    tier = 0
    while size >= factor:
        size //= factor
        tier += 1
    return tier


def _size(entry: SegmentEntry) -> int:
    return max(entry.num_keys, entry.num_sketches)


def pick_merges(
    segments: Sequence[SegmentEntry], busy: set[int], factor: int, max_span: int = MAX_SPAN
) -> list[list[SegmentEntry]]:
    """Return the runs of neighbouring segments to merge, those of small tiers first. A run has at least
    `factor` segments of one tier, with smaller ones between them, but no larger ones and none whose id is
    `busy`, at most `MAX_SOURCES` and `max_span` doc ids; `_within` may shorten it."""
    due: list[list[SegmentEntry]] = []
    taken, tiers = set(busy), tiers_of(segments, factor)
    idle = Counter(tier for entry, tier in zip(segments, tiers, strict=True) if entry.id not in busy)
    for tier in sorted(tier for tier, count in idle.items() if count >= factor):
        run: list[SegmentEntry] = []
        indices: list[int] = []
        first = tiers.index(tier)
        for entry, its_tier in [*zip(segments[first:], tiers[first:], strict=True), (None, 0)]:
            if (
                entry is not None
                and entry.id not in taken
                and its_tier <= tier
                and (not run or entry.base + entry.span - run[0].base <= max_span)
                and len(run) < MAX_SOURCES
            ):
                if its_tier == tier:
                    indices.append(len(run))
                run.append(entry)
                continue
            if len(indices) >= factor:
                part = _within(run[indices[0] : indices[-1] + 1], segments)
                if len(part) > 1:
                    due.append(part)
                    taken.update(item.id for item in part)
            run, indices = [], []
    return due


def _within(run: list[SegmentEntry], segments: Sequence[SegmentEntry]) -> list[SegmentEntry]:
    """Return the longest part of a run that may become one segment, the first of equal ones: the whole run up
    to `_UNBOUNDED` documents, else one of at most that many or a third of those in `segments`. May be
    empty."""
    if sum(map(_size, run)) <= _UNBOUNDED:
        return run
    most = max(_UNBOUNDED, sum(map(_size, segments)) // _MOST_SHARE)
    best = first = total = 0
    part: list[SegmentEntry] = []
    for last, entry in enumerate(run):
        total += _size(entry)
        while total > most:
            total -= _size(run[first])
            first += 1
        if last + 1 - first > best:
            best = last + 1 - first
            part = run[first : last + 1]
    return part


def runs_to_compact(segments: list[SegmentEntry], max_span: int = MAX_SPAN) -> list[list[SegmentEntry]]:
    """Return all segments, in order, in as few runs of neighbours as can become one segment each: of at most
    `MAX_SOURCES` segments and `max_span` doc ids. No segments, no runs."""
    runs: list[list[SegmentEntry]] = []
    for entry in segments:
        run = runs[-1] if runs else []
        if run and len(run) < MAX_SOURCES and entry.base + entry.span - run[0].base <= max_span:
            run.append(entry)
        else:
            runs.append([entry])
    return runs


def step_budget(factor: int, manifest: Manifest, written_documents: int, written_bytes: int) -> int:
    """Return how many bytes of merging a commit is to do: all it wrote, once for each tier between its size
    and the whole, with more in a small index, one with removed documents and one with many segments."""
    tiers = math.log(max(manifest.num_documents / max(written_documents, 1), 1), factor)
    tiers += _SPARE_TIERS * min(max(2 - manifest.num_documents / _UNBOUNDED, 0), 1)
    if sum([entry.num_keys for entry in manifest.segments]) > manifest.num_documents:
        tiers += _TIERS_FOR_DEAD
    backlog = len(manifest.segments) / (factor * (tiers + 1))
    return int(written_bytes * tiers * max(1.0, backlog))


def is_free(source_bytes: int, layout: Layout) -> bool:
    """Whether a merge reads so little, at most a sixteenth of a chunk, that a commit does it without a
    budget: put off, segments of single inserts would pile up."""
    return _FREE_SHARE * source_bytes <= layout.chunk_bytes


@dataclass(slots=True)
class Merged:
    """What some steps of merging come to.

    Attributes:
        dead: segment id -> removed documents that it still has entries of, after them.
        gone: ids of segments whose chunks are to be removed.
        unmarked: doc ids whose removal marks are to go, which `store` leaves: no entry of theirs is left.
        passing: keys of values that need not stay in memory: they were made of what was not there.
    """

    manifest: Manifest
    dead: dict[int, int]
    gone: list[int]
    puts: Puts = field(default_factory=list)
    unmarked: list[int] = field(default_factory=list)
    passing: list[bytes] = field(default_factory=list)

    def take(self, merge: Merge, puts: Puts) -> None:
        """Take the values of a step of a merge. One that is done replaces its sources in the manifest, by
        nothing where no document is left, and its sources are `gone`."""
        self.puts += puts
        if merge.reads_from_disk:
            self.passing += [key for key, _ in puts if table_of(key) < FILTERS]
        if not merge.done:
            return
        sources, first = {entry.id for entry in merge.sources}, merge.sources[0].id
        is_empty = not (merge.entry.num_keys or merge.entry.num_sketches)
        segments = [
            merge.entry if entry.id == first else entry
            for entry in self.manifest.segments
            if entry.id not in sources or (entry.id == first and not is_empty)
        ]
        self.manifest = self.manifest._replace(segments=tuple(segments))
        self.gone += sorted(sources) + ([merge.entry.id] if is_empty else [])
        self.unmarked += merge.dead
        # Dead in the new segment are those that were removed while it was made.
        left = sum(self.dead.pop(source, 0) for source in sources) - len(merge.dead)
        if left > 0:
            self.dead[merge.entry.id] = left

    def count_dead(self, doc_ids: Iterable[int]) -> None:
        """Add each removed document to the count in `dead` of the segment whose range of doc ids it is in;
        those in no segment do not count."""
        segments, bases = self.manifest.segments, list[int]()
        for doc_id in doc_ids:
            bases = bases or [entry.base for entry in segments]
            index = bisect_right(bases, doc_id) - 1
            if index >= 0 and doc_id < bases[index] + segments[index].span:
                segment = segments[index].id
                self.dead[segment] = self.dead.get(segment, 0) + 1

    def store(self, txn: WriteTransaction) -> None:
        """Put the values, and delete the chunks of the segments that are gone. Marks and manifest are left to
        the caller."""
        for key, value in self.puts:
            txn.put("segments", key, value)
        # No live id is ever among them; to delete one would be the end of the index.
        if self.gone:
            for segment in set(self.gone) - {entry.id for entry in self.manifest.segments}:
                if not txn.delete("segments", whole_segment_key(segment)):
                    txn.delete_prefix("segments", segment_prefix(segment))


class Merges:
    """The merges under way. What `advance` returns counts only once it is stored (`note_stored`)."""

    def __init__(
        self, scheme: Scheme, manifest: Manifest, removed: Iterable[int] = (), abandoned: Collection[int] = ()
    ) -> None:
        """Begin with what is stored: removed doc ids, and ids whose values the next commit is to remove."""
        self._tables = scheme.tables
        self._factor = scheme.tables.layout.tier_factor
        self.under_way: list[Merge] = []
        self._abandoned = list(abandoned)
        self._debt = 0
        """Bytes that larger steps than their commits' budgets have left."""
        counted = Merged(manifest, {}, [])
        counted.count_dead(removed)
        self._dead = counted.dead
        self._tiers = tiers_of(manifest.segments, self._factor)

    def note_stored(self, merged: Merged) -> None:
        """Take note that a commit has stored these steps: what `advance` begins from next time."""
        self._dead = merged.dead
        # Where none are gone, the new ones are the last.
        self._tiers = [] if merged.gone else self._tiers
        self._tiers += tiers_of(merged.manifest.segments[len(self._tiers) :], self._factor)
        self._abandoned.clear()

    def advance(
        self,
        manifest: Manifest,
        committed: Sequence[SegmentEntry],
        budget: Callable[[], int] | None,
        view: View,
    ) -> Merged:
        """Do about as many bytes of merging among `committed` segments as `budget` returns, which is called
        where any is due; ``None``: do none. Return what is to be stored, with the manifest that names it;
        merges under way that were ended here are forgotten."""
        merged, is_due = Merged(manifest, self._dead.copy(), self._abandoned.copy()), self.is_due(committed)
        if budget is None or not (is_due or self.under_way or self._debt):
            return merged
        # A step can be larger than what a commit of few documents is to do; the rest is a debt that the
        # next commits work off.
        left = budget() - self._debt
        if is_due:
            merged.manifest = self._start(manifest, {entry.id for entry in committed}, view)
        while self.under_way:
            merge = min(self.under_way, key=lambda merge: merge.source_bytes)
            if left <= 0 and not is_free(merge.source_bytes, self._tables.layout):
                break
            puts, num_bytes = merge.advance(max(left, 1), view.segment, view.directory.mapped)
            left -= num_bytes
            merged.take(merge, puts)
            if merge.done:
                self.under_way.remove(merge)
        self._debt = max(0, -left)
        return merged

    def _start(self, manifest: Manifest, committed: set[int], view: View) -> Manifest:
        """Begin the merges that are due among committed segments, of single ones that are mostly removed,
        too; return the manifest with its next segment id behind theirs."""
        busy = {entry.id for merge in self.under_way for entry in merge.sources}
        busy |= {entry.id for entry in manifest.segments} - committed
        runs = pick_merges(manifest.segments, busy, self._factor, self._tables.max_span)
        busy.update(entry.id for run in runs for entry in run)
        # A segment that is mostly dead is rewritten by itself, or old ones would keep their space for ever.
        if self._dead:
            runs += [
                [entry]
                for entry in manifest.segments
                if entry.id not in busy and 2 * self._dead.get(entry.id, 0) > entry.num_keys
            ]
        for run in runs:
            removed = view.removed_between(run[0].base, run[-1].base + run[-1].span)
            self.under_way.append(Merge(self._tables, run, manifest.next_segment, removed))
            manifest = manifest._replace(next_segment=manifest.next_segment + 1)
        return manifest

    def is_due(self, segments: Collection[SegmentEntry]) -> bool:
        """Whether a tier may have enough segments for a run, or a segment is mostly dead."""
        if self._dead and any(2 * self._dead.get(entry.id, 0) > entry.num_keys for entry in segments):
            return True
        idle = Counter(self._tiers)
        for merge in self.under_way:
            idle.subtract(tiers_of(merge.sources, self._factor))
        return max(idle.values(), default=0) >= self._factor
