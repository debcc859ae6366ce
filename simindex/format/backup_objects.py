"""Encode a backup in a store: parts named by their content, and a manifest that lists them.

Invariants: a part of equal name is equal, so it is uploaded once; a manifest that was changed fails its seal,
and what it says of parts proves their bytes.

A part of a segment is some of its values, in the order of their keys, one behind the other: the manifest's
entry of the segment says where each ends. A part of a small database is a msgpack array of key, value, key,
value ..., in the order of keys.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import xxhash

from simindex.errors import CorruptIndexError, FormatError
from simindex.format.seals import pack, seal, unpack, unseal

_MAGIC = "simindex backup"

VERSION = 2

_KEY = b"store backup"


class Part(NamedTuple):
    """A part of a backup, by its content: XXH3-128 of its bytes, and how many."""

    digest: bytes
    num_bytes: int

    @property
    def name(self) -> str:
        """Name of its object in the store: the digest in hex."""
        return self.digest.hex()


class StoredSegment(NamedTuple):
    """A segment that lies in a store, in parts in the order of its values."""

    id: int
    digest: bytes
    parts: tuple[Part, ...]


class StoredBackup(NamedTuple):
    """The manifest of a backup: that of the index and its header as stored, parts, and the permissions of the
    index's files."""

    header: bytes
    manifest: bytes
    segments: tuple[StoredSegment, ...]
    databases: dict[str, tuple[Part, ...]]
    permissions: int
    made_at: int
    documents: int

    def parts(self) -> list[Part]:
        """Return all parts, of segments, then of databases; one that several share comes several times."""
        of_segments = (segment.parts for segment in self.segments)
        return [*chain.from_iterable(of_segments), *chain.from_iterable(self.databases.values())]


def part_of(content: bytes) -> Part:
    """Return the part that has this content: its XXH3-128 and its length, not the content."""
    return Part(xxhash.xxh3_128_digest(content), len(content))


def encode_entries(items: list[tuple[bytes, bytes]]) -> bytes:
    """Return the content of a part of a small database: (key, value) pairs as one flat msgpack array."""
    return pack(list(chain.from_iterable(items)))


def decode_entries(content: bytes) -> list[tuple[bytes, bytes]]:
    """Return the (key, value) pairs of `encode_entries`. Raises CorruptIndexError for other bytes."""
    flat = unpack(content)
    if not isinstance(flat, list) or len(flat) % 2 or not set(map(type, flat)) <= {bytes}:
        raise CorruptIndexError(f"expected keys and values of a database, found {flat!r:.100}")
    return list(zip(flat[::2], flat[1::2], strict=True))


def encode_backup(backup: StoredBackup) -> bytes:
    """Return the sealed manifest of a backup, as it is stored."""
    return seal("meta", _KEY, pack([_MAGIC, VERSION, *backup]))


def decode_backup(content: bytes, where: str) -> StoredBackup:
    """Return the manifest of a backup; `where` is its path in errors. Raises FormatError for other data or
    another version, CorruptIndexError for a broken seal or fields that do not fit."""
    if _MAGIC.encode() not in content[: len(_MAGIC) + 8]:
        raise FormatError(f"{where}: expected the manifest of a backup, found other data")
    fields = unpack(unseal("meta", _KEY, content, f"{where}: manifest of a backup"))
    if fields[1] != VERSION:
        raise FormatError(
            f"{where}: expected a backup of version {VERSION}, found {fields[1]!r:.20}; restore it with the "
            "simindex version that made it, or upgrade simindex"
        )
    try:
        _, _, header, manifest, segments, databases, *counters = fields
        return StoredBackup(
            header,
            manifest,
            tuple(StoredSegment(segment, digest, _parts(parts)) for segment, digest, parts in segments),
            {name: _parts(parts) for name, parts in databases.items()},
            *counters,
        )
    except (TypeError, ValueError, AttributeError) as exc:
        raise CorruptIndexError(f"{where}: expected a manifest of a backup, found {fields!r:.200}") from exc


def _parts(fields: Any) -> tuple[Part, ...]:
    return tuple(Part(digest, num_bytes) for digest, num_bytes in fields)
