"""Settings of a walk over ranges, and the batches that it yields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simindex.config import Config
from simindex.format.layout import Geometry, Layout
from simindex.format.rows import LONG_RUN, PAIR_ROW
from simindex.pairs.plan import PairPlan
from simindex.pairs.runs import LongPart, bounds_of
from simindex.queries.scheme import Scheme
from simindex.sketching.permutations import plan_for

_NO_PAIRS = np.zeros(0, dtype=PAIR_ROW)
_NO_NUMBERS = np.zeros(0, dtype=np.uint32)


@dataclass(frozen=True)
class WalkPlan:
    """What is compared in all ranges of the tables.

    Attributes:
        plan: of the pairs: tables, prefixes, where is cut.
        forests: whether only so many pairs are yielded as hold the same documents together.
    """

    plan: PairPlan
    geometry: Geometry
    count: int
    forests: bool = False

    @property
    def tables(self) -> range:
        """The tables of the method, from 0."""
        return range(len(self.plan.bits))

    def bounds(self, table: int, place: int) -> tuple[int, int]:
        """Return the keys of a range: (first, behind)."""
        return bounds_of(place, self.count, self.plan.bits[table])


def scheme_of_config(config: Config) -> Scheme:
    """Return the scheme of a partition, wherever its segments are cut."""
    blocks = plan_for(config.simhash)
    return Scheme.of(config, Layout(), len(blocks.widths) if blocks else 0)


class LongRuns(NamedTuple):
    """Long runs of earlier tables, by documents' numbers: rows of LONG_RUN, those of each table by prefix.

    Attributes:
        firsts: place of the first of each table; one more for the end.
        rows: all of them, 72 bytes each.
    """

    firsts: list[int]
    rows: np.ndarray

    @classmethod
    def none(cls, tables: int = 0) -> LongRuns:
        """Return those of so many tables that have none."""
        return cls([0] * (tables + 1), np.zeros(0, dtype=LONG_RUN))

    def up_to(self, table: int) -> LongRuns:
        """Return them for a walk of this table: those between that were not walked have none."""
        return self._replace(firsts=self.firsts + [len(self.rows)] * (table + 1 - len(self.firsts)))

    def with_table(self, rows: np.ndarray) -> LongRuns:
        """Return them with those of the next table."""
        rows = rows[np.argsort(rows["prefix"])]
        return LongRuns([*self.firsts, self.firsts[-1] + len(rows)], np.concatenate([self.rows, rows]))


class Edges(NamedTuple):
    """Some of what a range has.

    Attributes:
        pairs: PAIR_ROW, verified, by numbers; the lower is `a`.
        copies: PAIR_ROW, the first of equal sketches with each other one, which is `b`.
        waiting: uint32, the documents of a long run, or some of them, that are put off.
        begins: whether these are the first of their run.
    """

    pairs: np.ndarray = _NO_PAIRS
    copies: np.ndarray = _NO_PAIRS
    waiting: np.ndarray = _NO_NUMBERS
    begins: bool = False

    @classmethod
    def put_off(cls, part: LongPart) -> Edges:
        """Return the documents of a part of a long run."""
        return cls(waiting=part.numbers, begins=part.is_first)
