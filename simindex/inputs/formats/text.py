"""A text file -> one row, under its path as it was given.

Bytes that are not UTF-8 become U+FFFD, each of them: a file of an old encoding is still mostly comparable,
and a folder may hold anything. Nothing else that is read is mended.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from simindex.inputs.errors import BadRowError
from simindex.inputs.rows import Fields, Row
from simindex.inputs.source import Limits, Source
from simindex.inputs.streams import standard_input

_PIECE = 1 << 18


def read(source: Source, _fields: Fields) -> Iterator[Row | BadRowError]:
    """Yield the one row of a text file."""
    try:
        row: Row | BadRowError = Row(source.key, read_text(source.path, source.limits), None)
    except BadRowError as exc:
        row = exc
    num_bytes = source.total_bytes() or 0
    yield row
    source.follow(lambda: num_bytes)


def read_text(path: str, limits: Limits | None = None) -> str:
    """Return the text of a file, or of standard input for "-"; bytes that are not UTF-8 become U+FFFD.

    Raises:
        BadRowError: it is over the limit on a document, or there is not enough memory for it.
    """
    limits = limits or Limits()
    try:
        if path == "-":
            content = _whole(standard_input(), limits.document)
        else:
            with open(path, "rb", buffering=0) as file:
                content = _whole(file, limits.document)
        if content is not None:
            return content.decode("utf-8-sig", "replace")
        reason = limits.refusal("document", "a document")
    except MemoryError:
        reason = "not enough memory to read it"
    raise BadRowError("stdin" if path == "-" else path, reason)


def _whole(file: BinaryIO, limit: int) -> bytes | None:
    """Return the bytes of a file, or ``None`` if they are more than that."""
    room, pieces = limit + 1, []
    while room and (piece := file.read(min(room, _PIECE))):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces) if room else None
