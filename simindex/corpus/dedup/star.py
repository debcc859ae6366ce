"""Greedy stars over verified edges: decide which rows stay.

Invariant: a row stays unless one that stays stands before it in keep order and is like it; the report names
the most similar such row, of several the first. To compare the rows of a long run two by two takes the square
of their number, and only the star knows which of them stay: so they wait, and each is compared in its turn
with those of its runs that stay, as a query per row would. Source: greedy stars over sorted edges, as in
`pairs.clusters`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from simindex import _kernel
from simindex.all_pairs.candidates import indices_within
from simindex.all_pairs.edges import SortedEdges, ends_of
from simindex.all_pairs.plan import DEFAULT_MEMORY_BYTES, PairPlan
from simindex.all_pairs.ranges import Edges
from simindex.corpus.dedup.orders import KeepOrder
from simindex.corpus.dedup.sketches import SketchFiles
from simindex.distinct import distinct
from simindex.format.kernel_structs import NO_VALUE
from simindex.queries.search import DEFAULT_MAX_CANDIDATES, MOST_IN_BUCKET
from simindex.sketching.common_shingles import (
    CommonShingles,
    OwnShingles,
    common_shingles,
    estimate_without,
)
from simindex.sketching.estimate import Estimate, best_estimate, share_held
from simindex.sketching.hash_family import equal_rows

SCORED_EDGE = np.dtype([("edge", np.uint64), ("scores", np.uint32)])
"""An edge, an end in the upper half and one in the lower, and its score: lower is more similar."""

_MOST = np.uint32(0xFFFF)
_HALF_SCORE = np.uint32(16)


def edges_of(upper: np.ndarray, lower: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return rows of SCORED_EDGE in the given order, with `upper` in the upper 32 bits of the edge."""
    rows = np.empty(len(upper), dtype=SCORED_EDGE)
    rows["edge"] = upper.astype(np.uint64) << np.uint64(32) | lower.astype(np.uint64)
    rows["scores"] = scores
    return rows


