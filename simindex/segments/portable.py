"""Export and import a sealed segment: the unit of backups.

A segment never changes, so its digest stands for it for good.

The digest is the XXH3-128 of all database keys and seals of the segment. The seals depend on every byte of
the values, so it costs reading a hundredth of them. Like the seals it protects against accidents, not
against a forger, who makes up both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import xxhash

from simindex.errors import CorruptIndexError
from simindex.format.chunks import is_sealed_chunk, seals_of
from simindex.format.column import Column
from simindex.format.keys import segment_key, whole_segment_key
from simindex.format.layout import Geometry, SegmentEntry
from simindex.format.seals import SEAL_BYTES, unseal

Get = Callable[[bytes], "bytes | memoryview | None"]
"""Returns the stored value of a database key."""


@dataclass(frozen=True)
class SealedSegment:
    """A segment by what the manifest says of it, and by its content.

    Attributes:
        entry: its manifest entry; it says everything about where its values lie.
        digest: 16 bytes; of equal entries and digests the values are equal.
    """

    entry: SegmentEntry
    num_bytes: int
    digest: bytes


class Piece(NamedTuple):
    """One stored value of a segment.

    Attributes:
        column: what it is a chunk of; ``None``: it is the whole segment.
    """

    key: bytes
    column: Column | None
    entries: int
    num_bytes: int


def pieces_of(geometry: Geometry, entry: SegmentEntry) -> list[Piece]:
    """Return the values that a segment consists of, in the order of their keys."""
    if not entry.chunked:
        return [Piece(whole_segment_key(entry.id), None, 1, geometry.segment_bytes(entry) + SEAL_BYTES)]
    pieces = []
    for column in geometry.columns(entry):
        for chunk in range(column.chunks):
            count = min(column.per_chunk, column.total - chunk * column.per_chunk)
            key = segment_key(entry.id, column.table, chunk)
            pieces.append(Piece(key, column, count, column.chunk_bytes(count)))
    return pieces


def checked_value(entry: SegmentEntry, piece: Piece, value: bytes | memoryview | None) -> bytes:
    """Return a copy of a value that fits its place and its seals."""
    found = b"" if value is None else bytes(value)
    if piece.column is None and len(found) == piece.num_bytes:
        unseal("segments", piece.key, found, f"segment {entry.id}", segment=entry.id)
    elif piece.column is None or not is_sealed_chunk(piece.key, piece.column, piece.entries, found):
        raise CorruptIndexError(
            f"segment {entry.id}, entry {piece.key.hex()}: expected {piece.num_bytes} bytes that fit their "
            f"seals, found {'nothing' if value is None else f'{len(found)} others'}; restore a backup or "
            "rebuild the index",
            segment=entry.id,
            key=piece.key,
        )
    return found


class Digest:
    """The digest of a segment, from its values in the order of their keys."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()

    def add(self, piece: Piece, value: bytes | memoryview) -> None:
        """Take the next value."""
        self._hash.update(piece.key)
        if piece.column is None:
            self._hash.update(bytes(value[-SEAL_BYTES:]))
        else:
            self._hash.update(seals_of(piece.column, piece.entries, value))

    def value(self) -> bytes:
        """Return the digest of what was taken."""
        return self._hash.digest()


def sealed_segment(geometry: Geometry, entry: SegmentEntry, get: Get) -> SealedSegment:
    """Return a stored segment as a value; only its seals are read."""
    digest, pieces = Digest(), pieces_of(geometry, entry)
    for piece in pieces:
        value = get(piece.key)
        if value is None or len(value) != piece.num_bytes:
            checked_value(entry, piece, value)
        else:
            digest.add(piece, value)
    return SealedSegment(entry, sum(piece.num_bytes for piece in pieces), digest.value())
