"""Encode keys: of documents and of databases.

Invariant: database keys are big-endian, so that LMDB's order of bytes is the order of the doc ids.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np
import xxhash

from simindex import _kernel
from simindex.errors import damaged
from simindex.format.packed import Packed
from simindex.format.seals import pack, unpack

Key = str | bytes | int
"""What names a document: str, bytes or an int of 64 bits. The kinds are distinct: ``"1"`` is not ``1``."""

MAX_KEY_BYTES = 64 * 1024


def encode_key(key: object) -> bytes:
    """Return the stored form of an external key; str, bytes and int are distinct kinds.

    NumPy's integers and strings are keys as the int and str that they are. Raises TypeError for another type
    (bool too), ValueError for an int outside of -2^63..2^64-1 or a key of more than 64 KiB.
    """
    if isinstance(key, np.integer):
        key = int(key)
    if isinstance(key, bool) or not isinstance(key, str | bytes | int):
        raise TypeError(f"key: expected str, bytes or int, found {type(key).__name__}")
    if isinstance(key, int):
        if not -(2**63) <= key < 2**64:
            raise ValueError(f"key: expected an int of 64 bits, found {key}")
    elif len(key) > MAX_KEY_BYTES // 4 and len(pack(key)) > MAX_KEY_BYTES + 5:
        found = len(key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass"))
        raise ValueError(f"key: expected at most {MAX_KEY_BYTES} bytes, found {found}")
    return pack(key)


def pack_keys(keys: list[Any]) -> tuple[Packed, np.ndarray]:
    """Return `encode_key` of each key, in order, and `key_hashes` of these (uint64); errors as there."""
    ends, hashes = np.empty(len(keys), np.int64), np.empty(len(keys), np.uint64)
    return Packed(_kernel.pack_keys(keys, encode_key, ends, hashes), ends), hashes


def decode_keys(count: int, encoded: bytes) -> list[Key]:
    """Return the keys, `count` of them, whose stored forms lie one behind the other in `encoded`; their
    types are not checked. Raises CorruptIndexError where it is not exactly so many values of msgpack."""
    keys: list[Key] = unpack(b"\xdd" + count.to_bytes(4, "big") + encoded)
    return keys


key_hash = xxhash.xxh64_intdigest
"""Returns the 64-bit hash of a stored key that the key table is sorted by."""


def key_hashes(encoded_keys: Collection[bytes]) -> np.ndarray:
    """Return `key_hash` of each stored key, uint64."""
    return np.fromiter(map(key_hash, encoded_keys), np.uint64, len(encoded_keys))


doc_id_key: Callable[[int], bytes] = struct.Struct(">Q").pack
"""Returns the database key of a doc id."""


def doc_id_of(key: bytes) -> int:
    """Return the doc id that a database key of 8 bytes stands for. Raises CorruptIndexError where the key has
    another length, or the doc id is 2^63 or more."""
    return _leading_number(key, DOC_ID_KEY_BYTES, "a number of 8 bytes below 2^63")


def _leading_number(key: bytes, num_bytes: int, expected: str) -> int:
    if len(key) != num_bytes or key[0] > _TOP_BYTE:
        raise damaged(f"key {key.hex():.80}: expected {expected}", key=key)
    return int.from_bytes(key[:DOC_ID_KEY_BYTES], "big")


DOC_ID_KEY_BYTES, _SEGMENT_KEY_BYTES, _TOP_BYTE = 8, 14, 0x7F


def doc_ids_of(keys: np.ndarray) -> np.ndarray:
    """Return the number in the first 8 bytes of each database key, uint64, unchecked. keys: uint8, shape (n,
    8 or more), a key a row."""
    return np.ascontiguousarray(keys[:, :DOC_ID_KEY_BYTES]).view(">u8")[:, 0].astype(np.uint64)


def numbered(
    items: Iterable[tuple[bytes, memoryview]], database: str, first: int = 0
) -> Iterator[tuple[int, memoryview]]:
    """Yield (doc id, value) of each of `items`, entries of a database that are walked from doc id `first` on.
    Raises CorruptIndexError for a key that is no doc id, is below `first`, or is not above the last one."""
    following = first
    for key, value in items:
        doc_id = doc_id_of(key)
        if doc_id < following:
            found = f"found {doc_id} where {following} or more comes"
            raise damaged(f"{database}: expected ascending doc ids, {found}", key=key)
        yield doc_id, value
        following = doc_id + 1


_SEGMENT_KEY = struct.Struct(">QHI")

WHOLE_SEGMENT = 0xFFFF
"""Table number in the database key of a segment that is one value."""


def segment_key(segment: int, table: int, chunk: int) -> bytes:
    """Return the database key of a chunk: segment id u64, table u16, chunk u32, big-endian."""
    return _SEGMENT_KEY.pack(segment, table, chunk)


def table_of(key: bytes) -> int:
    """Return the table number in the database key of a chunk, unchecked."""
    return int.from_bytes(key[8:10], "big")


def segment_keys(segment: int, tables: np.ndarray, chunks: np.ndarray) -> np.ndarray:
    """Return the database keys of many chunks of one segment: uint8, shape (n, 14), a row for each of
    `tables` and `chunks`."""
    keys = np.empty(len(tables), dtype=[("segment", ">u8"), ("table", ">u2"), ("chunk", ">u4")])
    keys["segment"], keys["table"], keys["chunk"] = segment, tables, chunks
    return keys.view(np.uint8).reshape(len(tables), keys.itemsize)


segment_prefix = doc_id_key
"""Returns what the database keys of a segment's chunks begin with."""


def whole_segment_key(segment: int) -> bytes:
    """Return the database key of a segment that is one value: of table WHOLE_SEGMENT, chunk 0."""
    return _SEGMENT_KEY.pack(segment, WHOLE_SEGMENT, 0)


def segment_of(key: bytes) -> int:
    """Return the segment id in the database key of a chunk. Raises CorruptIndexError where the key has not 14
    bytes, or the id is 2^63 or more."""
    return _leading_number(key, _SEGMENT_KEY_BYTES, "segment, table and chunk in 14 bytes")
