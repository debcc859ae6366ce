"""Decide the rows of long runs one after the other, as a query per row would.

To compare the documents of a run two by two takes the square of their number, and only the star knows which
of them stay. So they wait, and each is compared in its turn with those of its runs that stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from simindex.changes.if_new import MOST_IN_BUCKET
from simindex.corpus.dedup.orders import KeepOrder
from simindex.corpus.dedup.scored_edges import SCORED_EDGE, edges_of, scores_of
from simindex.corpus.dedup.verified import equal_rows
from simindex.pairs.plan import PairPlan
from simindex.pairs.union_find import ends_of
from simindex.queries.search import DEFAULT_MAX_CANDIDATES

_AT_ONCE = 4_096
"""Documents whose sketches are fetched in one go."""

NO_PLACE = 2**63

_TIMES_CHANCE = 8

_NO_EDGES = np.empty(0, dtype=SCORED_EDGE)


def room_by_chance(total: int, bits: Sequence[int]) -> int:
    """Return how many documents may share a prefix in one table for their number alone, as an index has it.

    >>> room_by_chance(1_000_000, [32]), room_by_chance(1_000_000, [9] * 16)
    (0, 4096)
    """
    chance = 1 << total.bit_length() >> (bits[0] + 1)
    return min(_TIMES_CHANCE * chance, DEFAULT_MAX_CANDIDATES // len(bits))


class _Run:
    """The documents of a run that stay so far."""

    def __init__(self, bands: int) -> None:
        self.count = 0
        self.places = np.empty(16, dtype=np.uint32)
        self.words = np.empty((16, bands), dtype=np.uint64)
        self.fingerprints = np.empty(16, dtype=np.uint64)

    def add(self, place: int, words: np.ndarray, fingerprint: np.uint64) -> None:
        if self.count == len(self.places):
            self.places = np.concatenate([self.places, np.empty_like(self.places)])
            self.words = np.concatenate([self.words, np.empty_like(self.words)])
            self.fingerprints = np.concatenate([self.fingerprints, np.empty_like(self.fingerprints)])
        self.places[self.count], self.words[self.count] = place, words
        self.fingerprints[self.count] = fingerprint
        self.count += 1


class LongRunRows:
    """Documents of long runs: first all are taken, then they come in keep order, each with its runs.

    Attributes:
        most: documents of a run that another one is compared with: as many as by an index (`asked_if_new`).
        bounded: places of those that stay though there were more.
    """

    def __init__(self, plan: PairPlan, num_perm: int, total: int) -> None:
        self._plan, self._num_perm = plan, num_perm
        self.most = DEFAULT_MAX_CANDIDATES
        if plan.method == "minhash":
            self.most = max(MOST_IN_BUCKET, room_by_chance(total, plan.bits))
        self._parts: list[tuple[np.ndarray, int]] = []
        self._num_runs = 0
        self._at = self._fetched = 0
        self._words: np.ndarray = np.empty((0, 0), dtype=np.uint64)
        self._fingerprints = np.empty(0, dtype=np.uint64)
        self._runs: dict[int, _Run] = {}
        self._was_bounded = False
        self.bounded: list[int] = []

    def add(self, numbers: np.ndarray, *, begins: bool) -> None:
        """Take the documents of a run, or some more of the run before."""
        self._num_runs += begins
        self._parts.append((numbers, self._num_runs - 1))

    def begin(self, order: KeepOrder, fetch: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> None:
        """Put all that were taken in keep order."""
        self._order, self._fetch = order, fetch
        parts = [
            edges_of(order.places_of(numbers), np.full(len(numbers), run), np.zeros(len(numbers)))["edge"]
            for numbers, run in self._parts
        ]
        self._parts = []
        places, runs = ends_of(np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *parts])))
        self._runs_of = runs.astype(np.uint32)
        self._places, self._begins = np.unique(places.astype(np.uint32), return_index=True)
        self._begins = np.append(self._begins, len(places))

    def next_place(self) -> int:
        """Return where the next one stands; `NO_PLACE` behind the last."""
        return int(self._places[self._at]) if self._at < len(self._places) else NO_PLACE

    def matches(self) -> np.ndarray:
        """Return the edges, ascending, from the next one to those of its runs that stay and are like it."""
        if self._at == self._fetched:
            self._fetch_more()
        words, fingerprint, place = *self._own(), self.next_place()
        found: list[np.ndarray] = []
        self._was_bounded = False
        for run in self._own_runs():
            known = self._runs.get(run)
            if known is None:
                continue
            count = min(known.count, self.most)
            self._was_bounded |= known.count > count
            others, bits = known.words[:count], known.fingerprints[:count]
            is_match, scores = self._scores(words, fingerprint, others, bits)
            if not is_match.any():
                continue
            kept = known.places[:count][is_match]
            found.append(edges_of(np.full(len(kept), place), kept, scores[is_match]))
        return np.unique(np.concatenate(found)) if found else _NO_EDGES

    def decide(self, *, stays: bool) -> None:
        """Take note of what became of the next one, and go on."""
        if stays:
            words, fingerprint = self._own()
            for run in self._own_runs():
                self._runs.setdefault(run, _Run(words.size)).add(self.next_place(), words, fingerprint)
            if self._was_bounded:
                self.bounded.append(self.next_place())
        self._at += 1

    def _scores(
        self, words: np.ndarray, fingerprint: np.uint64, others: np.ndarray, bits: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (whether each of others matches a sketch, its scores)."""
        plan = self._plan
        distance = np.bitwise_count(bits ^ fingerprint).astype(np.uint32)
        agree = np.full(len(others), 0xFFFF, dtype=np.uint32)
        if self._num_perm:
            agree = equal_rows(others, words).sum(axis=1, dtype=np.uint32)
        is_match = agree >= plan.min_agree if plan.method == "minhash" else distance <= plan.max_distance
        return is_match, scores_of(plan, agree, distance)

    def _own_runs(self) -> list[int]:
        runs: list[int] = self._runs_of[self._begins[self._at] : self._begins[self._at + 1]].tolist()
        return runs

    def _own(self) -> tuple[np.ndarray, np.uint64]:
        at = self._at - self._fetched + len(self._words)
        return self._words[at], self._fingerprints[at]

    def _fetch_more(self) -> None:
        numbers = self._order.numbers_of(self._places[self._at : self._at + _AT_ONCE])
        ascending = np.argsort(numbers)
        words, fingerprints = self._fetch(numbers[ascending])
        self._words, self._fingerprints = np.empty_like(words), np.empty_like(fingerprints)
        self._words[ascending], self._fingerprints[ascending] = words, fingerprints
        self._fetched = self._at + len(numbers)
