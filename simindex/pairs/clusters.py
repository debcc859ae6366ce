"""`Clusters`, the iterator that `Index.clusters` returns, and `cluster_of`, the cluster of one document.

Invariant: pairs and keys are of one snapshot, that of the pairs. As copies are in pairs with others by their
first one alone, they are united before stars are looked for: what is equal has the same centre. `cluster_of`
goes breadth-first by queries: where no bound was hit it is the component that has the document.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Literal

import numpy as np

from simindex.format.keys import Key, encode_key, key_hashes
from simindex.format.records import StoredRecord
from simindex.pairs.edges import Forest, SortedEdges, edges_between, ends_of
from simindex.pairs.pair import Bounded, SnapshotIterator
from simindex.pairs.pairs import Pairs
from simindex.queries.matches import Matches, Results
from simindex.queries.search import BandQuery, Query
from simindex.queries.view import View

Linkage = Literal["components", "star"]
"""What holds a cluster together."""

_PAIRS_AT_ONCE = 4_096

_MEMBERS_AT_ONCE = 1_024
"""Documents that are looked up in one go, at least."""


def require_linkage(linkage: object) -> None:
    """Raise ValueError unless there is such a linkage."""
    if linkage not in ("components", "star"):
        raise ValueError(f'linkage: expected "components" or "star", found {linkage!r}')


class Clusters(SnapshotIterator[list[Key]]):
    """All clusters of one snapshot of an index: see `Index.clusters`.

    The first step finds all pairs; the others list what was found. Not thread-safe. It holds a handle of its
    own on the index, which pins the space of what is removed meanwhile; it is let go of at the end, by
    `close`, or at the end of a ``with`` block.
    """

    def __init__(self, pairs: Pairs, linkage: Linkage, memory_bytes: int) -> None:
        self._pairs, self._linkage, self._memory_bytes = pairs, linkage, memory_bytes
        self._groups: Iterator[tuple[np.ndarray, bool]] | None = None
        self._begun: list[Key] = []
        """The keys so far of a cluster that is longer than what is looked up in one go."""
        self._ready: deque[list[Key]] = deque()
        self._is_open = True

    @property
    def snapshot(self) -> int:
        """The id of the commit that is seen; equal ids, equal content."""
        return self._pairs.snapshot

    @property
    def total(self) -> int:
        """Entries of tables that are read in all."""
        return self._pairs.total

    @property
    def compared(self) -> int:
        """Pairs of sketches that were compared so far."""
        return self._pairs.compared

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all so far; see `Bounded`."""
        return self._pairs.bounded

    def __repr__(self) -> str:
        return f"<clusters ({self._linkage}) of {repr(self._pairs).removeprefix('<pairs of ')}"

    def __next__(self) -> list[Key]:
        while not self._ready:
            if not self._is_open:
                raise StopIteration
            self._advance()
        return self._ready.popleft()

    def close(self) -> None:
        """End the iteration and let go of the snapshot. Closing twice is allowed."""
        self._is_open, self._groups = False, None
        self._ready.clear()
        self._pairs.close()

    # ---- a step ----

    def _advance(self) -> None:
        """Look up the keys of the next groups; before the first, find all groups."""
        try:
            if self._groups is None:
                count, linkage = self._pairs.ranks.total, self._linkage
                self._groups = group(count, linkage, self._edges(), self._memory_bytes).groups()
            parts = list(_some_of(self._groups))
            if not parts:
                self.close()
                return
            ranks = np.concatenate([members for members, _ in parts])
            keys = self._pairs.read(partial(_keys, self._pairs.ranks.numbers(ranks)))
        except BaseException:
            self.close()
            raise
        first = 0
        for members, is_last in parts:
            self._begun += keys[first : first + len(members)]
            first += len(members)
            if is_last:
                self._ready.append(self._begun)
                self._begun = []

    def _edges(self) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield the edges of all pairs; see `group`."""
        while len(rows := self._next_rows()):
            edges = edges_between(self._pairs.ranks.of(rows[:, 0]), self._pairs.ranks.of(rows[:, 1]))
            is_copy = rows[:, 2] != 0
            yield edges[is_copy], True
            yield edges[~is_copy], False

    def _next_rows(self) -> np.ndarray:
        """Return the next pairs, uint64: number, number, 1 for copies; none at the end."""
        rows: list[tuple[int, int, bool]] = []
        try:
            while len(rows) < _PAIRS_AT_ONCE:
                rows.append(self._pairs.next_numbered()[1:])
        except StopIteration:
            pass
        return np.array(rows, dtype=np.uint64).reshape(-1, 3)


def group(
    count: int, linkage: Linkage, edges: Iterator[tuple[np.ndarray, bool]], memory_bytes: int
) -> Forest:
    """Return the components or stars that edges make of the numbers below a count.

    Args:
        edges: (edges of `edges_between`, whether their ends are copies of one another); the copies of a
            document come before its pairs.
        memory_bytes: of the edges of stars; what does not fit lies on the disk.
    """
    forest = Forest(count)
    with SortedEdges(memory_bytes) as waiting:
        for some, are_copies in edges:
            if are_copies or linkage == "components":
                forest.join(some)
            else:
                waiting.add(edges_between(*map(forest.roots, ends_of(some))))
        for some in waiting.ascending():
            forest.assign(some)
    return forest


def _some_of(groups: Iterator[tuple[np.ndarray, bool]]) -> Iterator[tuple[np.ndarray, bool]]:
    """Yield groups, or parts of them, until there are members enough."""
    count = 0
    while count < _MEMBERS_AT_ONCE and (part := next(groups, None)) is not None:
        count += len(part[0])
        yield part


def _keys(numbers: np.ndarray, view: View) -> list[Key]:
    """Return the keys of documents that are in pairs, so that they are there."""
    keys = []
    for number in numbers.tolist():
        record = view.record(number)
        assert record is not None
        keys.append(record.key)
    return keys


class Cluster(Results[Key]):
    """The keys of a cluster, oldest document first; a slice is a `Cluster`, too.

    Attributes:
        truncated: True when a bound was hit, so that members may be missing.

    >>> Cluster(["a", "b", "c"], truncated=True)[:2]
    Cluster(['a', 'b'], truncated=True)
    """

    __slots__ = ("truncated",)

    def __init__(self, keys: Iterable[Key] = (), truncated: bool = False) -> None:
        super().__init__(keys)
        self.truncated = truncated

    def __repr__(self) -> str:
        return f"Cluster({super().__repr__()}, truncated=True)" if self.truncated else super().__repr__()


def cluster_of(view: View, key: Key, query: Query, limit: int | None) -> Cluster:
    """Return the documents that are reached from one by way of matches, itself among them.

    Args:
        query: what is asked by each of them; without a limit of its own.
        limit: members that are returned at most, those that are fewest steps away; ``None``: all.
    """
    number, record = view.find_stored(key)
    members = {number: record.key}
    asked = {_sketch_of(number, record)}
    waiting = deque([(number, record)])
    truncated = False
    while waiting:
        matches = _matches_of(view, *waiting.popleft(), query)
        truncated = truncated or matches.truncated
        known = set(members.values())
        for found, its_record in _documents(view, [match.key for match in matches if match.key not in known]):
            if limit is not None and len(members) == limit:
                return _in_order(members, truncated=True)
            members[found] = its_record.key
            sketch = _sketch_of(found, its_record)
            if sketch not in asked:
                asked.add(sketch)
                waiting.append((found, its_record))
    return _in_order(members, truncated)


def _sketch_of(number: int, record: StoredRecord) -> int:
    """Return the number that a document's sketch is stored under: copies have the same matches."""
    return number if record.leader is None else record.leader


def _matches_of(view: View, number: int, record: StoredRecord, query: Query) -> Matches:
    """Return the matches of a stored document without itself."""
    batch = view.sketch_batch(number, record)
    if isinstance(query, BandQuery) and view.scheme.config.keep_shingles and record.kept is None:
        query = query._replace(exact=False)  # as where it is a match: by its rows
    return query.matches(view, query.find(view, batch), without=number)[0]


def _documents(view: View, keys: list[Key]) -> list[tuple[int, StoredRecord]]:
    """Return (number, record) of stored keys, in their order."""
    encoded = [encode_key(key) for key in keys]
    found = view.find_keys(encoded, key_hashes(encoded)) if encoded else {}
    return [found[place] for place in sorted(found)]


def _in_order(members: dict[int, Key], truncated: bool) -> Cluster:
    return Cluster([members[number] for number in sorted(members)], truncated)
