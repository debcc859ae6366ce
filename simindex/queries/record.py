"""Record: what is stored of one document, for people who ask for its key.

Owns the value. Must not know how it was stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from simindex.format.keys import Key, encode_key
from simindex.format.records import StoredRecord
from simindex.queries.view import View
from simindex.sketching.sketch import Sketch


@dataclass(frozen=True)
class Record:
    """A stored document: what `index[key]` returns.

    Attributes:
        key: as it was inserted.
        metadata: as it was inserted (tuples come back as lists).
        inserted_at: time of the insert, UTC.
        sketch: its signature and fingerprint.
        seen_at: time of the last `touch`, or of the insert where there was none, UTC; `expire` goes by it.
    """

    key: Key
    metadata: Any
    inserted_at: datetime
    sketch: Sketch
    seen_at: datetime


def holds(view: View, key: object) -> bool:
    """Whether a key is stored. What cannot be a key is not stored, as in a dict."""
    try:
        encode_key(key)
    except (TypeError, ValueError):
        return False
    return view.find_key(key) is not None


def record_or(view: View, key: Any, default: object) -> Any:
    """Return the record of a key, or the default where it is not stored or cannot be a key."""
    return record_of(view, key) if holds(view, key) else default


def record_of(view: View, key: Key) -> Record:
    """Return the record of a stored key. Raises KeyError when there is none."""
    return as_record(view, *view.find_stored(key))


def as_record(view: View, number: int, stored: StoredRecord) -> Record:
    """Return what is stored under a number as people are shown it."""
    sketch = view.sketch_batch(number, stored)[0]
    inserted_at, seen_at = _time_of(stored.inserted_at), _time_of(stored.age_from)
    return Record(stored.key, stored.metadata, inserted_at, sketch, seen_at)


def _time_of(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
