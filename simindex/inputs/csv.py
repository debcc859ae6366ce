"""CSV -> rows: the first row names the columns, an empty cell of the key column is no key.

A row is counted by the line in which it ends. Cells are UTF-8; nothing is mended. Invariant: a quote that is
not closed swallows no more than the limit on a line; behind that, reading goes on with the next line.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from typing import Any, cast

from simindex.inputs.errors import BadRowError
from simindex.inputs.rows import Fields, Row
from simindex.inputs.source import Limits, Lines, Source


def read(source: Source, fields: Fields) -> Iterator[Row | BadRowError]:
    """Yield the rows of a source of CSV."""
    parser = _parser(source.limits.cell)
    with source.lines() as lines:
        feed = _Feed(lines, source.name)
        reader = parser.reader(feed, strict=True)
        header: list[str] | None = None
        while True:
            feed.begin_row()
            try:
                cells = next(reader, None)
            except parser.Error as exc:
                yield BadRowError(f"{source.name}:{lines.number}", feed.reason(exc, source.limits))
                continue
            except BadRowError as exc:
                yield exc
                continue
            if cells is None:
                return
            if header is None:
                header = [cells[0].removeprefix("\ufeff"), *cells[1:]] if cells else []
                fields.require_column(f"{source.name}:{lines.number}", header)
            elif cells:
                yield _row(source, lines.number, fields, header, cells)


def _parser(max_cell: int) -> Any:
    """Return the csv module's parser, in a copy of its own with its own limit on cells, in characters.

    The module's limit, 128 KiB, is one for the whole process, and is not ours to change; but it is a part
    of the extension module's state, of which each loading makes a new one (PEP 489).
    """
    spec = cast("Any", importlib.util.find_spec("_csv"))
    parser: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(parser)
    parser.field_size_limit(min(max_cell, sys.maxsize))
    return parser


class _Feed:
    """Hands lines to the parser, and raises a `BadRowError` in place of one that it must not have.

    That is a line over a limit, or one with which the row would be. The parser then begins a new row.
    """

    def __init__(self, lines: Lines, name: str) -> None:
        self._lines = lines
        self._iterator = iter(lines)
        self._name = name
        self._careful_from = lines.careful_from
        self.begin_row()

    def begin_row(self) -> None:
        """Take note that the next line begins a row."""
        self._size = 0
        self._first = self._lines.number + 1
        self._mark = 0

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line = next(self._iterator)
        if isinstance(line, BadRowError):
            raise line
        if not self._size:
            self._mark = self._lines.mark
        self._size += len(line)
        if self._size > self._careful_from + 2:  # its own line end is no part of it
            reason = self._lines.excess(
                "a row", len(line.rstrip(b"\r\n")) + self._size - len(line), self._mark
            )
            if reason is not None:
                raise BadRowError(f"{self._name}:{self._lines.number}", reason + self._since())
        # Bytes that are not UTF-8 must pass the parser, or the first of them would end the file.
        return line.decode("utf-8", "surrogateescape")

    def reason(self, error: Exception, limits: Limits) -> str:
        """Return what the parser has to say against the newest row."""
        reason = str(error)
        if reason.startswith("field larger than field limit"):
            reason = limits.refusal("cell", "a cell")
        return reason + self._since()

    def _since(self) -> str:
        if self._lines.number <= self._first:
            return ""
        return f"; the row began in line {self._first:,}: is a quote not closed?"


def _row(
    source: Source, number: int, fields: Fields, header: list[str], cells: list[str]
) -> Row | BadRowError:
    place = f"{source.name}:{number}"
    if len(cells) != len(header):
        return BadRowError(place, f"expected {len(header)} columns, found {len(cells)}")
    try:
        num_bytes = len("".join(cells).encode("utf-8"))
    except UnicodeEncodeError:
        return BadRowError(place, "expected UTF-8, found other bytes")
    limit = source.limits.cell
    if num_bytes > limit and any(len(cell.encode("utf-8")) > limit for cell in cells):
        return BadRowError(place, source.limits.refusal("cell", "a cell"))
    values: dict[str, Any] = dict(zip(header, cells, strict=True))
    if not values.get(fields.id, True):
        del values[fields.id]  # an empty cell is how CSV says that there is none
    return fields.row(source.name, number, values)
