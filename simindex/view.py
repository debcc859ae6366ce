"""What a query sees: one snapshot of the index, with the documents of an open transaction on top.

Owns the snapshot's directory (cached between calls and checked by transaction id), records by number
and by key, and the expansion of copies. Must not change anything.
Invariant: a match is reported only for a document whose sealed record and sketch were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from simindex.errors import CorruptIndexError
from simindex.format.keys import encode_key, key_hashes, number_key
from simindex.format.layout import COPY_TABLE, KEY_TABLE, Geometry, SegmentEntry
from simindex.format.manifest import MANIFEST_KEY, Manifest, decode_manifest
from simindex.format.records import REMOVED_SKETCH, StoredRecord, decode_record, decode_small
from simindex.segments.directory import Directory
from simindex.segments.load import Segment
from simindex.transactions import Transaction

_ALL = 2**62


@dataclass
class Snapshot:
    """The directory of one committed state."""

    transaction_id: int
    map_generation: int
    stored_manifest: bytes
    manifest: Manifest
    segments: dict[int, Segment]
    directory: Directory


def stored_manifest(txn: Transaction) -> bytes:
    """Return the manifest's bytes. Raises CorruptIndexError when there is none."""
    value = txn.get("meta", MANIFEST_KEY)
    if value is None:
        raise CorruptIndexError("manifest: expected one, found nothing; restore a backup")
    return bytes(value)


class SnapshotCache:
    """Keeps the last snapshot of a handle; a call on an unchanged index costs one comparison.

    Thread safety: `current` may run in several threads; each returns a snapshot for its transaction.
    """

    def __init__(self, tables: Geometry) -> None:
        self._tables = tables
        self._last: Snapshot | None = None
        self._expected: tuple[bytes, Manifest] = b"", Manifest()

    def expect(self, encoded: bytes, manifest: Manifest) -> None:
        """Take note of the manifest that the writer of this handle has just stored."""
        self._expected = encoded, manifest

    def current(self, txn: Transaction) -> Snapshot:
        """Return the snapshot of a transaction, loading the segments that are new."""
        last = self._last
        if last is not None and last.map_generation == txn.map_generation:
            if last.transaction_id == txn.id:
                return last
            known: Mapping[int, Segment] = last.segments
        else:
            last, known = None, {}
        stored = stored_manifest(txn)
        if last is not None and last.stored_manifest == stored:
            fresh = Snapshot(txn.id, txn.map_generation, stored, last.manifest, last.segments, last.directory)
        else:
            expected, manifest = self._expected
            if stored != expected:
                manifest = decode_manifest(stored)
            segments = {shape.id: known.get(shape.id) or self.load(txn, shape) for shape in manifest.segments}
            directory = Directory(self._tables, list(segments.values()))
            fresh = Snapshot(txn.id, txn.map_generation, stored, manifest, segments, directory)
        self._last = fresh
        return fresh

    def load(self, txn: Transaction, shape: SegmentEntry) -> Segment:
        """Load one live segment."""
        if shape.chunked:
            return Segment(self._tables, shape, txn.finder("segments"))
        return Segment(self._tables, shape, lambda key: txn.get("segments", key))


@dataclass
class PendingView:
    """What an open transaction adds to a snapshot.

    Attributes:
        segments: its documents as segments in memory.
        records: number -> record, of its documents.
        removed: numbers that it removed or dropped.
        by_key: encoded key -> number, of its documents.
    """

    segments: list[Segment] = field(default_factory=list)
    records: dict[int, StoredRecord] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    by_key: dict[bytes, int] = field(default_factory=dict)


_NOTHING_PENDING = PendingView()


