"""The view of a query: one snapshot, with the documents of an open transaction on top.

`Reader` keeps the live segments of the last committed state between calls and loads only those that are new.
`View` reads records by doc id and by key, and expands copies. Invariant: a match is reported only for a
document whose sealed record and sketch were read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, takewhile
from typing import NamedTuple, cast

import numpy as np

from simindex import _kernel
from simindex.distinct import distinct
from simindex.errors import CorruptIndexError, damaged
from simindex.format.chunks import table_key
from simindex.format.kernel_structs import MATCH, MATCHES
from simindex.format.keys import Key, decode_keys, doc_id_key, encode_key, key_hash, numbered
from simindex.format.layout import COPY_TABLE, KEY_TABLE, SegmentEntry
from simindex.format.meta import DONE_PREFIX, MANIFEST_KEY, Manifest, decode_manifest
from simindex.format.packed import Packed
from simindex.format.records import (
    REMOVED_SKETCH,
    FoundRecord,
    Run,
    StoredRecord,
    decode_flags,
    decode_found,
    decode_group_size,
    decode_kept,
    decode_record,
    decode_run,
    decode_runs,
    run_key,
)
from simindex.queries.scheme import Scheme
from simindex.queries.scopes import Scopes
from simindex.segments.directory import EVERY as EVERY
from simindex.segments.directory import Directory, Segment, whole_form
from simindex.segments.memory import MemorySegment
from simindex.sketching.sketch import HAS_FINGERPRINT, OF_ROWS, SketchBatch
from simindex.storage.environment import ReadTransaction
from simindex.storage.lmdb_file import MAIN


@dataclass
class Snapshot:
    """The directory of one committed state."""

    transaction_id: int
    map_generation: int
    stored_manifest: bytes
    manifest: Manifest
    directory: Directory
    scopes: Scopes
    records_tree: tuple[int, int, int, int, int] | None = None  # `ReadTransaction.tree`, on first use

    @cached_property
    def segments(self) -> dict[int, Segment]:
        """The live segments by id; made on first use, for a commit of one document needs none."""
        return {segment.entry.id: segment for segment in cast("list[Segment]", self.directory.segments)}

    @cached_property
    def has_removed(self) -> bool:
        """Whether removed documents have entries in tables, which a merge takes out, or records, which stay
        while a mark waits."""
        manifest = self.manifest
        num_keys = sum(entry.num_keys for entry in manifest.segments)
        return bool(manifest.recent.marks) or num_keys > manifest.num_documents

    @cached_property
    def has_copies(self) -> bool:
        """Whether any document may be stored under the doc id of an earlier one, which may be removed."""
        return any(entry.num_copies for entry in self.manifest.segments)


class Expected(NamedTuple):
    """What the writer of this handle stored last, as one value: `newest` is a short last segment, `before`
    the manifest with all others."""

    encoded: bytes = b""
    manifest: Manifest = Manifest()
    transaction_id: int = -1
    newest: bytes = b""
    before: Manifest | None = None


def stored_manifest(txn: ReadTransaction) -> bytes:
    """Return the manifest's bytes. Raises CorruptIndexError when there is none."""
    value = txn.get(MAIN, MANIFEST_KEY)
    if not value:
        raise CorruptIndexError("manifest: expected one, found nothing; restore a backup")
    return bytes(value)


def stored_records(
    txn: ReadTransaction, manifest: Manifest, first: bytes
) -> Iterator[tuple[bytes, memoryview]]:
    """Yield (database key, record) of the live documents from a key on, in order."""
    recent = manifest.recent
    waiting = ((key, memoryview(record)) for key, record in recent.live_records() if key >= first)
    items, marked = chain(txn.items("documents", first), waiting), set(map(doc_id_key, recent.marks))
    return (item for item in items if item[0] not in marked) if marked else items


