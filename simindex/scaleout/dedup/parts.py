"""The input in parts, each read by somebody else: a file, or some lines of a large one.

Owns where parts begin and end, and how the rows of one are read. Must not sketch. Invariant: the rows of the
parts one after the other are the rows of the input, with the same names, line numbers and keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from simindex.corpus.dedup.entries import Entry
from simindex.corpus.dedup.rows import Rows, rows_by_columns
from simindex.errors import SimIndexError
from simindex.inputs import Columns, Inputs
from simindex.inputs.source import BYTE_ORDER_MARK, Extent
from simindex.scaleout.parts.lines import count_lines, extents_of, lines_before

PART_OF_FILE = 64 << 20
"""Bytes of lines that a part has, at most: some ten thousand documents, and a minute of one core."""

_LEAST_PART = 4 << 20
_OF_EACH = 4
"""Parts that everybody who works has, or more: so nobody waits long for the last one."""


class InputPart(NamedTuple):
    """Some of an input.

    Attributes:
        place: of the input among the inputs, from 0.
        extent: the lines of it; ``None``: all of it.
    """

    place: int
    extent: Extent | None


def parts_of(inputs: Inputs, size: int = PART_OF_FILE) -> list[InputPart]:
    """Cut inputs into parts; files of lines that are not packed are cut at line ends. Reads a line a part.

    The lines before a part are not counted yet: see `num_lines`.
    """
    parts: list[InputPart] = []
    for place, path in enumerate(inputs.paths):
        if path == "-":
            raise SimIndexError("dedup: expected files, which every worker can read; found standard input")
        extents = extents_of(path, size) if inputs.has_plain_lines(path) else []
        parts += [InputPart(place, extent) for extent in extents] or [InputPart(place, None)]
    return parts


def size_for(inputs: Inputs, most: int, parallel: int) -> int:
    """Return how large parts are for so many who work, in bytes: `most`, or less where that gives too few."""
    plain = sum(os.path.getsize(path) for path in inputs.paths if inputs.has_plain_lines(path))
    return min(most, max(_LEAST_PART, -(-plain // (_OF_EACH * parallel))))


def counted(parts: list[InputPart], num_lines: list[int]) -> list[InputPart]:
    """Return the parts with the lines that stand before each in its file."""
    before = lines_before((part.place for part in parts), num_lines)
    return [
        part if part.extent is None else InputPart(part.place, part.extent._replace(lines_before=count))
        for part, count in zip(parts, before, strict=True)
    ]


def num_lines(inputs: Inputs, part: InputPart) -> int:
    """Return how many lines a part has; 0 for a whole file, whose lines nobody has to know."""
    return 0 if part.extent is None else count_lines(inputs.paths[part.place], part.extent)


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
