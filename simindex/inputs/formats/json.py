"""Read JSON: an object a line, empty lines skipped, or a file with an array of objects, held whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simindex.inputs.rows import BadRowError, Fields, Row, Usual
from simindex.inputs.source import BYTE_ORDER_MARK, Columns, Found, Source, gathered

_REMEDY = "--format jsonl takes an object a line, --format text the file as one document"


def read(source: Source, _fields: Fields) -> Iterator[Found]:
    """Yield the rows of a file with an array of objects, or one object, each with the place ``name:number``,
    from 1."""
    import orjson

    try:
        values = orjson.loads(content := source.whole())
    except BadRowError as exc:
        yield 0, None, exc
        return
    except orjson.JSONDecodeError as exc:
        found = f"no JSON ({exc.msg}, line {exc.lineno}, column {exc.colno}); {_REMEDY}"
        yield 0, None, _no_json(source, source.name, content, f"a JSON array of objects, found {found}")
        return
    del content
    if isinstance(values, dict):
        values = [values]
    if not isinstance(values, list):
        found = type(values).__name__
        yield 0, None, BadRowError(source.name, f"expected a JSON array of objects, found {found}; {_REMEDY}")
        return
    num_bytes, num_rows, number = source.bytes_read, len(values), 0
    source.follow(lambda: num_bytes * number // max(num_rows, 1))
    for number, value in enumerate(values, 1):
        if isinstance(value, dict):
            yield number, value, value
        else:
            reason = f"expected a JSON object, found {type(value).__name__}"
            yield number, None, BadRowError(f"{source.name}:{number}", reason)


def _no_json(source: Source, place: str, content: bytes, expected: str) -> BadRowError:
    """Return the error of what is no JSON, or of another encoding."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return BadRowError(place, source.wrong_bytes())
    return BadRowError(place, f"expected {expected}")


# ---- lines ----


def row_of(source: Source, fields: Fields, number: int, line: bytes) -> Row | BadRowError | None:
    """Return the row of a line; ``None`` where it is empty."""
    values = _values(source, number, line)
    return fields.row(source.name, number, values) if isinstance(values, dict) else values


def _values(source: Source, number: int, line: bytes) -> dict[str, Any] | BadRowError | None:
    import orjson

    content = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
    if content.isspace() or not content:
        return None
    try:
        values = orjson.loads(content)
    except orjson.JSONDecodeError as exc:
        expected = f"a JSON object, found no JSON ({exc.msg}, column {exc.colno})"
        return _no_json(source, f"{source.name}:{number}", content, expected)
    if isinstance(values, dict):
        return values
    reason = f"expected a JSON object, found {type(values).__name__}"
    if number == 1 and isinstance(values, list):
        reason += "; --format json takes an array of objects"
    return BadRowError(f"{source.name}:{number}", reason)


def read_lines(source: Source, fields: Fields) -> Iterator[Columns]:
    """Yield the rows of a source of JSON lines."""
    with source.lines() as lines:
        for some in lines.groups():
            if isinstance(some, BadRowError):
                yield Columns.without_rows(some)
                continue
            numbers = range(lines.number - len(some) + 1, lines.number + 1)
            found = usual(source, fields, numbers, some)
            if found is not None:
                keys, documents, metadata = found
                names = [source.name] * len(some)
                yield Columns(names, list(numbers), keys, documents, some, None, metadata)
            else:
                yield from gathered(_each(source, numbers, some), source.name, fields)


def _each(source: Source, numbers: Sequence[int], lines: Sequence[bytes]) -> Iterator[Found]:
    for number, line in zip(numbers, lines, strict=True):
        values = _values(source, number, line)
        if values is not None:
            yield number, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line, values


def usual(source: Source, fields: Fields, numbers: Sequence[int], lines: Sequence[bytes]) -> Usual | None:
    """Return what lines are, each a row as nearly all are; ``None`` where one may not be."""
    import orjson

    try:
        values = list(map(orjson.loads, lines))
    except orjson.JSONDecodeError:
        return None
    return fields.usual(source.name, numbers, values) if set(map(type, values)) == {dict} else None
