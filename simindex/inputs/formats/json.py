"""Read JSON: an object a line, empty lines skipped, or a file with an array of objects, held whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from simindex.errors import InputError
from simindex.inputs.rows import BadRowError, Fields, kind_of
from simindex.inputs.source import BYTE_ORDER_MARK, Columns, Found, Source, columns_of

_REMEDY = "--format jsonl takes an object a line, --format text the file as one document"


def read(source: Source, _fields: Fields) -> Iterator[Found]:
    """Yield (number from 1, object, the same object) for each row of a file with an array of objects, or one
    object: it is both content and values; or (number, ``None``, BadRowError) for an element that is none.
    Raises BadRowError where the file is no JSON, InputError where it is neither an array nor an object, and
    as `Source.whole`."""
    import orjson

    content = source.whole()
    try:
        values = loads(content)
    except orjson.JSONDecodeError as exc:
        found = f"no JSON ({exc.msg}, line {exc.lineno}, column {exc.colno}); {_REMEDY}"
        raise _no_json(source, source.name, content, f"a JSON array of objects, found {found}") from exc
    del content
    if isinstance(values, dict):
        values = [values]
    if not isinstance(values, list):
        found = kind_of(values)
        raise InputError(source.name, f"expected a JSON array of objects, found {found}; {_REMEDY}")
    num_bytes = source.bytes_read
    for number, value in enumerate(values, 1):
        source.bytes_read = num_bytes * number // len(values)
        if isinstance(value, dict):
            yield number, value, value
        else:
            reason = f"expected a JSON object, found {kind_of(value)}"
            yield number, None, BadRowError(f"{source.name}:{number}", reason)


def _no_json(source: Source, origin: str, content: bytes, expected: str) -> BadRowError:
    """Return the BadRowError of what is no JSON: it says `expected`, or that the bytes are not UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return BadRowError(origin, source.wrong_bytes())
    return BadRowError(origin, f"expected {expected}")


def loads(content: bytes) -> Any:
    """Return the value of JSON. Raises orjson.JSONDecodeError.

    orjson makes floats of integers over 64 bits, and refuses halves of characters, which outputs of simindex
    may have, and NaN and Infinity, which Python writes: these are read by the json module, which takes five
    times as long.
    """
    import orjson

    refused: orjson.JSONDecodeError | None = None
    try:
        value = orjson.loads(content)
        if not _may_be_rounded(value):
            return value
    except orjson.JSONDecodeError as exc:
        if "surrogate" not in exc.msg and b"NaN" not in content and b"Infinity" not in content:
            raise
        refused = exc
    try:
        return json.loads(content.decode())
    except (ValueError, RecursionError) as exc:
        raise refused or orjson.JSONDecodeError(str(exc), "", 0) from None


def _may_be_rounded(value: Any) -> bool:
    ahead = [value] if isinstance(value, (dict, list)) else []
    while ahead:
        inner = ahead.pop()
        values = inner.values() if isinstance(inner, dict) else inner
        kinds = set(map(type, values))
        if float in kinds and any(type(each) is float and abs(each) >= 1 << 63 for each in values):
            return True
        if not kinds.isdisjoint((dict, list)):
            ahead += [each for each in values if isinstance(each, (dict, list))]
    return False


# ---- lines ----


def read_lines(source: Source, fields: Fields) -> Iterator[Columns]:
    """Yield the rows of a source of JSON lines in columns, in order; empty lines are left out. A line that is
    no row ends its `Columns`, and is their `error`, in place of being raised."""
    with source.lines() as lines:
        for some in lines.groups():
            if isinstance(some, BadRowError):
                yield Columns.without_rows(some)
                continue
            numbers = range(lines.number - len(some) + 1, lines.number + 1)
            if numbers[0] == 1:
                some[0] = some[0].removeprefix(BYTE_ORDER_MARK)
            values = values_of(source, numbers, some, has_metadata=fields.keeps_metadata)
            yield from columns_of(source.name, fields, numbers, some, values)


def values_of(
    source: Source, numbers: Sequence[int], lines: Sequence[bytes], *, has_metadata: bool = False
) -> list[Any]:
    """Return for each line its object, a BadRowError where it has none, which names the line's entry of
    `numbers`, or ``None`` where it is empty. Integers over 64 bits, of which no key or document consists, may
    be rounded without `has_metadata`."""
    import orjson

    try:
        values = list(map(orjson.loads, lines))
        if set(map(type, values)) == {dict} and not (has_metadata and any(map(_may_be_rounded, values))):
            return values
    except orjson.JSONDecodeError:
        pass
    return [_value(source, number, line) for number, line in zip(numbers, lines, strict=True)]


def _value(source: Source, number: int, line: bytes) -> dict[str, Any] | BadRowError | None:
    import orjson

    origin = f"{source.name}:{number}"
    if line.isspace() or not line:
        return None
    try:
        value = loads(line)
    except orjson.JSONDecodeError as exc:
        is_text = number == 1 and not line.lstrip().startswith(b"{")
        remedy = "; --format text reads all of it as one text" if is_text else ""
        found = f"no JSON ({exc.msg}, column {exc.colno}){remedy}"
        return _no_json(source, origin, line, f"a JSON object, found {found}")
    if isinstance(value, dict):
        return value
    remedy = "; --format json takes an array of objects" if number == 1 and isinstance(value, list) else ""
    return BadRowError(origin, f"expected a JSON object, found {kind_of(value)}{remedy}")
