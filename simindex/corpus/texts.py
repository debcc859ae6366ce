"""Rows of inputs -> the texts of some keys: an index keeps no texts, so who shows one brings it along.

Must not open an index. Invariant: memory is that of the texts that were asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from simindex.format.keys import Key
from simindex.inputs import BadRowError, Row


def texts_of(rows: Iterable[Row | BadRowError], keys: Collection[Key]) -> dict[Key, str]:
    """Return the texts of the rows with these keys; of several with one key the first.

    Reading ends where all are found. Ready shingles and fingerprints are no texts and are passed over.

    Raises:
        BadRowError: a row before that end is no document.

    >>> texts_of([Row("a", "one", None), Row("b", "two", None)], {"b"})
    {'b': 'two'}
    """
    wanted = set(keys)
    found: dict[Key, str] = {}
    if not wanted:
        return found
    for row in rows:
        if isinstance(row, BadRowError):
            raise row
        if isinstance(row.document, str) and row.key in wanted:
            found[row.key] = row.document
            wanted.remove(row.key)
            if not wanted:
                break
    return found
