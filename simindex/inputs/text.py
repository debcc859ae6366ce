"""A text file -> one row, under its path as it was given.

Bytes that are not UTF-8 become U+FFFD, each of them: a file of an old encoding is still mostly comparable,
and a folder may hold anything. Nothing else that is read is mended.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from simindex.inputs.errors import BadRowError
from simindex.inputs.rows import Fields, Row
from simindex.inputs.source import Source
from simindex.inputs.streams import standard_input


def read(source: Source, _fields: Fields) -> Iterator[Row | BadRowError]:
    """Yield the one row of a text file."""
    content = read_text(source.path)
    num_bytes = source.total_bytes() or 0
    yield Row(source.name, content, None)
    source.follow(lambda: num_bytes)


def read_text(path: str) -> str:
    """Return the text of a file, or of standard input for "-"; bytes that are not UTF-8 become U+FFFD."""
    content = standard_input().read() if path == "-" else Path(path).read_bytes()
    return content.decode("utf-8-sig", "replace")
