"""JSON lines -> rows: an object a line, empty lines passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simindex.inputs.errors import BadRowError, optional_module
from simindex.inputs.rows import Fields, Row
from simindex.inputs.source import Source

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read(source: Source, fields: Fields) -> Iterator[Row | BadRowError]:
    """Return an iterator of the rows of a source of JSON lines."""
    return _rows(source, fields, optional_module("orjson", f"{source.name}: reading .jsonl"))


def _rows(source: Source, fields: Fields, orjson: Any) -> Iterator[Row | BadRowError]:
    with source.lines() as lines:
        for line in lines:
            number = lines.number
            if isinstance(line, BadRowError):
                yield line
                continue
            content = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
            if content.isspace() or not content:
                continue
            try:
                values = orjson.loads(content)
            except orjson.JSONDecodeError as exc:
                found = f"no JSON ({exc.msg}, column {exc.colno})"
            else:
                if isinstance(values, dict):
                    yield fields.row(source.name, number, values)
                    continue
                found = type(values).__name__
            yield BadRowError(f"{source.name}:{number}", f"expected a JSON object, found {found}")
