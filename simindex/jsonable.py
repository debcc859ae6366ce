"""Convert values of an index to values that JSON can hold.

Invariant: what comes out is the same after `json.dumps` and `json.loads`.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from typing import Any


def plain(value: Any) -> Any:
    """Return a value with JSON's types in the place of others.

    Args:
        value: None, bool, int, float, str, bytes, a datetime or date, and lists, tuples and mappings of them.

    Returns:
        bytes as ``{"bytes": BASE64}``; times as ISO 8601 text; tuples as lists; ``None`` for NaN and the
        infinities; names of a mapping that are no strings as their JSON text, a later one in the place of an
        equal earlier one.

    Raises:
        TypeError: another type.
        RecursionError: nested deeper than Python's own `json` goes, which is about a thousand.

    >>> plain({1: b"ab", "two": (None, 2.5)})
    {'1': {'bytes': 'YWI='}, 'two': [None, 2.5]}
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
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
    """Return the fields of a dataclass, in their order, as values that JSON has."""
    return {field.name: plain(getattr(value, field.name)) for field in fields(value)}


def _name(name: Any) -> str:
    text = plain(name)
    return text if isinstance(text, str) else json.dumps(text)


def spelled(value: Any) -> Any:
    r"""Return a value of JSON's types in which all strings are Unicode, as readers of JSON expect.

    Python has the bytes of a file's name that its locale does not know as halves of characters (PEP 383).
    Those that are UTF-8 become their characters, other halves the text that `simindex list` prints.

    >>> spelled("\udcc3\udcbc.txt"), spelled({"id": ["\udcff.txt"]})
    ('ü.txt', {'id': ['\\udcff.txt']})
    """
    if isinstance(value, str):
        with contextlib.suppress(UnicodeEncodeError):  # of a half that stands for no byte
            value = value.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {spelled(name): spelled(item) for name, item in value.items()}
    return [spelled(item) for item in value] if isinstance(value, list | tuple) else value


def key_of(value: Any) -> Any:
    """Return the key that `plain` made this of.

    >>> key_of(plain(b"ab")), key_of(plain(7))
    (b'ab', 7)
    """
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) else value
