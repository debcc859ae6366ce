"""The parts in which a backup is copied: some values of a segment, or some entries of a small database.

A part of a small database ends at every 65,536th number of a document (ages: about every hour), and before
that where it has so many bytes. That does not depend on what comes before the last such number: a change of
one document changes one part, and new documents make new parts at the end.

A segment never changes, so its digest stands for it for good: the XXH3-128 of all its database keys and
seals. The seals depend on every byte of the values, so it costs reading a hundredth of them. Like the seals
it protects against accidents, not against a forger, who makes up both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter
from typing import NamedTuple

import xxhash

from simindex.batching import in_parts
from simindex.errors import damaged
from simindex.format.chunks import is_sealed_chunk, seals_of
from simindex.format.keys import segment_key, whole_segment_key
from simindex.format.layout import Column, Geometry, SegmentEntry
from simindex.format.seals import SEAL_BYTES, unseal, unseal_many

Get = Callable[[bytes], "bytes | memoryview | None"]
"""Returns the stored value of a database key."""


class Piece(NamedTuple):
    """One stored value of a segment.

    Attributes:
        column: what it is a chunk of, and `chunk`, which one; ``None``: it is the whole segment.
    """

    key: bytes
    column: Column | None
    entries: int
    num_bytes: int
    chunk: int = 0


Step = tuple[list[Piece], list[bytes]]
"""Some values of a segment, checked."""


def pieces_of(geometry: Geometry, entry: SegmentEntry) -> list[Piece]:
    """Return the values that a segment consists of, in the order of their keys."""
    if not entry.chunked:
        return [Piece(whole_segment_key(entry.id), None, 1, geometry.segment_bytes(entry) + SEAL_BYTES)]
    return [piece for column in geometry.columns(entry) for piece in pieces_of_column(entry, column)]


def pieces_of_column(entry: SegmentEntry, column: Column) -> Iterator[Piece]:
    """Yield the chunks of a column, in order."""
    for chunk in range(column.chunks):
        count = min(column.per_chunk, column.total - chunk * column.per_chunk)
        key = segment_key(entry.id, column.table, chunk)
        yield Piece(key, column, count, column.chunk_bytes(count), chunk)


def checked_value(entry: SegmentEntry, piece: Piece, value: bytes | memoryview | None) -> bytes:
    """Return a copy of a value that fits its place and its seals."""
    found = b"" if value is None else bytes(value)
    if piece.column is None and len(found) == piece.num_bytes:
        unseal("segments", piece.key, found, f"segment {entry.id}", segment=entry.id)
    elif piece.column is None or not is_sealed_chunk(piece.key, piece.column, piece.entries, found):
        raise damaged(
            f"segment {entry.id}, entry {piece.key.hex()}: expected {piece.num_bytes} bytes that fit their "
            f"seals, found {'nothing' if value is None else f'{len(found)} others'}",
            segment=entry.id,
            key=piece.key,
        )
    return found


class Digest:
    """The digest of a segment, from its values in the order of their keys."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()
        self.value = self._hash.digest

    def add(self, pieces: Iterable[Piece], values: Iterable[bytes | memoryview]) -> None:
        """Take the next values."""
        for piece, value in zip(pieces, values, strict=True):
            self._hash.update(piece.key)
            if piece.column is None:
                self._hash.update(bytes(value[-SEAL_BYTES:]))
            else:
                self._hash.update(seals_of(piece.column, piece.entries, value))


def digest_of(entry: SegmentEntry, pieces: list[Piece], get: Get) -> bytes:
    """Return the digest of a stored segment of those values; only its seals are read."""
    digest = Digest()
    for piece in pieces:
        value = get(piece.key)
        if value is None or len(value) != piece.num_bytes:
            value = checked_value(entry, piece, value)  # raises
        digest.add([piece], [value])
    return digest.value()


PART_BYTES = 16 << 20
"""Of a part, about; held in memory while it is copied."""

SMALL = "documents", "removed", "groups", "ages"
"""The databases that are copied on one snapshot."""

_PREFIX_BYTES = {"documents": 6, "removed": 6, "groups": 6, "ages": 4, "meta": 0}
"""Leading bytes of a key that are equal in all of a part: of a number all but the last 16 bits, of a time in
microseconds all but the last 32."""

Items = list[tuple[bytes, bytes]]


class Counter:
    """Bytes that were copied, of how many in all, and whom to call with both."""

    def __init__(self, report: Callable[[int, int], object] | None) -> None:
        self._report, self._done, self.total = report, 0, 0

    def advance(self, num_bytes: int) -> None:
        """Count bytes."""
        self._done += num_bytes
        self.total = max(self.total, self._done)
        if self._report is not None:
            self._report(self._done, self.total)

    def end(self) -> None:
        """Report that all is done."""
        self.advance(self.total - self._done)


def segment_parts(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Yield the values of a segment by parts: up to `PART_BYTES`, and one value at least."""
    return (part.values for part in in_parts(pieces, None, attrgetter("num_bytes"), PART_BYTES))


def checked(database: str, parts: Iterator[Items]) -> Iterator[Items]:
    """Yield parts of a database. Raises CorruptIndexError where an entry fails its seal."""
    for part in parts:
        unseal_many(database, part, f"{database}, entry")
        yield part


def batched(parts: Iterator[Items]) -> Iterator[Items]:
    """Yield entries that come some at a time, about `PART_BYTES` at a time."""
    filled = in_parts(parts, None, _bytes_of, PART_BYTES)
    return ([*chain.from_iterable(part.values)] for part in filled)


def cut(database: str, parts: Iterator[Items]) -> Iterator[Items]:
    """Yield the entries of a database, which come in order of keys and some at a time, as parts."""
    length = _PREFIX_BYTES[database]
    runs = chain.from_iterable(_runs(items, length) for items in parts)
    for _, alike in groupby(runs, lambda run: run[0][0][:length]):
        part, size = Items(), 0
        for item in chain.from_iterable(alike):
            part.append(item)
            size += len(item[0]) + len(item[1])
            if size >= PART_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part


def _runs(items: Items, length: int) -> Iterator[Items]:
    """Yield runs of entries whose keys begin alike."""
    while items:
        end = bisect_right(items, items[0][0][:length], key=lambda item: item[0][:length])
        yield items[:end]
        items = items[end:]


def _bytes_of(items: Items) -> int:
    return sum(map(len, chain.from_iterable(items)))
