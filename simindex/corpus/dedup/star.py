"""Greedy stars over verified edges: decide which rows stay.

`large_buckets` has the documents of long runs. Invariant: a row stays unless one that stays stands before it
in keep order and is like it; the report names the most similar such row, of several the first. Source: greedy
stars over sorted edges, as in `pairs.clusters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.corpus.dedup.large_buckets import LongRunRows
from simindex.corpus.dedup.orders import KeepOrder
from simindex.corpus.dedup.scored_edges import SCORED_EDGE, edges_of, scores_of
from simindex.format.rows import NO_VALUE
from simindex.pairs.plan import PairPlan
from simindex.pairs.sorted_edges import SortedEdges
from simindex.pairs.union_find import ends_of

_HALF = np.uint64(32)

Fetch = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Returns (words, fingerprints) of ascending numbers."""


class Outcome(NamedTuple):
    """What a star has come to.

    Attributes:
        verdicts: yields rows of SCORED_EDGE, of the numbers of rows that go (the upper half) and of those
            that they are like, ascending.
        bounded: numbers of the rows that stay though not all was looked at, ascending.
    """

    verdicts: Iterator[np.ndarray]
    bounded: np.ndarray


class Star:
    """Takes what ranges have found, in any order, and decides.

    Memory: 4 bytes a row, 8 a copy, `memory_bytes` of edges (what does not fit lies on the disk), 8 bytes for
    each time that a document is in a long run, and the sketches of those of them that stay.

    Args:
        copies: (leaders, copies) by number: rows that are in no range, for their sketch is a leader's.
        folder: of edges that do not fit; ``None``: that of temporary files.
        assign: settles rows, by their sketches or by more; see `assigned`.
    """

    def __init__(
        self,
        plan: PairPlan,
        num_perm: int,
        order: KeepOrder,
        copies: tuple[np.ndarray, np.ndarray],
        memory_bytes: int,
        folder: str | None = None,
        assign: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self._plan, self._order, self._assigned = plan, order, assign or assigned
        self._new_edges = partial(SortedEdges, memory_bytes, SCORED_EDGE, folder=folder)
        self._edges = self._new_edges()
        self._groups = _Groups(*copies, order)
        self._long_runs = LongRunRows(plan, num_perm, order.total)
        equal = scores_of(plan, np.array([num_perm or NO_VALUE]), np.array([0]))
        self._add(copies[1], self._groups.firsts_of(copies[0]), equal)
        self._add(copies[0], self._groups.firsts_of(copies[0]), equal)

    def add_run(self, numbers: np.ndarray, *, begins: bool = True) -> None:
        """Take the documents of a long run, or some more of the run before."""
        _, members = self._groups.expanded(numbers)
        self._long_runs.add(members, begins=begins)

    def add_pairs(self, rows: np.ndarray) -> None:
        """Take verified pairs: PAIR_ROW."""
        scores = scores_of(self._plan, rows["agree"], rows["distance"])
        # Of equal rows only the first can stay: each of one side is compared with the first of the other.
        for some, others in ((rows["a"], rows["b"]), (rows["b"], rows["a"])):
            places, members = self._groups.expanded(some)
            self._add(members, self._groups.firsts_of(others)[places], scores[places])

    def _add(self, some: np.ndarray, others: np.ndarray, scores: np.ndarray) -> None:
        left, right = self._order.places_of(some), self._order.places_of(others)
        rows = edges_of(np.maximum(left, right), np.minimum(left, right), scores)
        self._edges.add(rows[left != right])

    # ---- the decision ----

    def decided(self, fetch: Fetch) -> Outcome:
        """Return the decisions on all rows. To be called once.

        Args:
            fetch: gives the sketches of documents of long runs.
        """
        found = self._new_edges()
        with self._edges:
            for rows in self._best(fetch):
                removed, kept = (
                    self._order.numbers_of(places.astype(np.uint32)) for places in ends_of(rows["edge"])
                )
                found.add(edges_of(removed, kept, rows["scores"]))
        bounded = self._order.numbers_of(np.array(self._long_runs.bounded, dtype=np.uint32))
        return Outcome(found.ascending(), np.sort(bounded))

    def _best(self, fetch: Fetch) -> Iterator[np.ndarray]:
        """Yield the edge of each row that goes to the one that it is most like of those that stay."""
        links = np.arange(self._order.total, dtype=np.uint32)

        def of_leaders(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            wanted, places = np.unique(self._groups.leaders_of(numbers), return_inverse=True)
            words, fingerprints = fetch(wanted)
            return words[places], fingerprints[places]

        long_runs = self._long_runs
        long_runs.begin(self._order, of_leaders)
        for rows, behind in _whole_rows(self._edges.ascending(), self._order.total):
            laters, first = rows["edge"] >> _HALF, 0
            while (place := long_runs.next_place()) < behind:
                end = int(np.searchsorted(laters, np.uint64(place)))
                if end > first:
                    yield self._assigned(links, rows[first:end])
                first = int(np.searchsorted(laters, np.uint64(place), side="right"))
                own = np.concatenate([rows[end:first], long_runs.matches()])
                if len(own):
                    own = own[np.argsort(own["edge"], kind="stable")]
                    yield self._assigned(links, own)
                long_runs.decide(stays=bool(links[place] == place))
            yield self._assigned(links, rows[first:])


def assigned(links: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Settle some rows, and return the best edge of each of them that goes.

    Args:
        links: of a star, by place: itself where it stays; see the kernel's forest.c.
        rows: SCORED_EDGE, ascending; all that there are of each later one.
    """
    edges = np.ascontiguousarray(rows["edge"])
    _kernel.assign_stars(links, edges)
    later, earlier = ends_of(edges)
    counts = (links[later] != later) & (links[earlier] == earlier)
    rows, later = rows[counts], later[counts]
    order = np.lexsort((rows["edge"], rows["scores"], later))
    rows, later = rows[order], later[order]
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = later[1:] != later[:-1]
    return rows[is_first]


def _whole_rows(parts: Iterator[np.ndarray], total: int) -> Iterator[tuple[np.ndarray, int]]:
    """Yield (edges, place): all edges of the rows before a place that were not in a part before."""
    rest = np.empty(0, dtype=SCORED_EDGE)
    for part in parts:
        rows = np.concatenate([rest, part])
        if len(rows):
            last = rows["edge"][-1] >> _HALF
            end = int(np.searchsorted(rows["edge"], last << _HALF))
            yield rows[:end], int(last)
            rest = rows[end:]
    yield rest, total


class _Groups:
    """Rows of equal sketches of one partition: the ranges know the first of them alone, the leader."""

    def __init__(self, leaders: np.ndarray, copies: np.ndarray, order: KeepOrder) -> None:
        self._leaders, counts = np.unique(leaders, return_counts=True)
        self._copies = copies[np.argsort(leaders, kind="stable")]
        self._begins = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        places = order.places_of(self._copies)
        firsts = order.places_of(self._leaders)
        if len(self._leaders):
            firsts = np.minimum(firsts, np.minimum.reduceat(places, self._begins[:-1]))
        self._firsts = order.numbers_of(firsts)
        self._by_copy = copies[(by_copy := np.argsort(copies))]
        self._leader_of = leaders[by_copy]

    def _groups_of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (whether each is a leader, its group)."""
        if not len(self._leaders):
            return np.zeros(len(numbers), dtype=bool), np.zeros(len(numbers), dtype=np.int64)
        groups = np.minimum(np.searchsorted(self._leaders, numbers), len(self._leaders) - 1)
        return self._leaders[groups] == numbers, groups

    def firsts_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return, of the group of each leader, the row that stands first in keep order; others themselves."""
        leads, groups = self._groups_of(numbers)
        return np.where(leads, self._firsts[groups], numbers) if leads.any() else numbers

    def leaders_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the row that the sketch of each is stored under."""
        if not len(self._by_copy):
            return numbers
        at = np.minimum(np.searchsorted(self._by_copy, numbers), len(self._by_copy) - 1)
        return np.where(self._by_copy[at] == numbers, self._leader_of[at], numbers)

    def expanded(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (places, rows): all rows of each sketch, with the place of the sketch among the numbers."""
        leads, groups = self._groups_of(numbers)
        own = np.arange(len(numbers))
        if not leads.any():
            return own, numbers
        counts = np.where(leads, np.diff(self._begins)[groups], 0) if len(self._leaders) else own * 0
        places = np.repeat(own, counts)
        starts = np.repeat(self._begins[groups] - (np.cumsum(counts) - counts), counts)
        copies = self._copies[starts + np.arange(len(places))]
        return np.concatenate([own, places]), np.concatenate([numbers, copies])
