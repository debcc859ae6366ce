"""What is stored under a document's number: its record, the flags of a removal, the size of a group.

Owns the fields of a record and their bytes. Must not know segments. Invariant: the seal of each value covers
its database key, so that one number's value is never taken for another's.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

import numpy as np
import xxhash

from simindex.format.keys import Key, number_key
from simindex.format.seals import SEAL_BYTES, pack, seal, unpack, unseal

NIL = b"\xc0"
"""The packed ``None``: metadata of a document that has none."""


class StoredRecord(NamedTuple):
    """What is stored of one document beside its sketch.

    Attributes:
        key: the external key.
        metadata: any msgpack value.
        inserted_at: microseconds since 1970-01-01 UTC.
        present: HAS_SIGNATURE | HAS_FINGERPRINT.
        leader: number of the document whose sketch this one shares, or ``None`` for its own.
        kept: kept shingle hashes as little-endian uint32 bytes, or ``None``.
    """

    key: Key
    metadata: object
    inserted_at: int
    present: int
    leader: int | None = None
    kept: bytes | None = None


class PackedRest(NamedTuple):
    """What a record has besides key and metadata, packed: in front of them and behind them.

    Attributes:
        head: the array header, which counts the fields of the whole record.
        tail: the fields behind the metadata.
    """

    head: bytes
    tail: bytes


def encode_rest(
    inserted_at: int, present: int, leader: int | None = None, kept: bytes | None = None
) -> PackedRest:
    """Return the packed fields of a record besides key and metadata; the last two only where one is set."""
    tail = b"\xcf" + inserted_at.to_bytes(8, "big") + pack(present)
    if leader is None and kept is None:
        return PackedRest(_FOUR_FIELDS, tail)
    return PackedRest(_SIX_FIELDS, tail + pack(leader) + pack(kept))


_FOUR_FIELDS, _SIX_FIELDS = b"\x94", b"\x96"


def encode_records(
    numbers: np.ndarray,
    packed_keys: list[bytes],
    packed_metadata: list[bytes],
    packed_rests: list[PackedRest],
) -> list[tuple[bytes, bytes]]:
    """Return (database key, sealed record) of documents.

    Args:
        numbers: uint64, ascending.
    """
    # Raw bytes, for a fixed-width string would lose zeros at its end.
    database_keys = numbers.astype(">u8").view("V8").tolist()
    heads, tails = map(_head_of, packed_rests), map(_tail_of, packed_rests)
    contents = list(map(b"".join, zip(heads, packed_keys, packed_metadata, tails, strict=True)))
    seals = map(xxhash.xxh3_64_digest, map(operator.add, database_keys, contents))
    return list(zip(database_keys, map(operator.add, contents, seals), strict=True))


_head_of, _tail_of = operator.itemgetter(0), operator.itemgetter(1)


def decode_record(number: int, value: bytes | memoryview) -> StoredRecord:
    """Return the record of a document. Raises CorruptIndexError when its seal is broken."""
    return StoredRecord(*unpack(_content(number, value)))


def decode_record_of(number: int, value: bytes | memoryview, encoded_key: bytes) -> StoredRecord | None:
    """Return the record of a document if its key has that stored form, else ``None``; as `decode_record`."""
    content = _content(number, value)
    # The key comes right behind the array header, and no stored form of a key begins another one.
    return StoredRecord(*unpack(content)) if content.startswith(encoded_key, 1) else None


def _content(number: int, value: bytes | memoryview) -> bytes:
    key, sealed = number_key(number), bytes(value)
    content = sealed[:-SEAL_BYTES]
    if xxhash.xxh3_64_digest(key + content) != sealed[-SEAL_BYTES:]:
        unseal(key, value, f"document {number}")  # raises
    return content


def encode_kept(hashes: np.ndarray) -> bytes:
    """Return kept shingle hashes, uint32, as a record holds them."""
    return hashes.astype("<u4").tobytes()


def decode_kept(kept: bytes) -> np.ndarray:
    """Return the shingle hashes of `encode_kept`: uint32, not to be written to."""
    return np.frombuffer(kept, dtype="<u4")


REMOVED_DOCUMENT, REMOVED_SKETCH = 1, 2
"""Flags of a removed number: its document is gone; its sketch (shared by copies before) is, too."""


def flags_unverified(value: bytes | memoryview) -> int:
    """Return the REMOVED flags of a stored value without its seal: for counts that may be wrong."""
    return value[0] if len(value) else 0


def encode_small(number: int, value: int) -> bytes:
    """Return a sealed unsigned integer for a number (removed flags, group sizes)."""
    return seal(number_key(number), value.to_bytes(8, "little"))


def decode_small(number: int, value: bytes | memoryview, what: str) -> int:
    """Return the unsigned integer of `encode_small`."""
    return int.from_bytes(unseal(number_key(number), value, what), "little")
