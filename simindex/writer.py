"""Changes: documents gathered in memory, and the commit that makes them one segment.

Owns pending changes, and how a commit advances merges. Must not search for matches. A commit is prepared
as plain lists of values and then stored in one write transaction, so that it can be replayed after the map
has grown.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simindex.config import Config
from simindex.copies import fold_copies, removal_marks
from simindex.errors import KeyExistsError
from simindex.format.keys import number_key, segment_of
from simindex.format.layout import Geometry, SegmentEntry
from simindex.format.manifest import MANIFEST_KEY, Manifest, decode_manifest, encode_manifest
from simindex.format.records import REMOVED_SKETCH, encode_small
from simindex.pending import (
    NewDocuments,
    Pending,
    encode_part_records,
    joined,
    key_hashes_of,
    pending_record,
    without_dropped,
)
from simindex.permutations import PermutationPlan
from simindex.segments.build import Puts, SegmentData, num_bytes, segment_puts
from simindex.segments.load import Segment
from simindex.segments.merge import Merge
from simindex.segments.merge_policy import MAX_SOURCES, MAX_SPAN, is_free, pick_merges, step_budget
from simindex.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, SketchBatch
from simindex.store import Store
from simindex.transactions import WriteTransaction
from simindex.view import PendingView, View, stored_manifest

_COMPACTION_STEP = 8 << 20  # bytes of merging a commit of `compact`


@dataclass(frozen=True)
class Prepared:
    """A commit as a pure function of its write transaction, and the manifest after it."""

    change: Callable[[WriteTransaction], None]
    manifest: Manifest
    encoded_manifest: bytes
    merged_bytes: int = 0
    dead: Counter[int] = field(default_factory=Counter)


class Writer:
    """The one writer of an index: its counters, its merges, its commits. Not thread-safe by itself."""

    def __init__(
        self,
        store: Store,
        config: Config,
        tables: Geometry,
        plan: PermutationPlan | None,
        manifest: Manifest,
    ) -> None:
        self._store = store
        self._tables = tables
        self._plan = plan
        self._full = (HAS_SIGNATURE if config.num_perm else 0) | (HAS_FINGERPRINT if config.simhash else 0)
        self.manifest = manifest
        self._merges: list[Merge] = []
        self._merge_debt = 0
        self._stored_chunks: set[int] = set()
        """Ids that merges under way may have stored chunks under."""
        self._abandoned: list[int] = []
        """Ids of merges that were given up; the next commit removes their chunks."""
        self._dead: Counter[int] = Counter()
        """Segment id -> removed documents that it still has entries of."""
        self._is_unsure = False
        """True from the first step of a preparation until its commit is known to have succeeded."""
        self._remove_orphans()
        self._count_dead()

    def _remove_orphans(self) -> None:
        """Remove what an unfinished merge or compaction of an earlier writer left behind."""
        self._store.clear_traces()
        live = {shape.id for shape in self.manifest.segments}
        with self._store.reading() as txn:
            orphans, first = set(), b""
            while True:
                key = next((key for key, _ in txn.items("segments", first)), None)
                if key is None:
                    break
                if segment_of(key) not in live:
                    orphans.add(segment_of(key))
                first = (segment_of(key) + 1).to_bytes(8, "big")
        if orphans:
            self._store.commit(
                lambda txn: [txn.delete_prefix("segments", o.to_bytes(8, "big")) for o in sorted(orphans)]
            )

    def _count_dead(self) -> None:
        """Count the removed documents that every segment still has entries of."""
        with self._store.reading() as txn:
            # Flags are looked at unsealed: a wrong count rewrites a segment too early or too late.
            marks = [
                int.from_bytes(key, "big")
                for key, value in txn.items("removed")
                if value[:1] and value[0] & REMOVED_SKETCH
            ]
        self._dead = _dead_of(self.manifest, marks)

    # ---- gathering ----

    def _make_sure(self) -> None:
        """Go on from what is stored, after a change that was broken off: steps of merges may have been taken
        that are not stored, and the commit may be durable, for Ctrl-C during it comes out afterwards."""
        if not self._is_unsure:
            return
        self._give_up_merges()
        with self._store.reading() as txn:
            manifest = decode_manifest(stored_manifest(txn))
        live = {shape.id for shape in manifest.segments}
        self._abandoned = [segment for segment in self._abandoned if segment not in live]
        next_segment = max(manifest.next_segment, self.manifest.next_segment)
        self.manifest = manifest._replace(next_segment=next_segment)
        self._count_dead()
        self._is_unsure = False

    def begin(self) -> Pending:
        """Return an empty change."""
        self._make_sure()
        return Pending(self.manifest.next_number, time.time_ns() // 1000)

    def insert(
        self, pending: Pending, documents: NewDocuments, on_conflict: str, view: View
    ) -> tuple[int, int, int]:
        """Add documents to a change; returns (inserted, replaced, skipped).

        Raises:
            KeyExistsError: a key is stored already and `on_conflict` is "error"; nothing was added.
        """
        encoded_keys = documents.encoded_keys
        committed = view.find_keys(encoded_keys, documents.key_hashes)
        all_new = not committed and pending.by_key.keys().isdisjoint(encoded_keys)
        if all_new and len(set(encoded_keys)) == len(encoded_keys):
            pending.add(documents, list(range(len(encoded_keys))))
            return len(encoded_keys), 0, 0
        places: list[int] = []
        new: dict[bytes, int] = {}
        replaced: list[int] = []
        skipped = 0
        for place, encoded in enumerate(encoded_keys):
            if encoded in new or pending.holds(encoded, committed.get(place)):
                if on_conflict == "error":
                    raise KeyExistsError(documents.keys[place])
                if on_conflict == "skip":
                    skipped += 1
                    continue
                replaced.append(place)
            new[encoded] = place
            places.append(place)
        # Of a key that comes twice in one call the last one stays.
        kept = set(new.values())
        for place in replaced:
            pending.remove(encoded_keys[place], committed.get(place))
        pending.add(documents, [place for place in places if place in kept])
        return len(places) - len(replaced), len(replaced), skipped

    def refresh_view(self, pending: Pending) -> PendingView:
        """Return what queries see of a change, with its newest documents as a segment in memory."""
        if pending.viewed < len(pending.parts):
            parts = pending.parts[pending.viewed :]
            pending.viewed = len(pending.parts)
            numbers, batch = joined(parts)
            data = self._segment_data(numbers, batch, key_hashes_of(parts), {})
            # Ids from the top: no committed segment has them, and they are never stored.
            shape = data.entry(2**63 + len(pending.view.segments))
            shape, puts = segment_puts(self._tables, shape, data)
            pending.view.segments.append(Segment(self._tables, shape, dict(puts).get))
            for part in parts:
                for place, number in zip(part.places, part.numbers, strict=True):
                    pending.view.records[number] = pending_record(part.documents, place, pending.inserted_at)
        pending.view.removed = pending.dropped | pending.removed.keys()
        pending.view.by_key = pending.by_key
        return pending.view

    def _segment_data(
        self, numbers: np.ndarray, batch: SketchBatch, hashes: np.ndarray, leaders: dict[int, int]
    ) -> SegmentData:
        """Return what a segment of these documents holds; `leaders`: place -> number of its leader."""
        base = int(numbers[0]) if len(numbers) else self.manifest.next_number
        relative = (numbers - base).astype(np.uint32)
        copies = np.array(sorted(leaders), dtype=np.intp)
        if not leaders and batch.present.all():
            own: Any = slice(None)
        else:
            own = batch.present > 0
            own[copies] = False
        words, fingerprints, present = batch.words[own], batch.fingerprints[own], batch.present[own]
        marked = (present & HAS_FINGERPRINT) > 0
        permuted = (
            self._plan.permute(fingerprints[marked]) if self._plan else np.empty((0, 0), dtype=np.uint64)
        )
        return SegmentData(
            base=base,
            span=int(relative[-1]) + 1 if len(relative) else 0,
            key_hashes=hashes,
            key_numbers=relative,
            leaders=np.array([leaders[int(i)] for i in copies], dtype=np.uint64),
            copies=relative[copies],
            words=np.ascontiguousarray(words),
            fingerprints=np.ascontiguousarray(fingerprints),
            numbers=relative[own],
            has_signature=(present & HAS_SIGNATURE) > 0,
            has_fingerprint=marked,
            permuted=permuted,
        )

    # ---- committing ----

    def prepare(self, pending: Pending, view: View) -> Prepared:
        """Return everything that a commit of a change stores, merges advanced in proportion included."""
        self._is_unsure = True
        parts = [without_dropped(part, pending.dropped) for part in pending.parts]
        numbers, batch = joined(parts)
        leaders, groups = fold_copies(self._tables, self._plan, self._full, numbers, batch, view)
        records = encode_part_records(parts, batch, leaders, pending.inserted_at)
        marks, lost_copies = removal_marks(pending.removed, groups, view)
        segments = list(self.manifest.segments)
        puts: Puts = []
        next_segment = self.manifest.next_segment
        if len(numbers):
            data = self._segment_data(numbers, batch, key_hashes_of(parts), leaders)
            shape, puts = segment_puts(self._tables, data.entry(next_segment), data)
            segments.append(shape)
            next_segment += 1
        written = num_bytes(puts) + num_bytes(records)
        manifest = Manifest(
            next_number=self.manifest.next_number + pending.count,
            next_segment=next_segment,
            num_documents=self.manifest.num_documents + len(numbers) - len(pending.removed),
            num_copies=self.manifest.num_copies + len(leaders) - lost_copies,
            segments=tuple(segments),
        )
        budget = step_budget(self._tables.layout.tier_factor, manifest, pending.size, written)
        dead = self._dead.copy()
        manifest, merged, gone, unmarked = self._advance_merges(manifest, budget, view, dead)

        encoded = encode_manifest(manifest)

        def change(txn: WriteTransaction) -> None:
            if records:
                txn.append("documents", records)
            for number in pending.removed:
                txn.delete("documents", number_key(number))
            for key, value in puts:
                txn.put("segments", key, value)
            for number, flags in marks.items():
                txn.put("removed", number_key(number), encode_small(number, flags))
            for leader, size in groups.items():
                if size:
                    txn.put("groups", number_key(leader), encode_small(leader, size))
                else:
                    txn.delete("groups", number_key(leader))
            self._store_merged(txn, manifest, merged, gone, unmarked)
            txn.put("meta", MANIFEST_KEY, encoded)

        dead += _dead_of(manifest, [n for n, flags in marks.items() if flags & REMOVED_SKETCH])
        return Prepared(change, manifest, encoded, dead=dead)

    def commit(self, prepared: Prepared) -> None:
        """Make a prepared change durable. No read transaction of this thread may be open.

        Raises:
            IndexFullError: no space; nothing of the change is stored.
        """
        self._store.commit(prepared.change)
        self.manifest = prepared.manifest
        self._dead = prepared.dead
        self._abandoned.clear()
        self._stored_chunks = {merge.entry.id for merge in self._merges}
        self._is_unsure = False

    def _begin_merge(self, merge: Merge) -> None:
        self._merges.append(merge)
        self._stored_chunks.add(merge.entry.id)

    def _give_up_merges(self) -> None:
        """Forget the merges under way: they begin anew, under new ids."""
        self._merges.clear()
        self._abandoned += sorted(self._stored_chunks)
        self._stored_chunks.clear()
        # No segment may get an id whose chunks are about to be removed.
        behind = max(self._abandoned, default=-1) + 1
        self.manifest = self.manifest._replace(next_segment=max(behind, self.manifest.next_segment))

    def _store_merged(
        self, txn: WriteTransaction, manifest: Manifest, merged: Puts, gone: list[int], unmarked: list[int]
    ) -> None:
        for key, value in merged:
            txn.put("segments", key, value)
        # No live id is ever among them; to delete one would be the end of the index.
        for segment in {*gone, *self._abandoned} - {shape.id for shape in manifest.segments}:
            txn.delete_prefix("segments", segment.to_bytes(8, "big"))
        for number in unmarked:
            txn.delete("removed", number_key(number))

    # ---- merging ----

    def begin_compaction(self, view: View, *, again: bool) -> int:
        """Replace the merges under way by one of all segments; returns the bytes it has to read, 0 where
        there is nothing to merge; `again`: after another one of the same compaction."""
        self._make_sure()
        self._give_up_merges()
        segments = list(self.manifest.segments)[:MAX_SOURCES]
        if not segments:
            return 0
        behind = segments[-1].base + segments[-1].span
        removed = view.removed_between(segments[0].base, behind)
        if len(segments) == 1 and (again or not removed):
            return 0
        if behind - segments[0].base > MAX_SPAN:
            return 0
        merge = Merge.start(self._tables, segments, self.manifest.next_segment, removed)
        self.manifest = self.manifest._replace(next_segment=self.manifest.next_segment + 1)
        self._begin_merge(merge)
        return merge.source_bytes

    @property
    def compacting(self) -> bool:
        """Whether a merge is under way that `continue_compaction` would go on with."""
        if self._is_unsure or len(self._merges) != 1:
            return False
        return len(self._merges[0].sources) == len(self.manifest.segments[:MAX_SOURCES])

    def continue_compaction(self, view: View) -> Prepared:
        """Return the commit of the next part of `begin_compaction`."""
        merge = self._merges[0]
        self._is_unsure = True
        merged, merged_bytes = merge.advance(_COMPACTION_STEP, view.segment)
        manifest, dead = self.manifest, self._dead.copy()
        gone: list[int] = []
        unmarked: list[int] = []
        if merge.done:
            self._merges.clear()
            manifest, gone = _swapped(manifest, merge)
            _end_dead(dead, merge)
            unmarked = merge.dead

        encoded = encode_manifest(manifest)

        def change(txn: WriteTransaction) -> None:
            self._store_merged(txn, manifest, merged, gone, unmarked)
            txn.put("meta", MANIFEST_KEY, encoded)

        return Prepared(change, manifest, encoded, merged_bytes, dead)

    def _advance_merges(
        self, manifest: Manifest, budget: int, view: View, dead: Counter[int]
    ) -> tuple[Manifest, Puts, list[int], list[int]]:
        """Do about `budget` bytes of merging.

        Args:
            dead: as `_dead`, to be changed.

        Returns:
            The manifest after it, values to store, segment ids that are gone, removal marks to drop.
        """
        puts: Puts = []
        gone: list[int] = []
        unmarked: list[int] = []
        committed = {shape.id for shape in self.manifest.segments}
        # A step can be larger than what a commit of few documents is to do; the rest is a debt that the
        # next commits work off.
        left = budget - self._merge_debt
        while True:
            manifest = self._start_merges(manifest, committed, view)
            if not self._merges:
                break
            merge = min(self._merges, key=lambda m: m.source_bytes)
            if left <= 0 and not is_free(merge.source_bytes, self._tables.layout):
                break
            stored, spent = merge.advance(max(left, 1), view.segment)
            puts += stored
            left -= spent
            if merge.done:
                self._merges.remove(merge)
                manifest, ended = _swapped(manifest, merge)
                _end_dead(dead, merge)
                gone += ended
                unmarked += merge.dead
        self._merge_debt = max(0, -left)
        return manifest, puts, gone, unmarked

    def _start_merges(self, manifest: Manifest, committed: set[int], view: View) -> Manifest:
        """Begin the merges that are due among committed segments."""
        busy = {shape.id for merge in self._merges for shape in merge.sources}
        busy |= {shape.id for shape in manifest.segments if shape.id not in committed}
        runs = pick_merges(list(manifest.segments), busy, self._tables.layout.tier_factor)
        busy.update(shape.id for run in runs for shape in run)
        # A segment that is mostly dead is rewritten by itself, or old ones would keep their space for ever.
        if self._dead:
            runs += [
                [shape]
                for shape in manifest.segments
                if shape.id not in busy and 2 * self._dead.get(shape.id, 0) > shape.num_keys
            ]
        for run in runs:
            removed = view.removed_between(run[0].base, run[-1].base + run[-1].span)
            self._begin_merge(Merge.start(self._tables, run, manifest.next_segment, removed))
            manifest = manifest._replace(next_segment=manifest.next_segment + 1)
        return manifest


def _dead_of(manifest: Manifest, numbers: Iterable[int]) -> Counter[int]:
    """Return how many of the numbers each live segment has entries of."""
    segments = manifest.segments
    bases = [shape.base for shape in segments]
    dead: Counter[int] = Counter()
    for number in numbers:
        place = bisect_right(bases, number) - 1
        if place >= 0 and number < bases[place] + segments[place].span:
            dead[segments[place].id] += 1
    return dead


def _end_dead(dead: Counter[int], merge: Merge) -> None:
    """Count the dead of a merged segment: those that were removed while it was made."""
    left = sum(dead.pop(shape.id, 0) for shape in merge.sources) - len(merge.dead)
    if left > 0:
        dead[merge.entry.id] = left


def _swapped(manifest: Manifest, merge: Merge) -> tuple[Manifest, list[int]]:
    """Return the manifest with a merge's sources replaced by its result, and the ids that are gone."""
    sources = {shape.id for shape in merge.sources}
    segments: list[SegmentEntry] = []
    placed = False
    is_empty = not (merge.entry.num_keys or merge.entry.num_sketches)
    for shape in manifest.segments:
        if shape.id not in sources:
            segments.append(shape)
        elif not placed:
            placed = True
            if not is_empty:
                segments.append(merge.entry)
    gone = sorted(sources) + ([merge.entry.id] if is_empty else [])
    return manifest._replace(segments=tuple(segments)), gone
