"""`Clusters`, the iterator that `Index.clusters` returns, and `cluster_of`, the cluster of one document.

Invariant: pairs and keys are of one snapshot, that of the pairs. As copies are in pairs with others by their
first one alone, they are united before stars are looked for: what is equal has the same centre. `cluster_of`
goes breadth-first by queries: where no bound was hit it is the component that has the document.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Literal, get_args

import numpy as np

from simindex.all_pairs.edges import Forest, SortedEdges, edges_between, ends_of
from simindex.all_pairs.pair import Bounded, SnapshotIterator
from simindex.all_pairs.pairs import Pairs
from simindex.checks import require_word
from simindex.format.keys import Key, encode_key, key_hashes
from simindex.format.records import StoredRecord
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
    require_word("linkage", linkage, get_args(Linkage))


class Clusters(SnapshotIterator[list[Key]]):
    """All clusters of one snapshot of an index: see `Index.clusters`.

    The first step finds all pairs; the others list what was found. Not thread-safe. It holds a handle of its
    own on the index, which pins the space of what is removed meanwhile; it is let go of at the end, by
    `close`, or at the end of a ``with`` block.
    """

    def __init__(self, pairs: Pairs, linkage: Linkage, memory_bytes: int) -> None:
        self._pairs, self._linkage = pairs, linkage
        super().__init__(self._all(memory_bytes), pairs.close)

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

    def _all(self, memory_bytes: int) -> Iterator[list[Key]]:
        """Find all groups, and yield the keys of each of two documents or more, oldest first."""
        ranks = self._pairs.ranks
        groups = group(ranks.total, self._linkage, self._edges(), memory_bytes).groups()
        begun: list[Key] = []
        while parts := list(_some_of(groups)):
            doc_ids = ranks.doc_ids(np.concatenate([members for members, _ in parts]))
            keys = iter(self._pairs.read(partial(_keys, doc_ids)))
            for members, is_last in parts:
                begun += islice(keys, len(members))
                if is_last:
                    yield begun
                    begun = []

    def _edges(self) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield (edges, whether they are of copies) of all pairs, by rank; see `group`."""
        while some := list(islice(self._pairs.numbered, _PAIRS_AT_ONCE)):
            a, b, are_copies = np.array([pair[1:] for pair in some], dtype=np.uint64).T
            edges, is_copy = edges_between(self._pairs.ranks.of(a), self._pairs.ranks.of(b)), are_copies != 0
            yield edges[is_copy], True
            yield edges[~is_copy], False


def group(
    count: int, linkage: Linkage, edges: Iterator[tuple[np.ndarray, bool]], memory_bytes: int
) -> Forest:
    """Use up the edges, and return the components or stars that they make of the numbers 0..count-1; a number
    in no edge is a group by itself. `edges`: (some edges, whether they join copies), those of copies first.
    Edges that do not fit into memory_bytes lie in a temporary file meanwhile."""
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
    """Yield groups, or parts of them, until they have `_MEMBERS_AT_ONCE` members or more; nothing at the
    end."""
    count = 0
    while count < _MEMBERS_AT_ONCE and (part := next(groups, None)) is not None:
        count += len(part[0])
        yield part


def _keys(doc_ids: np.ndarray, view: View) -> list[Key]:
    """Return the keys of documents, in the order of their doc ids here; all of them must be stored."""
    keys = []
    for doc_id in doc_ids.tolist():
        record = view.record(doc_id)
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
    """Return the keys of the documents that are reached from that of `key` by way of matches, itself among
    them, oldest first; `limit`: at most so many, those fewest steps away. `truncated` where there are more,
    or a query met a bound. Raises KeyError for a key that is not stored."""
    doc_id, record = view.find_stored(key)
    members = {doc_id: record.key}
    asked = _Asked(view, query)
    asked.is_new(doc_id, record)
    waiting = deque([(doc_id, record)])
    truncated = False
    while waiting:
        matches = _matches_of(view, *waiting.popleft(), query)
        truncated = truncated or matches.truncated
        known = set(members.values())
        for found, its_record in _documents(view, [match.key for match in matches if match.key not in known]):
            if limit is not None and len(members) == limit:
                return _in_order(members, truncated=True)
            members[found] = its_record.key
            if asked.is_new(found, its_record):
                waiting.append((found, its_record))
    return _in_order(members, truncated)


class _Asked:
    """Sketches whose matches were asked for: equal documents have the same, and are asked once."""

    def __init__(self, view: View, query: Query) -> None:
        self._view, self._by_kept = view, isinstance(query, BandQuery) and query.exact
        self._doc_ids = set[int]()
        self._sketches = set[tuple[bytes, int, int, bytes | None]]()

    def is_new(self, doc_id: int, record: StoredRecord) -> bool:
        """Whether the matches of this document's sketch were not asked for yet; they count as asked for from
        now on. It is known by the doc id that it is stored under, then by the sketch: documents are not
        stored as copies where shingles are kept."""
        owner = doc_id if record.leader is None else record.leader
        if owner in self._doc_ids:
            return False
        self._doc_ids.add(owner)
        batch = self._view.sketch_batch(doc_id, record)
        kept = record.kept if self._by_kept else None
        sketch = batch.words.tobytes(), int(batch.fingerprints[0]), record.present, kept
        is_new = sketch not in self._sketches
        self._sketches.add(sketch)
        return is_new


def _matches_of(view: View, doc_id: int, record: StoredRecord, query: Query) -> Matches:
    """Return the matches of a stored document without itself; one that lacks kept shingles is compared by its
    rows."""
    batch = view.sketch_batch(doc_id, record)
    if isinstance(query, BandQuery) and view.scheme.config.keep_shingles and record.kept is None:
        query = query._replace(exact=False)  # as where it is a match: by its rows
    return query.matches(view, query.find(view, batch), without=doc_id)[0]


def _documents(view: View, keys: list[Key]) -> list[tuple[int, StoredRecord]]:
    """Return (doc id, record) of those of the keys that are stored, in their order."""
    encoded = [encode_key(key) for key in keys]
    found = view.find_keys(encoded, key_hashes(encoded)) if encoded else {}
    return [found[index] for index in sorted(found)]


def _in_order(members: dict[int, Key], truncated: bool) -> Cluster:
    return Cluster([members[doc_id] for doc_id in sorted(members)], truncated)
