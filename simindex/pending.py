"""Changes that are not committed yet: documents gathered in memory, with their numbers.

Owns what an insert or a remove adds to a change, and the plain lists that a commit makes of it. Must not
commit, and knows tables only as sketches and numbers. Invariant: numbers are given in order of insertion
and never twice, those of documents that are removed again in the same change included.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simindex.format.keys import Key
from simindex.format.records import StoredRecord, encode_records, encode_rest
from simindex.format.seals import unpack
from simindex.segments.build import Puts
from simindex.sketch import SketchBatch
from simindex.view import PendingView


@dataclass
class NewDocuments:
    """Documents to be inserted: keys, packed metadata and sketches, in order."""

    keys: list[Key]
    encoded_keys: list[bytes]
    key_hashes: np.ndarray
    packed_metadata: list[bytes]
    sketches: SketchBatch


@dataclass
class Part:
    """Documents of one call inside a change: places in their batch, and the numbers given to them."""

    documents: NewDocuments
    places: list[int]
    numbers: range | list[int]

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole batch, numbered without gaps."""
        return isinstance(self.numbers, range) and len(self.places) == len(self.documents.keys)


@dataclass
class Pending:
    """Changes that are not committed yet.

    Attributes:
        first_number: the number of its first document.
        count: numbers given so far.
        removed: committed documents to be removed, with their records.
        dropped: own documents that were removed again.
    """

    first_number: int
    inserted_at: int
    parts: list[Part] = field(default_factory=list)
    by_key: dict[bytes, int] = field(default_factory=dict)
    removed: dict[int, StoredRecord] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    count: int = 0
    view: PendingView = field(default_factory=PendingView)
    viewed: int = 0

    @property
    def size(self) -> int:
        """Number of changed documents."""
        return self.count + len(self.removed)

    def add(self, documents: NewDocuments, places: list[int]) -> None:
        """Give the documents at `places` their numbers."""
        first = self.first_number + self.count
        numbers = range(first, first + len(places))
        self.parts.append(Part(documents, places, numbers))
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

    def holds(self, encoded_key: bytes, committed: tuple[int, StoredRecord] | None) -> bool:
        """Whether a key is stored, seen from inside this change."""
        if encoded_key in self.by_key:
            return True
        return committed is not None and committed[0] not in self.removed


def without_dropped(part: Part, dropped: set[int]) -> Part:
    """Return a part without the documents that the change has removed again."""
    if not dropped.intersection(part.numbers):
        return part
    kept = [(p, n) for p, n in zip(part.places, part.numbers, strict=True) if n not in dropped]
    return Part(part.documents, [p for p, _ in kept], [n for _, n in kept])


def joined(parts: list[Part]) -> tuple[np.ndarray, SketchBatch]:
    """Return the numbers and the sketches of all documents of the parts, in order."""
    if len(parts) == 1 and parts[0].is_whole:
        return np.array(parts[0].numbers, dtype=np.uint64), parts[0].documents.sketches
    count = sum(len(part.places) for part in parts)
    first = parts[0].documents.sketches if parts else SketchBatch(0, 0, False, None)
    batch = SketchBatch(count, first.num_perm, first.kept is not None, first.origin)
    numbers = np.empty(count, dtype=np.uint64)
    at = 0
    for part in parts:
        sketches, here = part.documents.sketches, slice(at, at + len(part.places))
        numbers[here] = part.numbers
        batch.words[here] = sketches.words[part.places]
        batch.fingerprints[here] = sketches.fingerprints[part.places]
        batch.present[here] = sketches.present[part.places]
        if batch.kept is not None and sketches.kept is not None:
            batch.kept[here] = [sketches.kept[place] for place in part.places]
        at += len(part.places)
    return numbers, batch


def key_hashes_of(parts: list[Part]) -> np.ndarray:
    """Return the key hashes of all documents of the parts: uint64."""
    hashes = [part.documents.key_hashes[slice(None) if part.is_whole else part.places] for part in parts]
    return np.concatenate(hashes) if hashes else np.empty(0, dtype=np.uint64)


def encode_part_records(
    parts: list[Part], batch: SketchBatch, leaders: dict[int, int], inserted_at: int
) -> Puts:
    """Return the database keys and values of all documents' records."""
    kinds = batch.present.tolist()
    plain = {present: encode_rest(inserted_at, present) for present in set(kinds)}
    rests = [plain[present] for present in kinds]
    if leaders or batch.kept is not None:
        for at, present in enumerate(kinds):
            kept = None if batch.kept is None else batch.kept[at]
            if at in leaders or kept is not None:
                packed = None if kept is None else kept.astype("<u4").tobytes()
                rests[at] = encode_rest(inserted_at, present, leaders.get(at), packed)
    records: Puts = []
    for part in parts:
        documents, at = part.documents, len(records)
        if part.is_whole:
            here = rests[at : at + len(part.places)]
            records += encode_records(
                part.numbers[0], documents.encoded_keys, documents.packed_metadata, here
            )
            continue
        for place, number in zip(part.places, part.numbers, strict=True):
            records += encode_records(
                number,
                [documents.encoded_keys[place]],
                [documents.packed_metadata[place]],
                [rests[len(records)]],
            )
    return records


def pending_record(documents: NewDocuments, place: int, inserted_at: int) -> StoredRecord:
    """Return the record of a document that has no leader yet."""
    kept = None if documents.sketches.kept is None else documents.sketches.kept[place]
    return StoredRecord(
        documents.keys[place],
        unpack(documents.packed_metadata[place]),
        inserted_at,
        int(documents.sketches.present[place]),
        None,
        None if kept is None else kept.astype("<u4").tobytes(),
    )
