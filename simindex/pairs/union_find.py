"""Union-find over the numbers 0..n-1, in four bytes a number.

The kernel's forest.c says how it is used. Invariant: edges first, then the groups, once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simindex import _kernel
from simindex.errors import SimIndexError

MOST_NUMBERS = 2**32 - 1

_ROOM = 1 << 16
"""Members that are listed in one go."""


def edges_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the edges between numbers, uint64: the later one in the upper half, the earlier in the lower.

    Sorted they are in the order of the later numbers, and those of one in the order of its earlier ones.
    """
    later, earlier = np.maximum(a, b).astype(np.uint64), np.minimum(a, b).astype(np.uint64)
    edges: np.ndarray = later << np.uint64(32) | earlier
    return edges


def ends_of(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what `edges_between` was given, uint64: the later numbers, and the earlier ones.

    >>> ends_of(edges_between(np.array([7]), np.array([9])))
    (array([9], dtype=uint64), array([7], dtype=uint64))
    """
    return edges >> np.uint64(32), edges & np.uint64(2**32 - 1)


class Forest:
    """The numbers 0..count-1, each a group by itself at first.

    Cost: 4 bytes a number, whatever the edges; an edge takes some tens of nanoseconds.
    """

    def __init__(self, count: int) -> None:
        """Raises SimIndexError where there are 2**32 or more."""
        if count > MOST_NUMBERS:
            raise SimIndexError(f"clusters: expected fewer than {2**32:,} documents, found {count:,}")
        self._links = np.arange(count, dtype=np.uint32)

    def join(self, edges: np.ndarray) -> int:
        """Unite the groups of both ends of each edge (`edges_between`); returns how many fewer there are."""
        return _kernel.join_edges(self._links, np.ascontiguousarray(edges, dtype=np.uint64))

    def assign(self, edges: np.ndarray) -> int:
        """Let numbers belong to the first earlier centre that an edge leads to; returns how many now do.
        `edges`: ascending, in one call or several."""
        return _kernel.assign_stars(self._links, np.ascontiguousarray(edges, dtype=np.uint64))

    def roots(self, numbers: np.ndarray) -> np.ndarray:
        """Return the first number of the group of each."""
        found = numbers
        while True:
            above: np.ndarray = self._links[found]
            if np.array_equal(above, found):
                return above
            found = above

    def groups(self) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield the groups of two or more in the order of their first members; once.

        Yields:
            (members, is_last): uint32, ascending; whether these are all that were left of the group, for
            a large one comes in parts.
        """
        _kernel.make_circles(self._links)
        cursor, room = np.zeros(2, dtype=np.uint64), np.empty(_ROOM, dtype=np.uint64)
        while count := _kernel.next_members(self._links, cursor, room):
            roots, members = room[:count] >> np.uint64(32), room[:count].astype(np.uint32)
            ends = [*(np.flatnonzero(np.diff(roots)) + 1).tolist(), count]
            first = 0
            for end in ends:
                yield members[first:end], end < count or bool(cursor[0] == cursor[1])
                first = end
