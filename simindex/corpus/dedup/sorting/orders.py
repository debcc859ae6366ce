"""Keep orders of the rows of many partitions, by number: 8 bytes a row, none for that of the input.

Owns the sorting, which SQLite does in files, as the orders of one machine (corpus/dedup/asking/orders).
Invariant: rows that an order does not tell apart stand in the order of the input.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from simindex.corpus.dedup.asking.orders import Keep, require_ranked

_AT_ONCE = 65_536


class KeepOrder(NamedTuple):
    """The rows in keep order.

    Attributes:
        total: how many there are.
        numbers: uint32, by place; ``None``: the order of the input.
        places: uint32, by number.
    """

    total: int
    numbers: np.ndarray | None = None
    places: np.ndarray | None = None

    def places_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return where rows stand in it."""
        return numbers if self.places is None else self.places[numbers]

    def numbers_of(self, places: np.ndarray) -> np.ndarray:
        """Return the rows that stand there."""
        return places if self.numbers is None else self.numbers[places]

    @classmethod
    def of(cls, numbers: np.ndarray) -> KeepOrder:
        """Return the order in which rows stand so."""
        places = np.empty_like(numbers)
        places[numbers] = np.arange(len(numbers), dtype=np.uint32)
        return cls(len(numbers), numbers, places)


def newest_first(total: int) -> KeepOrder:
    """Return the order from the last row to the first."""
    return KeepOrder.of(np.arange(total, dtype=np.uint32)[::-1].copy())


def by_rank(keep: Keep, path: str, ranks: Iterable[list[Any]], total: int) -> KeepOrder:
    """Return the order of the largest first, ``None`` last.

    Args:
        keep: what the ranks are of.
        path: of a file that is made and used for sorting.
        ranks: of all rows, some at a time: numbers, texts or ``None``, as SQLite orders them.
    """
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.executescript("drop table if exists rows; create table rows (number integer primary key, rank);")
        number = 0
        for some in ranks:
            db.execute("begin")
            db.executemany("insert into rows values (?, ?)", enumerate(some, number))
            db.execute("commit")
            number += len(some)
        require_ranked(keep, *db.execute("select count(rank), count(*) from rows").fetchone())
        numbers = np.empty(total, dtype=np.uint32)
        cursor = db.execute("select number from rows order by rank desc, number")
        at = 0
        while rows := cursor.fetchmany(_AT_ONCE):
            numbers[at : at + len(rows)] = [row[0] for row in rows]
            at += len(rows)
    finally:
        db.close()
    return KeepOrder.of(numbers)
