"""Read the inputs a second time; rows have the numbers of the first reading.

Invariant: the rows of the parts one after the other are the rows of the input, with the same names, line
numbers and keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from simindex.corpus.dedup.rows import Rows, rows_by_columns
from simindex.corpus.entries import Entry
from simindex.inputs import Columns, Inputs
from simindex.inputs.source import BYTE_ORDER_MARK, Extent

_LINES = 2_000
_LONG = 1 << 19
"""Lines, and bytes, of a batch at least."""


class InputPart(NamedTuple):
    """Some of an input.

    Attributes:
        place: of the input among the inputs, from 0.
        extent: the lines of it; ``None``: all of it.
    """

    place: int
    extent: Extent | None


def columns_of_part(inputs: Inputs, part: InputPart) -> Iterator[tuple[int, Columns]]:
    """Yield the rows of a part some at a time, each with the place of its source; bad rows with them."""
    for some in inputs.columns_of(part.place, part.extent):
        yield part.place, some


class LineRows(Rows):
    """Rows as lines, which are parsed on access.

    Args:
        first: number in the whole input of the first one.
    """

    def __init__(self, first: int, inputs: Inputs, place: int, number: int, lines: list[bytes]) -> None:
        super().__init__(first)
        self._inputs, self._place, self._number = inputs, place, number
        self.contents = lines

    def __len__(self) -> int:
        return len(self.contents)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.at(range(*index.indices(len(self))))
        return self.at([index])[0]

    def at(self, places: Sequence[int]) -> list[Entry]:
        """Return the rows at some places, parsed together."""
        lines, name = [self.contents[at] for at in places], self._inputs.paths[self._place]
        parsed = self._inputs.parse_lines(self._place, [self._number + at for at in places], lines)
        return [
            Entry(self.first + at, self._place, name, self._number + at, key, document, None, line)
            for at, key, document, line in zip(places, *parsed, lines, strict=True)
        ]


class PartRead(NamedTuple):
    """A part that was read once.

    Attributes:
        lines: in it; 0 where they were not counted.
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
        by_lines: give lines alone where each line of a part is a row: they are not looked at until a caller
            asks for one.
    """
    behind = 0
    for part, lines, count in parts:
        first, behind = behind, behind + count
        if behind <= skipped and count:
            continue
        done = max(skipped - first, 0)
        if by_lines and lines and lines == count:
            yield from _by_lines(inputs, part, count, first, done)
            continue
        yield from rows_by_columns(columns_of_part(inputs, part), takes_bad_rows, size, done, first)


def _by_lines(inputs: Inputs, part: InputPart, count: int, first: int, done: int) -> Iterator[Rows]:
    before = 0 if part.extent is None else part.extent.lines_before
    at = 0
    for lines in _joined(inputs.lines_of(part.place, part.extent)):
        if not before and not at:
            lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
        begin, end = min(max(done - at, 0), len(lines)), min(count - at, len(lines))
        if begin < end:
            yield LineRows(first + at + begin, inputs, part.place, before + 1 + at + begin, lines[begin:end])
        at += len(lines)
        if at >= count:
            return  # what follows was no row, either


def _joined(groups: Iterator[list[bytes]]) -> Iterator[list[bytes]]:
    """Yield more lines at a time."""
    some: list[bytes] = []
    for lines in groups:
        some += lines
        if len(some) >= _LINES or sum(map(len, lines)) >= _LONG:
            yield some
            some = []
    if some:
        yield some
