"""Changes that are not committed yet: documents gathered in memory, with their numbers, and what queries see
of them.

Owns what an insert or a remove adds to a change. Must not commit. Invariant: numbers are given in order of
insertion and never twice, those of documents that are removed again in the same change included.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np

from simindex.changes.documents import Documents, NewDocuments
from simindex.format.records import StoredRecord
from simindex.queries.scheme import Scheme
from simindex.queries.view import PendingView
from simindex.segments.build import segment_puts
from simindex.segments.load import Segment
from simindex.sketching.sketch import SketchBatch

_FIRST_MEMORY_SEGMENT = 2**63
"""Ids of segments in memory: from the top, for no committed segment has them and they are never stored."""


@dataclass(frozen=True)
class _Part:
    """Documents of one call inside a change: places in what was handed in; the first one's number."""

    documents: NewDocuments
    places: list[int]
    first: int

    @property
    def behind(self) -> int:
        """The number after the last one's."""
        return self.first + len(self.places)


@dataclass
class Pending:
    """Changes that are not committed yet.

    Attributes:
        scheme: of the index.
        first_number: the number of its first document.
        inserted_at: the time that its documents get, in microseconds since 1970-01-01 UTC.
        count: numbers given so far.
        by_key: encoded key -> number, of its documents that were not removed again.
        removed: committed documents to be removed, with their records.
        dropped: own documents that were removed again.
    """

    scheme: Scheme
    first_number: int
    inserted_at: int
    count: int = 0
    by_key: dict[bytes, int] = field(default_factory=dict)
    removed: dict[int, StoredRecord] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    _parts: list[_Part] = field(default_factory=list)
    _in_memory: list[Segment] = field(default_factory=list)
    _num_viewed: int = 0

    @property
    def size(self) -> int:
        """Number of changed documents."""
        return self.count + len(self.removed)

    def add(self, documents: NewDocuments, places: list[int]) -> None:
        """Give the documents at `places` their numbers."""
        part = _Part(documents, places, self.first_number + self.count)
        self._parts.append(part)
        numbers = range(part.first, part.behind)
        self.by_key.update(zip([documents.encoded_keys[i] for i in places], numbers, strict=True))
        self.count += len(places)

    def remove(self, encoded_key: bytes, committed: tuple[int, StoredRecord] | None) -> bool:
        """Remove a key; `committed` is what the snapshot has of it. False when it is nowhere."""
        number = self.by_key.pop(encoded_key, None)
        if number is not None:
            self.dropped.add(number)
            return True
        if committed is None or committed[0] in self.removed:
            return False
        self.removed[committed[0]] = committed[1]
        return True

    def remove_number(self, number: int, record: StoredRecord) -> None:
        """Remove a live document, its own or a committed one, by its number."""
        if number < self.first_number:
            self.removed[number] = record
            return
        part, at = self._place_of(number)
        self.remove(part.documents.encoded_keys[part.places[at]], None)

    def holds(self, encoded_key: bytes, committed: tuple[int, StoredRecord] | None) -> bool:
        """Whether a key is stored, seen from inside this change."""
        if encoded_key in self.by_key:
            return True
        return committed is not None and committed[0] not in self.removed

    def documents(self, first_part: int = 0) -> Documents:
        """Return its documents, those of the parts from `first_part` on, without the dropped ones."""
        parts = self._parts[first_part:]
        if self.dropped:
            taken = [self._not_dropped(part) for part in parts]
        else:
            taken = [(part.places, range(part.first, part.behind)) for part in parts]
        if len(parts) == 1 and len(taken[0][0]) == len(parts[0].documents.keys):
            new = parts[0].documents
            numbers = np.array(taken[0][1], dtype=np.uint64)
            return Documents(numbers, new.key_hashes, new.encoded_keys, new.packed_metadata, new.sketches)
        count = sum(len(places) for places, _ in taken)
        first = parts[0].documents.sketches if parts else SketchBatch(0, 0, False, None)
        batch = SketchBatch(count, first.num_perm, first.kept is not None, first.origin)
        joined = Documents(np.empty(count, np.uint64), np.empty(count, np.uint64), [], [], batch)
        at = 0
        for part, (places, given) in zip(parts, taken, strict=True):
            here = slice(at, at + len(places))
            at = here.stop
            _join(joined, here, part.documents, places, given)
        return joined

    def _not_dropped(self, part: _Part) -> tuple[list[int], range | list[int]]:
        """Return the places and numbers of a part without the documents that were removed again."""
        numbers = range(part.first, part.behind)
        kept = [at for at, number in enumerate(numbers) if number not in self.dropped]
        return [part.places[at] for at in kept], [numbers[at] for at in kept]

    # ---- what queries see ----

    def view(self) -> PendingView:
        """Return what queries of the same thread see, the newest documents as a segment in memory."""
        documents = self.documents(self._num_viewed)
        self._num_viewed = len(self._parts)
        if len(documents):
            tables, data = self.scheme.tables, documents.segment_data(self.scheme, {})
            entry = data.entry(_FIRST_MEMORY_SEGMENT + len(self._in_memory))
            entry, puts = segment_puts(tables, entry, data)
            self._in_memory.append(Segment(tables, entry, dict(puts).get))
        gone = self.dropped | self.removed.keys()
        return PendingView(self._in_memory, self.by_key, gone, len(self.removed), self._record)

    def _record(self, number: int) -> StoredRecord | None:
        if number < self.first_number:
            return None
        part, at = self._place_of(number)
        return part.documents.record(part.places[at], self.inserted_at)

    def _place_of(self, number: int) -> tuple[_Part, int]:
        """Return the part that a number was given in, and where in it."""
        part = self._parts[bisect_right(self._parts, number, key=lambda part: part.first) - 1]
        return part, number - part.first


def _join(
    joined: Documents, here: slice, new: NewDocuments, places: list[int], numbers: range | list[int]
) -> None:
    """Put some of the new documents into their places among all."""
    joined.numbers[here] = numbers
    joined.key_hashes[here] = new.key_hashes[places]
    joined.encoded_keys.extend([new.encoded_keys[place] for place in places])
    joined.packed_metadata.extend([new.packed_metadata[place] for place in places])
    batch = joined.sketches
    batch.words[here] = new.sketches.words[places]
    batch.fingerprints[here] = new.sketches.fingerprints[places]
    batch.present[here] = new.sketches.present[places]
    if batch.kept is not None and new.sketches.kept is not None:
        batch.kept[here] = [new.sketches.kept[place] for place in places]
