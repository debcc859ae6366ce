"""Which entries of a database differ between an index and its older backup.

Owns the walk over both, side by side. Must not write. Invariant: where it finds no difference, both hold the
same keys with the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

from simindex.errors import CorruptIndexError

Parts = Iterator[list[tuple[bytes, bytes]]]


@dataclass
class Difference:
    """What makes a database of the backup equal to that of the index.

    Attributes:
        removed: keys that are to go.
        changed: keys whose values are to be put, other ones or new ones among those that are there.
        tail: from this key on everything is new, and follows all that is there; ``None``: nothing is.
    """

    removed: list[bytes] = field(default_factory=list)
    changed: list[bytes] = field(default_factory=list)
    tail: bytes | None = None

    def __bool__(self) -> bool:
        return bool(self.removed or self.changed or self.tail is not None)


def difference(database: str, index: Parts, backup: Parts) -> Difference:
    """Compare the entries of both, which come in order of keys, some at a time.

    Raises:
        CorruptIndexError: keys do not ascend, where the two sides differ.
    """
    found = Difference()
    ours, theirs, last = _behind_what_is_alike(index, backup)
    there = next(theirs, None)
    for key, value in ours:
        if last is not None and key <= last:
            raise CorruptIndexError(
                f"{database}: expected ascending keys, found {key.hex():.80} behind {last.hex():.80}; "
                "restore a backup or rebuild the index",
                key=key,
            )
        last = key
        while there is not None and there[0] < key:
            found.removed.append(there[0])
            there = next(theirs, None)
        if there is None:
            found.tail = key
            break
        if there[0] != key:
            found.changed.append(key)
        else:
            if there[1] != value:
                found.changed.append(key)
            there = next(theirs, None)
    if there is not None:
        found.removed.append(there[0])
        found.removed += (key for key, _ in theirs)
    return found


def _behind_what_is_alike(
    index: Parts, backup: Parts
) -> tuple[Iterator[tuple[bytes, bytes]], Iterator[tuple[bytes, bytes]], bytes | None]:
    """Pass by the equal beginnings of both, as far as they come in equal parts; returns the rest of each, and
    the last key of the beginning."""
    last: bytes | None = None
    while True:
        ours, theirs = next(index, []), next(backup, [])
        if ours != theirs or not ours or (last is not None and ours[0][0] <= last):
            rests = chain([ours], index), chain([theirs], backup)
            return chain.from_iterable(rests[0]), chain.from_iterable(rests[1]), last
        last = ours[-1][0]
