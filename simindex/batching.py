"""Cut an input into batches of a bounded number of bytes, so that long documents do not fill the memory.

Invariant: beside the value that ends it, a part holds at most `PART_BYTES`, as far as `bytes_of` counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from sys import getsizeof
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

PART_BYTES = 16 << 20
"""Bytes of a part. Four thousand documents of the usual few thousand characters take less."""

AHEAD_BYTES = 4 * PART_BYTES
"""Bytes of parts that may be read ahead of who takes their results."""


class Part(NamedTuple, Generic[T]):
    """Some values of an input, in order.

    Attributes:
        values: one at least.
        is_full: whether a bound ended it, and not the input.
    """

    values: list[T]
    num_bytes: int
    is_full: bool


def in_parts(
    values: Iterable[T],
    size: int | None,
    num_bytes: Callable[[T], int],
    most_bytes: int | None = None,
    *,
    keeps_rest: bool = False,
) -> Iterator[Part[T]]:
    """Yield the values in parts of up to `size`, fewer where these take `most_bytes`.

    Args:
        size: ``None``: any number.
        num_bytes: of a value; it must not raise. Called once for each.
        most_bytes: ``None``: `PART_BYTES`.
        keeps_rest: whether values behind the last whole part are a part, too, where `values` raises then.
    """
    iterator, most_bytes = iter(values), PART_BYTES if most_bytes is None else most_bytes
    while True:
        part: list[T] = []
        room = most_bytes
        try:
            for value in islice(iterator, size):
                part.append(value)
                room -= num_bytes(value)
                if room <= 0:
                    break
        except Exception:
            if part and keeps_rest:
                yield Part(part, most_bytes - room, is_full=False)
            raise
        if not part:
            return
        yield Part(part, most_bytes - room, len(part) == size or room <= 0)


def bytes_of(value: object) -> int:
    """Return about what a value takes in memory: a text, a collection of ready shingles, metadata.

    What can be read only once, and objects of other types, count without what they hold.

    >>> 1_000 < bytes_of("x" * 1_000) < 1_200, 2_000 < bytes_of({"x" * 1_000, "y" * 1_000}) < 2_600
    (True, True)
    """
    kind = type(value)
    return getsizeof(value) if kind is str or kind is bytes else _bytes_of_all(value)


def bytes_of_item(item: Any) -> int:
    """Return about what (key, document) or (key, document, metadata) takes; of anything else, 0."""
    # The common case, first and at once: sketching waits while this is counted.
    is_text = isinstance(item, tuple) and len(item) > 1 and type(item[1]) is str
    if is_text and (len(item) == 2 or item[2] is None):
        return getsizeof(item[1])
    try:
        document = item[1]
        taken = _bytes_of_all(document) if isinstance(document, _CONTAINERS) else getsizeof(document)
        return taken if len(item) < 3 else taken + bytes_of(item[2])
    except (TypeError, LookupError):
        return 0


def _bytes_of_all(value: object) -> int:
    if not isinstance(value, _CONTAINERS):
        return getsizeof(value)
    total, held, seen = getsizeof(value), [value], set[int]()
    while held:
        container = held.pop()
        if id(container) in seen or not isinstance(container, _CONTAINERS):
            continue
        seen.add(id(container))
        for values in (container, container.values()) if isinstance(container, dict) else (container,):
            total += sum(map(getsizeof, values))
            held += [inner for inner in values if type(inner) not in _PLAIN]
    return total


_CONTAINERS = dict, list, tuple, set, frozenset
_PLAIN = {str, bytes, int, float, bool, type(None)}