class View:
    """One consistent state of the index, for the length of a call."""

    def __init__(
        self, txn: Transaction, snapshot: Snapshot, tables: Geometry, pending: PendingView | None = None
    ) -> None:
        self._txn = txn
        self._segments = snapshot.segments
        self.manifest = snapshot.manifest
        self.has_copies = snapshot.manifest.num_copies > 0
        """Whether any document shares the sketch of an earlier one."""
        self.pending = pending or _NOTHING_PENDING
        self.directory = snapshot.directory
        if self.pending.segments:
            self.directory = Directory(tables, [*snapshot.directory.segments, *self.pending.segments])

    def segment(self, shape: SegmentEntry) -> Segment:
        """Return a live committed segment; its addresses are valid for the length of this view."""
        return self._segments[shape.id]

    # ---- records ----

    def record(self, number: int) -> StoredRecord | None:
        """Return a document's record, or ``None`` when it was removed.

        Raises:
            CorruptIndexError: its seal is broken, or it is missing without having been removed.
        """
        if number in self.pending.removed:
            return None
        found = self.pending.records.get(number)
        if found is not None:
            return found
        value = self._txn.get("documents", number_key(number))
        if value is not None:
            return decode_record(number, value)
        if not self.removed_flags(number):
            raise CorruptIndexError(
                f"document {number}: expected a record, found none, and it was not removed; "
                "restore a backup or rebuild the index"
            )
        return None

    def removed_flags(self, number: int) -> int:
        """Return the REMOVED flags of a committed number, 0 when nothing of it is gone."""
        value = self._txn.get("removed", number_key(number))
        return 0 if value is None else decode_small(number, value, f"removal mark {number}")

    def removed_between(self, first: int, behind: int) -> dict[int, int]:
        """Return number -> REMOVED flags of first..behind-1."""
        removed = {}
        for key, value in self._txn.items("removed", number_key(first)):
            number = int.from_bytes(key, "big")
            if number >= behind:
                break
            removed[number] = decode_small(number, value, f"removal mark {number}")
        return removed

    def group_size(self, leader: int) -> int | None:
        """Return how many live documents share a leader's sketch; ``None`` when there was never a copy."""
        value = self._txn.get("groups", number_key(leader))
        return None if value is None else decode_small(leader, value, f"group {leader}")

    def numbers_from(self, first: int, limit: int) -> list[tuple[int, StoredRecord]]:
        """Return up to `limit` live documents in order of number, from `first` on."""
        found = []
        for key, value in self._txn.items("documents", number_key(first)):
            number = int.from_bytes(key, "big")
            if number not in self.pending.removed:
                found.append((number, decode_record(number, value)))
                if len(found) == limit:
                    return found
        for number, record in self.pending.records.items():
            if number >= first and number not in self.pending.removed:
                found.append((number, record))
                if len(found) == limit:
                    break
        return found

    # ---- keys ----

    def find_key(self, key: object) -> tuple[int, StoredRecord] | None:
        """Return (number, record) of a stored key, or ``None``."""
        encoded = encode_key(key)
        return self.find_keys([encoded], key_hashes([encoded])).get(0)

    def find_keys(self, encoded: list[bytes], hashes: np.ndarray) -> dict[int, tuple[int, StoredRecord]]:
        """Return place -> (number, record) for the encoded keys that are stored; hashes: `key_hashes`."""
        found: dict[int, tuple[int, StoredRecord]] = {}
        for place, number in self.directory.find_keys(KEY_TABLE, hashes, _ALL):
            record = self.record(number)
            if record is not None and encode_key(record.key) == encoded[place]:
                found[place] = (number, record)
        return found

    # ---- copies ----

    def copies_of(self, leader: int, limit: int = _ALL) -> list[int]:
        """Return the numbers of documents that share a leader's sketch, removed ones included."""
        key = leader.to_bytes(8, "little")
        return [number for _, number in self.directory.find_keys(COPY_TABLE, key, limit)]

    def documents_with(self, number: int, limit: int) -> list[tuple[int, StoredRecord]]:
        """Return the live documents with the sketch stored under a number: `limit` at most, 1 or more."""
        record = self.record(number)
        documents = [] if record is None else [(number, record)]
        room = limit - len(documents)
        # Removed copies stay in the table until the next merge: look at more than are wanted.
        wanted = room + 16
        while room and self.has_copies:
            copies = self.copies_of(number, wanted)
            live = [(copy, found) for copy in copies if (found := self.record(copy)) is not None]
            if len(live) >= room or len(copies) < wanted:
                return documents + live[:room]
            wanted *= 4
        return documents

    def sketch_dead(self, number: int) -> bool:
        """Whether the sketch stored under a committed number is no longer anybody's."""
        return bool(self.removed_flags(number) & REMOVED_SKETCH)

    def stored_sketch(self, number: int, record: StoredRecord) -> tuple[np.ndarray, int] | None:
        """Return (words, fingerprint) of a document, or ``None`` when it has neither."""
        if not record.present:
            return None
        found = self.directory.read_sketch(number if record.leader is None else record.leader)
        if found is None:
            raise CorruptIndexError(
                f"document {number}: expected a stored sketch, found none; "
                "restore a backup or rebuild the index"
            )
        return found
