"""A change that is not committed yet: documents in memory with their doc ids, a view of them for queries, and
what a commit stores of their ages and copies.

Invariant: doc ids are given in order of insertion and never twice, those of documents that are removed again
in the same change included.

What queries see is a log-structured merge tree like the stored one: the newest documents are a segment that
grows by one, and neighbouring segments of one size class become one of the next. So each document is sorted
a few times and a query asks few segments, however many documents there are.

Ages: after the commit every live document lies in a run whose time is not behind its own. A touched
document keeps its place in the run of its insert, which expiry passes by, and gets a run for its touch.
Touched again, or removed, it leaves that run; one that all of its documents leave in a commit goes, so a
document that is touched every day has one run, not one a day.

Copies: a document whose whole sketch equals that of a stored one (its leader), and whose sampled shingles do
where there are any, gets no table entries of its own: its record names the leader, and the copy table lists
it under the leader's doc id. A group counts its live documents; the leader's sketch and sampled shingles stay
until the last of them is removed, whether the leader's own document is still there or not.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from operator import attrgetter

import numpy as np

from simindex import _kernel
from simindex.changes.documents import NewDocuments
from simindex.errors import CorruptIndexError, SimIndexError
from simindex.format.chunks import shingle_keys
from simindex.format.keys import doc_id_key
from simindex.format.layout import COPY_TABLE, FIRST_BAND_TABLE
from simindex.format.meta import Note
from simindex.format.packed import Packed
from simindex.format.records import (
    MAX_INSERTED_AT,
    REMOVED_DOCUMENT,
    REMOVED_SKETCH,
    Run,
    StoredRecord,
    decode_record,
    encode_touched,
)
from simindex.queries.scheme import Scheme
from simindex.queries.view import EVERY, PendingView, View
from simindex.segments.build import Puts
from simindex.segments.memory import GrowingSegment, MemorySegment, memory_segment
from simindex.sketching.sample import Samples
from simindex.sketching.sketch import SketchBatch, require_alike

_FIRST_MEMORY_SEGMENT = 2**63
"""Ids of segments in memory: from the top, for no committed segment has them and they are never stored."""

_TIER_BITS = 3
"""Eight segments of a size class become one of the next."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Neighbours in doc id; `segment` holds them where queries have asked for it and not all were dropped."""

    documents: NewDocuments
    first: int
    segment: MemorySegment | None = None

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def size_class(self) -> int:
        """The exponent of the largest power of eight that the number of documents reaches."""
        return (len(self.documents).bit_length() - 1) // _TIER_BITS


_DOCUMENT_BYTES = 1_000
"""What a document takes beside what `_bytes_of` counts: its entries in a segment in memory, and Python's
objects (measured with the default settings: 400 bytes in all, 950 once queries have seen it)."""


def _bytes_of(documents: NewDocuments) -> int:
    kept, samples = documents.sketches.kept or (), documents.sketches.samples
    return (
        _DOCUMENT_BYTES * len(documents)
        + documents.sketches.words.nbytes
        + len(documents.encoded_keys.data)
        + len(documents.packed_metadata.data)
        + sum(hashes.nbytes for hashes in kept if hashes is not None)
        + (0 if samples is None else samples.hashes.nbytes)
    )


