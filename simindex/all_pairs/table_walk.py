"""Walk one sorted table: compare the runs that share a prefix, by the kernel.

The engine of `Index.pairs`, of clusters, and of jobs over many machines. Invariant: no pair comes twice, and
nothing is remembered for that but the long runs: two sketches show by themselves whether they share a prefix
in an earlier table. Source: the walk of sorted signatures, Leskovec, Rajaraman and Ullman, Mining of Massive
Datasets, 3.4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from simindex import _kernel
from simindex.all_pairs.plan import PairPlan
from simindex.all_pairs.tables import Piece
from simindex.format.kernel_structs import COPY_CURSOR, LONG_RUN, PAIR_CURSOR, PAIR_ROW
from simindex.sketching.permutations import FINGERPRINT_BITS

_FOUND = 4_096
"""Pairs that a step returns at most."""

_SLOTS = 1 << 16
"""Twice as many as there are different sketches of one key among which equal ones are found."""

_ROOM = 64
"""Long runs of a table that there is room for once there is one."""

_RANK = np.uint64(2**32 - 1)
"""The bits of a slot that are a rank."""

_NEED_ENTRIES, _NEED_ROOM = 1, 2

NO_LONG_RUNS = np.zeros(0, dtype=LONG_RUN)


class SketchesAtHand:
    """Sketches that the kernel can read, each under a rank, here its number; `run` calls a function of the
    kernel."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run

    def local(self, numbers: np.ndarray) -> np.ndarray:
        """Return the ranks of documents, uint32: here the numbers themselves."""
        return numbers

    def numbers_of(self, ranks: np.ndarray) -> np.ndarray:
        """Return the numbers of documents by their ranks, uint32: here the ranks themselves."""
        return ranks


SketchReader = Callable[[np.ndarray, np.ndarray], SketchesAtHand]
"""Returns the sketches of documents, of a buffer and of some more; others may be there, too."""


class _Walk(ABC):
    """What both walks have: a buffer of entries, their sketches, and room for pairs."""

    def __init__(self, plan: PairPlan, table: int, pieces: Iterator[Piece], sketches: SketchReader) -> None:
        self._plan, self._table, self._pieces, self._sketches = plan, table, pieces, sketches
        self._at_hand: SketchesAtHand | None = None
        self._keys: np.ndarray = np.empty(0, dtype=np.uint64)
        self._numbers = self._ranks = np.empty(0, dtype=np.uint32)
        self._is_last = False
        self._found = np.zeros(_FOUND, dtype=PAIR_ROW)

    @abstractmethod
    def step(self) -> np.ndarray | None:
        """Return the next pairs, PAIR_ROW by numbers, maybe none yet; ``None`` at the end."""

    def steps(self) -> Iterator[np.ndarray]:
        """Yield all pairs, some at a time."""
        while (rows := self.step()) is not None:
            yield rows

    def _refill(self, begin: int, more: np.ndarray) -> SketchesAtHand | None:
        """Read the next piece, drop the entries in the buffer before `begin`, and return the sketches of the
        buffer and of the documents `more`; ``None`` where the buffer is empty: the table has ended."""
        keys, numbers = next(self._pieces, (self._keys[:0], self._numbers[:0]))
        self._is_last = not len(keys)
        if begin < len(self._keys):
            keys = np.concatenate([self._keys[begin:], keys])
            numbers = np.concatenate([self._numbers[begin:], numbers])
        self._keys, self._numbers = keys, numbers
        self._at_hand = self._sketches(self._numbers, more) if len(self._keys) else None
        if self._at_hand is not None:
            self._ranks = self._at_hand.local(self._numbers)
        return self._at_hand

    def _arguments(self) -> tuple[np.ndarray, ...]:
        """Return what both functions of the kernel take of a table: the masks; [table, bits of the prefix, by
        MinHash?, `min_agree`, `max_distance`, `max_run`, last entries?]; keys and ranks in the buffer."""
        plan, table = self._plan, self._table
        figures = plan.min_agree, plan.max_distance, plan.max_run, self._is_last
        how = np.array([table, plan.bits[table], plan.method == "minhash", *figures], dtype=np.uint64)
        return plan.masks, how, self._keys, self._ranks

    def _pairs(self, at_hand: SketchesAtHand, count: int) -> np.ndarray:
        rows = self._found[:count].copy()
        for side in ("a", "b"):
            rows[side] = at_hand.numbers_of(rows[side])
        return rows