def stored_notes(txn: ReadTransaction) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the notes of calls that may be repeated, (key, value), in the order of their turns."""
    items = txn.items("meta", DONE_PREFIX)
    return takewhile(lambda item: item[0].startswith(DONE_PREFIX), items)


class Reader:
    """Gives calls of any thread the state that they see, and keeps the last snapshot; `open_changes` returns
    those of an open transaction inside of its block."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme
        self.open_changes: Callable[[], PendingView | None] | None = None
        self._tables = scheme.tables
        self._last: Snapshot | None = None
        self.expected = Expected()
        self.compared = array("Q", [0, 0])
        """Stored sketches that queries compared: in the kernel, which counts in any thread, and in Python."""
        self._scopes = Scopes()

    def view(self, txn: ReadTransaction) -> View:
        """Return the state that queries see: inside a transaction of the handle, its own changes, too."""
        open_changes = self.open_changes
        return View(txn, self.current(txn), self.scheme, None if open_changes is None else open_changes())

    def committed_view(self, txn: ReadTransaction) -> View:
        """Return the committed state."""
        return View(txn, self.current(txn), self.scheme)

    def current(self, txn: ReadTransaction) -> Snapshot:
        """Return the snapshot of a transaction, and keep it for later calls; only segments that are new are
        loaded."""
        last = self._last
        if last is not None and last.map_generation == txn.map_generation:
            if last.transaction_id == txn.id:
                return last
            own = self.expected
            if own.transaction_id == txn.id and own.before is last.manifest:
                return self._with_own(last, own)
            known: Mapping[int, Segment] = last.segments
        else:
            last, known = None, {}
        stored = stored_manifest(txn)
        if last is not None and last.stored_manifest == stored:
            fresh = Snapshot(txn.id, txn.map_generation, stored, last.manifest, last.directory, self._scopes)
        else:
            expected, manifest, *_ = self.expected
            if stored != expected:
                manifest = decode_manifest(stored)
                self._require_possible(txn, manifest)
            segments = [known.get(entry.id) or self.load(txn, entry) for entry in manifest.segments]
            directory = Directory(self._tables, segments, txn.mapped_file(), self.compared)
            fresh = Snapshot(txn.id, txn.map_generation, stored, manifest, directory, self._scopes)
        self._last = fresh
        return fresh

    def forget(self) -> None:
        """Let go of the last snapshot, and of the file that it is of."""
        self._last = None

    def _with_own(self, last: Snapshot, own: Expected) -> Snapshot:
        """Keep and return a snapshot that is the last one with the segment of this handle's own commit on
        top."""
        entry = own.manifest.segments[-1]
        segment = Segment.of_value(whole_form(self._tables, entry[3:]), entry, own.newest)
        directory = last.directory.with_newest(segment)
        state = own.transaction_id, last.map_generation, own.encoded, own.manifest
        self._last = Snapshot(*state, directory, self._scopes)
        return self._last

    def _require_possible(self, txn: ReadTransaction, manifest: Manifest) -> None:
        """Raise CorruptIndexError where the manifest counts more than stored pages have room for, before
        memory is asked for, or another number of records than are stored."""
        expected, room = self._tables.stored_bytes(manifest.segments), txn.sizes()["segments"]
        records = txn.count("documents")
        if expected > room:
            problem = f"segments in the {room} bytes of their pages, found counts for {expected} bytes"
        elif records != manifest.num_records:
            problem = (
                f"the count of the {records} records that are stored, found {manifest.num_records}: it "
                "is of another time"
            )
        else:
            return
        raise damaged(f"manifest: expected {problem}", key=MANIFEST_KEY)

    def load(self, txn: ReadTransaction, entry: SegmentEntry) -> Segment:
        """Return a live segment, which reads its stored values through the transaction."""
        scan = partial(txn.values, "segments") if entry.chunked else None
        return Segment(self._tables, entry, partial(txn.get, "segments"), scan)


_CROWD = 8
"""Entries of one hash in the key table; by chance no two keys have one."""

_RECORDS_A_TIME = 1_000
"""Records that are copied in one go where each is looked at."""


class PendingView(NamedTuple):
    """What an open transaction adds to a snapshot; `record` returns the record of one of its doc ids."""

    segments: list[MemorySegment]
    by_key: Mapping[bytes, int]  # to the doc ids of live documents, ascending
    gone: Set[int]  # doc ids that it removed or dropped
    num_removed: int
    record: Callable[[int], StoredRecord | None]
    touched: Set[int] = frozenset()
    time: int = 0
    sources: int = 0


_NOTHING_PENDING = PendingView([], {}, frozenset(), 0, lambda _: None)


