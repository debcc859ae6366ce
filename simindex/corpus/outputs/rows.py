"""Line formats: JSON lines, CSV, and lists of paths.

A row of the same format stands as it did; where it is annotated, three members or cells follow it.
"""

from __future__ import annotations

import csv
import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from simindex.corpus.entries import Entry
from simindex.errors import optional_module
from simindex.inputs import BatchRow, Cells, InputError
from simindex.inputs.formats.json import loads
from simindex.inputs.source import names_of
from simindex.jsonable import plain, spelled


class UnfitRowError(InputError):
    """A row does not fit the format of the output, however often the job is started again."""


Note = Mapping[str, Any]
"""What is written behind a row, by name; all rows of an output have the same names, in one order."""


def with_text(content: Any, field: str, text: str) -> Any:
    """Return the content of an entry with another text in this field, of a kind that an output takes: a line
    of JSON becomes a dict. What is no row of a file is returned unchanged."""
    if isinstance(content, bytes):
        content = loads(content)
    if isinstance(content, dict):
        return content | {field: text}
    if isinstance(content, Cells):
        own = len(content.columns) - 1 - content.columns[::-1].index(field)  # of several the last is read
        return content._replace(line=b"", cells=[*content.cells[:own], text, *content.cells[own + 1 :]])
    if isinstance(content, BatchRow):
        one = content.batch.slice(content.at, 1)
        index = one.schema.get_field_index(field)
        own = optional_module("pyarrow", "writing rows").array([text], one.schema.types[index])
        return BatchRow(one.set_column(index, one.schema.field(index), own), 0)
    return content


def values_of(row: Entry) -> dict[str, Any]:
    """Return the fields of a row, by name; of an item "id", "text" and the other fields of its metadata, or
    all of that as "metadata" where it is no mapping."""
    content: Any = row.content
    if isinstance(content, bytes):
        content = loads(content)
    elif isinstance(content, Cells):
        content = content.values()
    elif isinstance(content, BatchRow):
        names = names_of(content.batch.schema.names)
        rows = content.batch.slice(content.at, 1).rename_columns(names).to_pylist()
        content = rows[0] if rows else dict.fromkeys(names)
    if isinstance(content, dict):
        return content
    document = sorted(row.document, key=str) if isinstance(row.document, set | frozenset) else row.document
    values = {"id": row.key, "text": document}
    if isinstance(row.metadata, Mapping):
        return values | {name: value for name, value in row.metadata.items() if name not in values}
    return values if row.metadata is None else values | {"metadata": row.metadata}


class Encoder(ABC):
    """Makes the lines of rows.

    Attributes:
        has_head: whether a line stands above them, made by `head`.
        state: what the lines that follow depend on, as JSON has it.
    """

    has_head = False
    state: Any = None

    @abstractmethod
    def encoded(self, row: Entry, note: Note | None) -> bytes:
        """Return the line of a row. UnicodeEncodeError: it has a half of a character."""

    def head(self, row: Entry, note: Note | None) -> bytes:
        """Return the line above rows like this one; NotImplementedError for a format without one."""
        raise NotImplementedError


class JsonLines(Encoder):
    """A row an object a line."""

    def __init__(self) -> None:
        self._orjson: Any = optional_module("orjson", "writing .jsonl")

    def encoded(self, row: Entry, note: Note | None) -> bytes:
        """Return the line of a row: the one that it stood as, if that was JSON, else its fields as an object;
        with the members of a note behind, or in the place of fields of these names."""
        is_file = row.row == 0  # of text: its name is the id, and that of its likes
        line = row.content if isinstance(row.content, bytes) else self._line(values_of(row), is_file)
        if note is None:
            return line if line.endswith(b"\n") else line + b"\n"
        if any(b'"%s"' % name.encode() in line for name in note):  # it may have been annotated before
            values = values_of(row)
            if not values.keys().isdisjoint(note):
                return self._line({**values, **note}, is_file)
        members = self._line(dict(note), is_file)
        body = line.rstrip()[:-1].rstrip()
        return body + (b"" if body.endswith(b"{") else b",") + members[1:]

    def _line(self, values: dict[str, Any], spells: bool) -> bytes:
        return json_line(self._orjson, values, spells)


