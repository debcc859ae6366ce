"""`where=`: which stored documents a call is about, by their metadata.

A mapping names fields of the metadata, a dict, with the value of each or several of them; a document passes
where each field has one of its values. Values are equal where they are stored alike, so 1 is neither True nor
1.0. A callable takes the metadata. What passes counts before a limit; bounds on candidates are wider, for
what does not pass fills them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any

from simindex.errors import ArgumentTypeError
from simindex.format.records import FoundRecord, decode_found, pack_metadata

Where = Mapping[str, object] | Callable[[Any], object]
"""Fields of the metadata with a value or several (list, tuple, set, frozenset), or a callable of the
metadata whose truth counts."""

_SEVERAL = list, tuple, set, frozenset

_FEW = 8
"""Values of a field that are looked for in the bytes of a record before it is decoded."""


class Filter:
    """A `Where` as it is applied; `fields`: packed values of each, none of a callable."""

    def __init__(self, where: Where) -> None:
        self.fields: list[tuple[str, frozenset[bytes]]] = []
        self._texts: list[frozenset[str]] = []
        self._test: Callable[[Any], object] = self._has_values
        if not isinstance(where, Mapping):
            if not callable(where):
                expected = "a mapping of metadata fields to values or a callable"
                raise ArgumentTypeError("where", expected, type(where).__name__)
            self._test = where
            return
        for field, value in where.items():
            if not isinstance(field, str):
                raise ArgumentTypeError("where", "names of fields, str", type(field).__name__)
            values = value if isinstance(value, _SEVERAL) else (value,)
            self.fields.append((field, frozenset(map(pack_metadata, values))))
            self._texts.append(frozenset(each for each in values if type(each) is str))

    def passes(self, metadata: object) -> bool:
        """Whether a document of this metadata passes."""
        return bool(self._test(metadata))

    def _has_values(self, metadata: object) -> bool:
        if not isinstance(metadata, dict):
            return False
        for (field, values), texts in zip(self.fields, self._texts, strict=True):
            if field not in metadata:
                return False
            value = metadata[field]
            if value not in texts if type(value) is str else pack_metadata(value) not in values:
                return False
        return True

    def passing(self, found: Sequence[bytes | FoundRecord]) -> tuple[list[int], list[bytes | FoundRecord]]:
        """Return the indices of those of the found records that pass, and these records, decoded."""
        indices: Sequence[int] = range(len(found))
        for field, values in self.fields:
            # A record has the metadata as it was packed: a field, and its value behind it.
            parts = [pack_metadata(field) + value for value in values]
            if len(parts) <= _FEW:
                indices = [at for at in indices if _has_part(found[at], parts)]
        decoded = [decode_found(found[at]) for at in indices]
        is_passing = [self.passes(record.metadata) for record, *_ in decoded]
        return list(compress(indices, is_passing)), list(compress(decoded, is_passing))


def _has_part(found: bytes | FoundRecord, parts: list[bytes]) -> bool:
    return not isinstance(found, bytes) or any(part in found for part in parts)


def filter_of(where: Where | None) -> Filter | None:
    """Return the filter of a call; ``None`` where everything passes, as with an empty mapping. Raises
    TypeError for another kind of filter, and for a field name that is no str."""
    return None if where is None or (isinstance(where, Mapping) and not where) else Filter(where)


def wider(max_candidates: int) -> int:
    """Return how many candidates a query with a filter compares: 16 times as many, 2**24 at most, for most
    may not pass."""
    return min(16 * max_candidates, 2**24)