class View:
    """One consistent state of the index, for the length of a call."""

    __slots__ = "_snapshot", "_txn", "directory", "has_copies", "manifest", "pending", "scheme", "sources"

    def __init__(
        self, txn: ReadTransaction, snapshot: Snapshot, scheme: Scheme, pending: PendingView | None = None
    ) -> None:
        self.scheme = scheme
        self._txn = txn
        self._snapshot = snapshot
        self.manifest = snapshot.manifest
        self.has_copies = snapshot.has_copies
        self.pending = pending or _NOTHING_PENDING
        self.sources = snapshot.manifest.sources | self.pending.sources
        """What the sketches are of: OF_DOCUMENTS, OF_ROWS, or 0 where there are none of both."""
        self.directory = snapshot.directory
        if self.pending.segments:
            self.directory = Directory(
                scheme.tables,
                [*snapshot.directory.segments, *self.pending.segments],
                snapshot.directory.mapped,
                snapshot.directory.compared,
            )

    def with_pending(self, pending: PendingView | None) -> View:
        """Return a view of the same snapshot with these pending documents on top, ``None`` for no pending
        ones."""
        return View(self._txn, self._snapshot, self.scheme, pending)

    @property
    def state(self) -> tuple[int, int]:
        """(generation of the map, id of the last commit), which ascends with the committed states that this
        handle sees."""
        return self._snapshot.map_generation, self._snapshot.transaction_id

    @property
    def scopes(self) -> Scopes:
        """What is known of fields of the metadata."""
        return self._snapshot.scopes

    def segment(self, entry: SegmentEntry) -> Segment:
        """Return a live committed segment; its addresses are valid for the length of this view."""
        return self._snapshot.segments[entry.id]

    @property
    def num_documents(self) -> int:
        """Number of live documents, with the changes of the open transaction."""
        return self.manifest.num_documents + len(self.pending.by_key) - self.pending.num_removed

    @property
    def has_marks(self) -> bool:
        """Whether any document is marked as removed, if only since copies share its sketch."""
        return bool(self.manifest.recent.marks) or self._txn.count("removed") > 0

    # ---- records ----

    def record(self, doc_id: int) -> StoredRecord | None:
        """Return a document's record, or ``None`` when it was removed. Raises CorruptIndexError for a
        committed one that has no record and was not removed."""
        pending = self.pending
        if pending is not _NOTHING_PENDING:
            if doc_id in pending.gone:
                return None
            found = pending.record(doc_id)
            if found is not None:
                return found
        value = self._stored(doc_id)
        if value is not None:
            record = decode_record(doc_id, value)
            return self._touched(doc_id, record) if pending.touched else record
        self._require_removed(doc_id)
        return None

    def live_records(self, rows: bytes) -> tuple[Sequence[int], list[Key], list[bytes | FoundRecord]]:
        """Return the indices of live documents among rows of `MATCH`, their keys, and their records for
        `decode_found`. Removed documents are left out; others without a record raise CorruptIndexError.

        Seals are checked and bytes copied here; what else a record holds can be read when the snapshot is
        gone. Touches of an open transaction are not in them.
        """
        snapshot, gone = self._snapshot, self.pending.gone
        if snapshot.records_tree is None:
            snapshot.records_tree = self._txn.tree("documents")
        records, num_stored, packed = _kernel.find_records(*snapshot.records_tree, rows)
        keys = decode_keys(num_stored, packed)
        if num_stored == len(records) and not gone and not snapshot.has_removed:
            return range(num_stored), keys, records  # type: ignore[return-value] # none of them is None
        live, following = list[tuple[int, Key, bytes | FoundRecord]](), iter(keys)
        for index, (found, (doc_id, *row)) in enumerate(zip(records, MATCH.iter_unpack(rows), strict=True)):
            key = next(following) if found else ""
            if doc_id in gone:
                continue
            if found is None:  # it is of an open transaction, or was removed, or is damaged
                if (record := self.record(doc_id)) is not None:
                    live.append((index, record.key, (record, *row)))
                continue
            if snapshot.has_removed and self.removed_flags(doc_id) and self._stored(doc_id) is None:
                continue
            live.append((index, key, found))
        return [row[0] for row in live], [row[1] for row in live], [row[2] for row in live]

    def _touched(self, doc_id: int, record: StoredRecord) -> StoredRecord:
        """Return a committed record as this change has touched it; itself, where it has not or its time is
        later."""
        if doc_id not in self.pending.touched or record.age_from >= self.pending.time:
            return record
        return record._replace(seen_at=self.pending.time)

    def stored_record(self, doc_id: int) -> memoryview:
        """Return the stored bytes of a live committed document. Raises CorruptIndexError where none are."""
        value = self._stored(doc_id)
        if value is None:
            raise self._missing(doc_id)
        return value

    def _stored(self, doc_id: int) -> memoryview | None:
        """Return the stored bytes of a committed doc id; ``None`` where there are none, or its mark waits in
        the manifest. Raises CorruptIndexError for those of a removed document: an older page leads to older
        records."""
        recent = self.manifest.recent
        if doc_id in recent.marks:
            return None
        if doc_id in recent.records:
            return memoryview(recent.records[doc_id])
        value = self._txn.get("documents", doc_id_key(doc_id))
        if value is not None and self._snapshot.has_removed and self.removed_flags(doc_id):
            raise damaged(
                f"document {doc_id}: expected no record of a removed document, found one",
                key=doc_id_key(doc_id),
            )
        return value

    def _require_removed(self, doc_id: int) -> None:
        """Raise CorruptIndexError for a doc id, which has no record, unless it was removed."""
        if not self.removed_flags(doc_id):
            raise self._missing(doc_id)

    @staticmethod
    def _missing(doc_id: int) -> CorruptIndexError:
        return damaged(f"document {doc_id}: expected a record, found none, and it was not removed")

    def removed_flags(self, doc_id: int) -> int:
        """Return the REMOVED flags of a committed doc id, 0 when nothing of it is gone."""
        if doc_id in self.manifest.recent.marks:
            return self.manifest.recent.marks[doc_id]
        value = self._txn.get("removed", doc_id_key(doc_id))
        return 0 if value is None else decode_flags(doc_id, value)

    def have_no_mark(self, doc_ids: np.ndarray) -> np.ndarray:
        """Return which committed doc ids are not marked as removed, bool."""
        if not self.has_marks:
            return np.ones(len(doc_ids), dtype=bool)
        each, inverse = np.unique(doc_ids, return_inverse=True)
        return np.array([not self.removed_flags(doc_id) for doc_id in each.tolist()], dtype=bool)[inverse]

    def removed_between(self, first: int, end: int) -> dict[int, int]:
        """Return doc id -> REMOVED flags of the marked ones of first..end-1, ascending."""
        marks = self.manifest.recent.marks
        removed = {doc_id: flags for doc_id, flags in marks.items() if first <= doc_id < end}
        # A merge asks with every few inserts, and mostly nothing is.
        items = self._txn.items("removed", doc_id_key(first)) if self._txn.count("removed") else ()
        for doc_id, value in numbered(items, "removed", first):
            if doc_id >= end:
                break
            removed[doc_id] = decode_flags(doc_id, value)
        return dict(sorted(removed.items()))

    def group_size(self, leader: int) -> int | None:
        """Return how many live documents share a leader's sketch; ``None`` where it has no group of
        copies."""
        value = self._txn.get("groups", doc_id_key(leader))
        return None if value is None else decode_group_size(leader, value)

    def records_from(self, first: int, limit: int, end: int = EVERY) -> list[tuple[int, StoredRecord]]:
        """Return up to `limit` live documents as (doc id, record), in order, from `first` to the exclusive
        `end`, those of the open transaction last. Raises CorruptIndexError for a doc id ahead of the
        manifest."""
        found: list[tuple[int, StoredRecord]] = []
        # From the very first key, for a damaged one can be shorter than a doc id.
        items = stored_records(self._txn, self.manifest, doc_id_key(first) if first else b"")
        for doc_id, value in numbered(items, "documents", first):
            if doc_id >= self.manifest.next_doc_id:
                raise damaged(
                    f"document {doc_id}: expected doc ids below {self.manifest.next_doc_id}; stored doc ids "
                    "are ahead of the manifest",
                    key=doc_id_key(doc_id),
                )
            if doc_id >= end:
                return found
            if doc_id not in self.pending.gone:
                found.append((doc_id, self._touched(doc_id, decode_record(doc_id, value))))
                if len(found) == limit:
                    return found
        for doc_id in self.pending.by_key.values():
            record = self.pending.record(doc_id) if first <= doc_id < end else None
            if record is not None:
                found.append((doc_id, record))
                if len(found) == limit:
                    break
        return found

    # ---- ages ----

    def runs(self) -> Iterator[Run]:
        """Yield the committed runs of ages, oldest first, without the tail that the manifest has."""
        yield from decode_runs(self._txn.items("ages"), self.manifest.next_doc_id)

    def run_end(self, time: int, first: int) -> int | None:
        """Return the exclusive end of the committed run of that time that begins at doc id `first`, or
        ``None`` when there is no such run."""
        key = run_key(time, first)
        value = self._txn.get("ages", key)
        return None if value is None else decode_run(key, value, self.manifest.next_doc_id).end

    # ---- keys ----

    def find_key(self, key: object) -> tuple[int, StoredRecord] | None:
        """Return (doc id, record) of a stored key, or ``None``. Raises TypeError or ValueError for what is no
        key."""
        encoded = encode_key(key)
        rows = self.directory.find_rows(KEY_TABLE, table_key(key_hash(encoded)), EVERY)
        return self._of_keys(rows, [encoded]).get(0) if rows else None

    def find_stored(self, key: object) -> tuple[int, StoredRecord]:
        """Return (doc id, record) of a stored key. Raises KeyError when there is none, and as `find_key`."""
        found = self.find_key(key)
        if found is None:
            raise KeyError(key)
        return found

    def find_keys(
        self, encoded: list[bytes] | Packed, hashes: np.ndarray
    ) -> dict[int, tuple[int, StoredRecord]]:
        """Return index -> (doc id, record) for the encoded keys that are stored."""
        found: dict[int, tuple[int, StoredRecord]] = {}
        rows = self.directory.find_entries(KEY_TABLE, hashes, EVERY if len(encoded) == 1 else _CROWD)
        if len(encoded) > 1 and len(rows) >= _CROWD:
            is_crowded = np.bincount(rows["query"]) == _CROWD
            if is_crowded.any():
                found = self._find_crowded(np.flatnonzero(is_crowded).tolist(), encoded, hashes)
                rows = rows[~is_crowded[rows["query"]]]
        return found | self._of_keys(rows.tobytes(), encoded) if len(rows) else found

    def _of_keys(self, rows: bytes, encoded: Sequence[bytes] | Packed) -> dict[int, tuple[int, StoredRecord]]:
        """Return index -> (doc id, record) of rows of `MATCH` found by the hashes of keys; rows whose
        document has another key of the same hash are left out."""
        found: dict[int, tuple[int, StoredRecord]] = {}
        doc_ids = [doc_id for doc_id, *_ in MATCH.iter_unpack(rows)]
        indices, keys, records = self.live_records(rows)
        for at, key, (record, index, _, _) in zip(indices, keys, map(decode_found, records), strict=True):
            if encode_key(key) == encoded[index]:
                found[index] = doc_ids[at], self._touched(doc_ids[at], record)
        return found

    def _find_crowded(
        self, indices: Iterable[int], encoded: list[bytes] | Packed, hashes: np.ndarray
    ) -> dict[int, tuple[int, StoredRecord]]:
        """Return what `find_keys` does for some indices, whose hashes many stored keys have, as keys made
        for it do. Each record is read once, not once for each of these indices."""
        found: dict[int, tuple[int, StoredRecord]] = {}
        wanted: dict[bytes, list[int]] = {}
        for index in indices:
            wanted.setdefault(encoded[index], []).append(index)
        shared = distinct(hashes[[*indices]])
        for _, doc_id in self.directory.find_keys(KEY_TABLE, shared, EVERY):
            record = self.record(doc_id)
            if record is not None:
                found |= dict.fromkeys(wanted.get(encode_key(record.key), ()), (doc_id, record))
        return found

    # ---- copies ----

    def copies_of(self, leader: int, limit: int = EVERY) -> list[int]:
        """Return up to `limit` doc ids, ascending, of the copies that share a leader's sketch, removed ones
        included."""
        return self.directory.find_key(COPY_TABLE, table_key(leader), limit)

    def copies_of_each(self, leaders: list[int], limit: int) -> dict[int, list[int]]:
        """Return what `copies_of` does for those leaders that have copies: all, or enough that `limit` of
        the documents with that sketch are live."""
        copies: dict[int, list[int]] = {}
        entries = self.directory.find_keys(COPY_TABLE, array("Q", leaders), limit)
        for index, copy in entries:
            copies.setdefault(leaders[index], []).append(copy)
        if self._snapshot.has_removed or self.pending.gone:
            for leader, some in copies.items():
                if len(some) >= limit:
                    live = self.documents_with(leader, limit)
                    copies[leader] = [doc_id for doc_id, _ in live if doc_id != leader]
        return copies

    def documents_with(self, doc_id: int, limit: int) -> list[tuple[int, StoredRecord]]:
        """Return (doc id, record) of the live documents with the sketch stored under a doc id, in order of
        doc id: `limit` at most, 1 or more."""
        record = self.record(doc_id)
        documents = [] if record is None else [(doc_id, record)]
        if not self.has_copies:
            return documents
        room = limit - len(documents)
        # Removed copies stay in the table until the next merge: look at more than are wanted.
        wanted = room + 16
        while room:
            copies = self.copies_of(doc_id, wanted)
            live = [(copy, found) for copy in copies if (found := self.record(copy)) is not None]
            if len(live) >= room or len(copies) < wanted:
                return documents + live[:room]
            wanted *= 4
        return documents

    def all_with(self, doc_ids: np.ndarray) -> Iterator[tuple[int, StoredRecord]]:
        """Yield (index in `doc_ids`, record) of all live documents with the sketches stored under some doc
        ids, uint64, ascending; in order of doc id. Touches of an open transaction are not in them."""
        rows = np.zeros(len(doc_ids), dtype=MATCHES)
        rows["doc_id"], rows["query"] = doc_ids, np.arange(len(doc_ids))
        if self.has_copies:
            rows = np.concatenate([rows, self.directory.find_entries(COPY_TABLE, doc_ids, EVERY)])
            rows = rows[np.argsort(rows["doc_id"], kind="stable")]
        for first in range(0, len(rows), _RECORDS_A_TIME):
            _, _, found = self.live_records(rows[first : first + _RECORDS_A_TIME].tobytes())
            for record, index, _, _ in map(decode_found, found):
                yield index, record

    def count_shingles(self, keys: np.ndarray, enough: float = EVERY) -> np.ndarray:
        """Return how many documents have each shingle key, uint64, copies included, and removed ones until
        they are merged away; more than `enough` need not be counted to the end."""
        table = self.directory.geometry.shingle_table
        counts = self.directory.count_keys(table, keys)
        if not self.has_copies:
            return counts
        few = np.flatnonzero((counts > 0) & (counts <= enough))
        for first, _, entries in self.directory.entries_of(table, keys[few], counts[few]):
            doc_ids, at = np.unique(entries["doc_id"], return_inverse=True)
            of_leaders = np.flatnonzero(self.directory.count_keys(COPY_TABLE, doc_ids))
            more = np.zeros(len(doc_ids), dtype=np.uint64)
            more[of_leaders] = [(self.group_size(leader) or 1) - 1 for leader in doc_ids[of_leaders].tolist()]
            np.add.at(counts, few[first + entries["query"]], more[at])
        return counts

    def leaders(self) -> list[int]:
        """Return the doc ids under which sketches of groups of copies are stored, in order."""
        return [doc_id for doc_id, _ in numbered(self._txn.items("groups", b""), "groups")]

    def has_owner(self, doc_id: int) -> bool:
        """Whether a live committed document has the sketch stored under a doc id, its own or as a copy."""
        return self._stored(doc_id) is not None or self.group_size(doc_id) is not None

    def sketch_dead(self, doc_id: int) -> bool:
        """Whether no live document has the sketch stored under a committed doc id any more."""
        return bool(self.removed_flags(doc_id) & REMOVED_SKETCH)

    def sketch_batch(self, doc_id: int, record: StoredRecord) -> SketchBatch:
        """Return the stored sketch of a document, as a batch of one; an empty one for a record without a
        sketch."""
        config = self.scheme.config
        # No document has a fingerprint alone: that one was brought in.
        is_own = not self.sources & OF_ROWS and record.present != HAS_FINGERPRINT
        origin = self.scheme.origin if is_own or not config.num_perm else None
        batch = SketchBatch(1, config.num_perm, config.keep_shingles, origin)
        if batch.kept is not None and record.kept is not None:
            batch.kept[0] = decode_kept(record.kept)
        if not record.present:
            return batch
        owner = np.array([doc_id if record.leader is None else record.leader], dtype=np.uint64)
        batch.words, batch.fingerprints = self.directory.read_sketches(owner)
        batch.present[0], batch.num_shingles[0] = record.present, record.num_shingles
        return batch
