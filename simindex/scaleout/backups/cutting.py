"""Small databases in parts that stay the same while what lies beside them changes.

Owns where a part ends: at every 65,536th number of a document (ages: about every hour), and before that where
it has so many bytes. The places do not depend on what comes before the last such number; so a change of one
document changes one part, and new documents make new parts at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

PART_BYTES = 16 << 20

_PREFIX_BYTES = {"documents": 6, "removed": 6, "groups": 6, "ages": 4, "meta": 0}
"""Leading bytes of a key that are equal in all of a part: of a number all but the last 16 bits, of a time in
microseconds all but the last 32."""

Items = list[tuple[bytes, bytes]]


def cut(database: str, parts: Iterator[Items]) -> Iterator[Items]:
    """Yield the entries of a database, which come in order of keys and some at a time, as parts."""
    length = _PREFIX_BYTES[database]
    part, size = Items(), 0
    for items in parts:
        for run in _runs(items, length):
            if part and part[0][0][:length] != run[0][0][:length]:
                yield part
                part, size = [], 0
            total = _bytes_of(run)
            if size + total < PART_BYTES:
                part += run
                size += total
                continue
            for item in run:
                part.append(item)
                size += _bytes_of([item])
                if size >= PART_BYTES:
                    yield part
                    part, size = [], 0
    if part:
        yield part


def _runs(items: Items, length: int) -> Iterator[Items]:
    """Yield runs of entries whose keys begin alike."""
    while items:
        prefix = items[0][0][:length]
        if items[-1][0][:length] == prefix:
            yield items
            return
        low, high = 0, len(items) - 1  # the first begins so, the last does not
        while high - low > 1:
            middle = (low + high) // 2
            if items[middle][0][:length] == prefix:
                low = middle
            else:
                high = middle
        yield items[:high]
        items = items[high:]


def _bytes_of(items: Items) -> int:
    return sum(len(key) + len(value) for key, value in items)
