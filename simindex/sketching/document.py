"""Recognise a document, and explain what was passed instead by mistake.

Invariant: sets, tuples, mappings and iterators of shingles are taken as they are, whatever their shingles
look like; only a list can be taken for many documents.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from simindex.checks import frame_library
from simindex.config import Shingles, WordShingles
from simindex.errors import ArgumentTypeError
from simindex.sketching.sketch import Sketch, SketchBatch

Shingle = str | bytes | int | np.integer[Any]

# Not Iterable[Shingle]: bytes are iterables of int, and bytes are no document.
Document = (
    str
    | Sketch
    | Iterable[str | bytes]
    | AbstractSet[Shingle]
    | tuple[Shingle, ...]
    | list[int]
    | list[str | int]
    | list[Shingle]
    | Iterator[Shingle]
    | Mapping[Any, float]
)
"""One document: a str, a collection of ready shingles (str, bytes or int), a mapping of shingles to weights,
or a `Sketch`."""

Texts = Mapping[Any, Any] | Callable[[Any], Any]
"""The document of a key: a str or ready shingles."""


def document_under(texts: Texts, key: object) -> Any:
    """Return the document of a key, from a mapping or a function of keys. Raises KeyError where that has
    none, or gives ``None``."""
    try:
        document = texts[key] if isinstance(texts, Mapping) else texts(key)
    except KeyError:
        document = None
    if document is None:
        raise KeyError(f"texts: expected the document of every key, found none of {key!r}")
    return document


_SURELY_SHINGLES = {set, frozenset, tuple, dict}

MIN_TEXT_CHARACTERS = 100
"""A list whose strings are longer than that on average, with spaces in them, is one of whole texts.

Measured: that refuses lists of two news reports (99 of 100), of two abstracts (all of them) and of the
paragraphs of a licence (98 of 100), none of 10,000 lists of two headlines, and none of runs of five words."""

_CHARACTERS_A_WORD = 8


def shingles_in(document: object, shingles: Shingles) -> Iterable[Any]:
    """Return a document that is neither a str nor a Sketch as an iterable of shingles: itself, or the
    elements of an array.

    A list of strings that are far longer than `shingles` is one of whole texts, and refused. Raises TypeError
    that names the right call.
    """
    kind = type(document)
    if kind in _SURELY_SHINGLES:
        return document  # type: ignore[return-value] # by its type
    if isinstance(document, np.ndarray):
        document = _elements(document)
    elif kind is not list:
        remedy = _remedy(document)
        if remedy is not None or not isinstance(document, Iterable):
            raise _no_document(kind.__name__, remedy or "")
    if isinstance(document, list):
        _refuse_texts(document, shingles)
    return document  # type: ignore[return-value] # all others are refused


def _no_document(found: str, remedy: str) -> TypeError:
    return ArgumentTypeError(
        "document",
        "a str, a collection of shingles (str, bytes or int), a mapping of shingles to weights, or a Sketch",
        f"{found}{remedy}",
    )


def _elements(array: np.ndarray) -> list[Any]:
    """Return the elements of an array of integers or strings of one dimension. Raises ArgumentTypeError for
    another one, and for uint64, in which signatures and hashes come."""
    found = f"a NumPy array of {array.ndim} dimensions and {array.dtype}"
    if array.dtype == np.uint64:
        raise _no_document(
            found,
            "; the rows of a signature come by Sketch.from_rows(array), fingerprints by "
            "Sketch.from_fingerprints(array), shingles as array.tolist()",
        )
    if array.ndim != 1 or array.dtype.kind not in "iuSU":
        raise _no_document(
            found, "; many documents go to insert_many(zip(keys, array)) or query_many(array.tolist())"
        )
    elements: list[Any] = array.tolist()
    return elements


def _refuse_texts(strings: list[Any], shingles: Shingles) -> None:
    """Raise ArgumentTypeError for a list of whole texts, which is many documents, or the paragraphs of one; a
    list of anything but strings passes."""
    if not strings or set(map(type, strings)) != {str}:
        return
    size = shingles.size * (_CHARACTERS_A_WORD if isinstance(shingles, WordShingles) else 1)
    mean = sum(map(len, strings)) / len(strings)
    if mean <= max(MIN_TEXT_CHARACTERS, 2 * size) or not any(" " in text or "\n" in text for text in strings):
        return
    raise _no_document(
        f"a list of {len(strings)} texts of {mean:.0f} characters on average",
        "; many texts go to insert_many(zip(keys, texts)) or query_many(texts), the parts of one are joined,"
        ' as "\\n".join(parts); where each string is one shingle, hand over a set or a tuple of them',
    )


def _remedy(document: object) -> str | None:
    """Return advice, to end an error with, for some values that are no document; ``None`` for all others."""
    if hasattr(document, "as_py"):  # what a column of Arrow gives, value by value
        return "; hand over its text, as column.to_pylist()"
    library = frame_library(document)
    if library:
        return (
            f" of {library}, which is many documents: insert_many(zip(keys, texts)), query_many(texts); the "
            "shingles of one document come as a set"
        )
    if isinstance(document, bytes | bytearray | memoryview):
        return "; decode a text first, as data.decode()"
    if isinstance(document, SketchBatch):
        return ", which is many documents: insert_many(zip(keys, batch)), query_many(batch)"
    if hasattr(document, "hashvalues"):
        return "; a MinHash goes into simindex.compat.datasketch.MinHashLSH"
    if hasattr(document, "read"):
        return ", an open file; hand over its text, as file.read()"
    if isinstance(document, os.PathLike):
        return ", a path; hand over the text, as path.read_text()"
    if isinstance(document, int | np.integer) and not isinstance(document, bool):
        return "; a fingerprint comes as Sketch.from_fingerprint(number)"
    return None
