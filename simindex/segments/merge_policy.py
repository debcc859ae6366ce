"""Merge policy: which segments to merge, and how many bytes a commit merges.

Invariant: only neighbours are merged, so segments stay in order of their documents' numbers.

Source: log-structured merge tree, O'Neil et al. 1996; tiers of equal size as in Lucene.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import lru_cache

from simindex.format.layout import MAX_SPAN, Layout, SegmentEntry
from simindex.format.manifest import Manifest

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


def tier_of(entry: SegmentEntry, factor: int) -> int:
    """Return the tier of a segment: the power of the factor that its size reaches."""
    return _tier(_size(entry), factor)


def _size(entry: SegmentEntry) -> int:
    return entry.num_keys if entry.num_keys > entry.num_sketches else entry.num_sketches


@lru_cache(maxsize=4096)
def _tier(size: int, factor: int) -> int:
    tier = 0
    while size >= factor:
        size //= factor
        tier += 1
    return tier


def due_tiers(segments: Collection[SegmentEntry], busy: set[int], factor: int) -> list[int]:
    """Return the tiers that have `factor` segments which are not `busy`, the smallest first."""
    if len(segments) < factor:
        return []
    tiers = [tier_of(entry, factor) for entry in segments if entry.id not in busy]
    return [tier for tier in sorted(set(tiers)) if tiers.count(tier) >= factor]


def pick_merges(segments: list[SegmentEntry], busy: set[int], factor: int) -> list[list[SegmentEntry]]:
    """Return runs of neighbouring segments that are due to be merged, smallest tier first.

    A run is due when it has `factor` segments of one tier, with none of a higher tier between them;
    smaller ones that lie between are taken along. Segments in `busy` are being merged already and
    part the runs. Of a run that is too large beside the whole, as many neighbours are due as are not.
    """
    most = max(_UNBOUNDED, sum(map(_size, segments)) // _MOST_SHARE)
    due: list[list[SegmentEntry]] = []
    taken = set(busy)
    tiers = {entry.id: tier_of(entry, factor) for entry in segments}
    for tier in due_tiers(segments, busy, factor):
        run: list[SegmentEntry] = []
        for entry in [*segments, None]:
            if (
                entry is not None
                and entry.id not in taken
                and tiers[entry.id] <= tier
                and (not run or entry.base + entry.span - run[0].base <= MAX_SPAN)
                and len(run) < MAX_SOURCES
            ):
                run.append(entry)
                continue
            places = [i for i, item in enumerate(run) if tiers[item.id] == tier]
            if len(places) >= factor:
                part = _within(run[places[0] : places[-1] + 1], most)
                if len(part) > 1:
                    due.append(part)
                    taken.update(item.id for item in part)
            run = []
    return due


def _within(run: list[SegmentEntry], most: int) -> list[SegmentEntry]:
    """Return the most neighbours of a run that have so many documents together, or fewer; the first such."""
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


def runs_to_compact(segments: list[SegmentEntry]) -> list[list[SegmentEntry]]:
    """Return all segments in as few runs of neighbours as can become one each."""
    runs: list[list[SegmentEntry]] = []
    for entry in segments:
        run = runs[-1] if runs else []
        if run and len(run) < MAX_SOURCES and entry.base + entry.span - run[0].base <= MAX_SPAN:
            run.append(entry)
        else:
            runs.append([entry])
    return runs


def step_budget(factor: int, manifest: Manifest, written_documents: int, written_bytes: int) -> int:
    """Return how many bytes of merging a commit is to do: in proportion to what it wrote.

    Every byte is rewritten once a tier, so a commit's share is the number of tiers that stand between
    its own size and the whole; in a small index `_SPARE_TIERS` more; where documents were removed,
    `_TIERS_FOR_DEAD` more.
    """
    tiers = math.log(max(manifest.num_documents / max(written_documents, 1), 1), factor)
    tiers += _SPARE_TIERS * min(max(2 - manifest.num_documents / _UNBOUNDED, 0), 1)
    if sum([entry.num_keys for entry in manifest.segments]) > manifest.num_documents:
        tiers += _TIERS_FOR_DEAD
    backlog = len(manifest.segments) / (factor * (tiers + 1))
    return int(written_bytes * tiers * max(1.0, backlog))


def is_free(source_bytes: int, layout: Layout) -> bool:
    """Whether a merge of so many bytes costs a commit hardly anything: less than a sixteenth of a chunk.

    Such a merge is never put off, or the segments of single inserts would pile up.
    """
    return _FREE_SHARE * source_bytes <= layout.chunk_bytes
