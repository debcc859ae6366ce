"""The index as a container: records by key, and the views of keys, values and items, as a dict has them.

`Walk` reads all documents in order of doc id, a part at a time, and checks that none is missing: pages of
LMDB have no seals, and one that is lost takes its documents along without a trace. Invariant: a walk ends,
for it meets no doc id that was given since it began; where nothing was changed meanwhile it met as many
documents as there are, or it raises.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from simindex.errors import SimIndexError, damaged
from simindex.format.keys import Key, encode_key
from simindex.format.records import StoredRecord
from simindex.queries.view import View
from simindex.sketching.sketch import HAS_FINGERPRINT, Sketch


@dataclass(frozen=True)
class Record:
    """A stored document: what `index[key]` returns.

    Attributes:
        key: as it was inserted.
        metadata: as it was inserted (tuples come back as lists).
        inserted_at: time of the insert, UTC.
        sketch: its signature and fingerprint.
        seen_at: time of the last `touch`, or of the insert where there was none, UTC; `expire` goes by it.
    """

    key: Key
    metadata: Any
    inserted_at: datetime
    sketch: Sketch
    seen_at: datetime


def holds(view: View, key: object) -> bool:
    """Whether a key is stored. What cannot be a key is not stored, as in a dict."""
    return _is_key(key) and view.find_key(key) is not None


def record_or(view: View, key: Any, default: object) -> Any:
    """Return the record of a key, or the default where it is not stored or cannot be a key."""
    found = view.find_key(key) if _is_key(key) else None
    return default if found is None else as_record(view, *found)


def _is_key(key: object) -> bool:
    try:
        encode_key(key)
    except (TypeError, ValueError):
        return False
    return True


def record_of(view: View, key: Key) -> Record:
    """Return the record of a stored key. Raises KeyError when there is none, TypeError or ValueError for no
    key."""
    return as_record(view, *view.find_stored(key))


def as_record(view: View, doc_id: int, stored: StoredRecord) -> Record:
    """Return the public `Record` of what is stored under a doc id; its sketch is read."""
    sketch = view.sketch_batch(doc_id, stored)[0]
    inserted_at, seen_at = _time_of(stored.inserted_at), _time_of(stored.age_from)
    return Record(stored.key, stored.metadata, inserted_at, sketch, seen_at)


def _time_of(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Walk:
    """A walk over all documents; each part may be taken from a later state than the one before."""

    def __init__(self) -> None:
        self._first = 0
        self._end: int | None = None
        """The doc id after the last one of the state that it began in."""
        self._count = 0
        self._seen: tuple[int, int, int] | None = None
        self._pending: Mapping[bytes, int] | None = None
        self._is_same = True
        self._snapshot: object = None

    def require_snapshot(self, snapshot: object) -> None:
        """Remember the pinned snapshot that a part is read from, ``None`` where none is pinned; raise
        SimIndexError where one was remembered before and is another."""
        if self._snapshot is not None and snapshot is not self._snapshot:
            raise SimIndexError(
                "iteration: expected the pinned snapshot that it began in, found a newer one; it ended by "
                "refresh() or by a fork; begin again"
            )
        self._snapshot = snapshot

    def part(self, view: View, limit: int) -> list[tuple[int, StoredRecord]]:
        """Return the next live documents, up to `limit`, as (doc id, record), and move past them; an empty
        list at the end. Documents inserted since the first part are left out. Raises CorruptIndexError where
        nothing was changed and the whole walk met more or fewer documents than there are."""
        self._compare(view)
        if self._end is None:
            self._end = max([view.manifest.next_doc_id - 1, *view.pending.by_key.values()]) + 1
        found = view.records_from(self._first, limit, self._end)
        self._count += len(found)
        if found:
            self._first = found[-1][0] + 1
        if len(found) < limit and self._is_same and self._count != view.num_documents:
            raise damaged(f"documents: expected {view.num_documents} of them, found {self._count}")
        return found

    def _compare(self, view: View) -> None:
        """Set `_is_same` to False, for good, where documents were inserted or removed since the part before,
        as the next doc id and the counts of the two views tell."""
        manifest, pending = view.manifest, view.pending
        seen = manifest.next_doc_id, manifest.num_documents, len(pending.gone) + len(pending.by_key)
        if self._seen is not None and (seen != self._seen or pending.by_key is not self._pending):
            self._is_same = False
        self._seen, self._pending = seen, pending.by_key


_PART = 1_000
"""Documents of a walk that are read in one go."""

Take = Callable[[View, Walk], list[Any]]
"""Returns something of the next documents of a walk; an empty list at its end."""


def take_keys(view: View, walk: Walk) -> list[Key]:
    """Return the keys of the next documents, up to 1,000, and move the walk past them; an empty list at the
    end."""
    return [record.key for _, record in walk.part(view, _PART)]


def take_records(view: View, walk: Walk) -> list[Record]:
    """Return the public records of the next documents, up to 1,000, and move the walk past them; an empty
    list at the end."""
    return [as_record(view, doc_id, record) for doc_id, record in walk.part(view, _PART)]


def take_fingerprints(view: View, walk: Walk) -> list[tuple[list[Key], np.ndarray]]:
    """Move the walk past the next documents, up to 1,000, and return a list of one pair: the keys and the
    fingerprints (uint64) of those that have one, which may be none. An empty list at the end of the walk."""
    found = walk.part(view, _PART)
    with_bits = [(doc_id, record) for doc_id, record in found if record.present & HAS_FINGERPRINT]
    fingerprints = [view.sketch_batch(doc_id, record).fingerprints[0] for doc_id, record in with_bits]
    keys = [record.key for _, record in with_bits]
    return [(keys, np.array(fingerprints, dtype=np.uint64))] if found else []


class _Records:
    """What a view of an index is made of: `records` walks them, single ones are asked for by their keys."""

    def __init__(self, index: Any, records: Callable[[], Iterator[Record]]) -> None:
        super().__init__(index)  # type: ignore[call-arg] # of the view that is beside it
        self._index, self._records = index, records


class Values(_Records, ValuesView[Record]):
    """The records of an index, in order of insertion."""

    def __iter__(self) -> Iterator[Record]:
        return self._records()

    def __contains__(self, record: object) -> bool:
        return isinstance(record, Record) and self._index.get(record.key) == record


class Items(_Records, ItemsView[Key, Record]):
    """The keys of an index with their records, in order of insertion."""

    def __iter__(self) -> Iterator[tuple[Key, Record]]:
        return ((record.key, record) for record in self._records())

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        found = self._index.get(item[0])
        return found is not None and bool(found == item[1])
