"""`cluster_of`: the cluster of one document, breadth-first by queries.

Invariant: where no bound was hit it is the component that has the document, of all pairs that match: whether
two documents do does not depend on which of them is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from simindex.format.keys import Key, encode_key, key_hashes
from simindex.format.records import StoredRecord
from simindex.queries.matches import Matches, Results
from simindex.queries.search import BandQuery, Query
from simindex.queries.view import View


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
