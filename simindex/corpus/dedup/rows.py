"""A batch of rows as columns.

Invariant: they are the rows of `Entry` one by one, with the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from sys import getsizeof
from typing import Any, TypeVar, overload

import numpy as np

from simindex.batching import PART_BYTES, bytes_of, in_parts
from simindex.corpus.entries import Entry, PathEntries
from simindex.inputs import BadRowError, Columns

READ_AHEAD = 3
"""Batches that are read before they are wanted."""


class Rows(Sequence[Entry]):
    """Rows of an input, in order.

    Attributes:
        bad: what stood between them and is no row.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self.places: list[int] = []
        self.names: list[str] = []
        self.rows: list[int] = []
        self.keys: list[Any] = []
        self.documents: list[Any] = []
        self.contents: list[Any] = []
        self.num_bytes = 0
        self.bad: list[BadRowError] = []

    @property
    def first(self) -> int:
        """Number in the whole input of the first row."""
        return self._first

    def add(self, place: int, some: Columns, begin: int, end: int) -> None:
        """Take rows of the input at a place."""
        documents, contents = some.documents[begin:end], some.contents[begin:end]
        self.places += [place] * (end - begin)
        self.names += some.names[begin:end]
        self.rows += some.numbers[begin:end]
        self.keys += some.keys[begin:end]
        self.documents += documents
        self.contents += contents
        self.num_bytes += _bytes_of(documents) + _bytes_of([c for c in contents if type(c) is bytes])

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> list[Entry]: ...
    def __getitem__(self, index: int | slice) -> Entry | list[Entry]:
        if isinstance(index, slice):
            return self.at(range(*index.indices(len(self))))
        return Entry(
            self.first + index,
            self.places[index],
            self.names[index],
            self.rows[index],
            self.keys[index],
            self.documents[index],
            None,
            self.contents[index],
        )

    def at(self, places: Sequence[int]) -> list[Entry]:
        """Return the rows at some places."""
        return [self[place] for place in places]

    def lines(self) -> tuple[bytes, np.ndarray] | None:
        """Return the lines of all rows in one piece, and where each ends; ``None`` if a row is no line."""
        if set(map(type, self.contents)) != {bytes}:
            return None
        whole = [line if line.endswith(b"\n") else line + b"\n" for line in self.contents]
        return b"".join(whole), np.cumsum(np.fromiter(map(len, whole), dtype=np.int64, count=len(whole)))


class Entered(list[Entry]):
    """Rows or paragraphs that come one by one, with what `Rows` has of them; one at least."""

    bad: Sequence[BadRowError] = ()
    num_bytes = 0

    @property
    def first(self) -> int:
        """Number in the whole input of the first row."""
        return self[0].number

    @property
    def places(self) -> list[int]:
        """As in `Entry`, of each."""
        return [entry.place for entry in self]

    @property
    def rows(self) -> list[int]:
        """As in `Entry`, of each."""
        return [entry.row for entry in self]

    @property
    def paragraphs(self) -> list[int]:
        """The number of each in its row, from 1; 0 where it is a whole row."""
        return [0 if entry.part is None else entry.part.number for entry in self]

    @property
    def keys(self) -> list[Any]:
        """As in `Entry`, of each."""
        return [entry.key for entry in self]

    @property
    def documents(self) -> list[Any]:
        """As in `Entry`, of each."""
        return [entry.document for entry in self]


def rows_of(entries: Iterable[Entry], size: int, skipped: int) -> Iterator[Rows | Entered]:
    """Yield rows some at a time.

    Args:
        size: how many at most; fewer where they take `PART_BYTES`.
    """
    if isinstance(entries, PathEntries):
        yield from rows_by_columns(entries.columns(), entries.takes_bad_rows, size, skipped)
        return
    for part in in_parts(islice(entries, skipped, None), size, lambda entry: bytes_of(entry.document)):
        some = Entered(part.values)
        some.num_bytes = part.num_bytes
        yield some


def rows_by_columns(
    columns: Iterable[tuple[int, Columns]], takes_bad_rows: bool, size: int, skipped: int, first: int = 0
) -> Iterator[Rows]:
    """Yield rows some at a time, as `rows_of` does; where it cannot be read on, those before that, too.

    Args:
        columns: some rows at a time, each time with the place of their source; bad rows with them.
        takes_bad_rows: whether a row that is none is passed over.
        first: number in the whole input of the first entry.
    """
    rows, number = Rows(first + skipped), 0
    for found in with_failure(columns):
        if isinstance(found, Exception):
            if rows:
                yield rows
            raise found
        place, some = found
        begin = min(max(skipped - number, 0), len(some.keys))
        number += len(some.keys)
        while begin < len(some.keys):
            end = min(begin + size - len(rows), len(some.keys))
            rows.add(place, some, begin, end)
            begin = end
            if len(rows) == size or rows.num_bytes >= PART_BYTES:
                full, rows = rows, Rows(rows.first + len(rows))
                yield full
        if some.error is not None:
            if not takes_bad_rows:
                if rows:
                    yield rows
                raise some.error
            rows.bad.append(some.error)
    if rows or rows.bad:
        yield rows


T = TypeVar("T")


def with_failure(items: Iterable[T]) -> Iterator[T | Exception]:
    """Yield items, and what ends them early as the last one."""
    try:
        yield from items
    except Exception as exc:
        yield exc


def _bytes_of(values: list[Any]) -> int:
    plain = set(map(type, values)) <= {str, bytes}
    return sum(map(getsizeof if plain else bytes_of, values))
