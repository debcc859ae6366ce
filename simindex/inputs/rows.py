"""Turn a line of JSON, CSV or Parquet into a row, or say what is wrong with it.

Invariant: what is no document is a `BadRowError`, a value that the reader yields in its turn; it is never
mended, and no key is made that was not asked for: one made of the place is the same tomorrow, when another
row stands there. The base of a fingerprint is an argument, never guessed: the digits of a hexadecimal number
may all be decimal ones. An error can be pickled, for an input may be read by another process than the one
that tells it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeVar, cast

import xxhash

from simindex.errors import InputError
from simindex.format.keys import encode_key
from simindex.format.records import is_flat, pack_metadata
from simindex.remote import is_remote
from simindex.sketching.sketch import Sketch

T = TypeVar("T")


class BadRowError(InputError):
    """A row is no document. A format yields it in its turn, so that reading can go on behind it."""


class BadFileError(BadRowError):
    """A file or folder cannot be read, or not to its end; the rows before that count."""

    @classmethod
    def of(cls, error: InputError) -> BadFileError:
        """Return an error with the same place and reason that is a BadFileError; one that is stays as it
        is."""
        return error if isinstance(error, BadFileError) else cls(*error.args)


class NoTextError(BadFileError):
    """A file that should be text is something binary."""


def sound(rows: Iterable[T | BadRowError]) -> Iterator[T]:
    """Yield the rows, or lines, unchanged up to the first BadRowError among them, which is raised."""
    for row in rows:
        if isinstance(row, BadRowError):
            raise row
        yield row


_FORMS = {
    16: (r"(?:0[xX])?[0-9a-fA-F]{1,16}", "1 to 16 hexadecimal digits", "10 reads decimal numbers"),
    10: (r"-?[0-9]{1,20}", "a decimal integer of 64 bits", "16 reads hexadecimal digits"),
}


def parse_fingerprint(value: object, base: int = 16) -> int:
    """Return a fingerprint, 0..2**64-1, from an integer of 64 bits, signed or not, or from its digits to
    this base, 16 (with or without 0x) or 10. Raises ValueError for anything else.

    >>> parse_fingerprint("00000000000000ff"), parse_fingerprint(-1) == parse_fingerprint("f" * 16)
    (255, True)
    """
    if isinstance(value, str):
        form, kind, remedy = _FORMS[base]
        if re.fullmatch(form, value.strip()) is None:
            raise ValueError(f"expected {kind}, found {value!r:.80}; --fingerprint-base {remedy}")
        value = int(value, base)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"expected a fingerprint, an integer or its digits, found {kind_of(value)}")
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"expected an integer of 64 bits, found {value}")
    return value & ((1 << 64) - 1)


def kind_of(value: object) -> str:
    """Return what a value is called that should be another: null, or its type."""
    return "null" if value is None else type(value).__name__


_SHORT_KEY = 10_000  # characters that are surely within the limit on keys


RowDocument = str | tuple[str, ...] | Sketch
"""A text, ready shingles, or a bare fingerprint."""


class Row(NamedTuple):
    """A document of the input, as `Index.insert_many` takes it."""

    key: str | int | bytes
    document: RowDocument
    metadata: Any


_KEY = "a string or an integer of 64 bits"

KeyFrom = Literal["content", "line"]
"""What a key is made of where a row has none: its document (`content_key`), or its input's path and line."""


def content_key(document: RowDocument) -> str:
    """Return the key that is made of a document: 32 hexadecimal digits of XXH3-128.

    Of a text they are those of its UTF-8 (`xxh128sum` prints the same for a file), of a list of shingles
    those of its distinct members in order, each as ``length:UTF-8``. A fingerprint's are its own 16 digits.

    >>> content_key("a ship left")
    '89f943c0817fda5f9d04318dae78e825'
    >>> content_key(("b", "a", "b")) == content_key(("a", "b"))
    True
    """
    if isinstance(document, str):
        return xxhash.xxh3_128_hexdigest(document.encode("utf-8", "surrogatepass"))
    if isinstance(document, Sketch):
        return f"{document.fingerprint:016x}"
    members = (member.encode("utf-8", "surrogatepass") for member in sorted(set(document)))
    return xxhash.xxh3_128_hexdigest(b"".join(b"%d:%b" % (len(member), member) for member in members))


