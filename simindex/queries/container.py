"""Views of an index as a container: its records and items, as a dict has them.

Owns what `values` and `items` yield. Must not begin transactions: the index walks. Invariant: a view holds
nothing but its index, so it shows what is stored when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any

import numpy as np

from simindex.format.keys import Key
from simindex.queries.record import Record, as_record
from simindex.queries.view import View
from simindex.queries.walk import Walk
from simindex.sketching.sketch import HAS_FINGERPRINT

_PART = 1_000
"""Documents of a walk that are read in one go."""

Take = Callable[[View, Walk], list[Any]]
"""Returns something of the next documents of a walk; an empty list at its end."""


def take_keys(view: View, walk: Walk) -> list[Key]:
    """Return the keys of the next documents."""
    return [record.key for _, record in walk.part(view, _PART)]


def take_records(view: View, walk: Walk) -> list[Record]:
    """Return the records of the next documents, with their sketches."""
    return [as_record(view, number, record) for number, record in walk.part(view, _PART)]


def take_fingerprints(view: View, walk: Walk) -> list[tuple[list[Key], np.ndarray]]:
    """Return the keys and fingerprints of the next documents, those without a fingerprint left out."""
    found = walk.part(view, _PART)
    with_bits = [(number, record) for number, record in found if record.present & HAS_FINGERPRINT]
    fingerprints = [view.sketch_batch(number, record).fingerprints[0] for number, record in with_bits]
    keys = [record.key for _, record in with_bits]
    return [(keys, np.array(fingerprints, dtype=np.uint64))] if found else []


class Keys(KeysView[Key]):
    """The keys of an index, in order of insertion."""

    def __init__(self, index: Any) -> None:
        super().__init__(index)


class Values(ValuesView[Record]):
    """The records of an index, in order of insertion.

    Args:
        index: asked for its length and for single records.
        records: walks over all of them.
    """

    def __init__(self, index: Any, records: Callable[[], Iterator[Record]]) -> None:
        super().__init__(index)
        self._index, self._records = index, records

    def __iter__(self) -> Iterator[Record]:
        return self._records()

    def __contains__(self, record: object) -> bool:
        return isinstance(record, Record) and self._index.get(record.key) == record


class Items(ItemsView[Key, Record]):
    """The keys of an index with their records, in order of insertion; arguments as of `Values`."""

    def __init__(self, index: Any, records: Callable[[], Iterator[Record]]) -> None:
        super().__init__(index)
        self._index, self._records = index, records

    def __iter__(self) -> Iterator[tuple[Key, Record]]:
        return ((record.key, record) for record in self._records())

    def __contains__(self, item: object) -> bool:
        if not isinstance(item, tuple) or len(item) != 2:
            return False
        key, record = item
        found = self._index.get(key)
        return found is not None and bool(found == record)
