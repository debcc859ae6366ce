"""Decode many records at once, for checks, repairs and merges.

Invariant: what is accepted is what `decode_record` accepts, with the same fields.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import msgpack  # type: ignore[import-untyped] # it carries no type information
import numpy as np
import xxhash

from simindex.errors import CorruptIndexError
from simindex.format.keys import encode_keys, key_hashes
from simindex.format.records import (
    MAX_INSERTED_AT,
    StoredRecord,
    decode_kept,
    decode_record,
)
from simindex.format.seals import SEAL_BYTES

NO_LEADER = -1


@dataclass
class Records:
    """Some records in columns; those that are damaged are left out.

    Attributes:
        places: int64: which of those that were asked for they are.
        encoded_keys: in the form that they are stored in.
        key_hashes: uint64.
        inserted_at: int64.
        seen_at, kept: as in `StoredRecord`.
        present: uint8.
        num_shingles, num_sampled: uint32: of their samples, 0 where there is no shingle table.
        leaders: int64, NO_LEADER where there is none.
    """

    places: np.ndarray
    keys: list[Any]
    encoded_keys: list[bytes]
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
        """What expiry goes by, in microseconds: int64."""
        seen = np.array([-1 if time is None else time for time in self.seen_at], dtype=np.int64)
        return np.where(seen < 0, self.inserted_at, seen)


def decode_records(numbers: np.ndarray, values: list[bytes], keep_shingles: int) -> Records:
    """Decode records and prove their seals; about 2 us each.

    Args:
        numbers: uint64, below 2**63.
        keep_shingles: how many hashes a record may have.
    """
    fields = _all_fields(numbers, values)
    plain = _plain_records(fields, values) if fields else None
    if plain is not None:
        return plain
    errors: list[tuple[int, CorruptIndexError]] = []
    records: list[StoredRecord] = []
    places: list[int] = []
    for place, value in enumerate(values):
        try:
            record = decode_record(int(numbers[place]), value)
            if record.kept is not None:
                _require_kept(int(numbers[place]), record.kept, keep_shingles)
        except CorruptIndexError as exc:
            errors.append((place, exc))
            continue
        records.append(record)
        places.append(place)
    keys = [record.key for record in records]
    encoded = encode_keys(keys) if keys else []
    for at, (place, form) in reversed(list(enumerate(zip(places, encoded, strict=True)))):
        if not values[place].startswith(form, 1):  # a search compares the bytes of the key
            errors.append((place, _odd_key(int(numbers[place]), keys[at])))
            del records[at], places[at], keys[at], encoded[at]
    leaders = [NO_LEADER if record.leader is None else record.leader for record in records]
    return Records(
        np.array(places, dtype=np.int64),
        keys,
        encoded,
        key_hashes(encoded),
        [record.metadata for record in records],
        np.array([record.inserted_at for record in records], dtype=np.int64),
        [record.seen_at for record in records],
        np.array([record.present for record in records], dtype=np.uint8),
        np.array(leaders, dtype=np.int64),
        [record.kept for record in records],
        np.array([record.num_shingles for record in records], dtype=np.uint32),
        np.array([record.num_sampled for record in records], dtype=np.uint32),
        errors,
    )


def _plain_records(fields: list[list[Any]], values: list[bytes]) -> Records | None:
    """Return records whose fields are plain, column by column; ``None`` where a key has another form."""
    keys, metadata, times, present = zip(*fields, strict=True)
    encoded = encode_keys(list(keys))
    if not all(map(bytes.startswith, values, encoded, repeat(1))):  # a search compares the bytes of the key
        return None
    return Records(
        np.arange(len(values)),
        list(keys),
        encoded,
        key_hashes(encoded),
        list(metadata),
        np.array(times, dtype=np.int64),
        [None] * len(values),
        np.array(present, dtype=np.uint8),
        np.full(len(values), NO_LEADER, dtype=np.int64),
        [None] * len(values),
        np.zeros(len(values), dtype=np.uint32),
        np.zeros(len(values), dtype=np.uint32),
        [],
    )


def _odd_key(number: int, key: object) -> CorruptIndexError:
    return CorruptIndexError(
        f"document {number}: expected its key as it is packed, found {key!r:.100} otherwise"
    )


def _require_kept(number: int, kept: bytes, most: int) -> None:
    found = len(decode_kept(kept))
    if found > most:
        raise CorruptIndexError(f"document {number}: expected at most {most} kept hashes, found {found}")


def _all_fields(numbers: np.ndarray, values: list[bytes]) -> list[list[Any]]:
    """Return the fields of records of the plain form that are all in order; nothing where one is not."""
    database_keys = numbers.astype(">u8").view("V8").tolist()
    contents = [value[:-SEAL_BYTES] for value in values]
    seals = map(xxhash.xxh3_64_digest, map(operator.add, database_keys, contents))
    if list(seals) != [value[-SEAL_BYTES:] for value in values]:
        return []
    unpacker = msgpack.Unpacker(
        raw=False,
        strict_map_key=False,
        unicode_errors="surrogatepass",
        timestamp=3,
        max_buffer_size=2**31 - 1,
    )
    try:
        unpacker.feed(b"".join(contents))
        fields = [(found, unpacker.tell()) for found in unpacker]
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return []
    ends = np.cumsum(np.fromiter(map(len, contents), dtype=np.int64, count=len(contents)))
    if len(fields) != len(contents) or [end for _, end in fields] != ends.tolist():
        return []
    found = [record for record, _ in fields]
    return found if _are_plain(found) else []


def _are_plain(fields: list[Any]) -> bool:
    """Whether these are fields of records with short keys, without leaders, kept hashes or touches."""
    if set(map(type, fields)) != {list} or set(map(len, fields)) != {4}:
        return False
    keys, _, times, present = zip(*fields, strict=True)
    types = set(map(type, keys))
    if not (types == {str} or types == {int}) or {*map(type, times), *map(type, present)} != {int}:
        return False
    if types == {str} and max(map(len, keys)) > _SHORT_KEY:
        return False
    times_are_well = min(times) >= 0 and max(times) <= MAX_INSERTED_AT
    return bool(times_are_well and min(present) >= 0 and max(present) <= _MOST_PRESENT)


_SHORT_KEY, _MOST_PRESENT = 16_384, 3
