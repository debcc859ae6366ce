"""The writer of an index: prepares commits from changes and makes them durable.

A commit is prepared as plain values (`Prepared`) and then stored in one write transaction; `Prepared.store`
is a pure function of that transaction, so that it can run again after the map has grown. `DoneCalls` is the
idempotency log: replies of the last calls, so that a retry returns the first reply. A reply is stored by the
commit that did the call, so there is never the one without the other.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simindex.changes.documents import NewDocuments
from simindex.changes.exact_duplicates import fold_copies, removal_marks
from simindex.changes.merges import Merged, Merges, step_budget
from simindex.changes.pending import Pending, change_of_ages, current_time
from simindex.errors import CorruptIndexError, KeyExistsError
from simindex.format.keys import key_hashes, number_key, numbered, segment_of, segment_prefix
from simindex.format.meta import (
    DONE_KEYS,
    MANIFEST_KEY,
    NOTES,
    Done,
    Manifest,
    decode_done,
    decode_manifest,
    encode_done,
    encode_manifest,
)
from simindex.format.records import (
    REMOVED_SKETCH,
    Run,
    encode_flags,
    encode_group_size,
    encode_run,
    flags_unverified,
    run_key,
)
from simindex.queries.view import Reader, View, stored_manifest
from simindex.segments.build import Puts, num_bytes, segment_puts
from simindex.segments.directory import COPIED_BYTES
from simindex.storage.folder import COMPACT_FOLDER
from simindex.storage.store import MOVED_KEY, Store
from simindex.storage.transactions import ReadTransaction, WriteTransaction


class DoneCalls:
    """The notes that are stored. Not thread-safe by itself; read when the first call asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._notes: dict[bytes, Done] | None = None
        self._next_turn = 0

    def answer(self, call: bytes) -> Any:
        """Return what a call answered; ``None`` where it was not done, or too long ago."""
        known = self._read().get(call)
        return None if known is None else known.answer

    def note(self, call: bytes, answer: Any) -> Done:
        """Return the next note, to be stored with the commit that does the call."""
        self._read()
        done = Done(self._next_turn, call, answer)
        encode_done(done)  # refuses what does not fit
        return done

    def stored(self, done: Done) -> None:
        """Take note that a commit has stored one."""
        notes = self._read()
        notes.pop(done.call, None)
        notes[done.call] = done
        self._next_turn = done.turn + 1
        oldest = next(iter(notes.values()))
        if oldest.turn + NOTES <= done.turn:
            del notes[oldest.call]

    def forget(self) -> None:
        """Read again what is stored, at the next question."""
        self._notes = None

    def _read(self) -> dict[bytes, Done]:
        if self._notes is None:
            with self._store.reading() as txn:
                stored = [(key, txn.get("meta", key)) for key in DONE_KEYS]
                found = [decode_done(key, value) for key, value in stored if value is not None]
            found.sort(key=lambda done: done.turn)
            self._notes = {done.call: done for done in found}
            self._next_turn = found[-1].turn + 1 if found else 0
        return self._notes


@dataclass(slots=True)
class Prepared:
    """Everything that a commit stores; `newest` is a short new last segment, `before` the manifest with all
    others."""

    merged: Merged
    encoded_manifest: bytes
    records: Puts = field(default_factory=list)
    segment: Puts = field(default_factory=list)
    removed: Collection[int] = ()
    flags: Mapping[int, int] = field(default_factory=dict)
    groups: Mapping[int, int] = field(default_factory=dict)  # leader -> live documents; 0: none is left
    touched: Puts = field(default_factory=list)
    runs: Mapping[tuple[int, int], int] = field(default_factory=dict)  # as of `Pending`
    done: Done | None = None
    newest: bytes = b""
    before: Manifest | None = None

    def store(self, txn: WriteTransaction) -> None:
        """Store it; the manifest comes last and makes it visible."""
        if self.records:
            txn.append("documents", self.records)
        for key, value in self.touched:
            txn.put("documents", key, value)
        for number in self.removed:
            txn.delete("documents", number_key(number))
        for key, value in self.segment:
            txn.put("segments", key, value)
        for number, flags in self.flags.items():
            txn.put("removed", number_key(number), encode_flags(number, flags))
        for leader, size in self.groups.items():
            if size:
                txn.put("groups", number_key(leader), encode_group_size(leader, size))
            else:
                txn.delete("groups", number_key(leader))
        for (time, first), behind in self.runs.items():
            if behind:
                txn.put("ages", run_key(time, first), encode_run(Run(time, first, behind)))
            else:
                txn.delete("ages", run_key(time, first))
        self.merged.store(txn)
        if self.done is not None:
            txn.put("meta", *encode_done(self.done))
        txn.put("meta", MANIFEST_KEY, self.encoded_manifest)


