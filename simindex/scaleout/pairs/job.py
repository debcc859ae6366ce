"""All pairs, and the components or stars that they make, of partitions that others walk.

Owns the waves, a table each, for the long runs of one are the next one's to know; and the way from numbers to
keys. Must not know Ray. Invariant: a pair comes once; a document is in one cluster at most.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import combinations, product
from typing import NamedTuple, Protocol

import numpy as np

from simindex.config import Config
from simindex.format.keys import Key
from simindex.format.rows import NO_FIGURE
from simindex.pairs.clusters import Linkage, group
from simindex.pairs.merged_entries import set_bits
from simindex.pairs.pair import Bounded, Pair
from simindex.pairs.plan import PairPlan
from simindex.pairs.ranges import RangeEnd
from simindex.pairs.tables import Numbering
from simindex.pairs.union_find import Forest, edges_between
from simindex.pairs.walk_plan import Earlier, Edges, LongRuns, WalkPlan, scheme_of_config
from simindex.sketching.estimate import row_estimates
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE

_AT_ONCE = 16_384
"""Pairs, or members of clusters, whose documents are looked up in one go."""

_ENTRIES_OF_A_RANGE = 1 << 20
_EVERY = 2**62


class Live(NamedTuple):
    """A document, and which halves of a sketch it has."""

    key: Key
    present: int


class Walkers(Protocol):
    """Who has the partitions, and walks them."""

    @property
    def numbering(self) -> Numbering:
        """Of the documents of all partitions."""

    @property
    def parallel(self) -> int:
        """How many walk at a time."""

    def swept(
        self, walk_plan: WalkPlan, table: int, earlier: Earlier, step: Callable[[int], object]
    ) -> Iterator[Edges | RangeEnd]:
        """Yield what all ranges of a table have."""

    def live(self, numbers: np.ndarray, limit: int) -> list[list[Live]]:
        """Return the live documents of sketches by ascending numbers, oldest first."""

    def keys(self, numbers: np.ndarray) -> list[Key | None]:
        """Return the keys of documents by ascending numbers; ``None`` for one that is removed."""

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies): documents that are stored as copies, by number."""

    def close(self) -> None:
        """Let go of the partitions."""


