"""Rank rows by keep order: 8 bytes a row, none for the order of the input.

Invariant: rows that an order does not tell apart stand in the order of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from simindex.corpus.dedup.journal import JobError
from simindex.corpus.dedup.results import KeptRow
from simindex.corpus.entries import Entry
from simindex.corpus.outputs.rows import values_of
from simindex.corpus.sqlite_files import SqliteFile
from simindex.inputs import InputError

Keep = str | Callable[[KeptRow], Any]

FIELD = "field:"
_HALF = 1 << 63  # SQLite's integers have a sign
_AT_ONCE = 65_536


def require_order(keep: Keep) -> None:
    """Refuse what is no order."""
    known = isinstance(keep, str) and (keep in ("first", "longest", "newest") or keep[len(FIELD) :] != "")
    if not callable(keep) and not (known and (not keep.startswith("field") or keep.startswith(FIELD))):
        raise ValueError(f"keep: expected first, longest, newest, field:NAME or a callable; found {keep!r}")


def rank_of(keep: Keep) -> Callable[[Entry], Any]:
    """Return what rows are ordered by: the largest comes first, ``None`` last."""
    if callable(keep):
        return lambda entry: _ordinary(entry, keep(KeptRow(entry.key, entry.document, values_of(entry))))
    if keep == "longest":
        return lambda entry: len(entry.document)
    if keep == "newest":
        return lambda entry: entry.number
    name = keep[len(FIELD) :]
    return lambda entry: _ordinary(entry, values_of(entry).get(name))


def _ordinary(entry: Entry, value: Any) -> Any:
    """Return a value that SQLite orders as Python does."""
    if isinstance(value, int | np.integer) and not -_HALF <= value < _HALF:
        return float(value)
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, np.generic):
        return _ordinary(entry, value.item())
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise InputError(
        f"{entry.name}:{entry.row}",
        f"expected a number or a text to order the rows by, found {type(value).__name__}",
    )


class OrderError(JobError):
    """No row has what an order goes by, so that there is nothing to be done."""


class KeepOrder(NamedTuple):
    """The rows in keep order."""

    total: int
    numbers: np.ndarray | None = None  # uint32, by place; None: the order of the input
    places: np.ndarray | None = None  # uint32, by number

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
    """Return the order of the largest first, ``None`` last, sorted in a file of SQLite."""
    db = SqliteFile(path)
    try:
        db.executescript("drop table if exists rows; create table rows (number integer primary key, rank);")
        number = 0
        for some in ranks:
            db.execute("begin")
            db.executemany("insert into rows values (?, ?)", enumerate(some, number))
            db.execute("commit")
            number += len(some)
        has_ranks = db.execute("select count(rank) from rows").fetchone()[0]
        if isinstance(keep, str) and keep.startswith(FIELD) and number and not has_ranks:
            raise OrderError(
                f"keep: expected rows with a field {keep[len(FIELD) :]!r} to order them by, found none of "
                f"{number:,}; all would be alike. Name another field, or an order"
            )
        numbers = np.empty(total, dtype=np.uint32)
        cursor = db.execute("select number from rows order by rank desc, number")
        at = 0
        while rows := cursor.fetchmany(_AT_ONCE):
            numbers[at : at + len(rows)] = [row[0] for row in rows]
            at += len(rows)
    finally:
        db.close()
    return KeepOrder.of(numbers)
