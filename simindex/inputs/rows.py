"""Rows: what a line of JSON, CSV or Parquet must look like to be a document.

Owns the checks, and the place (`name:number`) in every complaint. Must not read files. Invariant: what is
no document is a `BadRowError`, a value that the reader hands on in its turn; it is never mended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from simindex.format.keys import encode_key
from simindex.format.records import is_flat, pack_metadata
from simindex.inputs.errors import BadRowError, InputError

_SHORT_KEY = 10_000  # characters that are surely within the limit on keys


class Row(NamedTuple):
    """A document of the input, as `Index.insert_many` takes it."""

    key: str | int
    document: str | tuple[str, ...]
    metadata: dict[str, Any] | None


@dataclass(frozen=True)
class Fields:
    """Which fields of a row are what.

    Attributes:
        id: its key.
        text: its document.
        metadata: whether the others are kept.
    """

    id: str = "id"
    text: str = "text"
    metadata: bool = False

    def row(self, name: str, number: int, values: dict[str, Any]) -> Row | BadRowError:
        """Return the row of these values, with its place as the key if it has none.

        Args:
            name: of the input.
            number: of the row or line in it; the place is ``name:number``.
            values: field -> value.

        >>> Fields().row("a.jsonl", 3, {"id": 7, "text": "a ship left"})
        Row(key=7, document='a ship left', metadata=None)
        >>> print(Fields().row("a.jsonl", 4, {"id": 8}))
        a.jsonl:4: expected a field 'text', found ['id']
        """
        key: Any = values.get(self.id)
        document: Any = values.get(self.text)
        if type(document) is not str or not _is_usual_key(key):
            try:
                key, document = self._checked(f"{name}:{number}", key, document, values)
            except BadRowError as error:
                return error
        metadata = None
        if self.metadata:
            metadata = {name: value for name, value in values.items() if name not in (self.id, self.text)}
            if not is_flat(metadata):
                try:
                    pack_metadata(metadata)
                except (TypeError, ValueError) as exc:
                    return BadRowError(f"{name}:{number}", str(exc))
        return Row(key, document, metadata or None)

    def require_column(self, place: str, columns: Sequence[str]) -> None:
        """Make sure that a table has a column of documents.

        Raises:
            InputError: it has none.
        """
        if self.text not in columns:
            raise InputError(place, f"expected a column {self.text!r}, found {columns!s:.100}")

    def _checked(
        self, place: str, key: Any, document: Any, values: dict[str, Any]
    ) -> tuple[str | int, str | tuple[str, ...]]:
        if key is None:
            key = place
        elif isinstance(key, bool) or not isinstance(key, str | int):
            found = type(key).__name__
            raise BadRowError(place, f"{self.id}: expected a string or an integer of 64 bits, found {found}")
        try:
            encode_key(key)
        except ValueError as exc:
            raise BadRowError(place, f"{self.id}: {exc}") from None
        if self.text not in values:
            raise BadRowError(place, f"expected a field {self.text!r}, found {sorted(values)!s:.100}")
        if isinstance(document, str):
            return key, document
        if not isinstance(document, list):
            found = "null" if document is None else type(document).__name__
            raise BadRowError(place, f"{self.text}: expected a string or a list of strings, found {found}")
        if any(isinstance(item, bool) or not isinstance(item, str | int) for item in document):
            raise BadRowError(place, f"{self.text}: expected a list of strings and integers only")
        return key, tuple(map(str, document))  # a list could be taken for many texts


def _is_usual_key(key: object) -> bool:
    """Return whether a key is surely one that an index takes, as nearly all are."""
    if type(key) is str:
        return len(key) <= _SHORT_KEY
    return type(key) is int and key.bit_length() < 64
