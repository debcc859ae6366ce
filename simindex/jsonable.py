"""Convert values of an index to values that JSON can hold.

Invariant: what comes out is the same after `json.dumps` and `json.loads`, but for numbers that JSON has not
(NaN and the infinities).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import date
from typing import Any


def plain(value: Any) -> Any:
    """Return a value with JSON's types in the place of others.

    Args:
        value: None, bool, int, float, str, bytes, a datetime or date, and lists, tuples and mappings of them.

    Returns:
        bytes as ``{"bytes": BASE64}``; times as ISO 8601 text; tuples as lists; names of a mapping that are
        no strings as their JSON text, a later one in the place of an equal earlier one.

    Raises:
        TypeError: another type.
        RecursionError: nested deeper than Python's own `json` goes, which is about a thousand.

    >>> plain({1: b"ab", "two": (None, 2.5)})
    {'1': {'bytes': 'YWI='}, 'two': [None, 2.5]}
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        return {_name(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"expected a value that an index can hold, found {type(value).__name__}")


def fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass with slots, in their order, as values that JSON has."""
    return {name: plain(getattr(value, name)) for name in value.__slots__}


def _name(name: Any) -> str:
    text = plain(name)
    return text if isinstance(text, str) else json.dumps(text)


def key_of(value: Any) -> Any:
    """Return the key that `plain` made this of.

    >>> key_of(plain(b"ab")), key_of(plain(7))
    (b'ab', 7)
    """
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) else value