def json_line(orjson: Any, values: Any, spells: bool = False) -> bytes:
    """Return values as a line of JSON with its line feed, what JSON has no type for as text; `orjson`: the
    module. Lone surrogates are escaped (\\ud800), or with `spells` spelled out as text."""
    try:
        options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
        return bytes(orjson.dumps(values, option=options, default=_plain))
    except TypeError:  # such halves, a number over 64 bits, or deep nesting
        values = spelled(values) if spells else values
        line = json.dumps(values, separators=(",", ":"), default=_plain, ensure_ascii=not spells)
        return line.encode() + b"\n"


def _plain(value: Any) -> Any:
    try:
        return plain(value)
    except TypeError:
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


class CsvLines(Encoder):
    """A row a line of cells, under the names of the first row's columns, and with its line end."""

    has_head = True
    state: tuple[list[str], str] | None = None  # these columns and this line end

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter

    def head(self, row: Entry, note: Note | None) -> bytes:
        """Return the header for rows like this one, and set `state` to its columns and line end."""
        columns, _ = _columns_of(row)
        self.state = columns, row.content.line_end if isinstance(row.content, Cells) else "\n"
        return self._line([*columns, *(name for name in note or () if name not in columns)])

    def encoded(self, row: Entry, note: Note | None) -> bytes:
        """Return the line of a row, with the header before the first; the cells of a note stand behind, or in
        the place of cells of these names. Columns in another order than the first row's are put in that one.
        UnfitRowError: the row has other columns than the first."""
        head = self.head(row, note) if self.state is None else b""
        assert self.state is not None
        content, note = row.content, note or {}
        columns, cells = _columns_of(row)
        stands = isinstance(content, Cells) and content.line and content.delimiter == self._delimiter
        if columns != self.state[0] and sorted(columns) == sorted(set(self.state[0])):
            by_name, columns, stands = dict(zip(columns, cells, strict=True)), self.state[0], False
            cells = [by_name[name] for name in columns]
        if columns != self.state[0]:
            raise UnfitRowError(
                f"{row.name}:{row.row}",
                f"expected the columns of the first row, {self.state[0]!s:.100}, found {columns!s:.100}; "
                "an output of .jsonl takes rows of any columns",
            )
        more = [name for name in note if name not in columns]
        if stands and len(more) == len(note):
            noted = [self._cells(list(note.values()))] if note else []
            line = self._delimiter.encode().join([content.line.rstrip(b"\r\n"), *noted])
            return head + line + self.state[1].encode()
        noted_cells = [note.get(name, cell) for name, cell in zip(columns, cells, strict=True)]
        return head + self._line([*noted_cells, *(note[name] for name in more)])

    def _line(self, cells: list[Any]) -> bytes:
        assert self.state is not None
        return self._cells(cells) + self.state[1].encode()

    def _cells(self, cells: list[Any]) -> bytes:
        text = io.StringIO()
        csv.writer(text, delimiter=self._delimiter).writerow(map(_cell, cells))
        # Before Python 3.13 a cell with an end of line is quoted only where rows end with its characters.
        return text.getvalue()[:-2].encode("utf-8", "surrogateescape")


def _columns_of(row: Entry) -> tuple[list[str], Iterable[Any]]:
    if isinstance(row.content, Cells):
        return row.content.columns, row.content.cells
    values = values_of(row)
    return list(values), values.values()


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    return json_line(optional_module("orjson", "writing .csv"), value)[:-1].decode()


class Paths(Encoder):
    """The path of a file a line: a corpus of text files stays where it is."""

    def encoded(self, row: Entry, note: Note | None) -> bytes:
        """Return the line of a row: the path of its file, or of a row of a table its id, and the values of a
        note behind tabs. UnfitRowError: it has a line feed."""
        name = row.name if row.row == 0 else str(row.key)
        if "\n" in name:
            expected = f"expected a name in one line, found {name!r:.80}; an output of .jsonl takes it"
            raise UnfitRowError(f"{row.name}:{row.row}", expected)
        if note is not None:
            name = "\t".join([name, *("" if value is None else str(_cell(value)) for value in note.values())])
        return os.fsencode(name) + b"\n"
