"""JSON lines -> rows: an object a line, empty lines passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simindex.inputs.errors import BadRowError, optional_module
from simindex.inputs.rows import Fields, Row
from simindex.inputs.source import BYTE_ORDER_MARK, Newest, Source


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
            content = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
            if content.isspace() or not content:
                continue
            try:
                values = orjson.loads(content)
            except orjson.JSONDecodeError as exc:
                yield BadRowError(f"{source.name}:{number}", _no_json(source, content, exc))
                continue
            if isinstance(values, dict):
                source.newest = Newest(source.name, number, content)
                yield fields.row(source.name, number, values)
                continue
            reason = f"expected a JSON object, found {type(values).__name__}"
            if number == 1 and isinstance(values, list):
                reason += "; --format json takes an array of objects"
            yield BadRowError(f"{source.name}:{number}", reason)


def _no_json(source: Source, content: bytes, error: Any) -> str:
    try:
        content.decode()
    except UnicodeDecodeError:
        return source.wrong_bytes()
    return f"expected a JSON object, found no JSON ({error.msg}, column {error.colno})"
