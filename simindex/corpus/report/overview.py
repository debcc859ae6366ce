"""Count pairs, similarities and clusters of an index for the report.

A duplicate is a document that is similar to one that was stored before it; clusters are the components of the
pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from simindex.format.keys import Key
from simindex.index import Index
from simindex.pairs.edges import Forest, edges_between
from simindex.pairs.pair import Pair

_AT_ONCE = 100_000
_BOUNDED = "{:,} groups of documents with one prefix were not compared all with all; pairs may be missing."
_MOST_STEPS = 60
_STEP_PERCENT = 2


class SimilarPair(NamedTuple):
    """Two documents by their places in the order of storing, from 0, and how similar they are."""

    earlier: int
    later: int
    similarity: float | None
    distance: int | None


Name = Key | tuple[Key, str | None, int]
"""Of a member; see `Member.name`."""


class Member(NamedTuple):
    """A document of a cluster."""

    key: Key
    like: int | None = None  # the place among the members of the earlier one that it is most like, or None
    similarity: float | None = None  # to that one; None without MinHash
    distance: int | None = None  # to that one, in bits; None without SimHash
    place: tuple[str | None, int] | None = None  # of a row of a job: its input, and the row there

    @property
    def name(self) -> Name:
        """What its text is known by: its key, with its place where it has one, for ids may repeat."""
        return self.key if self.place is None else (self.key, *self.place)


class Cluster(NamedTuple):
    """Documents that are similar to one another, directly or by others."""

    size: int
    members: list[Member]  # the first of them, in the order of storing


@dataclass(frozen=True)
class Overview:
    """What a report shows of an index.

    Attributes:
        duplicates: those that are similar to an earlier one.
        num_clusters: how many there are; `clusters` may be fewer.
        num_pairs: similar pairs; copies of one sketch are paired with the first of them only.
        histogram: (label, pairs), the most similar last.
        fresh: the share of documents that are no duplicates, in equal parts of the order of storing.
        clusters: the largest first, then by their first members.
    """

    documents: int
    duplicates: int
    num_clusters: int
    num_pairs: int
    histogram: list[tuple[str, int]]
    fresh: list[float]
    clusters: list[Cluster]
    notes: list[str]


def overview_of(index: Index, threshold: float, most_clusters: int, most_members: int) -> Overview:
    """Return what there is to show of an index.

    Cost: that of `Index.pairs`; memory: all keys, 4 bytes a document, and some 200 bytes a duplicate.

    Args:
        threshold: least similarity of a pair; without MinHash pairs within the configured distance count.
    """
    keys = list(index)
    nearest: dict[int, SimilarPair] = {}
    histogram: Counter[int] = Counter()
    forest = Forest(len(keys))
    pairs = index.pairs(threshold, copies="first") if index.config.num_perm else index.pairs(copies="first")
    remaining = _similar_pairs(pairs, keys)
    while some := list(islice(remaining, _AT_ONCE)):
        forest.join(edges_between(np.array([p.earlier for p in some]), np.array([p.later for p in some])))
        for pair in some:
            histogram[step_of(pair.similarity, pair.distance)] += 1
            if pair.later not in nearest or _order(pair) > _order(nearest[pair.later]):
                nearest[pair.later] = pair
    groups = _groups(forest)
    largest = sorted(groups, key=lambda group: (-len(group), group[0]))[:most_clusters]
    return Overview(
        documents=len(keys),
        duplicates=len(nearest),
        num_clusters=len(groups),
        num_pairs=sum(histogram.values()),
        histogram=labelled(histogram, bool(index.config.num_perm), threshold, _max_distance(index)),
        fresh=fresh_shares(len(keys), nearest),
        clusters=[_cluster(group, keys, nearest, most_members) for group in largest],
        notes=[_BOUNDED.format(pairs.bounded.runs)] if pairs.bounded.runs else [],
    )


def _similar_pairs(pairs: Iterable[Pair], keys: list[Key]) -> Iterator[SimilarPair]:
    places = {key: place for place, key in enumerate(keys)}
    for pair in pairs:
        first, second = places.get(pair.a), places.get(pair.b)
        if first is not None and second is not None:  # what was stored since is not in the page
            yield SimilarPair(min(first, second), max(first, second), pair.similarity, pair.distance)


def _order(pair: SimilarPair) -> tuple[float, int]:
    """Return what is greater the more similar a pair is."""
    return (-1.0 if pair.similarity is None else pair.similarity, -(pair.distance or 0))


def step_of(similarity: float | None, distance: int | None) -> int:
    """Return the bar of the histogram: hundredths of similarity rounded down, or bits of distance."""
    if similarity is None:
        return distance or 0
    return int(similarity * 100 + 1e-9) // _STEP_PERCENT * _STEP_PERCENT


def _max_distance(index: Index) -> int:
    return 0 if index.config.simhash is None else index.config.simhash.max_distance


def labelled(
    histogram: Counter[int], by_similarity: bool, threshold: float, most: int
) -> list[tuple[str, int]]:
    """Return the bars with their labels: from the threshold on, or from `most` bits down."""
    if not by_similarity:
        return [(f"{step} bits", histogram[step]) for step in range(most, -1, -1)]
    first = min(min(histogram, default=100), int(threshold * 100)) // _STEP_PERCENT * _STEP_PERCENT
    return [(f"{step / 100:.2f}", histogram[step]) for step in range(first, 101, _STEP_PERCENT)]


def _groups(forest: Forest) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    parts: list[np.ndarray] = []
    for members, is_last in forest.groups():
        parts.append(members.copy())
        if is_last:
            found.append(np.concatenate(parts))
            parts = []
    return found


def fresh_shares(num_documents: int, later: Iterable[int]) -> list[float]:
    """Return the share that are no duplicates in equal parts of the input; `later`: the numbers of those."""
    num_steps = min(_MOST_STEPS, num_documents)
    edges = [step * num_documents // max(num_steps, 1) for step in range(num_steps + 1)]
    places = np.fromiter(chain(later), dtype=np.int64)
    old, _ = np.histogram(places, bins=edges) if num_steps else (np.zeros(0), None)
    return [1 - int(count) / (edges[step + 1] - edges[step]) for step, count in enumerate(old)]


def _cluster(group: np.ndarray, keys: list[Key], nearest: dict[int, SimilarPair], most: int) -> Cluster:
    places = {place: number for number, place in enumerate(group[:most].tolist())}
    members = []
    for place in places:
        pair = nearest.get(place)
        if pair is None:
            members.append(Member(keys[place]))
        else:
            members.append(Member(keys[place], places.get(pair.earlier), pair.similarity, pair.distance))
    return Cluster(len(group), members)
