"""Decode many records at once, for checks, repairs and merges.

Invariant: what is accepted is what `decode_record` accepts, with the same fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from simindex.errors import CorruptIndexError
from simindex.format.keys import pack_keys
from simindex.format.packed import Packed
from simindex.format.records import StoredRecord, decode_kept, decode_record

NO_LEADER = -1


@dataclass
class Records:
    """Some records in columns; those that are damaged are left out, and `indices` says which the others are.
    Leaders are int64, NO_LEADER where there is none."""

    indices: np.ndarray
    keys: list[Any]
    encoded_keys: Packed
    key_hashes: np.ndarray
    metadata: list[Any]
    inserted_at: np.ndarray
    seen_at: list[int | None]
    present: np.ndarray
    leaders: np.ndarray
    kept: list[bytes | None]
    num_shingles: np.ndarray
    num_sampled: np.ndarray
    errors: list[tuple[int, CorruptIndexError]]

    @property
    def ages(self) -> np.ndarray:
        """Time that expiry goes by: of each document's last touch, or of its insert where it has none; int64,
        microseconds since 1970."""
        seen = np.array([-1 if time is None else time for time in self.seen_at], dtype=np.int64)
        return np.where(seen < 0, self.inserted_at, seen)


def decode_records(doc_ids: np.ndarray, values: list[bytes], keep_shingles: int) -> Records:
    """Decode the records of documents `doc_ids`, uint64, a value each; nothing is raised for damage. A record
    is left out, and `errors` has (its index in `values`, error), in no order, where its seal or a field is
    wrong, its key is packed otherwise than by `pack_keys`, or it has more kept hashes than `keep_shingles`.
    """
    errors: list[tuple[int, CorruptIndexError]] = []
    decoded: list[tuple[int, StoredRecord]] = []
    for index, (doc_id, value) in enumerate(zip(doc_ids.tolist(), values, strict=True)):
        try:
            record = decode_record(doc_id, value)
            if record.kept is not None and (found := len(decode_kept(record.kept))) > keep_shingles:
                problem = f"expected at most {keep_shingles} kept hashes, found {found}"
                raise CorruptIndexError(f"document {doc_id}: {problem}")
            decoded.append((index, record))
        except CorruptIndexError as exc:
            errors.append((index, exc))
    encoded, hashes = pack_keys([record.key for _, record in decoded])
    are_sound = [
        values[index].startswith(form, 1)  # a search compares the bytes of the key
        for (index, _), form in zip(decoded, encoded, strict=True)
    ]
    for (index, record), is_sound in zip(decoded, are_sound, strict=True):
        if not is_sound:
            problem = f"expected its key as it is packed, found {record.key!r:.100} otherwise"
            errors.append((index, CorruptIndexError(f"document {doc_ids[index]}: {problem}")))
    if not all(are_sound):
        decoded = list(compress(decoded, are_sound))
        encoded, hashes = pack_keys([record.key for _, record in decoded])
    columns = map(list, zip(*[record for _, record in decoded], strict=True) if decoded else _NO_COLUMNS)
    keys, metadata, times, present, leaders, kept, seen_at, num_shingles, num_sampled = columns
    return Records(
        np.array([index for index, _ in decoded], dtype=np.int64),
        keys,
        encoded,
        hashes,
        metadata,
        np.array(times, dtype=np.int64),
        seen_at,
        np.array(present, dtype=np.uint8),
        np.array([NO_LEADER if leader is None else leader for leader in leaders], dtype=np.int64),
        kept,
        np.array(num_shingles, dtype=np.uint32),
        np.array(num_sampled, dtype=np.uint32),
        errors,
    )


_NO_COLUMNS = [()] * len(StoredRecord._fields)
