"""Pairs of documents that are stored as copies of one another; they need no comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from simindex.format.layout import COPY_TABLE
from simindex.format.rows import NO_VALUE
from simindex.pairs.merged_entries import EVERY_KEY
from simindex.pairs.plan import PairPlan
from simindex.pairs.snapshot_tables import PinnedTables
from simindex.queries.view import View

_AT_ONCE = 4_096
"""Copies that a step reads at most."""


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


class StoredCopies:
    """Documents that are stored as copies, each with the first live one of its group, or all of a group."""

    def __init__(self, plan: PairPlan, pinned: PinnedTables) -> None:
        self._all, self._pinned = plan.copies == "all", pinned
        self._entries = pinned.slice(COPY_TABLE, 0, EVERY_KEY, min(plan.capacity, _AT_ONCE))
        self._agree = pinned.scheme.config.num_perm or NO_VALUE
        self._leader = -1
        self._members: list[int] = []
        self.total = self._entries.total

    @property
    def done(self) -> int:
        """Entries that were read, of `total`."""
        return self._entries.done

    def step(self) -> Iterator[Found] | None:
        """Return the next pairs, to be used up before the next step; ``None`` at the end."""
        entries = self._entries
        if entries.is_last:
            return None
        entries.refill(len(entries.keys))
        leaders = entries.keys.tolist()
        numbers = self._pinned.ranks.numbers(entries.numbers).tolist()

        def live_leaders(view: View) -> set[int]:
            return {leader for leader in dict.fromkeys(leaders) if view.record(leader) is not None}

        live = self._pinned.read(live_leaders)
        return self._pairs(zip(leaders, numbers, strict=True), live)

    def _pairs(self, members: Iterator[tuple[int, int]], live: set[int]) -> Iterator[Found]:
        for leader, copy in members:
            if leader != self._leader:
                self._leader, self._members = leader, [leader] if leader in live else []
            for member in self._members:
                yield Found(member, copy, self._agree, 0, True)
            if self._all or not self._members:
                self._members.append(copy)
