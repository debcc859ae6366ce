"""Rank rows by keep order: 8 bytes a row, none for the order of the input.

Invariant: rows that an order does not tell apart stand in the order of the input.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from simindex.corpus.dedup.journal import JobError
from simindex.corpus.dedup.results import KeptRow
from simindex.corpus.entries import Entry
from simindex.corpus.outputs.rows import values_of
from simindex.corpus.sqlite_files import in_one, opened_sqlite
from simindex.errors import ArgumentValueError
from simindex.inputs import Cells, InputError
from simindex.sketching.sketch import Sketch

Keep = str | Callable[[KeptRow], Any]

FIELD = "field:"
_HALF = 1 << 63  # SQLite's integers have a sign
_LARGEST = sys.float_info.max
_AT_ONCE = 65_536


def require_order(keep: Keep) -> None:
    """Raise ArgumentValueError unless `keep` is "first", "longest", "newest", "field:NAME" or a callable."""
    is_field = isinstance(keep, str) and keep.startswith(FIELD) and keep != FIELD
    if not callable(keep) and not is_field and keep not in ("first", "longest", "newest"):
        callables = "" if isinstance(keep, str) else ", or a callable"
        raise ArgumentValueError("keep", f"first, longest, newest or field:NAME{callables}", repr(keep))


def name_of_order(keep: Keep) -> str:
    """Return what a journal calls an order; a callable by its name."""
    return keep if isinstance(keep, str) else getattr(keep, "__qualname__", type(keep).__qualname__)


def rank_of(keep: Keep) -> Callable[[Entry], Any] | None:
    """Return the function that ranks a row: the largest rank comes first, ``None`` last. ``None`` for "first"
    and "newest", which need no ranks."""
    if callable(keep):
        return lambda entry: _ordinary(entry, keep(KeptRow(entry.key, entry.document, values_of(entry))))
    if keep in ("first", "newest"):
        return None
    if keep == "longest":
        return lambda entry: _length(entry.document)
    name = keep[len(FIELD) :]
    return lambda entry: _ordinary(entry, _field_of(entry, name))


def _field_of(entry: Entry, name: str) -> Any:
    """Return the value of a field, ``None`` where the row has none. A cell of CSV has no type: one that reads
    as a number is that number, and an empty one is ``None``."""
    value: Any = values_of(entry).get(name)
    if not isinstance(entry.content, Cells):
        return value
    for number in (int, float):
        with suppress(TypeError, ValueError):
            return number(value)
    return value or None


def _length(document: Any) -> int:
    return document.num_shingles if isinstance(document, Sketch) else len(document)


def _ordinary(entry: Entry, value: Any) -> Any:
    """Return a rank as ``None``, a text or a number that SQLite orders as Python does: a number beyond 64
    bits and a Decimal as a float, a date as its ISO text, in UTC where it has a zone. InputError: a value of
    another type."""
    if isinstance(value, int | np.integer) and not -_HALF <= value < _HALF:
        return float(max(-_LARGEST, min(value, _LARGEST)))
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, np.generic):
        return _ordinary(entry, value.item())
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
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
    numbers: np.ndarray | None = None  # uint32, by position; None: the order of the input
    positions: np.ndarray | None = None  # uint32, by number

    def positions_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return where in keep order the rows of these numbers stand, from 0."""
        return numbers if self.positions is None else self.positions[numbers]

    def numbers_of(self, positions: np.ndarray) -> np.ndarray:
        """Return the numbers of the rows that stand at these positions in keep order."""
        return positions if self.numbers is None else self.numbers[positions]


def order_of(keep: Keep, total: int, path: str, ranks: Iterable[list[Any]]) -> KeepOrder:
    """Return the order of the rows. `ranks`, lists of what `rank_of` returned, are sorted in a file of SQLite
    at `path`; for "first" and "newest" they are not read. OrderError: no row has the field to order by."""
    if keep == "first":
        return KeepOrder(total)
    numbers = np.arange(total, dtype=np.uint32)
    if keep == "newest":
        numbers = numbers[::-1].copy()
    else:
        _sort(keep, path, ranks, numbers)
    positions = np.empty_like(numbers)
    positions[numbers] = np.arange(total, dtype=np.uint32)
    return KeepOrder(total, numbers, positions)


def _stored(rank: Any) -> Any:
    """Return a rank as SQLite takes it; a text as bytes, in the same order, for it may have a half of a
    character."""
    return rank.encode("utf-8", "surrogatepass") if isinstance(rank, str) else rank


def _sort(keep: Keep, path: str, ranks: Iterable[list[Any]], numbers: np.ndarray) -> None:
    """Overwrite `numbers` with the numbers of the rows, the largest rank first, ``None`` last, equal ones in
    the order of the input; they are sorted in a file of SQLite at `path`, which stays. OrderError: no row has
    the field to order by."""
    with opened_sqlite(path) as db:
        db.executescript("drop table if exists rows; create table rows (number integer primary key, rank);")
        number = 0
        for some in ranks:
            with in_one(db):
                db.executemany("insert into rows values (?, ?)", enumerate(map(_stored, some), number))
            number += len(some)
        has_ranks = db.execute("select count(rank) from rows").fetchone()[0]
        if isinstance(keep, str) and keep.startswith(FIELD) and number and not has_ranks:
            raise OrderError(
                f"keep: expected rows with a field {keep[len(FIELD) :]!r} to order them by, found none of "
                f"{number:,}; all would be alike. Name another field, or an order"
            )
        cursor, at = db.execute("select number from rows order by rank desc, number"), 0
        while rows := cursor.fetchmany(_AT_ONCE):
            numbers[at : at + len(rows)] = [row[0] for row in rows]
            at += len(rows)
