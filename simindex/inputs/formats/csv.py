"""Read CSV and TSV: the first row names the columns, an empty cell of the key column is no key.

A row is counted by the line in which it ends. Nothing is mended. Invariant: a quote that is
not closed costs its own line. The row that it makes ends at the limit on a line or at the end of the file,
and is read again from its second line on, once: inside quotes no line can stand that opens another.
"""

from __future__ import annotations

import importlib.util
import io
import re
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any, cast

from simindex.errors import InputError
from simindex.inputs.rows import BadRowError, Fields
from simindex.inputs.source import BYTE_ORDER_MARK, Cells, Found, Lines, Source, names_of


def read(source: Source, fields: Fields, delimiter: str | None = None) -> Iterator[Found]:
    """Yield (number of the line in which it ends, `Cells`, values by column) of each row of a source of CSV
    behind its header. Of what is no row the third is a BadRowError, and the second ``None`` where the parser
    refused it. Empty lines are left out; an empty cell of the key column is ``None``.
    Without a delimiter the header says it; see `delimiter_of`.

    Raises BadRowError where the header cannot be parsed, and InputError where it is not UTF-8, or a column
    that is needed is missing, or twice there.
    """
    parser = _parser()
    with source.lines() as lines:
        feed = _Feed(lines, source.name)
        delimiter = delimiter or delimiter_of(feed.first_line())
        reader = parser.reader(feed, strict=True, delimiter=delimiter)
        header: list[str] | None = None
        names: list[str] = []
        while True:
            feed.begin_row()
            try:
                cells = next(reader, None)
            except (parser.Error, BadRowError) as exc:
                error = exc if isinstance(exc, BadRowError) else _bad_row(source, feed, exc)
                if header is None:
                    raise error from exc  # no row behind it can be told from a header
                yield feed.number, None, error
                if isinstance(exc, BadRowError) or str(exc).startswith("unexpected end"):
                    feed.read_again()  # a quote is not closed, it may be
                continue
            if cells is None:
                return
            if not cells:
                continue
            if header is None:
                header = _header(source, f"{source.name}:{feed.number}", fields, cells)
                names = names_of(header)
                line_end = "\r\n" if feed.row.endswith(b"\r\n") else "\n"
                source.take_head(Cells(feed.row, header, header, delimiter, line_end))
            else:
                content = Cells(feed.row, header, cells, delimiter, line_end)
                yield feed.number, content, _values(source, feed.number, fields, names, cells)


_DELIMITERS = ",;\t|"


def delimiter_of(header: str) -> str:
    """Return what stands between the cells of a table: the first of comma, semicolon, tab and bar that its
    header has outside of quotes, a comma where it has none.

    >>> delimiter_of('id;"title, text"'), delimiter_of("text")
    (';', ',')
    """
    bare = re.sub('"[^"]*("|$)', "", header)
    return next((each for each in _DELIMITERS if each in bare), _DELIMITERS[0])


def _bad_row(source: Source, feed: _Feed, error: Exception) -> BadRowError:
    """Return the BadRowError for an error of the parser, at the line that the feed is at; of a row of several
    lines it says where it began."""
    reason = f"{error}{feed.since()}"
    if reason.startswith("new-line character"):
        reason = "expected rows that end in a line feed, found a carriage return alone, as of an old Mac"
    return BadRowError(f"{source.name}:{feed.number}", reason)


def _header(source: Source, origin: str, fields: Fields, cells: list[str]) -> list[str]:
    if not all(map(_is_utf8, cells)):
        raise InputError(origin, source.wrong_bytes())
    fields.require_column(origin, cells)
    return cells


def _is_utf8(cell: str) -> bool:
    try:
        cell.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _parser() -> Any:
    """Return a new copy of the module ``_csv`` without its limit on cells, 128 KiB for the whole process: a
    part of the extension module's state, of which each loading makes a new one (PEP 489)."""
    spec = cast("Any", importlib.util.find_spec("_csv"))
    parser: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(parser)
    parser.field_size_limit(sys.maxsize)
    return parser


class _Feed:
    """Hands lines to the parser, and in place of one over a limit raises a `BadRowError`; a new row begins
    then."""

    def __init__(self, lines: Lines, name: str) -> None:
        self.number = 0
        self._lines, self._iterator, self._name = lines, iter(lines), name
        self._limits = lines.limits
        self._ahead = io.BytesIO()
        self.begin_row()

    def first_line(self) -> str:
        """Return the first line that is not empty as text; the parser gets all of them the same. "" where
        there is none, or it is over the limit."""
        read = bytearray()
        for line in self._iterator:
            if isinstance(line, BadRowError):
                self._iterator = chain([line], self._iterator)
                break
            read += line
            if line.removeprefix(BYTE_ORDER_MARK).strip(b"\r\n"):
                break
        self._ahead = io.BytesIO(read)
        return read.lstrip(b"\r\n").decode("utf-8", "replace")

    def begin_row(self) -> None:
        """Drop the lines of the row before: the next line begins a row."""
        self._row = bytearray()  # not a list: lines may be short, and each would be an object
        self._end_of_first = 0
        self._first = self.number + 1

    @property
    def row(self) -> bytes:
        """The lines of the newest row, as they were read."""
        return bytes(self._row)

    def read_again(self) -> None:
        """Hand over once more all lines of the newest row but its first, if it has others."""
        rest = self._row[self._end_of_first :]
        if rest:
            self._ahead = io.BytesIO(rest + self._ahead.read())
            self.number = self._first

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        line: bytes | BadRowError = self._ahead.readline()
        if line:
            self.number += 1
        else:
            line = next(self._iterator)
            self.number = self._lines.number
        if isinstance(line, BadRowError):
            raise line
        if self.number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if not self._row:
            self._end_of_first = len(line)
        self._row += line
        if len(self._row) - len(line) + len(line.rstrip(b"\r\n")) > self._limits.row:
            reason = (self._limits.refusal("a row"), self.since())
            raise BadRowError(f"{self._name}:{self.number}", reason)
        # Bytes that are not UTF-8 must pass the parser, or the first of them would end the file.
        return line.decode("utf-8", "surrogateescape")

    def since(self) -> str:
        """Return the end of an error message that says in which line the newest row began; "" where it has
        one line."""
        if self.number <= self._first:
            return ""
        return f"; the row began in line {self._first:,}: is a quote not closed?"


def _values(
    source: Source, number: int, fields: Fields, names: list[str], cells: list[str]
) -> dict[str, Any] | BadRowError:
    origin = f"{source.name}:{number}"
    if len(cells) != len(names):
        return BadRowError(origin, f"expected {len(names)} columns, found {len(cells)}")
    if not _is_utf8("".join(cells)):
        return BadRowError(origin, source.wrong_bytes())
    values: dict[str, Any] = dict(zip(names, cells, strict=True))
    if not values.get(fields.id, True):
        values[fields.id] = None  # an empty cell is how CSV says that there is none
    return values