@dataclass(slots=True)
class Pending:
    """Changes that are not committed yet: documents, removals, touches, and the runs of ages that
    these change."""

    scheme: Scheme
    first_doc_id: int
    inserted_at: int
    count: int = 0
    removed: dict[int, StoredRecord] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)  # committed ones, like `removed`
    runs: dict[tuple[int, int], int] = field(default_factory=dict)  # (time, first) -> behind; 0: to go
    tail: Run | None = None  # None: as it was
    gone: set[int] = field(default_factory=set)
    num_bytes: int = 0
    max_bytes: int | None = None
    sources: int = 0
    done: Note | None = None
    _parts: list[_Part] = field(default_factory=list)
    _by_key: dict[bytes, int] = field(default_factory=dict)
    _num_named: int = 0  # documents whose keys went there
    _num_dropped: int = 0  # of its own
    _num_sorted: int = 0  # parts with a segment of their own
    _num_seen: int = 0  # these and those in `_growing`
    _growing: GrowingSegment | None = None
    _num_segments: int = 0

    @property
    def size(self) -> int:
        """Number of changed documents, and of changed runs of ages; a note counts as one more."""
        others = (self.tail is not None) + (self.done is not None)
        return self.count + len(self.removed) + len(self.touched) + len(self.runs) + others

    @property
    def num_live(self) -> int:
        """Number of its own documents, without the dropped ones."""
        return self.count - self._num_dropped

    @property
    def by_key(self) -> dict[bytes, int]:
        """Return {encoded key: doc id} of the pending live documents, by ascending doc id. Built at the first
        call and extended at later ones, for most commits never ask."""
        first_unnamed = self.first_doc_id + self._num_named
        for part in self._parts[bisect_left(self._parts, first_unnamed, key=attrgetter("first")) :]:
            self._by_key.update(zip(part.documents.encoded_keys, count(part.first)))
        self._num_named = self.count
        return self._by_key

    def add(self, documents: NewDocuments, indices: list[int] | None = None) -> None:
        """Take in the documents at `indices`, or all, with the next doc ids.

        Raises as `require_fit`, with nothing added.
        """
        if indices is not None and len(indices) < len(documents):
            documents = documents.taken(indices)
        if not len(documents):
            return
        self.require_fit(documents)
        self.sources |= documents.sketches.sources
        first = self.first_doc_id + self.count
        self.count += len(documents)
        self._parts.append(_Part(documents, first))
        if self.max_bytes is not None:
            self.num_bytes += _bytes_of(documents)

    def require_fit(self, documents: NewDocuments) -> None:
        """Raise, before anything is done with them, for documents that cannot be added: SimIndexError where
        they exceed `max_bytes`, ConfigMismatchError where texts would stand beside rows that were brought
        in."""
        if self.sources != documents.sketches.sources:
            require_alike(self.sources, documents.sketches.sources)
        if self.max_bytes is not None and self.num_bytes + _bytes_of(documents) > self.max_bytes:
            raise SimIndexError(
                f"transaction: expected at most {self.max_bytes:,} bytes of documents that wait for its end, "
                f"found {len(documents):,} more beside the {self.num_bytes:,} bytes of {self.count:,}; "
                "end it more often, or begin it with a larger max_bytes"
            )

    def remove(self, encoded_key: bytes, committed: tuple[int, StoredRecord] | None) -> bool:
        """Remove a key; `committed` is what the snapshot has of it, if anything. False when it is nowhere, or
        was removed before."""
        doc_id = self.by_key.pop(encoded_key, None)
        if doc_id is not None:
            self.gone.add(doc_id)
            self._num_dropped += 1
            return True
        if committed is None or committed[0] in self.removed:
            return False
        self._remove_committed(*committed)
        return True

    def remove_doc_id(self, doc_id: int, record: StoredRecord) -> None:
        """Remove a live document, its own or a committed one, by its doc id."""
        if doc_id < self.first_doc_id:
            self._remove_committed(doc_id, record)
            return
        part = self._part_of(doc_id)
        self.remove(part.documents.encoded_keys[doc_id - part.first], None)

    def _remove_committed(self, doc_id: int, record: StoredRecord) -> None:
        # Its metadata is of no use any more, and may be long.
        self.removed[doc_id] = record._replace(metadata=None)
        self.gone.add(doc_id)
        self.touched.discard(doc_id)

    def touch(self, doc_ids: Iterable[int]) -> None:
        """Set the time of committed live documents to that of this change. Its own documents have it
        already."""
        self.touched.update(doc_id for doc_id in doc_ids if doc_id < self.first_doc_id)

    def holds(self, encoded_key: bytes, committed: tuple[int, StoredRecord] | None) -> bool:
        """Whether a key is stored, seen from inside this change."""
        if encoded_key in self.by_key:
            return True
        return committed is not None and committed[0] not in self.removed

    def documents(self, at: int = 0) -> tuple[NewDocuments, np.ndarray]:
        """Return its documents without the dropped ones, and their doc ids, uint64, ascending: those of the
        parts from index `at` on. Both are empty where there are none."""
        parts = self._parts[at:]
        if not parts:
            none, no_sketches = (
                np.empty(0, np.uint64),
                SketchBatch(0, self.scheme.config.num_perm, 0, None),
            )
            return NewDocuments(Packed.of([]), none, Packed.of([]), no_sketches), none
        new, first = parts[0].documents, parts[0].first
        if len(parts) > 1:
            new = NewDocuments.joined([part.documents for part in parts])
        doc_ids = np.arange(first, first + len(new), dtype=np.uint64)
        if self.gone:
            kept = [at for at, doc_id in enumerate(doc_ids.tolist()) if doc_id not in self.gone]
            if len(kept) < len(new):
                return new.taken(kept), doc_ids[kept]
        return new, doc_ids

    # ---- what queries see ----

    def view(self) -> PendingView:
        """Return what queries of the same thread see: its documents as segments in memory, and what it
        removes and touches."""
        by_key = self.by_key  # before parts become one
        self._take_newest()
        segments = [part.segment for part in self._parts[: self._num_sorted] if part.segment is not None]
        if self._growing is not None:
            segments.append(self._growing.segment())
        num_removed, time = len(self.removed), self.inserted_at
        return PendingView(
            segments, by_key, self.gone, num_removed, self.record, self.touched, time, self.sources
        )

    def _take_newest(self) -> None:
        """Let the documents that came since the last view grow a segment, or make one of their own."""
        newest, self._num_seen = self._parts[self._num_seen :], len(self._parts)
        if not newest:
            return
        growing = self._growing or GrowingSegment(self.scheme.tables, self._next_id(), newest[0].first)
        # A `GrowingSegment` has one entry a document and table, and of shingles there are several.
        has_shingles = self.scheme.tables.has_shingles
        if has_shingles or sum(map(len, newest)) > growing.room or not all(map(self._is_whole, newest)):
            self._sort_from(self._num_sorted)
            return
        for part in newest:
            new = part.documents
            sketches = new.sketches
            permuted = self.scheme.plan.permute(sketches.fingerprints)
            growing.add(new.key_hashes, sketches.words, sketches.fingerprints, permuted)
        self._growing = growing
        if not growing.room:
            self._sort_from(self._num_sorted)

    def _is_whole(self, part: _Part) -> bool:
        return set(part.documents.sketches.present.tolist()) == {self.scheme.whole_sketch}

    def _sort_from(self, at: int) -> None:
        """Make the parts from index `at` on one part with a segment, without the dropped documents. Where
        eight parts at the end, it included, are of its size class or smaller ones, these become one in
        turn."""
        parts = self._parts
        while True:
            documents = NewDocuments.joined([part.documents for part in parts[at:]])
            first, segment = parts[at].first, None
            live, doc_ids = self.documents(at)
            if len(live):
                data = live.segment_data(self.scheme, doc_ids, {})
                segment = memory_segment(self.scheme.tables, self._next_id(), data)
            parts[at:] = [_Part(documents, first, segment)]
            while at and parts[at - 1].size_class <= parts[-1].size_class:
                at -= 1
            if len(parts) - at < 1 << _TIER_BITS:
                break
        self._num_sorted = self._num_seen = len(parts)
        self._growing = None

    def _next_id(self) -> int:
        self._num_segments += 1
        return _FIRST_MEMORY_SEGMENT + self._num_segments

    def record(self, doc_id: int) -> StoredRecord | None:
        """Return the record of one of its documents, a dropped one included; ``None`` for a committed doc
        id."""
        if doc_id < self.first_doc_id:
            return None
        part = self._part_of(doc_id)
        return part.documents.record(doc_id - part.first, self.inserted_at)

    def _part_of(self, doc_id: int) -> _Part:
        """Return the part that a doc id was given in."""
        return self._parts[bisect_right(self._parts, doc_id, key=lambda part: part.first) - 1]


