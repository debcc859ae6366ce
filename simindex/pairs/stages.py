"""The stages of a walk: stored copies, equal sketches, and the tables of a method one after the other.

Owns the cursors of the kernel, so that a stage goes on at any later time in the same snapshot. Must not look
documents up. Invariant: no pair comes twice, and nothing is remembered for that but the long runs: whether
two sketches share a prefix in an earlier table is told by the sketches.
Source: the walk of sorted signatures, Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, 3.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import numpy as np

from simindex import _kernel
from simindex.format.layout import COPY_TABLE
from simindex.format.rows import COPY_CURSOR, LONG_RUN, NO_FIGURE, PAIR_CURSOR, PAIR_ROW
from simindex.pairs.merged_entries import Ranks, TableEntries
from simindex.pairs.pair import Bounded
from simindex.pairs.plan import PairPlan
from simindex.queries.view import View

_FOUND = 4_096
"""Pairs that a step returns at most."""

_SLOTS = 1 << 16
"""Twice as many as there are different sketches of one key among which equal ones are told."""

_NEED_ENTRIES, _NEED_ROOM = 1, 2


class Found(NamedTuple):
    """A pair of sketches by the numbers they are stored under; see `MATCH` for the figures.

    Attributes:
        is_group: both are documents of one group of copies, so that neither is to be expanded.
        copy: rank of `b` where its sketch equals that of `a`, or -1.
    """

    a: int
    b: int
    agree: int
    distance: int
    is_group: bool = False
    copy: int = -1


class Stage(Protocol):
    """A part of the walk."""

    total: int

    def step(self, view: View) -> Iterable[Found] | None:
        """Return the next pairs, maybe none yet; ``None`` at the end. To be used up before the next step."""

    @property
    def done(self) -> int:
        """Entries that were read, of `total`."""


class StoredCopies:
    """Documents that are stored as copies, each with the first live one of its group, or all of a group."""

    def __init__(self, plan: PairPlan, ranks: Ranks, view: View) -> None:
        self._all = plan.copies == "all"
        self._ranks = ranks
        capacity = min(plan.capacity, _FOUND)
        self._entries = TableEntries(ranks, view.directory, COPY_TABLE, ranks.dead, capacity)
        self._agree = view.scheme.config.num_perm or NO_FIGURE
        self._leader = -1
        self._members: list[int] = []
        self.total = self._entries.total

    @property
    def done(self) -> int:
        """Entries that were read, of `total`."""
        return self._entries.done

    def step(self, view: View) -> Iterator[Found] | None:
        """Return the next pairs; see `Stage`."""
        if self._entries.is_last:
            return None
        self._entries.refill(view.directory, len(self._entries.keys))
        members = zip(
            self._entries.keys.tolist(), self._ranks.numbers(self._entries.ranks).tolist(), strict=True
        )
        live = [
            (leader, view.record(leader) is not None) for leader in dict.fromkeys(self._entries.keys.tolist())
        ]
        return self._pairs(members, dict(live))

    def _pairs(self, members: Iterator[tuple[int, int]], live: dict[int, bool]) -> Iterator[Found]:
        for leader, copy in members:
            if leader != self._leader:
                self._leader, self._members = leader, [leader] if live[leader] else []
            for member in self._members:
                yield Found(member, copy, self._agree, 0, True)
            if self._all or not self._members:
                self._members.append(copy)


class _Kernel:
    """What both functions of the kernel take of a table."""

    def __init__(self, plan: PairPlan, ranks: Ranks, view: View, dead: np.ndarray, table: int) -> None:
        self.plan, self.ranks, self.table = plan, ranks, table
        self.entries = TableEntries(ranks, view.directory, plan.first_table + table, dead, plan.capacity)
        self.found = np.zeros(_FOUND, dtype=PAIR_ROW)

    def how(self) -> np.ndarray:
        """Return the figures of a call, in the order of bind_pairs.c."""
        plan = self.plan
        figures = plan.min_agree, plan.max_distance, plan.max_run, self.entries.is_last
        return np.array(
            [self.table, plan.bits[self.table], plan.method == "minhash", *figures], dtype=np.uint64
        )

    def pairs(self, count: int) -> list[Found]:
        """Return the first pairs of `found`, by numbers."""
        rows = self.found[:count]
        columns = (
            self.ranks.numbers(rows["a"]),
            self.ranks.numbers(rows["b"]),
            rows["agree"],
            rows["distance"],
        )
        rows_of_numbers = zip(*(column.tolist() for column in columns), strict=True)
        return [Found(a, b, agree, distance) for a, b, agree, distance in rows_of_numbers]


class EqualSketches:
    """Sketches that are equal in what is compared, each with the first of them; the others are marked.

    They lie side by side in the first table. Equal sketches that were stored as copies are no entries there.
    """

    def __init__(self, plan: PairPlan, ranks: Ranks, view: View) -> None:
        self._kernel = _Kernel(plan, ranks, view, ranks.dead, 0)
        self.copies = np.zeros_like(ranks.dead)
        self._cursor = np.zeros(1, dtype=COPY_CURSOR)
        self._slots = np.full(_SLOTS, 2**64 - 1, dtype=np.uint64)
        self._used = np.zeros(_SLOTS // 2, dtype=np.uint32)
        self.total = self._kernel.entries.total

    @property
    def done(self) -> int:
        """Entries that were read, of `total`."""
        return self._kernel.entries.done

    def step(self, view: View) -> list[Found] | None:
        """Return the next pairs; see `Stage`."""
        own, entries = self._kernel, self._kernel.entries
        if int(self._cursor["next"][0]) == len(entries.keys):
            if entries.is_last:
                return None
            entries.refill(view.directory, len(entries.keys))
            self._cursor["next"] = 0
        arguments = own.ranks.offsets, own.plan.masks, own.how(), entries.keys, entries.ranks, self._cursor
        count = view.directory.run(
            _kernel.find_copies, *arguments, self._slots, self._used, self.copies, own.found
        )
        ranks = own.found["b"][:count].tolist()
        return [pair._replace(copy=rank) for pair, rank in zip(own.pairs(count), ranks, strict=True)]

    def unmark(self, rank: int) -> None:
        """Let a sketch take part after all, for its document is no copy."""
        self.copies[rank >> 3] &= 255 - (1 << (rank & 7))


class LongRuns:
    """The runs that were not compared all with all, of all tables so far: 72 bytes each."""

    def __init__(self) -> None:
        self.firsts = [0]
        self.rows = np.zeros(64, dtype=LONG_RUN)

    def make_room(self) -> None:
        """Double the room."""
        self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])

    def end_table(self, num_longs: int) -> None:
        """Put those of the table that has ended in order."""
        here = self.rows[self.firsts[-1] : num_longs]
        here[:] = here[np.argsort(here["prefix"])]
        self.firsts.append(num_longs)


class Runs:
    """Documents of a common prefix in one table, compared with one another."""

    def __init__(
        self, plan: PairPlan, ranks: Ranks, view: View, dead: np.ndarray, table: int, longs: LongRuns
    ) -> None:
        self._kernel = _Kernel(plan, ranks, view, dead, table)
        self._longs = longs
        self._cursor = np.zeros(1, dtype=PAIR_CURSOR)
        self._cursor["num_longs"] = longs.firsts[-1]
        self.total = self._kernel.entries.total

    @property
    def done(self) -> int:
        """Entries that were read, of `total`."""
        return self._kernel.entries.done

    @property
    def compared(self) -> int:
        """Pairs of sketches that were compared so far."""
        return int(self._cursor["compared"][0])

    @property
    def bounded(self) -> Bounded:
        """What was not compared all with all so far."""
        return Bounded(int(self._cursor["bounded_runs"][0]), int(self._cursor["bounded_entries"][0]))

    def step(self, view: View) -> list[Found] | None:
        """Return the next pairs; see `Stage`."""
        own, entries, longs = self._kernel, self._kernel.entries, self._longs
        arguments = own.ranks.offsets, own.plan.masks, own.how(), entries.keys, entries.ranks, self._cursor
        firsts = np.array(longs.firsts, dtype=np.uint64)
        outcome, count = view.directory.run(_kernel.find_pairs, *arguments, firsts, longs.rows, own.found)
        found = own.pairs(count)
        if outcome == _NEED_ROOM:
            longs.make_room()
        elif outcome == _NEED_ENTRIES:
            if entries.is_last and not found:
                longs.end_table(int(self._cursor["num_longs"][0]))
                return None
            if not entries.is_last:
                entries.refill(view.directory, int(self._cursor["begin"][0]))
                for place in ("begin", "end", "right", "left"):
                    self._cursor[place] = 0
        return found
