"""Read a JSON file: an array of objects, or one object. It is held whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simindex.inputs.errors import BadRowError
from simindex.inputs.rows import Fields, Row
from simindex.inputs.source import Newest, Source

_REMEDY = "--format jsonl takes an object a line, --format text the file as one document"


def read(source: Source, fields: Fields) -> Iterator[Row | BadRowError]:
    """Yield the rows of a JSON file, each with the place ``name:number``, from 1."""
    import orjson

    try:
        values = orjson.loads(content := source.whole())
    except BadRowError as exc:
        yield exc
        return
    except orjson.JSONDecodeError as exc:
        yield BadRowError(source.name, _no_json(source, content, exc))
        return
    del content
    if isinstance(values, dict):
        values = [values]
    if not isinstance(values, list):
        found = type(values).__name__
        yield BadRowError(source.name, f"expected a JSON array of objects, found {found}; {_REMEDY}")
        return
    num_bytes, num_rows, number = source.bytes_read, len(values), 0
    source.follow(lambda: num_bytes * number // max(num_rows, 1))
    for number, value in enumerate(values, 1):
        if isinstance(value, dict):
            source.newest = Newest(source.name, number, value)
            yield fields.row(source.name, number, value)
        else:
            found = type(value).__name__
            yield BadRowError(f"{source.name}:{number}", f"expected a JSON object, found {found}")


def _no_json(source: Source, content: bytes, error: Any) -> str:
    try:
        content.decode()
    except UnicodeDecodeError:
        return source.wrong_bytes()
    found = f"no JSON ({error.msg}, line {error.lineno}, column {error.colno})"
    return f"expected a JSON array of objects, found {found}; {_REMEDY}"
