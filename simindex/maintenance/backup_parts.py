"""The parts in which a backup is copied: some values of a segment, or some entries of a small database.

A part of a small database ends at every 65,536th doc id (ages: about every hour), and before
that where it has so many bytes. That does not depend on what comes before the last such doc id: a change of
one document changes one part, and new documents make new parts at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, groupby, pairwise
from operator import attrgetter, lt

from simindex.batching import in_parts
from simindex.errors import CorruptIndexError, damaged
from simindex.format.meta import Manifest
from simindex.format.seals import unseal_many
from simindex.maintenance.stored_segment import Piece
from simindex.storage.environment import ReadTransaction

Step = tuple[list[Piece], list[bytes]]
"""Some values of a segment, checked."""


PART_BYTES = 16 << 20
"""Of a part, about; held in memory while it is copied."""

SMALL = "documents", "removed", "groups", "ages"
"""The databases that are copied on one snapshot."""

_PREFIX_BYTES = {"documents": 6, "removed": 6, "groups": 6, "ages": 4}
"""Leading bytes of a key that are equal in all of a part: of a doc id all but the last 16 bits, of a time in
microseconds all but the last 32."""

Items = list[tuple[bytes, bytes]]


class Counter:
    """Bytes that were copied, of how many in all, and whom to call with both."""

    def __init__(self, report: Callable[[int, int], object] | None) -> None:
        self._report, self._done, self.total = report, 0, 0

    def advance(self, num_bytes: int) -> None:
        """Add to the bytes done, and report (done, total); the total is raised where they are more."""
        self._done += num_bytes
        self.total = max(self.total, self._done)
        if self._report is not None:
            self._report(self._done, self.total)

    def end(self) -> None:
        """Report that all is done."""
        self.advance(self.total - self._done)


def segment_parts(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Yield the values of a segment in parts of about `PART_BYTES`: one ends with the value that reaches
    it."""
    return (part.values for part in in_parts(pieces, None, attrgetter("num_bytes"), PART_BYTES))


def checked(database: str, parts: Iterator[Items]) -> Iterator[Items]:
    """Yield the parts of a database unchanged. Raises CorruptIndexError where an entry fails its seal, or
    keys do not ascend: on a page that lies in another's place all seals are right."""
    last = b""
    for part in parts:
        unseal_many(database, part, f"{database}, entry")
        keys = [last, *(key for key, _ in part)]
        if not all(map(lt, keys, keys[1:])):
            before, key = next(two for two in pairwise(keys) if two[0] >= two[1])
            raise damaged(
                f"{database}: expected ascending keys, found {key.hex():.80} behind {before.hex():.80}",
                key=key,
            )
        last = keys[-1]
        yield part


def require_whole(name: str, txn: ReadTransaction, manifest: Manifest, count: Callable[[str], int]) -> None:
    """Raise CorruptIndexError where a backup, called `name`, has not as many entries of each small database
    as the index says; `count` returns how many were copied. Where a page is back in the state of an earlier
    commit, LMDB's own count and the manifest's stay right, and reading finds fewer or more."""
    for database in SMALL:
        expected = manifest.num_records if database == "documents" else txn.count(database)
        if (found := count(database)) != expected:
            raise CorruptIndexError(
                f"{name}: expected {expected} entries of {database} for the backup, found {found}; the index "
                "has lost pages, simindex check says which"
            )


def batched(parts: Iterator[Items]) -> Iterator[Items]:
    """Join lists of entries to lists of about `PART_BYTES`, the last of less."""
    filled = in_parts(parts, None, _bytes_of, PART_BYTES)
    return ([*chain.from_iterable(part.values)] for part in filled)


def cut(database: str, parts: Iterator[Items]) -> Iterator[Items]:
    """Cut the entries of a database, which come in order of keys and some at a time, into the parts of a
    backup: one ends where the first `_PREFIX_BYTES` of the keys change, or at `PART_BYTES`."""
    length = _PREFIX_BYTES[database]
    for _, alike in groupby(chain.from_iterable(parts), lambda item: item[0][:length]):
        for part in in_parts(alike, None, lambda item: len(item[0]) + len(item[1]), PART_BYTES):
            yield part.values


def _bytes_of(items: Items) -> int:
    return sum(map(len, chain.from_iterable(items)))
