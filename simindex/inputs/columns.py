"""Read rows in batches of columns, which is cheaper than row by row.

Invariant: the rows are those that come one by one, in the same order; what is no row ends its columns, and
comes with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from simindex.batching import bytes_of
from simindex.inputs.errors import BadRowError
from simindex.inputs.rows import Row
from simindex.inputs.source import Source

_ROWS = 256
_BYTES = 1 << 20


class Columns(NamedTuple):
    """Some rows of an input, in order."""

    names: list[str]
    numbers: list[int]  # of each in its file; see Newest
    keys: list[Any]
    documents: list[Any]
    contents: list[Any]  # of each, as it stands in its input; see Newest
    error: BadRowError | None = None  # of what stands behind them and is no row


def gathered(rows: Iterable[Row | BadRowError], source: Source) -> Iterator[Columns]:
    """Yield the rows of a source as columns."""
    some, room = _empty(), _BYTES
    try:
        for row in rows:
            if isinstance(row, BadRowError):
                yield some._replace(error=row)
                some, room = _empty(), _BYTES
                continue
            newest = source.newest
            assert newest is not None
            some.names.append(newest.name)
            some.numbers.append(newest.number)
            some.keys.append(row.key)
            some.documents.append(row.document)
            some.contents.append(newest.content)
            room -= bytes_of(row[1])
            if room <= 0 or len(some.keys) == _ROWS:
                yield some
                some, room = _empty(), _BYTES
    except Exception:
        if some.keys:
            yield some  # what came before the place from which the input cannot be read on
        raise
    if some.keys:
        yield some


def _empty() -> Columns:
    return Columns([], [], [], [], [])