class Writer:
    """The counters, the merges and the commits of an index. Not thread-safe by itself."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._scheme = reader.scheme
        self.done = DoneCalls(store)
        with store.reading() as txn:
            manifest = reader.current(txn).manifest
            removed = _removed_sketches(txn)
        clear_unnamed(store, manifest)
        store.hold_ballast()
        self._go_on(manifest, removed)

    def _go_on(self, manifest: Manifest, removed: list[int], unnamed: Collection[int] = ()) -> None:
        """Go on from what is stored, with no merge under way; the next commit removes segments `unnamed`."""
        # No segment may get an id whose chunks are about to be removed.
        next_segment = max([manifest.next_segment, *(segment + 1 for segment in unnamed)])
        self.manifest = manifest._replace(next_segment=next_segment)
        self.merges = Merges(self._scheme, manifest, removed, unnamed)
        self._packed: list[bytes] = []
        """The segments of the manifest that is stored, as far as commits have packed them."""
        self._is_unsure = False
        """True from the first step of a preparation until its commit is known to have succeeded."""

    # ---- gathering ----

    def begin(self, max_bytes: int | None = None) -> Pending:
        """Return an empty change, whose documents may take so many bytes of memory."""
        self.read_again_if_unsure()
        manifest, now = self.manifest, current_time()
        return Pending(self._scheme, manifest.next_number, now, max_bytes=max_bytes, sources=manifest.sources)

    def read_again_if_unsure(self) -> None:
        """Go on from what is stored, after a change that was broken off: its commit may be durable, for
        Ctrl-C comes out late."""
        if self._is_unsure:
            self.done.forget()
            with self._store.reading() as txn:
                manifest = decode_manifest(stored_manifest(txn))
                self._go_on(manifest, _removed_sketches(txn), unnamed_segments(txn, manifest))

    def insert(
        self, pending: Pending, view: View, documents: NewDocuments, on_conflict: str
    ) -> tuple[int, int, int]:
        """Add documents to a change; returns (inserted, replaced, skipped)."""
        encoded_keys = documents.encoded_keys
        committed = view.find_keys(encoded_keys, documents.key_hashes)
        all_new = not committed and pending.by_key.keys().isdisjoint(encoded_keys)
        if all_new and len(set(encoded_keys)) == len(encoded_keys):
            pending.add(documents)
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
        pending.require_fit(documents)
        for place in replaced:
            pending.remove(encoded_keys[place], committed.get(place))
        pending.add(documents, [place for place in places if place in kept])
        return len(places) - len(replaced), len(replaced), skipped

    def remove(self, pending: Pending, view: View, encoded_keys: list[bytes]) -> int:
        """Remove the documents of some keys, each given once; returns how many there were."""
        committed = view.find_keys(encoded_keys, key_hashes(encoded_keys))
        return sum(pending.remove(key, committed.get(at)) for at, key in enumerate(encoded_keys))

    # ---- committing ----

    def prepare(self, pending: Pending, view: View, *, merging: bool = True) -> Prepared:
        """Return everything that a commit of a change stores, with merges advanced in proportion."""
        self._is_unsure = True
        committed, scheme = self.manifest, self._scheme
        segments, next_segment = committed.segments, committed.next_segment
        records: Puts = []
        puts: Puts = []
        leaders: dict[int, int] = {}
        groups: dict[int, int] = {}
        newest = b""
        if pending.by_key:
            documents, numbers = pending.documents()
            leaders, groups = fold_copies(numbers, documents.sketches, view)
            records = documents.records(numbers, leaders, pending.inserted_at)
            data = documents.segment_data(scheme, numbers, leaders)
            entry, puts = segment_puts(scheme.tables, data.entry(next_segment), data)
            segments, next_segment = (*segments, entry), next_segment + 1
            if not entry.chunked and len(puts[0][1]) < COPIED_BYTES:
                newest = puts[0][1]
        flags, lost_copies = removal_marks(pending.removed, groups, view) if pending.removed else ({}, 0)
        touched, runs, tail = change_of_ages(pending, committed.tail, view)
        manifest = Manifest(
            next_number=committed.next_number + pending.count,
            next_segment=next_segment,
            num_documents=committed.num_documents + len(pending.by_key) - len(pending.removed),
            num_copies=committed.num_copies + len(leaders) - lost_copies,
            tail_first=tail.first,
            tail_time=tail.time,
            sources=pending.sources,
            segments=segments,
        )
        if not manifest.num_documents:
            manifest = manifest._replace(sources=0)

        def budget() -> int:
            written = num_bytes([*puts, *records, *touched])
            return step_budget(scheme.tables.layout.tier_factor, manifest, pending.size, written)

        merged = self.merges.advance(manifest, committed.segments, budget if merging else None, view)
        if flags:
            merged.count_dead(number for number, flag in flags.items() if flag & REMOVED_SKETCH)
        # What a merge has put among the segments is read anew.
        before = committed if newest and merged.manifest is manifest else None
        self._packed = [] if merged.gone else self._packed
        encoded = encode_manifest(merged.manifest, self._packed)
        changes = records, puts, pending.removed.keys(), flags, groups, touched, runs, pending.done
        return Prepared(merged, encoded, *changes, newest, before)

    def commit(self, prepared: Prepared) -> None:
        """Make a prepared change durable. No read transaction of this thread may be open."""
        # What stores no document makes space free, now or when merges end.
        self._store.commit(prepared.store, not prepared.records and not prepared.touched)
        self.manifest = prepared.merged.manifest
        self.merges.note_stored(prepared.merged)
        if prepared.done is not None:
            self.done.stored(prepared.done)
        self._is_unsure = False
        if prepared.merged.passing:
            with self._store.reading() as txn:
                txn.let_go("segments", prepared.merged.passing)

    # ---- compaction ----

    def expect_another_file(self) -> None:
        """Take note that another file may come into the place of this one; `take_over` says that it did."""
        self._is_unsure = True

    def take_over(self, manifest: Manifest) -> None:
        """Go on with a file of this manifest, which holds no chunks of merges under way."""
        with self._store.reading() as txn:
            self._go_on(manifest, _removed_sketches(txn))


def _removed_sketches(txn: ReadTransaction) -> list[int]:
    """Return the numbers whose sketches are gone, by unsealed flags: a wrong count rewrites a segment too
    early or late."""
    return [
        number
        for number, value in numbered(txn.items("removed"), "removed")
        if flags_unverified(value) & REMOVED_SKETCH
    ]


def clear_unnamed(store: Store, manifest: Manifest) -> None:
    """Take back what a merge, a compaction or a backup that was killed has left."""
    shutil.rmtree(Path(store.path) / COMPACT_FOLDER, ignore_errors=True)
    with store.reading() as txn:
        is_marked = txn.get("meta", MOVED_KEY) is not None
        unnamed = unnamed_segments(txn, manifest)

    def change(txn: WriteTransaction) -> None:
        txn.delete("meta", MOVED_KEY)
        for segment in unnamed:
            txn.delete_prefix("segments", segment_prefix(segment))

    if is_marked or unnamed:
        store.commit(change, True)


def unnamed_segments(txn: ReadTransaction, manifest: Manifest) -> list[int]:
    """Return the ids that values of segments are stored under and the manifest does not name, ascending."""
    found, last, first = set[int](), -1, b""
    while True:
        for key, _ in txn.items("segments", first):
            segment = segment_of(key)
            if segment < last or key < first:
                raise CorruptIndexError("segments: expected ascending keys; restore a backup", key=key)
            if segment == last:
                break  # it has many values: go on behind the last of them
            found.add(segment)
            last = segment
        else:
            return sorted(found - {entry.id for entry in manifest.segments})
        first = segment_prefix(last + 1)