class TableWalk(_Walk):
    """Documents of a common prefix in one table, compared with one another; `longs`: the long runs of each
    table before. Its `cursor`, PAIR_CURSOR, has what was compared so far."""

    def __init__(
        self,
        plan: PairPlan,
        table: int,
        pieces: Iterator[Piece],
        sketches: SketchReader,
        longs: Sequence[np.ndarray],
    ) -> None:
        super().__init__(plan, table, pieces, sketches)
        self._firsts = np.cumsum([0, *map(len, longs)], dtype=np.uint64)
        self._longs = np.concatenate([NO_LONG_RUNS, *longs])
        self._local_longs = self._longs
        self.cursor = np.zeros(1, dtype=PAIR_CURSOR)
        self.cursor["num_longs"] = self._firsts[-1]
        self._needs_room = False

    @property
    def long_runs(self) -> np.ndarray:
        """The runs of this table too long to compare all with all, dtype LONG_RUN, as found so far."""
        return self._longs[int(self._firsts[-1]) : int(self.cursor["num_longs"][0])]

    @property
    def first_long(self) -> int | None:
        """Return the first key of the first long run of all tables, if that run is the next to be compared;
        otherwise ``None``."""
        begin, longs = int(self.cursor["begin"][0]), int(self.cursor["num_longs"][0])
        free = np.uint64(FINGERPRINT_BITS - self._plan.bits[self._table])
        return int(self._keys[begin] >> free << free) if self._needs_room and not longs else None

    def begin_again(self, pieces: Iterator[Piece]) -> None:
        """Go on with other entries in place of those that are not compared yet."""
        self._pieces, self._keys, self._at_hand = pieces, self._keys[:0], None
        self.cursor["begin"] = 0

    def step(self) -> np.ndarray | None:
        """Return the next pairs, PAIR_ROW by numbers, maybe none yet; ``None`` at the end."""
        at_hand = self._at_hand or self._next_entries()
        if at_hand is None:
            return None
        known = int(self.cursor["num_longs"][0])
        arguments = *self._arguments(), self.cursor, self._firsts, self._local_longs, self._found
        outcome, count = at_hand.run(_kernel.find_pairs, *arguments)
        self._needs_room = outcome == _NEED_ROOM
        self._keep_long_runs(at_hand, known)
        rows = self._pairs(at_hand, count)
        if self._needs_room:
            more = np.zeros(max(len(self._longs), _ROOM), dtype=LONG_RUN)
            self._longs = np.concatenate([self._longs, more])
            self._local_longs = _local_runs(at_hand, self._longs)
        elif outcome == _NEED_ENTRIES:
            if self._is_last and not count:
                return None
            if not self._is_last:
                self._next_entries()
        return rows

    def _next_entries(self) -> SketchesAtHand | None:
        cursor = self.cursor
        of_run = self.long_runs["ranks"][-1:].ravel() if cursor["is_long"][0] else self._ranks[:0]
        at_hand = self._refill(int(cursor["begin"][0]), of_run)
        for field in ("begin", "end", "right", "left"):
            cursor[field] = 0
        if at_hand is not None:
            self._local_longs = _local_runs(at_hand, self._longs)
        return at_hand

    def _keep_long_runs(self, at_hand: SketchesAtHand, known: int) -> None:
        """Copy the long runs that the kernel has added, from the `known`-th on, to those of all tables, by
        numbers in place of ranks."""
        if self._local_longs is not self._longs:
            new = slice(known, int(self.cursor["num_longs"][0]))
            self._longs[new] = self._local_longs[new]
            self._longs["ranks"][new] = at_hand.numbers_of(self._local_longs["ranks"][new])


def table_walks(
    plan: PairPlan, entries: Callable[[int], Iterator[Piece]], sketches: SketchReader
) -> Iterator[TableWalk]:
    """Yield a walk of the entries of each table, to be used up before the next. After long runs, by MinHash,
    the tables come once more, by whole band words."""
    longs, count = list[np.ndarray](), len(plan.bits)
    for table in range(2 * count):
        if table == count:
            if plan.method == "simhash" or not any(map(len, longs)) or min(plan.bits) == FINGERPRINT_BITS:
                return
            plan = plan.of_whole_words()
        walk = TableWalk(plan, table, entries(table % count), sketches, longs)
        yield walk
        longs.append(np.sort(walk.long_runs, order="prefix"))


def _local_runs(at_hand: SketchesAtHand, longs: np.ndarray) -> np.ndarray:
    """Return long runs by the ranks of sketches at hand: a copy, or the same array where ranks are the
    numbers."""
    numbers = longs["ranks"]
    ranks = at_hand.local(numbers)
    if ranks is numbers:
        return longs
    local = longs.copy()
    local["ranks"] = ranks
    return local


class EqualSketches(_Walk):
    """Sketches that are equal in what is compared, or as a `whole`, each with the first of them.

    They lie side by side in the first table. Equal sketches that were stored as copies are no entries there.
    """

    def __init__(
        self, plan: PairPlan, pieces: Iterator[Piece], sketches: SketchReader, *, whole: bool = False
    ) -> None:
        by_words = plan.method == "minhash"
        agree, distance = int(whole or by_words), 0 if whole or not by_words else FINGERPRINT_BITS
        super().__init__(replace(plan, min_agree=agree, max_distance=distance), 0, pieces, sketches)
        self._cursor = np.zeros(1, dtype=COPY_CURSOR)
        self._slots = np.full(_SLOTS, 2**64 - 1, dtype=np.uint64)
        self._used = np.zeros(_SLOTS // 2, dtype=np.uint32)

    def step(self) -> np.ndarray | None:
        """Return the next pairs, PAIR_ROW by numbers, the first sketch as `a`, maybe none yet; ``None`` at
        the end."""
        at_hand = self._at_hand
        if int(self._cursor["next"][0]) == len(self._keys):
            at_hand = self._next_entries()
        if at_hand is None:
            return None
        arguments = *self._arguments(), self._cursor, self._slots, self._used, self._found
        return self._pairs(at_hand, at_hand.run(_kernel.find_copies, *arguments))

    def _next_entries(self) -> SketchesAtHand | None:
        """Read the next entries; the slots hold the ranks of sketches that these may be equal to."""
        used = self._used[: int(self._cursor["num_used"][0])]
        firsts = (self._slots[used] & _RANK).astype(np.uint32)
        if self._at_hand is not None:
            firsts = self._at_hand.numbers_of(firsts)
        at_hand = self._refill(len(self._keys), firsts)
        self._cursor["next"] = 0
        if at_hand is not None:
            self._slots[used] = self._slots[used] & ~_RANK | at_hand.local(firsts).astype(np.uint64)
        return at_hand
