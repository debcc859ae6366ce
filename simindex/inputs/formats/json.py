"""Read JSON: an object a line, empty lines skipped, or a file with an array of objects, held whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simindex.inputs.rows import BadRowError, Fields, Row
from simindex.inputs.source import BYTE_ORDER_MARK, Columns, Newest, Source, gathered

_REMEDY = "--format jsonl takes an object a line, --format text the file as one document"


def read(source: Source, fields: Fields) -> Iterator[Row | BadRowError]:
    """Yield the rows of a file with an array of objects, or one object, each with the place ``name:number``,
    from 1."""
    import orjson

    try:
        values = orjson.loads(content := source.whole())
    except BadRowError as exc:
        yield exc
        return
    except orjson.JSONDecodeError as exc:
        where = f"line {exc.lineno}, column {exc.colno}"
        yield _no_json(
            source,
            source.name,
            content,
            f"a JSON array of objects, found no JSON ({exc.msg}, {where}); {_REMEDY}",
        )
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


def _no_json(source: Source, place: str, content: bytes, expected: str) -> BadRowError:
    """Return the error of what is no JSON, or of another encoding."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return BadRowError(place, source.wrong_bytes())
    return BadRowError(place, f"expected {expected}")


# ---- lines ----


def read_lines(source: Source, fields: Fields) -> Iterator[Row | BadRowError]:
    """Yield the rows of a source of JSON lines."""
    with source.lines() as lines:
        for some in lines.groups():
            if isinstance(some, BadRowError):
                yield some
                continue
            for number, line in enumerate(some, lines.number - len(some) + 1):
                row = row_of(source, fields, number, line)
                if row is not None:
                    yield row


def row_of(source: Source, fields: Fields, number: int, line: bytes) -> Row | BadRowError | None:
    """Return the row of a line; ``None`` where it is empty."""
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
        source.newest = Newest(source.name, number, content)
        return fields.row(source.name, number, values)
    reason = f"expected a JSON object, found {type(values).__name__}"
    if number == 1 and isinstance(values, list):
        reason += "; --format json takes an array of objects"
    return BadRowError(f"{source.name}:{number}", reason)


def columns(source: Source, fields: Fields) -> Iterator[Columns]:
    """Yield the same rows as columns."""
    with source.lines() as lines:
        for some in lines.groups():
            if isinstance(some, BadRowError):
                yield Columns([], [], [], [], [], some)
                continue
            numbers = range(lines.number - len(some) + 1, lines.number + 1)
            found = usual(source, fields, numbers, some)
            if found is not None:
                yield Columns([source.name] * len(some), list(numbers), *found, some)
                continue
            rows = (row_of(source, fields, *each) for each in zip(numbers, some, strict=True))
            yield from gathered((row for row in rows if row is not None), source)


def usual(
    source: Source, fields: Fields, numbers: Sequence[int], lines: Sequence[bytes]
) -> tuple[list[Any], list[Any]] | None:
    """Return the keys and documents of lines, each a row as nearly all are; ``None`` where one may not be."""
    import orjson

    try:
        values = list(map(orjson.loads, lines))
    except orjson.JSONDecodeError:
        return None
    return fields.usual(source.name, numbers, values) if set(map(type, values)) == {dict} else None