class Walk:
    """Ranges of all tables, one after the other.

    Attributes:
        compared: pairs of sketches so far.
        bounded: what was not compared all with all so far.
    """

    def __init__(
        self,
        walkers: Walkers,
        config: Config,
        plan: PairPlan,
        progress: Callable[[int, int], object] | None,
        *,
        forests: bool = False,
    ) -> None:
        self.walkers, self.config, self.plan, self._progress = walkers, config, plan, progress
        total = walkers.numbering.total
        count = max(2 * walkers.parallel, total // _ENTRIES_OF_A_RANGE + 1)
        geometry = scheme_of_config(config).tables
        self._walk_plan = WalkPlan(
            plan, geometry, count, plan.copies == "first", puts_off=False, forests=forests
        )
        self._compared, self._bounded = 0, Bounded()

    @property
    def compared(self) -> int:
        """Pairs of sketches that were compared so far."""
        return self._compared

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all so far."""
        return self._bounded

    def found(self) -> Iterator[Edges]:
        """Yield all pairs of sketches: where equal ones are folded, these first."""
        earlier, walk_plan = Earlier(LongRuns.none()), self._walk_plan
        if walk_plan.folds:
            copies = np.zeros(self.walkers.numbering.total // 8 + 1, dtype=np.uint8)
            for found in self._swept(0, 0, earlier):
                if isinstance(found, Edges):
                    set_bits(copies, found.copies["b"])
                    yield found
            earlier = earlier._replace(copies=copies)
        for table in walk_plan.tables:
            rows = [earlier.longs.rows[:0]]
            for found in self._swept(table, table + walk_plan.folds, earlier):
                if isinstance(found, Edges):
                    yield found
                    continue
                self._compared += found.compared
                runs, entries = found.bounded
                self._bounded = Bounded(self._bounded.runs + runs, self._bounded.entries + entries)
                rows.append(found.long_runs)
            earlier = earlier._replace(longs=earlier.longs.with_table(np.concatenate(rows)))

    def _swept(self, table: int, nth: int, earlier: Earlier) -> Iterator[Edges | RangeEnd]:
        """Yield what all ranges of a table have, which is the `nth` that is walked."""
        count = self._walk_plan.count
        total = (len(self._walk_plan.tables) + self._walk_plan.folds) * count
        return self.walkers.swept(self._walk_plan, table, earlier, partial(self._step, nth * count, total))

    def _step(self, before: int, total: int, done: int) -> None:
        if self._progress is not None:
            self._progress(before + done, total)


class ScaledPairs(Iterator[Pair]):
    """All similar pairs of an index over many machines, each once; see `simindex.scaleout.pairs`.

    Not thread-safe. The snapshots that are walked are let go of at the end, by `close`, or at the end of a
    ``with`` block.

    Args:
        walk: of all tables.
        at_end: called once, when it is let go of.
    """

    def __init__(self, walk: Walk, at_end: Callable[[], object] | None = None) -> None:
        self._at_end = at_end
        self._walk, self._walkers, self._plan = walk, walk.walkers, walk.plan
        self._estimates = row_estimates(walk.config.num_perm)
        self._pairs = self._all()

    @property
    def compared(self) -> int:
        """Pairs of sketches that were compared so far."""
        return self._walk.compared

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all so far; see `Bounded`."""
        return self._walk.bounded

    def __iter__(self) -> ScaledPairs:
        return self

    def __next__(self) -> Pair:
        return next(self._pairs)

    def close(self) -> None:
        """End the iteration. Closing twice is allowed."""
        self._pairs.close()
        self._end()

    def _end(self) -> None:
        self._walkers.close()
        if self._at_end is not None:
            self._at_end()
            self._at_end = None

    def __enter__(self) -> ScaledPairs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all(self) -> Generator[Pair, None, None]:
        folded = [np.empty(0, dtype=np.uint32)]
        try:
            for found in self._walk.found():
                folded.append(found.copies["b"])
                yield from self._expanded(found.copies, is_copy=True)
                yield from self._expanded(found.pairs, is_copy=False)
            yield from self._stored_copies(np.unique(np.concatenate(folded)))
        finally:
            self._end()

    def _expanded(self, rows: np.ndarray, *, is_copy: bool) -> Iterator[Pair]:
        """Yield the pairs of documents of pairs of sketches.

        Args:
            is_copy: `a` is the first of those that equal it: its first document is paired with all of `b`.
        """
        of_first = self._plan.copies == "first"
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            numbers = np.unique(np.concatenate([some["a"], some["b"]]))
            limit = 1 if of_first and not is_copy else _EVERY
            live = dict(zip(numbers.tolist(), self._walkers.live(numbers, limit), strict=True))
            for a, b, agree, distance in some.tolist():
                ones = live[a][:1] if of_first else live[a]
                for one, other in product(ones, live[b]):
                    yield self._pair(one, other, agree, distance)

    def _stored_copies(self, folded: np.ndarray) -> Iterator[Pair]:
        """Yield the pairs of documents that one partition stores as copies of one another.

        Args:
            folded: sketches whose documents were paired with the first of another partition.
        """
        leaders = np.unique(self._walkers.copies()[0])
        agree, of_first = self._walk.config.num_perm or NO_FIGURE, self._plan.copies == "first"
        leaders = leaders[~np.isin(leaders, folded)]
        for first in range(0, len(leaders), _AT_ONCE):
            for live in self._walkers.live(leaders[first : first + _AT_ONCE], _EVERY):
                pairs = product(live[:1], live[1:]) if of_first else combinations(live, 2)
                for one, other in pairs:
                    yield self._pair(one, other, agree, 0)

    def _pair(self, a: Live, b: Live, agree: int, distance: int) -> Pair:
        present = a.present & b.present
        bits = distance if present & HAS_FINGERPRINT else None
        if agree == NO_FIGURE or not present & HAS_SIGNATURE:
            return Pair(a.key, b.key, None, bits)
        return Pair(a.key, b.key, self._estimates[agree][0], bits, *self._estimates[agree][1:])


def clusters(walk: Walk, linkage: Linkage, memory_bytes: int) -> Iterator[list[Key]]:
    """Yield the keys of each component or star of two documents or more, in the order of their numbers.

    Args:
        walk: of stars one that hands on all pairs.
        memory_bytes: of the edges of stars; what does not fit lies on the disk.
    """
    try:
        forest = group(walk.walkers.numbering.total, linkage, _edges(walk, linkage), memory_bytes)
        yield from _listed(forest, walk.walkers)
    finally:
        walk.walkers.close()


def _edges(walk: Walk, linkage: Linkage) -> Iterator[tuple[np.ndarray, bool]]:
    """Yield the edges of all pairs; see `group`."""
    leaders, copies = walk.walkers.copies()
    # A star has its centre among live documents; a component is the same by way of a removed one.
    live = _Firsts(walk.walkers, leaders, copies).of if linkage == "star" else np.asarray
    yield edges_between(live(leaders), copies), True
    for found in walk.found():
        for rows, are_copies in ((found.copies, True), (found.pairs, False)):
            yield edges_between(live(rows["a"]), live(rows["b"])), are_copies


class _Firsts:
    """The first live document of each sketch that is stored under a removed one.

    Args:
        leaders, copies: as of `Walkers.copies`.
    """

    def __init__(self, walkers: Walkers, leaders: np.ndarray, copies: np.ndarray) -> None:
        order = np.lexsort((copies, leaders))
        leaders, places = np.unique(leaders[order], return_index=True)
        firsts = copies[order][places]
        gone = np.zeros(len(leaders), dtype=bool)
        for first in range(0, len(leaders), _AT_ONCE):
            keys = walkers.keys(leaders[first : first + _AT_ONCE])
            gone[first : first + len(keys)] = [key is None for key in keys]
        self._gone, self._firsts = leaders[gone], firsts[gone]

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the number of the first live document of each sketch."""
        if not len(self._gone):
            return numbers
        places = np.minimum(np.searchsorted(self._gone, numbers), len(self._gone) - 1)
        return np.where(self._gone[places] == numbers, self._firsts[places], numbers)


def _listed(forest: Forest, walkers: Walkers) -> Iterator[list[Key]]:
    """Yield the keys of each group of two live documents or more."""
    begun: list[Key] = []
    for members, is_last in forest.groups():
        for first in range(0, len(members), _AT_ONCE):
            keys = walkers.keys(members[first : first + _AT_ONCE])
            begun += [key for key in keys if key is not None]
        if is_last:
            if len(begun) > 1:
                yield begun
            begun = []