def tidy_path(path: str) -> str:
    """Return a path as a key has it: without "." and doubled or closing slashes; ".." stays, as typed, and
    so does a URL.

    >>> tidy_path("./docs//a.txt"), tidy_path("."), tidy_path("/a/./b/"), tidy_path("../a")
    ('docs/a.txt', '.', '/a/b', '../a')
    """
    if is_remote(path):
        return path
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts) or "."


@dataclass(frozen=True)
class Fields:
    """Which fields of a row are what."""

    id: str = "id"
    text: str = "text"
    metadata: bool = False  # whether the others are kept
    key_from: KeyFrom | None = None  # of what a key is made where a row has none; None: such a row is bad
    metadata_from: str | None = None  # the field whose value is the metadata; None: all others
    fingerprint: str | None = None  # the field of a fingerprint that is the document in place of `text`
    fingerprint_base: int = 16  # of fingerprints written as text: 16 or 10
    keys_only: bool = False  # whether the key is all that is wanted: a row with one needs no document
    only_texts: bool = False  # whether ready shingles are no document, nor a fingerprint
    whole_rows: bool = False  # whether the content of a row of Parquet has all columns, not only the wanted

    def row(self, name: str, number: int, values: dict[str, Any]) -> Row | BadRowError:
        """Return the row of these fields, or, not raised, a BadRowError that names ``name:number`` where they
        make none.

        >>> print(Fields().row("a.jsonl", 4, {"id": 8}))
        a.jsonl:4: expected a field 'text', found ['id']; --text-field names another
        """
        origin, key, document = f"{name}:{number}", values.get(self.id), cast("RowDocument", "")
        try:
            if not self.keys_only or (key is None and self.key_from == "content"):
                document = self._document(origin, values)
            key = self._made_key(origin, document, values) if key is None else self._key(origin, key)
            metadata = self._metadata(values) if self.keeps_metadata else None
            if not is_flat(metadata) or _has_large([metadata]):
                pack_metadata(metadata)
        except BadRowError as error:
            return error
        except (TypeError, ValueError) as exc:
            return BadRowError(origin, str(exc))
        return Row(key, document, metadata)

    def usual(
        self, name: str, numbers: Sequence[int], rows: Sequence[Any]
    ) -> tuple[list[Any], list[Any], list[Any] | None] | None:
        """Return (keys, documents, metadata or ``None``) of rows that all have the usual form, by a quick
        way; ``None`` where a row may not have it: then `row` reads each by itself. It is: a text, flat
        metadata if any is kept, and keys all short strings, all integers, or all made of path and line."""
        if self.keys_only or self.fingerprint is not None or set(map(type, rows)) != {dict}:
            return None
        keys: list[Any] = [row.get(self.id) for row in rows]
        documents = [row.get(self.text) for row in rows]
        if set(map(type, documents)) != {str}:
            return None
        metadata = list(map(self._metadata, rows)) if self.keeps_metadata else None
        if metadata is not None and (not all(map(is_flat, metadata)) or _has_large(metadata)):
            return None
        kinds = set(map(type, keys))
        if kinds == {type(None)} and self.key_from == "line":
            path = tidy_path(name)
            keys = [f"{path}:{number}" for number in numbers]
        elif kinds == {str}:
            if max(map(len, keys)) > _SHORT_KEY:
                return None
        elif kinds != {int} or max(map(int.bit_length, keys)) >= 64:
            return None
        return keys, documents, metadata

    @cached_property
    def document(self) -> str:
        """The field of a row's document."""
        return self.text if self.fingerprint is None else self.fingerprint

    @cached_property
    def keeps_metadata(self) -> bool:
        """Whether anything of a row is kept beside its document."""
        return self.metadata or self.metadata_from is not None

    def _metadata(self, values: dict[str, Any]) -> Any:
        if self.metadata_from is not None:
            return values.get(self.metadata_from)
        own = (self.id, self.document)
        return {name: value for name, value in values.items() if name not in own} or None

    def require_column(self, origin: str, columns: Sequence[str]) -> None:
        """Raise InputError where a table has two columns of a name that is read, or none of the name of the
        documents, or of the keys where these alone are read."""
        for name in (self.id, self.document, self.metadata_from):
            if name is not None and (count := list(columns).count(name)) > 1:
                raise InputError(origin, f"expected one column {name!r}, found {count}")
        needed = self.id if self.keys_only and self.key_from != "content" else self.document
        if needed not in columns:
            another = "; --id-field names another" if needed != self.document else self._another()
            found = f"{columns!s:.100}{another}"
            raise InputError(origin, f"expected a column {needed!r}, found {found}")

    def _another(self) -> str:
        return f"; --{'text' if self.fingerprint is None else 'fingerprint'}-field names another"

    def _key(self, origin: str, key: Any) -> str | int | bytes:
        key = from_json(key)
        if isinstance(key, bool) or not isinstance(key, str | int | bytes):
            # Of an integer over 64 bits a float is left where no metadata is wanted; see `json.values_of`.
            is_large = isinstance(key, float) and abs(key) >= 1 << 63
            found = "a larger number" if is_large else kind_of(key)
            raise BadRowError(origin, f"{self.id}: expected {_KEY}, found {found}")
        if isinstance(key, int) and not -(1 << 63) <= key < 1 << 64:
            raise BadRowError(origin, f"{self.id}: expected {_KEY}, found a larger number")
        try:
            encode_key(key)
        except ValueError as exc:
            raise BadRowError(origin, f"{self.id}: {exc}") from None
        return key

    def _document(self, origin: str, values: dict[str, Any]) -> RowDocument:
        if self.document not in values:
            found = f"{sorted(values)!s:.100}{self._another()}"
            raise BadRowError(origin, f"expected a field {self.document!r}, found {found}")
        document = values[self.document]
        if self.only_texts and not isinstance(document, str):
            raise BadRowError(origin, f"{self.document}: expected a string, found {kind_of(document)}")
        if self.fingerprint is not None:
            try:
                return Sketch.from_fingerprint(parse_fingerprint(document, self.fingerprint_base))
            except ValueError as exc:
                raise BadRowError(origin, f"{self.fingerprint}: {exc}") from None
        if isinstance(document, str):
            return document
        if not isinstance(document, list):
            found = kind_of(document)
            raise BadRowError(origin, f"{self.text}: expected a string or a list of strings, found {found}")
        if any(isinstance(item, bool) or not isinstance(item, str | int) for item in document):
            raise BadRowError(origin, f"{self.text}: expected a list of strings and integers only")
        return tuple(map(str, document))  # a list could be taken for many texts

    def _made_key(self, origin: str, document: RowDocument, values: dict[str, Any]) -> str:
        if self.key_from == "content":
            return content_key(document)
        if self.key_from == "line":
            name, _, number = origin.rpartition(":")
            return f"{tidy_path(name)}:{number}"
        found = "null" if self.id in values else f"{sorted(values)!s:.100}"
        made = "--key-from content or line makes keys for rows without one"
        remedy = f"--id-field names another, {made}"
        raise BadRowError(origin, f"expected a key in the field {self.id!r}, found {found}; {remedy}")


def _has_large(metadata: Iterable[Any]) -> bool:
    """Whether any of these flat metadata is, or has, an integer of 64 bits or more, without its sign."""
    values = chain.from_iterable(each.values() if type(each) is dict else (each,) for each in metadata)
    return max([value.bit_length() for value in values if type(value) is int], default=0) > 63


def from_json(key: object) -> object:
    """Return a key as read from JSON, with ``{"bytes": BASE64}`` turned back into bytes and others
    unchanged."""
    if isinstance(key, dict) and key.keys() == {"bytes"} and isinstance(key["bytes"], str):
        try:
            return base64.b64decode(key["bytes"], validate=True)
        except ValueError:
            return key
    return key