def scores_of(plan: PairPlan, agree: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Return the scores of matches, uint32, lower where more similar: by MinHash ordered by agreeing rows and
    then by differing bits, by SimHash the other way round.

    >>> from types import SimpleNamespace
    >>> plan = SimpleNamespace(method="minhash")
    >>> scores_of(plan, np.array([128, 120]), np.array([0, 3]))
    array([4286513152, 4287037443], dtype=uint32)
    """
    unlike, bits = _MOST - agree.astype(np.uint32), distance.astype(np.uint32)
    scores: np.ndarray = (
        (unlike << _HALF_SCORE | bits) if plan.method == "minhash" else (bits << _HALF_SCORE | unlike)
    )
    return scores


_Score = TypeVar("_Score", int, np.ndarray)


def agree_and_distance(plan: PairPlan, score: _Score) -> tuple[_Score, _Score]:
    """Return the (agreeing rows, distance in bits) that `scores_of` packed into a score, or into an array of
    them."""
    upper, lower = score >> 16, score & 0xFFFF
    return (0xFFFF - upper, lower) if plan.method == "minhash" else (0xFFFF - lower, upper)


Sources = Callable[[np.ndarray], np.ndarray]
"""Returns a hash of the source of each of some rows, uint64: a row goes only for one of its own source."""

Fetch = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Returns (words, fingerprints) of ascending numbers."""

_AT_ONCE = 4_096
"""Documents whose sketches are fetched in one go."""

NO_POSITION = 2**63

_TIMES_CHANCE = 8

_NO_EDGES = np.empty(0, dtype=SCORED_EDGE)


def room_by_chance(total: int, bits: Sequence[int]) -> int:
    """Return how many of `total` documents may share a prefix in one table before it counts as a long run of
    chance: eight times what even hashes lead to at the first table's bits, at most the share of one of
    `len(bits)` tables in DEFAULT_MAX_CANDIDATES.

    >>> room_by_chance(1_000_000, [32]), room_by_chance(1_000_000, [9] * 16)
    (0, 4096)
    """
    chance = 1 << total.bit_length() >> (bits[0] + 1)
    return min(_TIMES_CHANCE * chance, DEFAULT_MAX_CANDIDATES // len(bits))


class _Run:
    """The documents of a run that stay so far, with their positions and sketches."""

    def __init__(self, bands: int) -> None:
        sketch = [("position", np.uint32), ("words", np.uint64, (bands,)), ("fingerprint", np.uint64)]
        self.count, self.rows = 0, np.empty(16, dtype=sketch)

    def add(self, position: int, words: np.ndarray, fingerprint: np.uint64) -> None:
        if self.count == len(self.rows):
            self.rows = np.concatenate([self.rows, np.empty_like(self.rows)])
        self.rows[self.count] = position, words, fingerprint
        self.count += 1


class LongRunRows:
    """Documents of long runs: first all are taken, then they come in keep order, each with its runs. Each is
    compared with `most` of a run, as by an index; `bounded`: positions of those that stay though there were
    more. With `sources` the rows of one source in a run are a run of their own."""

    def __init__(self, plan: PairPlan, num_perm: int, total: int, sources: Sources | None = None) -> None:
        self._plan, self._num_perm, self._sources = plan, num_perm, sources
        self.most = DEFAULT_MAX_CANDIDATES
        if plan.method == "minhash":
            self.most = max(MOST_IN_BUCKET, room_by_chance(total, plan.bits))
        self._parts: list[np.ndarray] = []
        self._num_runs = self._at = self._fetched = 0
        self._runs: dict[int, _Run] = {}
        self._was_bounded = False
        self.bounded: list[int] = []

    def add(self, numbers: np.ndarray, *, begins: bool) -> None:
        """Take documents of a run by their numbers; `begins`: of a new run, else more of the run of the last
        call."""
        self._num_runs += begins
        runs = np.full(len(numbers), self._num_runs - 1, dtype=np.uint32)
        self._parts.append(np.stack([numbers.astype(np.uint32), runs]))

    def begin(self, order: KeepOrder, fetch: Fetch) -> None:
        """Sort the documents of all runs into keep order, each document once; called once, after the last
        `add`. `fetch` is asked for their sketches later."""
        self._order, self._fetch = order, fetch
        numbers, runs = np.concatenate([np.empty((2, 0), dtype=np.uint32), *self._parts], axis=1)
        self._parts = []
        if self._sources is not None:
            by_source = _BySource(runs, self._sources(numbers))
            _, runs = np.unique(by_source.own, return_inverse=True)
        edges = distinct(edges_of(order.positions_of(numbers), runs, np.zeros(1))["edge"])
        positions, self._runs_of = (ends.astype(np.uint32) for ends in ends_of(edges))
        self._positions, begins = np.unique(positions, return_index=True)
        self._begins = np.append(begins, len(positions))

    def next_position(self) -> int:
        """Return where in keep order the next undecided row stands; `NO_POSITION` where all are decided."""
        return int(self._positions[self._at]) if self._at < len(self._positions) else NO_POSITION

    def matches(self) -> np.ndarray:
        """Compare the next document, of which there must be one, with the first `most` of those in each of
        its runs that stay so far; return SCORED_EDGE rows, ascending, from it to the ones that match, both by
        their positions in keep order. It stays the next one until `decide`."""
        if self._at == self._fetched:
            self._fetch_more()
        position, found, self._was_bounded = self.next_position(), [_NO_EDGES], False
        for run in self._own_runs():
            known = self._runs.get(run)
            if known is not None:
                self._was_bounded |= known.count > self.most
                others = known.rows[: min(known.count, self.most)]
                is_match, scores = self._scores(others["words"], others["fingerprint"])
                kept = others["position"][is_match]
                found.append(edges_of(np.full(len(kept), position), kept, scores[is_match]))
        return np.unique(np.concatenate(found))

    def decide(self, *, stays: bool) -> None:
        """Record whether the next document stays, after `matches`, and move on to the one after it. If it
        stays, later documents of its runs are compared with it, and it is bounded where `matches` passed over
        some."""
        if stays:
            words, fingerprint = self._own()
            for run in self._own_runs():
                self._runs.setdefault(run, _Run(words.size)).add(self.next_position(), words, fingerprint)
            if self._was_bounded:
                self.bounded.append(self.next_position())
        self._at += 1

    def _scores(
        self, other_words: np.ndarray, other_fingerprints: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (whether each of the other sketches matches that of the next document, the scores of all of
        them)."""
        plan, (words, fingerprint) = self._plan, self._own()
        distance = np.bitwise_count(other_fingerprints ^ fingerprint).astype(np.uint32)
        agree = np.full(len(other_words), NO_VALUE, dtype=np.uint32)
        if self._num_perm:
            agree = equal_rows(other_words, words).sum(axis=1, dtype=np.uint32)
        is_match = (agree >= plan.min_agree) & (distance <= plan.max_distance)
        return is_match, scores_of(plan, agree, distance)

    def _own_runs(self) -> list[int]:
        runs: list[int] = self._runs_of[self._begins[self._at] : self._begins[self._at + 1]].tolist()
        return runs

    def _own(self) -> tuple[np.ndarray, np.uint64]:
        at = self._at - self._fetched + len(self._words)
        return self._words[at], self._fingerprints[at]

    def _fetch_more(self) -> None:
        numbers = self._order.numbers_of(self._positions[self._at : self._at + _AT_ONCE])
        ascending = np.argsort(numbers)
        turned = np.argsort(ascending)
        self._words, self._fingerprints = (column[turned] for column in self._fetch(numbers[ascending]))
        self._fetched = self._at + len(numbers)


_HALF = np.uint64(32)


class Outcome(NamedTuple):
    """What a star has come to."""

    verdicts: Iterator[np.ndarray]  # SCORED_EDGE, from the numbers of rows that go to what they are like
    bounded: np.ndarray  # numbers of the rows that stay though not all was looked at, ascending


class Star:
    """Takes what ranges have found, in any order, and decides; rows that are `copies` of leaders are in no
    range.

    Memory: 4 bytes a row, 8 a copy, `memory_bytes` of edges (what does not fit lies on the disk), 8 bytes for
    each time that a document is in a long run, and the sketches of those of them that stay.
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
        sources: Sources | None = None,
    ) -> None:
        self._plan, self._order, self._assigned = plan, order, assign or assigned
        self._new_edges = partial(SortedEdges, memory_bytes, SCORED_EDGE, folder=folder)
        self._edges = self._new_edges()
        self._sources, self._groups = sources, _Groups(*copies, order, sources)
        self._long_runs = LongRunRows(plan, num_perm, order.total, sources)
        equal = scores_of(plan, np.array([num_perm or NO_VALUE]), np.array([0]))
        for members in (copies[1], copies[0]):
            self._add(members, self._groups.firsts_for(members, copies[0]), equal)

    def _take(self, found: Edges) -> None:
        """Add verified pairs as edges, extended to the copies of both sides and without those beyond the
        distance of the plan; hand on documents of a long run with their copies."""
        if len(found.waiting):
            _, members = self._groups.expanded(found.waiting)
            self._long_runs.add(members, begins=found.begins)
        rows = found.pairs[found.pairs["distance"] <= self._plan.max_distance]
        scores = scores_of(self._plan, rows["agree"], rows["distance"])
        # Of equal rows only the first can stay: each of one side is compared with the first of the other.
        for side, other in ("ab", "ba"):
            inverse, members = self._groups.expanded(rows[side])
            self._add(members, self._groups.firsts_for(members, rows[other][inverse]), scores[inverse])

    def _add(self, some: np.ndarray, others: np.ndarray, scores: np.ndarray) -> None:
        left, right = self._order.positions_of(some), self._order.positions_of(others)
        rows = edges_of(np.maximum(left, right), np.minimum(left, right), scores)
        self._edges.add(rows[left != right])

    # ---- the decision ----

    def decided(self, found: Iterable[Edges], fetch: Fetch) -> Outcome:
        """Take all that ranges have found, then decide every row: return, by their numbers, the rows that go,
        ascending, each with the most similar row that stays, and the rows that are bounded. To be called
        once; `fetch` gives the sketches of documents of long runs."""
        for some in found:
            self._take(some)
        gone, numbers_of = self._new_edges(), self._order.numbers_of
        with self._edges:
            for rows in self._best(fetch):
                removed, kept = (numbers_of(ends.astype(np.uint32)) for ends in ends_of(rows["edge"]))
                gone.add(edges_of(removed, kept, rows["scores"]))
        bounded = numbers_of(np.array(self._long_runs.bounded, dtype=np.uint32))
        return Outcome(gone.ascending(), np.sort(bounded))

    def _best(self, fetch: Fetch) -> Iterator[np.ndarray]:
        """Yield SCORED_EDGE rows, some at a time and ascending by the later end: for each row that goes, its
        edge to the most similar row that stays. Both ends are positions in keep order."""
        links = np.arange(self._order.total, dtype=np.uint32)

        def of_leaders(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            wanted, inverse = np.unique(self._groups.leaders_of(numbers), return_inverse=True)
            words, fingerprints = fetch(wanted)
            return words[inverse], fingerprints[inverse]

        long_runs = self._long_runs
        long_runs.begin(self._order, of_leaders)
        for rows, stop in _whole_rows(self._edges.ascending(), self._order.total):
            laters, first = rows["edge"] >> _HALF, 0
            while (position := long_runs.next_position()) < stop:
                end = int(np.searchsorted(laters, np.uint64(position)))
                if end > first:
                    yield self._assigned(links, rows[first:end])
                first = int(np.searchsorted(laters, np.uint64(position), side="right"))
                own = np.concatenate([rows[end:first], long_runs.matches()])
                if len(own):
                    own = own[np.argsort(own["edge"], kind="stable")]
                    yield self._assigned(links, own)
                long_runs.decide(stays=bool(links[position] == position))
            yield self._assigned(links, rows[first:])


def assigned(links: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Decide rows in keep order: one goes where an earlier end of its edges stays. `rows` are SCORED_EDGE by
    positions in keep order, ascending, with all edges of each later end. `links`, by position, has each
    row's own position while it stays; for one that goes now, an earlier one that stays is put there
    (forest.c). Returns for each row that goes its edge with the lowest score to a row that stays, of
    several the earliest, in keep order; rows that stay have none."""
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
    """Cut ascending edges anew, so that those of one later end stay together: yield (edges, position), the
    edges of all later ends before that position which were not yielded yet; they may be none. The last
    position is `total`."""
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

    def __init__(
        self, leaders: np.ndarray, copies: np.ndarray, order: KeepOrder, sources: Sources | None
    ) -> None:
        self._leaders, counts = np.unique(leaders, return_counts=True)
        self._copies = copies[np.argsort(leaders, kind="stable")]
        self._begins = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        positions = order.positions_of(self._copies)
        firsts = order.positions_of(self._leaders)
        if len(self._leaders):
            firsts = np.minimum(firsts, np.minimum.reduceat(positions, self._begins[:-1]))
        self._firsts = order.numbers_of(firsts)
        self._by_copy = copies[(by_copy := np.argsort(copies))]
        self._leader_of = leaders[by_copy]
        self._sources = sources
        if sources is not None:
            members = np.concatenate([self._leaders, self._copies])
            groups = np.arange(len(self._leaders))
            groups = np.concatenate([groups, np.repeat(groups, counts)])
            members, groups = (
                column[np.argsort(order.positions_of(members))] for column in (members, groups)
            )
            self._by_source = _BySource(groups, sources(members))
            self._firsts_of_sources = members[self._by_source.first]

    def _groups_of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (whether each is a leader, the index of its group); of a row that is no leader the index
        means nothing."""
        if not len(self._leaders):
            return np.zeros(len(numbers), dtype=bool), np.zeros(len(numbers), dtype=np.int64)
        groups = np.minimum(np.searchsorted(self._leaders, numbers), len(self._leaders) - 1)
        return self._leaders[groups] == numbers, groups

    def firsts_for(self, members: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return, for each of `numbers`, the row that the one beside it in `members` is compared with. For a
        leader that is the first of its group (its copies and itself) in keep order, and for another row
        itself. With sources it is the first of the group that has the member's source; where there is none,
        the member itself."""
        leads, groups = self._groups_of(numbers)
        if self._sources is None:
            return np.where(leads, self._firsts[groups], numbers) if leads.any() else numbers
        wanted = self._sources(members)
        firsts = np.where(self._sources(numbers) == wanted, numbers, members)
        if leads.any():
            at = self._by_source.find(groups[leads], wanted[leads])
            own = members[leads]
            firsts[leads] = np.where(at >= 0, self._firsts_of_sources[at], own)
        return firsts

    def leaders_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the leader of each copy among the numbers, and all other numbers as they are."""
        if not len(self._by_copy):
            return numbers
        at = np.minimum(np.searchsorted(self._by_copy, numbers), len(self._by_copy) - 1)
        return np.where(self._by_copy[at] == numbers, self._leader_of[at], numbers)

    def expanded(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (indexes, rows): the numbers followed by all copies of the leaders among them, and of each
        row the index among `numbers` of itself or its leader."""
        leads, groups = self._groups_of(numbers)
        own = np.arange(len(numbers))
        if not leads.any():
            return own, numbers
        counts = np.where(leads, np.diff(self._begins)[groups], 0)
        copies = self._copies[indices_within(self._begins[groups], counts)]
        return np.concatenate([own, np.repeat(own, counts)]), np.concatenate([numbers, copies])


class _BySource:
    """Groups that are split by the sources of their members; `own`: the number of each member's part of a
    group; `first`: the index of the first member of each part, ascending by `own`."""

    def __init__(self, groups: np.ndarray, hashes: np.ndarray) -> None:
        self._hashes, sources = np.unique(hashes, return_inverse=True)
        self.own = groups.astype(np.uint64) * np.uint64(len(self._hashes)) + sources.astype(np.uint64)
        self._parts, self.first = np.unique(self.own, return_index=True)

    def find(self, groups: np.ndarray, hashes: np.ndarray) -> np.ndarray:
        """Return, for each pair of a group and a hash of a source, the index in `first` of the members of
        that group with that source; -1 where there are none."""
        sources = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        own = groups.astype(np.uint64) * np.uint64(len(self._hashes)) + sources.astype(np.uint64)
        at = np.minimum(np.searchsorted(self._parts, own), len(self._parts) - 1)
        is_there = (self._hashes[sources] == hashes) & (self._parts[at] == own)
        return np.where(is_there, at, -1)


_AT_HAND = 4_096
"""Rows whose kept shingles are in memory."""


class ExactComparison:
    """Compares rows by kept shingles."""

    def __init__(
        self, files: SketchFiles, plan: PairPlan, num_perm: int, keep: int, in_kept: float | None = None
    ) -> None:
        self._plan, self._num_perm, self._keep, self._in_kept = plan, num_perm, keep, in_kept
        self._files, self._kept = files, lru_cache(_AT_HAND)(files.kept)
        self._common: CommonShingles | None = None
        self._own: OwnShingles | None = None

    def leave_out_common(self, share: float) -> None:
        """Count the shingles of all rows in the files, which must be complete, and from now on compare
        without those that more than this share of the rows have. Rows with equal shingles are compared with
        all of them."""

        def shingles() -> Iterator[tuple[int, np.ndarray]]:
            hashes = enumerate(map(self._files.kept, range(self._files.count)))
            return ((number, some) for number, some in hashes if some is not None)

        self._common = common_shingles(
            lambda: (hashes for _, hashes in shingles()), share, DEFAULT_MEMORY_BYTES, self._keep
        )
        self._own = OwnShingles(shingles(), self._common, self._keep)

    def compared(self, number: int, kept: int, score: int) -> tuple[Estimate, int | None, float | None]:
        """Return (estimate, number of common shingles left out, share of the shingles of `number` that `kept`
        has) for a verdict; the last two ``None`` where the job does not ask for them."""
        return *self.estimate_and_left_out(number, kept, score), self.share_held(number, kept)

    def estimate_and_left_out(self, a: int, b: int, score: int) -> tuple[Estimate, int | None]:
        """Return the similarity of two rows, both with kept shingles, and how many common shingles were left
        out: 0 where their shingles are equal, ``None`` where none are to be left out."""
        some, others = self._kept(a), self._kept(b)
        assert some is not None
        assert others is not None
        if self._common is not None and not np.array_equal(some, others):
            return estimate_without(self._common, some, others, self._keep)
        agree, _ = agree_and_distance(self._plan, score)
        left_out = None if self._common is None else 0
        return best_estimate(agree, self._num_perm, some, others, self._keep), left_out

    def share_held(self, number: int, kept: int) -> float | None:
        """Return the share, 0..1, of the shingles of row `number` that row `kept` has, too, of two rows with
        kept shingles; ``None`` where the job does not ask for it."""
        if self._in_kept is None:
            return None
        some, others = self._kept(number), self._kept(kept)
        assert some is not None
        assert others is not None
        return share_held(some, others, self._keep)

    def assigned(self, order: KeepOrder, links: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Do what `star.assigned` does, by kept shingles: a row goes for the most similar earlier one that
        stays, if that reaches the threshold (the cut, where the similarity is an estimate) and has `in_kept`
        of its shingles. Changes `links` in place, and returns one edge of each row that goes."""
        plan, (later, earlier) = self._plan, (ends.astype(np.uint32) for ends in ends_of(rows["edge"]))
        if self._own is not None:
            may_reach = self._own.may_reach(
                order.numbers_of(later), order.numbers_of(earlier), plan.threshold
            )
            is_open = may_reach | (_MOST - (rows["scores"] >> _HALF_SCORE) == self._num_perm)
            rows, later, earlier = rows[is_open], later[is_open], earlier[is_open]
        begins = np.flatnonzero(np.diff(later, prepend=np.int64(-1))).tolist()
        best: list[int] = []
        for begin, end in pairwise([*begins, len(rows)]):
            (number,) = order.numbers_of(later[begin : begin + 1]).tolist()
            found: list[tuple[float, int, int, int]] = []
            others = earlier[begin:end]
            at = np.flatnonzero(links[others] == others) + begin
            columns: list[np.ndarray] = [at, earlier[at], order.numbers_of(earlier[at]), rows["scores"][at]]
            for position, other, kept, score in zip(*(column.tolist() for column in columns), strict=True):
                estimate, _ = self.estimate_and_left_out(number, kept, score)
                is_like = estimate.similarity >= (plan.threshold if estimate.exact else plan.cut)
                if is_like and (self.share_held(number, kept) or 0.0) >= (self._in_kept or 0.0):
                    _, distance = agree_and_distance(plan, score)
                    found.append((-estimate.similarity, distance, other, position))
            if found:
                best.append(min(found)[-1])
                links[later[begin]] = earlier[best[-1]]
        return rows[best]
