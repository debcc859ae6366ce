"""Which documents have a value in a field of their metadata: kept in memory, for queries with `where=`.

A question to one user, site or language of many meets the near copies of all others, too. Where these are
more than a query compares, the documents of its own scope are compared alone. Which they are is read from the
records when it is first needed, field by field, and goes on with what is stored later: doc ids ascend and are
never given twice, and the metadata of a doc id never changes. Nothing of it is stored.

Invariant: what is known of a field holds for its state and later ones; an older snapshot is not answered by
it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from threading import Lock
from typing import Protocol

import numpy as np
import xxhash

from simindex.distinct import distinct
from simindex.format.meta import Manifest
from simindex.format.records import StoredRecord, pack_metadata
from simindex.queries.where import Filter

MOST_DOCUMENTS = 1 << 20
"""Of a larger index no field is read: a million documents take some 5 s, once, and 16 bytes each."""

MOST_FIELDS = 8

FEW_OWNERS = 4_096
"""A scope of so many is compared as it is; of a larger one another field may leave less."""

_READ_AT_ONCE = 10_000
_HALVES_BITS = 2


class Committed(Protocol):
    """A committed state, as a `View` without pending documents is one."""

    manifest: Manifest

    @property
    def state(self) -> tuple[int, int]:
        """What ascends with the states that a handle sees."""

    def records_from(self, first: int, limit: int) -> list[tuple[int, StoredRecord]]:
        """Return up to `limit` live documents in order of doc id."""


class _Field:
    """The documents by their values of one field, up to a doc id; `state` is that of the snapshot. Ctrl-C may
    end `read_on` anywhere: what was taken twice counts once."""

    def __init__(self) -> None:
        self.end, self.state = 0, (-1, -1)
        self._sorted = np.empty((2, 0), np.uint64)
        """Digests of values; owners and HAS_ bits of their sketches."""
        self._last = array("Q")
        """The same, in turn, of documents that came later."""

    def is_mostly_removed(self, view: Committed) -> bool:
        """Whether to begin anew, for most of what is known is of removed documents."""
        return self._sorted.shape[1] > 2 * view.manifest.num_documents + _READ_AT_ONCE

    def read_on(self, field: str, view: Committed) -> None:
        """Read the documents that were stored since the last call, and keep those that have a sketch and the
        field. A copy counts by the doc id that its sketch is stored under."""
        following = self.end
        while found := view.records_from(following, _READ_AT_ONCE):
            following = found[-1][0] + 1
            for doc_id, record in found:
                metadata = record.metadata
                if not record.present or not isinstance(metadata, dict) or field not in metadata:
                    continue
                owner = doc_id if record.leader is None else record.leader
                value = _digest(pack_metadata(metadata[field]))
                self._last.extend((value, owner << _HALVES_BITS | record.present))
        if len(self._last) > max(_READ_AT_ONCE, self._sorted.size // 16):
            both = np.concatenate([self._sorted, self._newest().T], axis=1)
            self._sorted = np.ascontiguousarray(both[:, np.argsort(both[0], kind="stable")])
            self._last = array("Q")
        self.end, self.state = view.manifest.next_doc_id, view.state

    def of(self, values: Iterable[bytes]) -> np.ndarray:
        """Return `doc_id << 2 | HAS_ bits`, uint64, ascending, each once, of the documents with one of these
        packed values; of a copy its leader's. Some may have another value, of an equal digest."""
        digests = np.array(list(map(_digest, values)), dtype=np.uint64)
        known, owners = self._sorted
        firsts, ends = (np.searchsorted(known, digests, side).tolist() for side in ("left", "right"))
        found = [owners[first:end] for first, end in zip(firsts, ends, strict=True)]
        if self._last:
            newest = self._newest()
            found.append(newest[np.isin(newest[:, 0], digests), 1])
        return distinct(np.concatenate(found))

    def _newest(self) -> np.ndarray:
        return np.array(self._last, dtype=np.uint64).reshape(-1, 2)


def _digest(packed: bytes) -> int:
    """Return the 64-bit hash of a packed value. All that is found by it has its record read, so that a chance
    equality costs a look alone."""
    return xxhash.xxh3_64_intdigest(packed)


class Scopes:
    """What is known of fields. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._fields: dict[str, _Field] = {}

    def owners(
        self, view: Committed, where: Filter, *, if_known: bool = False
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Return (doc ids that sketches are stored under, uint64, ascending; HAS_ bits of each, uint8) of
        committed documents, all that may pass a filter among them, and others where only some fields were
        looked at.

        ``None`` for a filter without fields, a large index and a snapshot older than what is known.
        `if_known`: only by fields that were read before. What was stored since is read.
        """
        fields = [each for each in where.fields if not if_known or each[0] in self._fields]
        if not fields or view.manifest.num_documents > MOST_DOCUMENTS:
            return None
        fewest: np.ndarray | None = None
        with self._lock:
            for name, values in fields:
                field = self._fields.pop(name, None)
                if field is None or field.is_mostly_removed(view):
                    field = _Field()
                self._fields[name] = field  # the last one used
                if view.state < field.state:
                    return None
                if view.state != field.state:
                    field.read_on(name, view)
                owners = field.of(values)
                if fewest is None or len(owners) < len(fewest):
                    fewest = owners
                if len(fewest) <= FEW_OWNERS:
                    break
            while len(self._fields) > MOST_FIELDS:
                del self._fields[next(iter(self._fields))]
        assert fewest is not None
        halves = (fewest & np.uint64((1 << _HALVES_BITS) - 1)).astype(np.uint8)
        return fewest >> np.uint64(_HALVES_BITS), halves
