"""Documents on their way into a commit: what was handed in, numbered, and the plain lists they become.

Owns `NewDocuments` (checked and sketched, before they have numbers) and `Documents` (with the numbers that a
change gave them). Must not commit or search. Invariant: numbers ascend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from simindex.format.keys import Key
from simindex.format.records import (
    StoredRecord,
    encode_kept,
    encode_records,
    encode_rest,
    lengthened_rest,
    rests_with_kept,
)
from simindex.format.seals import unpack
from simindex.queries.scheme import Scheme
from simindex.segments.build import Puts, SegmentData
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, SketchBatch


@dataclass
class NewDocuments:
    """Documents to be inserted: keys, packed metadata and sketches, in order."""

    keys: list[Key]
    encoded_keys: list[bytes]
    key_hashes: np.ndarray
    packed_metadata: list[bytes]
    sketches: SketchBatch

    def __len__(self) -> int:
        return len(self.keys)

    def taken(self, places: Sequence[int]) -> NewDocuments:
        """Return the documents at some places, in that order."""
        return NewDocuments(
            [self.keys[place] for place in places],
            [self.encoded_keys[place] for place in places],
            self.key_hashes[places],
            [self.packed_metadata[place] for place in places],
            _taken(self.sketches, places),
        )

    @classmethod
    def joined(cls, parts: Sequence[NewDocuments]) -> NewDocuments:
        """Return the documents of one part or more, in order."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            list(chain.from_iterable([part.keys for part in parts])),
            list(chain.from_iterable([part.encoded_keys for part in parts])),
            np.concatenate([part.key_hashes for part in parts]),
            list(chain.from_iterable([part.packed_metadata for part in parts])),
            SketchBatch.joined([part.sketches for part in parts]),
        )

    def record(self, place: int, inserted_at: int) -> StoredRecord:
        """Return the record of one of them, before it may get a leader."""
        kept = None if self.sketches.kept is None else self.sketches.kept[place]
        return StoredRecord(
            self.keys[place],
            unpack(self.packed_metadata[place]),
            inserted_at,
            int(self.sketches.present[place]),
            None,
            None if kept is None else encode_kept(kept),
        )


@dataclass
class Documents:
    """Documents of a change, in order of their numbers.

    Attributes:
        numbers: uint64, ascending; there may be gaps.
        key_hashes: uint64, as the key table is sorted.
        encoded_keys, packed_metadata: as they will be stored.
        sketches: one a document.
    """

    numbers: np.ndarray
    key_hashes: np.ndarray
    encoded_keys: list[bytes]
    packed_metadata: list[bytes]
    sketches: SketchBatch

    def __len__(self) -> int:
        return len(self.numbers)

    def segment_data(self, scheme: Scheme, leaders: dict[int, int]) -> SegmentData:
        """Return what a segment of these documents (one at least) holds.

        Args:
            leaders: place -> number of the document whose sketch it shares.
        """
        batch = self.sketches
        base = int(self.numbers[0])
        relative = (self.numbers - np.uint64(base)).astype(np.uint32)
        copies = np.array(sorted(leaders), dtype=np.intp)
        if not leaders and batch.present.all():
            own: Any = slice(None)
        else:
            own = batch.present > 0
            own[copies] = False
        fingerprints, present = batch.fingerprints[own], batch.present[own]
        has_fingerprint = (present & HAS_FINGERPRINT) > 0
        return SegmentData(
            base=base,
            span=int(relative[-1]) + 1,
            key_hashes=self.key_hashes,
            key_numbers=relative,
            leaders=np.array([leaders[int(i)] for i in copies], dtype=np.uint64),
            copies=relative[copies],
            words=np.ascontiguousarray(batch.words[own]),
            fingerprints=np.ascontiguousarray(fingerprints),
            numbers=relative[own],
            has_signature=(present & HAS_SIGNATURE) > 0,
            has_fingerprint=has_fingerprint,
            permuted=scheme.permute(fingerprints[has_fingerprint]),
        )

    def records(self, leaders: dict[int, int], inserted_at: int) -> Puts:
        """Return the database keys and values of all records."""
        kinds, kept = self.sketches.present.tolist(), self.sketches.kept
        plain = {present: encode_rest(inserted_at, present) for present in set(kinds)}
        rests: list[Any] = [plain[present] for present in kinds]
        if kept is not None:
            rests = rests_with_kept(rests, kept)
        for at, leader in leaders.items():
            own = None if kept is None else kept[at]
            rests[at] = lengthened_rest(plain[kinds[at]], leader, None if own is None else encode_kept(own))
        return encode_records(self.numbers, self.encoded_keys, self.packed_metadata, rests)


def _taken(batch: SketchBatch, places: Sequence[int]) -> SketchBatch:
    taken = SketchBatch(0, batch.num_perm, batch.kept is not None, batch.origin)
    taken.words, taken.present = batch.words[places], batch.present[places]
    taken.fingerprints = batch.fingerprints[places]
    taken.sources = batch.sources
    if batch.kept is not None:
        taken.kept = [batch.kept[place] for place in places]
    return taken
