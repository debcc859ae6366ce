"""A batch of rows as columns, or as the lines that they are in the second reading.

Invariant: they are the rows of `Entry` one by one, with the same numbers, names, line numbers and keys.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from sys import getsizeof
from typing import Any, NamedTuple

import numpy as np

from simindex.batching import PART_BYTES, bytes_of, in_parts
from simindex.corpus.entries import Entry, PathEntries
from simindex.inputs import Columns, Inputs
from simindex.inputs.source import BYTE_ORDER_MARK, Extent

READ_AHEAD = 3
"""Batches that are read before they are wanted."""


class Rows:
    """Rows of an input, or paragraphs of them, in order, that came one by one or are added as columns."""

    def __init__(self, first: int, entries: Sequence[Entry] = (), num_bytes: int = 0) -> None:
        self.first, self._entries, self.num_bytes = first, entries, num_bytes
        self.input_indices = [entry.input_index for entry in entries]
        self.names: list[str] = []
        self.rows = [entry.row for entry in entries]
        self.paragraphs: list[int] = []  # of paragraphs the number of each in its row, from 1
        self.keys: list[Any] = [entry.key for entry in entries]
        self.documents = [entry.document for entry in entries]
        self.contents: list[Any] = []

    def add(self, input_index: int, some: Columns, begin: int, end: int) -> None:
        """Append rows begin..end-1 of `some`, which are of the input with this index."""
        documents, contents = some.documents[begin:end], some.contents[begin:end]
        self.input_indices += [input_index] * (end - begin)
        self.names += some.names[begin:end]
        self.rows += some.numbers[begin:end]
        self.keys += some.keys[begin:end]
        self.documents += documents
        self.contents += contents
        self.num_bytes += _bytes_of(documents) + _bytes_of([c for c in contents if type(c) is bytes])

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries or self.at(range(len(self))))

    def at(self, indices: Sequence[int]) -> list[Entry]:
        """Return the entries at some indexes of this batch, from 0."""
        if self._entries:
            return [self._entries[at] for at in indices]
        return [
            Entry(
                self.first + at,
                self.input_indices[at],
                self.names[at],
                self.rows[at],
                self.keys[at],
                self.documents[at],
                None,
                self.contents[at],
            )
            for at in indices
        ]

    def lines(self) -> tuple[bytes, np.ndarray] | None:
        """Return (the lines of all rows in one piece, each with a line feed, the exclusive end of each in it,
        int64); ``None`` where a row was not read from a line, or there are none."""
        if set(map(type, self.contents)) != {bytes}:
            return None
        whole = [line if line.endswith(b"\n") else line + b"\n" for line in self.contents]
        return b"".join(whole), np.cumsum(np.fromiter(map(len, whole), dtype=np.int64, count=len(whole)))


DecidedRows = tuple[Rows, tuple[Sequence[Any], set[int]]]
"""Rows, the verdict on each for `Reporter.removed` (``None``: it stays), and the indices of those that stay
though a limit on candidates was hit."""


def rows_of(entries: Iterable[Entry], size: int, skipped: int) -> Iterator[Rows]:
    """Yield rows in batches of at most `size`, fewer where they take `PART_BYTES`. The first `skipped` rows
    are left out; numbers count them."""
    if isinstance(entries, PathEntries):
        yield from rows_by_columns(entries.columns(), size, skipped)
        return
    for part in in_parts(islice(entries, skipped, None), size, lambda entry: bytes_of(entry.document)):
        yield Rows(part.values[0].number, part.values, part.num_bytes)


def rows_by_columns(
    columns: Generator[tuple[int, Columns], None, None], size: int, skipped: int, first: int = 0
) -> Iterator[Rows]:
    """Yield rows in batches as `rows_of` does, and close `columns`; `first` is the number of their first row,
    skipped or not. Where reading fails, the rows before the failure are yielded first."""
    rows, number = Rows(first + skipped), 0
    try:
        with closing(columns):
            for input_index, some in columns:
                begin = min(max(skipped - number, 0), len(some.keys))
                number += len(some.keys)
                while begin < len(some.keys):
                    end = min(begin + size - len(rows), len(some.keys))
                    rows.add(input_index, some, begin, end)
                    begin = end
                    if len(rows) == size or rows.num_bytes >= PART_BYTES:
                        full, rows = rows, Rows(rows.first + len(rows))
                        yield full
    except Exception:
        if rows:
            yield rows
        raise
    if rows:
        yield rows


def _bytes_of(values: list[Any]) -> int:
    plain = set(map(type, values)) <= {str, bytes}
    return sum(map(getsizeof if plain else bytes_of, values))


_LINE_END = ord("\n")

_READ_BYTES = 1 << 19
"""Of lines that are copied, in one go."""

_CACHED_BYTES = 1 << 18
"""In which line ends are looked for at a time: they stay in the cache of a core."""


class InputPart(NamedTuple):
    """Some of an input."""

    input_index: int  # of the input among the inputs, from 0
    extent: Extent | None  # the lines of it; None: all of it


def columns_of_part(inputs: Inputs, part: InputPart) -> Generator[tuple[int, Columns], None, None]:
    """Yield the rows of a part, some at a time: (index of its input, their columns)."""
    for some in inputs.columns_of(part.input_index, part.extent):
        yield part.input_index, some


def ends_of_lines(content: bytes | memoryview) -> np.ndarray:
    """Return the exclusive end of each line, int64; what follows the last line feed is no line."""
    found, every = [np.empty(0, dtype=np.int64)], np.frombuffer(content, dtype=np.uint8)
    for at in range(0, len(every), _CACHED_BYTES):
        found.append(np.flatnonzero(every[at : at + _CACHED_BYTES] == _LINE_END) + (at + 1))
    return np.concatenate(found)


class LineRows(Rows):
    """Rows as lines in one piece, which are parsed on access; `number` of the first line in its file."""

    def __init__(
        self, first: int, inputs: Inputs, input_index: int, number: int, content: bytes, ends: np.ndarray
    ) -> None:
        super().__init__(first)
        self._inputs, self._input_index, self._number = inputs, input_index, number
        self._content, self._ends = content, ends

    def __len__(self) -> int:
        return len(self._ends)

    def lines(self) -> tuple[bytes, np.ndarray]:
        """Return (the lines in one piece, the exclusive end of each in it)."""
        return self._content, self._ends

    def at(self, indices: Sequence[int]) -> list[Entry]:
        """Return the entries at some indexes of this batch, from 0, parsed together."""
        ends, name = self._ends, self._inputs.paths[self._input_index]
        lines = [self._content[ends[at - 1] if at else 0 : ends[at]] for at in indices]
        parsed = self._inputs.parse_lines(self._input_index, [self._number + at for at in indices], lines)
        return [
            Entry(self.first + at, self._input_index, name, self._number + at, key, document, None, line)
            for at, key, document, line in zip(indices, *parsed, lines, strict=True)
        ]


class PartRead(NamedTuple):
    """A part that was read once."""

    part: InputPart
    lines: int  # in it; 0 where they were not counted
    rows: int


def rows_of_parts(
    inputs: Inputs, parts: list[PartRead], size: int, skipped: int, *, by_lines: bool
) -> Iterator[Rows]:
    """Yield the rows of parts that were read before, in batches and without the first `skipped` of all; those
    that had no rows are read again, too. With `by_lines` a part each of whose lines was a row comes as
    `LineRows`, of other sizes than `size`."""
    end = 0
    for part, lines, count in parts:
        first, end = end, end + count
        if end <= skipped and count:
            continue
        done = max(skipped - first, 0)
        if by_lines and lines and lines == count:
            yield from _by_lines(inputs, part, count, first, done)
            continue
        yield from rows_by_columns(columns_of_part(inputs, part), size, done, first)


def _by_lines(inputs: Inputs, part: InputPart, count: int, first: int, done: int) -> Iterator[Rows]:
    before, at = 0 if part.extent is None else part.extent.lines_before, 0
    for content in inputs.lines_of(part.input_index, part.extent, _READ_BYTES):
        if not before and not at:
            content = content.removeprefix(BYTE_ORDER_MARK)
        if not content.endswith(b"\n"):
            content += b"\n"  # the last line of a file may have none
        ends = ends_of_lines(content)
        begin, end = min(max(done - at, 0), len(ends)), min(count - at, len(ends))
        if begin < end:
            skipped = int(ends[begin - 1]) if begin else 0
            own = content[skipped : ends[end - 1]], ends[begin:end] - skipped
            yield LineRows(first + at + begin, inputs, part.input_index, before + 1 + at + begin, *own)
        at += len(ends)
        if at >= count:
            return  # what follows was no row, either
