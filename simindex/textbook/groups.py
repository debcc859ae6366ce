"""Chapter 7: from similar pairs to groups of documents.

Sources: components by union-find, Galler and Fischer, An Improved Equivalence Algorithm, 1964; stars in the
order of the documents are the leader algorithm, Hartigan, Clustering Algorithms, 1975, chapter 3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable


def components(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the groups of two or more that pairs hold together, each ascending, in the order of their first
    members.

    A group is a chain: two of its members need not be a pair, however long the way between them is.

    >>> components([(1, 2), (2, 3), (7, 5)])
    [[1, 2, 3], [5, 7]]
    """
    parent: dict[int, int] = {}

    def root_of(number: int) -> int:
        while parent.setdefault(number, number) != number:
            parent[number] = number = parent[parent[number]]  # halved: Tarjan and van Leeuwen 1984
        return number

    for a, b in pairs:
        first, second = sorted((root_of(a), root_of(b)))
        parent[second] = first
    groups = defaultdict(list)
    for number in sorted(parent):
        groups[root_of(number)].append(number)
    return [members for members in groups.values() if len(members) > 1]


def stars(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return the groups of a centre, which stands first, and all that are its own, ascending; groups by
    centre, and no centre alone.

    In the order of the numbers each is a centre unless it is a pair with an earlier centre; then it belongs
    to the first such. So every member is a pair with its centre.

    >>> stars([(1, 2), (2, 3), (3, 4), (5, 7)])
    [[1, 2], [3, 4], [5, 7]]
    """
    earlier: dict[int, set[int]] = {}
    for a, b in pairs:
        first, second = sorted((a, b))
        earlier.setdefault(first, set())
        earlier.setdefault(second, set()).add(first)
    groups: dict[int, list[int]] = {}
    for number in sorted(earlier):
        centre = min((other for other in earlier[number] if other in groups), default=number)
        groups.setdefault(centre, []).append(number)
    return [members for members in groups.values() if len(members) > 1]
