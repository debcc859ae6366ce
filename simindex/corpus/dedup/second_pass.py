"""Read the inputs a second time; rows have the numbers of the first reading.

Invariant: the rows of the parts one after the other are the rows of the input, with the same names, line
numbers and keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from simindex.corpus.dedup.rows import Rows, rows_by_columns
from simindex.corpus.entries import Entry
from simindex.inputs import Columns, Inputs
from simindex.inputs.source import BYTE_ORDER_MARK, Extent

_LINE_END = ord("\n")

_READ_BYTES = 1 << 19
"""Of lines that are copied, in one go."""

_CACHED_BYTES = 1 << 18
"""In which line ends are looked for at a time: they stay in the cache of a core."""


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


def ends_of_lines(content: bytes | memoryview) -> np.ndarray:
    """Return where each line ends, int64."""
    found, every = [np.empty(0, dtype=np.int64)], np.frombuffer(content, dtype=np.uint8)
    for at in range(0, len(every), _CACHED_BYTES):
        found.append(np.flatnonzero(every[at : at + _CACHED_BYTES] == _LINE_END) + (at + 1))
    return np.concatenate(found)


class LineRows(Rows):
    """Rows as lines in one piece, which are parsed on access.

    Args:
        first: number in the whole input of the first one.
        number: of its line in the file.
        content: the lines, each with its end.
        ends: where each ends.
    """

    def __init__(
        self, first: int, inputs: Inputs, place: int, number: int, content: bytes, ends: np.ndarray
    ) -> None:
        super().__init__(first)
        self._inputs, self._place, self._number = inputs, place, number
        self._content, self._ends = content, ends

    def __len__(self) -> int:
        return len(self._ends)

    def lines(self) -> tuple[bytes, np.ndarray]:
        """Return the lines in one piece, and where each ends."""
        return self._content, self._ends

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.at(range(*index.indices(len(self))))
        return self.at([index])[0]

    def at(self, places: Sequence[int]) -> list[Entry]:
        """Return the rows at some places, parsed together."""
        ends, name = self._ends, self._inputs.paths[self._place]
        lines = [self._content[ends[at - 1] if at else 0 : ends[at]] for at in places]
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
    before, at = 0 if part.extent is None else part.extent.lines_before, 0
    for content in inputs.lines_of(part.place, part.extent, _READ_BYTES):
        if not before and not at:
            content = content.removeprefix(BYTE_ORDER_MARK)
        if not content.endswith(b"\n"):
            content += b"\n"  # the last line of a file may have none
        ends = ends_of_lines(content)
        begin, end = min(max(done - at, 0), len(ends)), min(count - at, len(ends))
        if begin < end:
            skipped = int(ends[begin - 1]) if begin else 0
            own = content[skipped : ends[end - 1]], ends[begin:end] - skipped
            yield LineRows(first + at + begin, inputs, part.place, before + 1 + at + begin, *own)
        at += len(ends)
        if at >= count:
            return  # what follows was no row, either
