"""The merges of a writer: which are under way, how far a commit advances them, and what they leave to do.

Owns the debt that small commits run up, ids whose chunks must go again, the count of dead documents by
segment, and which steps another thread makes ahead. Must not commit: a step is a `Merged`, plain values that
a commit stores. Invariant: which ones it stores follows from what it writes, not from what is made by then.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from simindex.format.keys import number_key, segment_prefix, table_of
from simindex.format.layout import FILTERS, SegmentEntry
from simindex.format.manifest import Manifest
from simindex.queries.scheme import Scheme
from simindex.queries.view import View
from simindex.segments.build import Puts
from simindex.segments.merge import Merge
from simindex.segments.merge_policy import is_free, pick_merges, tier_of
from simindex.storage.transactions import WriteTransaction

_MOST_UNPAID = 64

_MOST_AHEAD = 32 << 20
"""Bytes of steps that are made before a commit wants them."""


@dataclass
class Merged:
    """What some steps of merging come to.

    Attributes:
        manifest: after them.
        dead: segment id -> removed documents that it still has entries of, after them.
        gone: ids of segments whose chunks are to be removed.
        puts: values to store.
        unmarked: numbers whose removal marks are to be dropped: no entry of theirs is left.
        num_bytes: of the values.
        passing: keys of values that need not stay in memory: they were made of what was not there.
    """

    manifest: Manifest
    dead: dict[int, int]
    gone: list[int]
    puts: Puts = field(default_factory=list)
    unmarked: list[int] = field(default_factory=list)
    num_bytes: int = 0
    passing: list[bytes] = field(default_factory=list)

    def advance(self, merge: Merge, budget: int, view: View) -> int:
        """Take steps of a merge; returns the bytes of their values."""
        puts, num_bytes = merge.advance(budget, view.segment, view.directory.mapped)
        self.puts += puts
        if merge.passes:
            self.passing += [key for key, _ in puts if table_of(key) < FILTERS]
        self.num_bytes += num_bytes
        if merge.done:
            self._put_in_place(merge)
        return num_bytes

    def _put_in_place(self, merge: Merge) -> None:
        """Replace the sources of a merge by its result."""
        sources = {entry.id for entry in merge.sources}
        is_empty = not (merge.entry.num_keys or merge.entry.num_sketches)
        segments: list[SegmentEntry] = []
        for entry in self.manifest.segments:
            if entry.id not in sources:
                segments.append(entry)
            elif entry.id == merge.sources[0].id and not is_empty:
                segments.append(merge.entry)
        self.manifest = self.manifest._replace(segments=tuple(segments))
        self.gone += sorted(sources) + ([merge.entry.id] if is_empty else [])
        self.unmarked += merge.dead
        # Dead in the new segment are those that were removed while it was made.
        left = sum(self.dead.pop(source, 0) for source in sources) - len(merge.dead)
        if left > 0:
            self.dead[merge.entry.id] = left

    def count_dead(self, numbers: Iterable[int]) -> None:
        """Count removed documents to the segments that have entries of them."""
        segments, bases = self.manifest.segments, list[int]()
        for number in numbers:
            bases = bases or [entry.base for entry in segments]
            place = bisect_right(bases, number) - 1
            if place >= 0 and number < bases[place] + segments[place].span:
                segment = segments[place].id
                self.dead[segment] = self.dead.get(segment, 0) + 1

    def store(self, txn: WriteTransaction) -> None:
        """Store the values, and remove what is gone."""
        for key, value in self.puts:
            txn.put("segments", key, value)
        # No live id is ever among them; to delete one would be the end of the index.
        if self.gone:
            for segment in set(self.gone) - {entry.id for entry in self.manifest.segments}:
                txn.delete_prefix("segments", segment_prefix(segment))
        for number in self.unmarked:
            txn.delete("removed", number_key(number))


class Ahead:
    """Steps of merges, made by another thread before the commits that store them.

    A step is made while the lock is held, so that nobody else advances the merges meanwhile.

    Attributes:
        merges: that are advanced, those of the fewest bytes first, as commits do.
        is_wanted: until `end`.
    """

    def __init__(self, merges: list[Merge], room: int) -> None:
        self.merges = merges
        self.is_wanted = True
        self._room = room
        self._making = threading.Lock()

    def make(self, view: View) -> bool:
        """Make the next step; returns whether there may be another one.

        Args:
            view: of a committed state. Where a source is not in it, it is of another time: nothing is made.
        """
        with self._making:
            live = {entry.id for entry in view.manifest.segments}
            waiting = 0
            for merge in sorted(self.merges, key=lambda merge: merge.source_bytes):
                waiting += merge.made_bytes
                if not self.is_wanted or waiting >= self._room:
                    return False
                if not merge.is_made:
                    if not live.issuperset(entry.id for entry in merge.sources):
                        return False
                    merge.make_ahead(view.segment, view.directory.mapped)
                    return True
        return False

    def end(self) -> None:
        """Let nobody make another step, and wait for the one in the making."""
        self.is_wanted = False
        with self._making:
            pass


class Merges:
    """The merges under way. What `advance` returns counts only once it is stored
    (`note_stored`); a commit that comes to nothing gives all of them up."""

    def __init__(self, scheme: Scheme) -> None:
        self._tables = scheme.tables
        self.under_way: list[Merge] = []
        self.abandoned: list[int] = []
        """Ids of merges that were given up; the next commit removes their chunks."""
        self._debt = 0
        """Bytes that larger steps than their commits' budgets have left, but for what is in `_unpaid`."""
        self._unpaid: list[Callable[[], int]] = []
        self._stored: set[int] = set()
        """Ids that merges under way may have stored chunks under."""
        self._dead: dict[int, int] = {}
        self._counted: set[int] = set()
        self._ahead: Ahead | None = None
        self._foreseen: list[Merge] = []
        """Merges that the next commit is likely to begin."""
        self._last_budget = 0
        self._seen: tuple[SegmentEntry, ...] = ()
        """All of these are in `_counted`."""
        self._of_tier: Counter[int] = Counter()
        """Tier -> at most so many of the segments in `_counted` are of it and are not being merged."""

    def note_stored(self, merged: Merged) -> None:
        """Take note that a commit has stored these steps."""
        self._dead = merged.dead
        self.abandoned.clear()
        self._stored = {merge.entry.id for merge in self.under_way} if self.under_way else set()

    def recount_dead(self, manifest: Manifest, numbers: Iterable[int]) -> None:
        """Count the dead anew, from all removed numbers."""
        counted = Merged(manifest, {}, [])
        counted.count_dead(numbers)
        self._dead = counted.dead

    def give_up(self, manifest: Manifest) -> Manifest:
        """Forget the merges under way: they begin anew, under the new ids of the manifest returned."""
        self.end_ahead()
        self._foreseen.clear()
        self.under_way.clear()
        self._count_anew([])  # their sources are free again
        self.abandoned += sorted(self._stored)
        self._stored.clear()
        # No segment may get an id whose chunks are about to be removed.
        behind = max(self.abandoned, default=-1) + 1
        return manifest._replace(next_segment=max(behind, manifest.next_segment))

    def forget_live(self, manifest: Manifest) -> None:
        """Take ids that turn out to be live from those whose chunks are to be removed."""
        live = {entry.id for entry in manifest.segments}
        self.abandoned = [segment for segment in self.abandoned if segment not in live]

    def has_work(self, committed: Manifest) -> bool:
        """Whether the next commit has merging to do, or may have."""
        if self.under_way or (self._dead and self._is_worn(committed)):
            return True
        return self._may_be_due(committed)

    def _settle(self) -> None:
        for budget in self._unpaid:
            self._debt = max(0, self._debt - budget())
        self._unpaid.clear()

    def advance(self, manifest: Manifest, committed: set[int], budget: int, view: View) -> Merged:
        """Do about `budget` bytes of merging.

        Args:
            manifest: of the commit that is being prepared.
            committed: ids of the segments that are stored already.
        """
        merged = Merged(manifest, self._dead.copy(), list(self.abandoned))
        self.end_ahead()
        self._last_budget = budget
        # A step can be larger than what a commit of few documents is to do; the rest is a debt that the
        # next commits work off.
        self._settle()
        left = budget - self._debt
        while True:
            merged.manifest = self._start(merged.manifest, committed, view)
            merge = min(self.under_way, key=lambda merge: merge.source_bytes, default=None)
            if merge is None or (left <= 0 and not is_free(merge.source_bytes, self._tables.layout)):
                break
            left -= merged.advance(merge, max(left, 1), view)
            if merge.done:
                self.under_way.remove(merge)
        self._debt = max(0, -left)
        self._foreseen.clear()
        return merged

    def ahead(self, committed: Manifest | None = None) -> Ahead | None:
        """Return what makes the steps that the next two commits will store if they are like the last one, of
        the merges that they would advance first. ``None`` where there is nothing to do, or what was returned
        before goes on with it.

        It may work until `end_ahead`, which whoever touches the merges calls before.

        Args:
            committed: what the next commit begins with, if that is stored already, with all its segments.
        """
        new = self._foresee(committed) if committed is not None else []
        if self._ahead is not None and self._ahead.is_wanted:
            self._ahead.merges += new
            return None
        self.end_ahead()
        room = min(2 * self._last_budget, _MOST_AHEAD)
        merges = [*self.under_way, *self._foreseen]
        if room <= 0 or all(merge.is_made for merge in merges):
            return None
        self._ahead = Ahead(merges, room)
        return self._ahead

    def _foresee(self, committed: Manifest) -> list[Merge]:
        """Prepare the merges that the next commit will begin if it stores as many documents as the last one
        did, and nothing was removed; returns them."""
        if self._dead or self._foreseen or not committed.segments or not self._may_be_due(committed):
            return []
        newest = committed.segments[-1]._replace(id=committed.next_segment)
        busy = {newest.id, *(entry.id for merge in self.under_way for entry in merge.sources)}
        runs = pick_merges([*committed.segments, newest], busy, self._tables.layout.tier_factor)
        self._foreseen = [
            Merge.start(self._tables, run, newest.id + 1 + place, {}) for place, run in enumerate(runs)
        ]
        return self._foreseen

    def end_ahead(self) -> None:
        """Take the merges back from who makes steps ahead."""
        if self._ahead is not None:
            self._ahead.end()
            self._ahead = None

    def pause(self, manifest: Manifest, budget: Callable[[], int] | None = None) -> Merged:
        """Do no merging with a commit; see `advance`.

        Args:
            budget: returns what it would have done where there was something to do: debt is worked off by it,
                when the next merge asks for it.
        """
        if budget is not None and self._debt:
            self._unpaid.append(budget)
            if len(self._unpaid) == _MOST_UNPAID:
                self._settle()
        return Merged(manifest, self._dead.copy(), list(self.abandoned))

    def _start(self, manifest: Manifest, committed: set[int], view: View) -> Manifest:
        """Begin the merges that are due among committed segments."""
        if not self._may_be_due(manifest) and not (self._dead and self._is_worn(manifest)):
            return manifest
        busy = {entry.id for merge in self.under_way for entry in merge.sources}
        busy |= {entry.id for entry in manifest.segments if entry.id not in committed}
        runs = pick_merges(list(manifest.segments), busy, self._tables.layout.tier_factor)
        busy.update(entry.id for run in runs for entry in run)
        # A segment that is mostly dead is rewritten by itself, or old ones would keep their space for ever.
        if self._dead:
            runs += [
                [entry]
                for entry in manifest.segments
                if entry.id not in busy and 2 * self._dead.get(entry.id, 0) > entry.num_keys
            ]
        for run in runs:
            manifest = self._begin(manifest, run, view)
        self._count_anew(manifest.segments)
        return manifest

    def _is_worn(self, manifest: Manifest) -> bool:
        """Whether any segment is mostly dead."""
        return any(2 * self._dead.get(entry.id, 0) > entry.num_keys for entry in manifest.segments)

    def _may_be_due(self, manifest: Manifest) -> bool:
        """Whether a tier may have enough segments for a run: it counts on from the last look at all of them,
        for most commits only bring one segment more."""
        factor, segments = self._tables.layout.tier_factor, manifest.segments
        for entry in segments[-1:] if segments[:-1] == self._seen else segments:
            if entry.id not in self._counted:
                self._counted.add(entry.id)
                self._of_tier[tier_of(entry, factor)] += 1
        self._seen = segments
        return max(self._of_tier.values(), default=0) >= factor

    def _count_anew(self, segments: Sequence[SegmentEntry]) -> None:
        """Count the segments that are not being merged; others come back only where all are given up."""
        busy = {entry.id for merge in self.under_way for entry in merge.sources}
        self._seen, self._counted = (), {entry.id for entry in segments}
        factor = self._tables.layout.tier_factor
        self._of_tier = Counter([tier_of(entry, factor) for entry in segments if entry.id not in busy])

    def _begin(self, manifest: Manifest, sources: list[SegmentEntry], view: View) -> Manifest:
        """Begin a merge; returns the manifest without its segment id."""
        removed = view.removed_between(sources[0].base, sources[-1].base + sources[-1].span)
        merge = Merge.start(self._tables, sources, manifest.next_segment, removed)
        for foreseen in self._foreseen:
            if not removed and foreseen.sources == sources and foreseen.entry.id == merge.entry.id:
                merge = foreseen
        self.under_way.append(merge)
        self._stored.add(merge.entry.id)
        return manifest._replace(next_segment=manifest.next_segment + 1)
