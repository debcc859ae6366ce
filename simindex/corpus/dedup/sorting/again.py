"""Inputs that were read before and are read again, a part after the other: the rows are numbered already.

Owns what is known of a part by then, and that lines which are rows need not be parsed again. Must not
sketch. Invariant: the rows of the parts one after the other are the rows of the input, with the same names,
line numbers and keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from simindex.corpus.dedup.entries import Entry
from simindex.corpus.dedup.rows import Rows, rows_by_columns
from simindex.inputs import Columns, Inputs
from simindex.inputs.source import BYTE_ORDER_MARK, Extent


class InputPart(NamedTuple):
    """Some of an input.

    Attributes:
        place: of the input among the inputs, from 0.
        extent: the lines of it; ``None``: all of it.
    """

    place: int
    extent: Extent | None


class PartEntries:
    """The rows of a part, numbered from 0 in it; see `corpus.dedup.entries`.

    Args:
        takes_bad_rows: whether a row that is none is passed over.
    """

    def __init__(self, inputs: Inputs, part: InputPart, *, takes_bad_rows: bool) -> None:
        self._inputs, self._part = inputs, part
        self.takes_bad_rows = takes_bad_rows

    def columns(self) -> Iterator[tuple[int, Columns]]:
        """Yield the rows some at a time, each with the place of its source; bad rows with them."""
        for some in self._inputs.columns_of(self._part.place, self._part.extent):
            yield self._part.place, some


class LineRows(Rows):
    """Rows of which only the lines are there: the others are read when they are asked for, one by one.

    Args:
        first: number in the whole input of the first one.
        inputs: the whole input.
        place: of their input.
        number: of the first line in it.
        lines: each is a row.
    """

    def __init__(self, first: int, inputs: Inputs, place: int, number: int, lines: list[bytes]) -> None:
        super().__init__(first)
        self._inputs, self._place, self._number = inputs, place, number
        self.contents = lines

    def __len__(self) -> int:
        return len(self.contents)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number, name = self._number + index, self._inputs.paths[self._place]
        row = self._inputs.row_of_line(self._place, number, self.contents[index])
        return Entry(
            self.first + index, self._place, name, number, row.key, row.document, None, self.contents[index]
        )


class PartRead(NamedTuple):
    """A part that was read once.

    Attributes:
        part: the same.
        lines: in it; 0 of a whole file.
        rows: in it.
    """

    part: InputPart
    lines: int
    rows: int


def rows_of_parts(
    inputs: Inputs, parts: list[PartRead], size: int, skipped: int, *, takes_bad_rows: bool, by_lines: bool
) -> Iterator[Rows]:
    """Yield the rows of all parts, which were read before, and numbered from the first on.

    Args:
        skipped: rows of the first, which are done.
        by_lines: give lines alone where each line of a part is a row: they are not looked at until somebody
            asks for one.
    """
    behind = 0
    for part, lines, count in parts:
        first, behind = behind, behind + count
        if behind <= skipped and count:
            continue
        done = max(skipped - first, 0)
        if by_lines and part.extent is not None and lines == count and not _has_mark(inputs, part):
            yield from _by_lines(inputs, part.place, part.extent, first, done)
            continue
        entries = PartEntries(inputs, part, takes_bad_rows=takes_bad_rows)
        for rows in rows_by_columns(entries, size, done):
            rows.first += first
            yield rows


def _by_lines(inputs: Inputs, place: int, extent: Extent, first: int, done: int) -> Iterator[Rows]:
    at = 0
    for lines in inputs.lines_of(place, extent):
        begin = min(max(done - at, 0), len(lines))
        if begin < len(lines):
            number = extent.lines_before + 1 + at + begin
            yield LineRows(first + at + begin, inputs, place, number, lines[begin:])
        at += len(lines)


def _has_mark(inputs: Inputs, part: InputPart) -> bool:
    """Whether a part begins with a byte order mark, which is no part of its first row."""
    assert part.extent is not None
    with open(inputs.paths[part.place], "rb") as file:
        file.seek(part.extent.begin)
        return file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK
