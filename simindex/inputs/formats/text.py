"""Read a text file as one row; its path is the key.

Bytes that are not UTF-8 become U+FFFD, each of them, and the file is counted: one of an old encoding is still
mostly comparable, and a folder may hold anything. Nothing else that is read is mended.
"""

from __future__ import annotations

from collections.abc import Iterator

from simindex.errors import InputError
from simindex.inputs.rows import Fields, NoTextError
from simindex.inputs.source import Columns, Limits, Source


def read(source: Source, _fields: Fields) -> Iterator[Columns]:
    """Yield the one row of a text file, its key the path. Raises as `Source.whole`."""
    yield Columns([source.name], [0], [source.key], [text_of(source)], [None])


def text_of(source: Source) -> str:
    """Return the text of a source; bytes that are not UTF-8 become U+FFFD, and its tally counts it as mended
    then. Raises as `Source.whole`."""
    content = source.whole()
    try:
        try:
            return content.decode()
        except UnicodeDecodeError:
            source.tally.mended += 1
            return content.decode("utf-8", "replace")
    except MemoryError:
        raise InputError(source.name, "not enough memory to read it") from None


def read_text(path: str, limits: Limits | None = None) -> str:
    """Return the text of a file, decompressed by its suffix, or of standard input for "-"; see `text_of`.
    Raises InputError where it is packed otherwise, binary, or over the limit, OSError where it cannot be
    opened."""
    try:
        return text_of(Source(path, limits))
    except NoTextError as exc:  # no other can be read in its place
        raise InputError(exc.place, exc.reason) from exc