def current_time() -> int:
    """Return the microseconds since 1970 UTC; where the clock stands outside of what a record can hold, the
    nearest that it can."""
    return min(max(time.time_ns() // 1000, 0), MAX_INSERTED_AT)


def change_of_ages(pending: Pending, tail: Run, view: View) -> tuple[Puts, dict[tuple[int, int], int], Run]:
    """Return what a commit stores of ages: (doc id keys and new records of touched documents, runs as (time,
    first doc id) -> exclusive end, where 0 removes the run, and the tail after it). A touched document whose
    time is later already stays as it is."""
    runs = dict(pending.runs)
    tail, ended = (pending.tail or tail).grown(pending.count, pending.inserted_at)
    if ended is not None:
        runs[ended.time, ended.first] = ended.end
    if not pending.removed and not pending.touched:
        return [], runs, tail
    leaving = {n: record.seen_at for n, record in pending.removed.items() if record.seen_at is not None}
    records: Puts = []
    touched: list[int] = []
    for doc_id in sorted(pending.touched):
        value = view.stored_record(doc_id)
        record = decode_record(doc_id, value)
        # A clock that goes back makes no document older.
        if record.age_from < pending.inserted_at:
            records.append((doc_id_key(doc_id), encode_touched(doc_id, value, pending.inserted_at)))
            touched.append(doc_id)
            if record.seen_at is not None:
                leaving[doc_id] = record.seen_at
    for key in _left_by_all(leaving, view):
        runs.setdefault(key, 0)
    for first, end in side_by_side(touched):
        runs[pending.inserted_at, first] = end
    return records, runs, tail


def _left_by_all(leaving: dict[int, int], view: View) -> list[tuple[int, int]]:
    """Return the runs of touches, as (time, first doc id), that all of their documents leave; `leaving` is
    doc id -> time of its touch."""
    left = []
    for doc_id, seen_at in leaving.items():
        end = view.run_end(seen_at, doc_id)
        if end is not None and all(leaving.get(other) == seen_at for other in range(doc_id, end)):
            left.append((seen_at, doc_id))
    return left


def side_by_side(doc_ids: list[int]) -> list[tuple[int, int]]:
    """Return the ranges of consecutive ones that ascending doc ids make, as (first, exclusive end)."""
    ranges: list[tuple[int, int]] = []
    for doc_id in doc_ids:
        if ranges and ranges[-1][1] == doc_id:
            ranges[-1] = ranges[-1][0], doc_id + 1
        else:
            ranges.append((doc_id, doc_id + 1))
    return ranges


EQUAL_SKETCHES = 8
"""Stored sketches of a segment, with an equal first band, that are compared with each document."""


def fold_copies(doc_ids: np.ndarray, batch: SketchBatch, view: View) -> tuple[dict[int, int], dict[int, int]]:
    """Find the documents of a batch whose whole sketch and sample are equal to those of a stored or an
    earlier document. Return (index in the batch -> doc id of its leader, leader -> new size of its group).

    A removed leader counts while a copy of it lives. Both are empty where the index keeps shingles. Of each
    segment at most `EQUAL_SKETCHES` sketches are compared with one, so a copy may be missed.
    """
    leaders: dict[int, int] = {}
    groups: dict[int, int] = {}
    if batch.kept is not None:
        return leaders, groups  # equal rows do not mean equal shingles
    samples = None if batch.samples is None else _Samples(batch.samples, view)
    scheme, present, words, fingerprints = view.scheme, batch.present, batch.words, batch.fingerprints
    indices: Sequence[int] = range(len(present))
    # Counted in Python: for one document an array's comparison, or `all`, would cost as much as the search.
    are_printed = not scheme.config.simhash or 0 not in fingerprints.tolist()
    if not are_printed or present.tobytes().count(scheme.whole_sketch) < len(present):
        is_whole = (present == scheme.whole_sketch) & (fingerprints != 0 if scheme.config.simhash else True)
        words, fingerprints = words[is_whole], fingerprints[is_whole]
        indices = np.flatnonzero(is_whole).tolist()
    dead: dict[int, bool] = {}
    if scheme.tables.bands:
        table, keys = FIRST_BAND_TABLE, np.ascontiguousarray(words[:, 0])
    else:
        table = scheme.tables.first_permutation
        keys = np.ascontiguousarray(scheme.plan.permute(fingerprints)[0])
    for found, leader in view.directory.find_equal(table, keys, words, fingerprints, EQUAL_SKETCHES):
        index = indices[found]
        if index in leaders:
            continue
        if leader not in dead:
            dead[leader] = view.sketch_dead(leader)
        if not dead[leader] and (samples is None or samples.are_of(leader, index)):
            leaders[index] = leader
    if len(indices) > 1:
        if leaders:
            new = [row for row, index in enumerate(indices) if index not in leaders]
            indices, words, fingerprints = [indices[row] for row in new], words[new], fingerprints[new]
        for index, first in _twins(words, fingerprints, indices, samples):
            leaders[indices[index]] = int(doc_ids[indices[first]])
    for leader in leaders.values():
        if leader not in groups:
            groups[leader] = view.group_size(leader) or 1
        groups[leader] += 1
    return leaders, groups


def removal_marks(
    removed: dict[int, StoredRecord], groups: dict[int, int], view: View
) -> tuple[dict[int, int], int]:
    """Return (doc id -> REMOVED flags to store, how many fewer copies there are).

    Of a group all but one are copies, whichever are left. Group sizes are counted down in `groups`; 0 means
    that the group is gone: its leader gets a mark, too, so that its sketch goes. Raises CorruptIndexError
    where the group of a copy is missing, or counts too few.
    """
    marks: dict[int, int] = {}
    given_up: list[int] = []
    copies = 0
    for doc_id, record in removed.items():
        leader = doc_id if record.leader is None else record.leader
        size = groups[leader] if leader in groups else view.group_size(leader)
        if size is None:
            if record.leader is not None:
                raise CorruptIndexError(
                    f"document {doc_id}: expected a group of copies under the doc id {leader}, found none; "
                    "restore a backup, or repair the index",
                    key=doc_id_key(leader),
                )
            marks[doc_id] = REMOVED_DOCUMENT | REMOVED_SKETCH
            given_up.append(doc_id)
            continue
        groups[leader] = size - 1
        copies += size > 1
        if doc_id != leader:
            marks[doc_id] = REMOVED_DOCUMENT | REMOVED_SKETCH
        else:
            marks[leader] = REMOVED_DOCUMENT
        if size == 1:
            marks[leader] = REMOVED_DOCUMENT | REMOVED_SKETCH
            given_up.append(leader)
    if view.has_copies:
        _require_unused(given_up, removed, view)
    return marks, copies


def _require_unused(leaders: list[int], removed: Container[int], view: View) -> None:
    """Raise CorruptIndexError where a live document outside of `removed` has the sketch of one of `leaders`,
    which is to be given up: damaged groups count too few."""
    copies = view.directory.find_keys(COPY_TABLE, np.array(leaders, dtype=np.uint64), EVERY)
    for index, doc_id in (*enumerate(leaders), *copies):
        if doc_id not in removed and view.record(doc_id) is not None:
            raise CorruptIndexError(
                f"document {doc_id}: expected a group of copies that counts it under the doc id "
                f"{leaders[index]}, found none or a smaller one; restore a backup, or repair the index",
                key=doc_id_key(leaders[index]),
            )


class _Samples:
    """The sampled shingles of a batch, compared with stored ones: equal rows do not mean equal shingles."""

    def __init__(self, samples: Samples, view: View) -> None:
        self._samples, self._view = samples, view
        self._known: dict[tuple[int, bytes], bool] = {}

    def of(self, index: int) -> bytes:
        """Return bytes of the counts and the sampled shingles of the document at `index`: equal
        where these are equal, whatever the others are."""
        hashes, counts = self._hashes(index), self._counts(index)
        return np.array(counts, dtype=np.uint32).tobytes() + hashes.tobytes()

    def are_of(self, leader: int, index: int) -> bool:
        """Whether the batch's document at `index` has the same sampled shingles, and as many of all, as the
        stored `leader`."""
        asked = leader, self.of(index)
        if asked not in self._known:
            self._known[asked] = self._are_of(leader, index)
        return self._known[asked]

    def _are_of(self, leader: int, index: int) -> bool:
        # The leader may be removed; all that share its sketch have its counts.
        record = next((record for _, record in self._view.documents_with(leader, 1)), None)
        if record is None or (record.num_shingles, record.num_sampled) != self._counts(index):
            return False
        return self._view.directory.has_shingles(leader, shingle_keys(self._hashes(index)))

    @cached_property
    def _ends(self) -> list[int]:
        return [0, *self._samples.ends.tolist()]

    def _hashes(self, index: int) -> np.ndarray:
        return self._samples.hashes[self._ends[index] : self._ends[index + 1]]

    def _counts(self, index: int) -> tuple[int, int]:
        return int(self._samples.num_shingles[index]), int(self._samples.num_sampled[index])


def _twins(
    words: np.ndarray, fingerprints: np.ndarray, indices: Sequence[int], samples: _Samples | None
) -> list[tuple[int, int]]:
    """Return (row, first row equal to it) of each row that equals an earlier one, rows ascending. Equal are
    words, fingerprint and, where there are `samples`, the samples; `indices` has the index in the batch of
    each row."""
    if len(fingerprints) < 2:
        return []
    # Rows whose hash no other one has are no twins, and nearly all are none; near copies share a fingerprint.
    rows, parts = np.column_stack([words, fingerprints]), np.empty(len(fingerprints), np.uint64)
    _kernel.xxh64_each(rows, rows.shape[1] * rows.itemsize, 0, parts)
    ordered = np.sort(parts)
    shared = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(shared):
        return []
    firsts: dict[bytes, int] = {}
    twins: list[tuple[int, int]] = []
    for row in np.flatnonzero(np.isin(parts, shared)).tolist():
        sample = b"" if samples is None else samples.of(indices[row])
        first = firsts.setdefault(rows[row].tobytes() + sample, row)
        if first != row:
            twins.append((row, first))
    return twins
