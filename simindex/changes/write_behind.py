"""What a commit does with records and removal marks: they wait in the manifest, or go to their databases.

Invariant: after each commit a removed document has a mark and no record, or the mark is a recent one and the
record is there until both are written.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from simindex.format.keys import doc_id_key, doc_id_of
from simindex.format.meta import Manifest, encode_manifest
from simindex.format.packed import Pairs
from simindex.format.recent import Recent
from simindex.format.records import encode_flags
from simindex.format.seals import pack
from simindex.segments.build import Puts

_BESIDE_BYTES, _PAGE_BYTES = 2_020, 4_080
"""Of a value that LMDB keeps on the page of its key, and of one that has a page of its own."""

_ROOM_BYTES = 800
"""For changes, at least: with less they would be written too often."""

_MOST_CHANGES = 16
"""Records, or marks, of a commit that may wait. What has more writes full pages anyway."""


class WriteBehind:
    """The records and marks of one commit. `settle` comes last.

    Attributes:
        appended: records for `documents`, behind all that are there.
        touched: records of `documents` with another time.
        others: (database, key, value) of all else; ``None`` removes the key.
    """

    def __init__(self, recent: Recent) -> None:
        self._records, self._marks = {**recent.records}, {**recent.marks}
        self.appended, self.touched = Pairs([], []), Puts()
        self.others: list[tuple[str, bytes, Any]] = []
        self._waits = True

    def insert(self, records: Pairs) -> None:
        """Take records of new documents; comes before the other calls. Up to `_MOST_CHANGES` wait; more are
        to be appended, and those that waited before go with them."""
        if len(records) > _MOST_CHANGES:
            self._write_records()
            self.appended.keys.extend(records.keys)
            self.appended.values.extend(records.values)
        else:
            self._records.update(zip(map(doc_id_of, records.keys), records.values, strict=True))

    def touch(self, records: Puts) -> None:
        """Replace records of stored documents: those that wait here, others in `touched`."""
        for key, record in records:
            if (doc_id := doc_id_of(key)) in self._records:
                self._records[doc_id] = record
            else:
                self.touched.append((key, record))

    def remove(self, removed: Container[int], flags: dict[int, int]) -> None:
        """Take the marks to be stored, doc id -> flags. Those of documents in `removed`, and those that wait
        already, wait; any other, of a leader that an earlier commit removed, comes into `others`. More than
        `_MOST_CHANGES` marks do not wait."""
        for doc_id, its_flags in flags.items():
            if doc_id in removed or doc_id in self._marks:
                self._marks[doc_id] = its_flags
            else:
                self.others.append(("removed", doc_id_key(doc_id), encode_flags(doc_id, its_flags)))
        self._waits = len(flags) <= _MOST_CHANGES

    def forget(self, doc_ids: list[int]) -> None:
        """Remove the marks of documents of which no entry is left, and records that are still there."""
        for doc_id in doc_ids:
            database = "removed"
            if self._marks.pop(doc_id, None) is not None:
                if self._records.pop(doc_id, None) is not None:
                    continue
                database = "documents"
            self.others.append((database, doc_id_key(doc_id), None))

    def settle(self, manifest: Manifest, packed: list[bytes]) -> tuple[Manifest, bytes]:
        """Return a manifest that holds the changes that wait, and its stored bytes; what may not wait, or
        finds no room there, is moved to `appended` and `others`, to be stored. `packed`: as of
        `encode_manifest`."""
        settled, encoded = self._encoded(manifest, packed)
        if self._waits and len(encoded) <= _BESIDE_BYTES:
            return settled, encoded
        num_bytes = len(encode_manifest(manifest, packed))
        room = _BESIDE_BYTES - num_bytes
        if room < _ROOM_BYTES:
            room = _ROOM_BYTES + -(num_bytes + _ROOM_BYTES) % _PAGE_BYTES
        if not self._waits or self._num_bytes() > room:
            self._write_records()
            # With less room than half of it records would be written too often.
            if not self._waits or 2 * self._num_bytes() > room:
                self._write_marks()
        return self._encoded(manifest, packed)

    def _encoded(self, manifest: Manifest, packed: list[bytes]) -> tuple[Manifest, bytes]:
        settled = manifest._replace(recent=Recent(self._records, self._marks))
        return settled, encode_manifest(settled, packed)

    def _num_bytes(self) -> int:
        """Bytes of the changes in the manifest."""
        return len(pack((self._records, self._marks)))

    def _write_records(self) -> None:
        for doc_id, record in self._records.items():
            if doc_id in self._marks:
                flags = encode_flags(doc_id, self._marks.pop(doc_id))
                self.others.append(("removed", doc_id_key(doc_id), flags))
            else:
                self.appended.keys.append(doc_id_key(doc_id))
                self.appended.values.append(record)
        self._records = {}

    def _write_marks(self) -> None:
        for doc_id, flags in sorted(self._marks.items()):
            key = doc_id_key(doc_id)
            self.others += [("removed", key, encode_flags(doc_id, flags)), ("documents", key, None)]
        self._marks = {}
