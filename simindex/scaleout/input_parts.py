"""Cut the input into parts for workers: a file, or a range of lines of a large one.

The same sources and size give the same parts, in order, each of whole lines.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from simindex.inputs import InputError, Inputs
from simindex.inputs.reader import Rows
from simindex.inputs.source import Extent
from simindex.remote import is_remote

_READ = 1 << 20
_COUNTED = 1 << 18  # bytes that stay in the cache of a core
_LINE_END = ord("\n")


def extents_of(path: str, size: int) -> list[Extent]:
    """Cut a file at line ends, into extents of about so many bytes; an empty file has none.

    Reads a line an extent. The lines before each are not counted yet: see `lines_before`.
    """
    total = os.path.getsize(path)
    cuts = sorted({0, *(_line_behind(path, at) for at in range(size, total, size)), total})
    return [Extent(begin, end, 0) for begin, end in pairwise(cuts)]


def _line_behind(path: str, at: int) -> int:
    """Return where the first line begins that begins behind a byte of a file, or where the file ends."""
    with open(path, "rb") as file:
        file.seek(at)
        while piece := file.readline(_READ):
            at += len(piece)
            if piece.endswith(b"\n"):
                break
    return at


def count_lines(path: str, extent: Extent) -> int:
    """Return how many lines an extent has. Reads it."""
    room, found, left, last = bytearray(_COUNTED), 0, extent.end - extent.begin, _LINE_END
    view, every = memoryview(room), np.frombuffer(room, dtype=np.uint8)
    with open(path, "rb", buffering=0) as file:
        file.seek(extent.begin)
        while size := file.readinto(view[:left]):
            found += int(np.count_nonzero(every[:size] == _LINE_END))  # twice as fast as bytes.count
            left, last = left - size, room[size - 1]
    return found + (last != _LINE_END)


def lines_before(files: Iterable[Hashable], num_lines: Iterable[int]) -> list[int]:
    """Return how many lines of its file stand before each part.

    Args:
        files: of the parts, in order.
        num_lines: of each.

    >>> lines_before(["a", "a", "b", "b"], [3, 4, 1, 7])
    [0, 3, 0, 1]
    """
    found, latest, before = [], None, 0
    for file, lines in zip(files, num_lines, strict=True):
        before = before if file == latest else 0
        latest = file
        found.append(before)
        before += lines
    return found


_MOST_BYTES = 64 << 20
"""Default bytes of a part, about: some ten thousand documents, a second of a core."""

_LEAST_BYTES = 16 << 20
_PARTS = 64
"""Parts are smaller where there would be fewer of them, that all nodes have work."""

_MOST_FILES = 1_000


@dataclass(frozen=True)
class Part:
    """Some files in order, or some lines of a large one.

    Attributes:
        inputs: the files, and how they are read.
        num_bytes: of all of them, as the driver sees them.
        is_of_folder: whether they were found in folders: then those that are binary are left out.
        extent: the lines that are read, of one file; ``None``: all of all files.
    """

    inputs: Inputs
    num_bytes: int
    is_of_folder: bool
    extent: Extent | None = None

    def to_json(self) -> list[Any]:
        """Return what identifies the part."""
        changed = [None if is_remote(path) else os.stat(path).st_mtime_ns for path in self.inputs.paths]
        lines = [] if self.extent is None else [self.extent.begin, self.extent.end]
        return [list(self.inputs.paths), self.num_bytes, changed, *lines]

    def rows(self) -> Rows:
        """Return the rows of the part."""
        return iter(self.inputs) if self.extent is None else self.inputs.rows_of(0, self.extent)

    def count_lines(self) -> int:
        """Return how many lines it reads, of a part that is some lines."""
        return 0 if self.extent is None else count_lines(self.inputs.paths[0], self.extent)


class _File(NamedTuple):
    """A file that is read.

    Attributes:
        path: of it.
        num_bytes: that it has.
        is_of_folder: whether it was found in a folder.
    """

    path: str
    num_bytes: int
    is_of_folder: bool


def parts_of(inputs: Inputs, size: int | None = None) -> list[Part]:
    """Return the parts of some inputs: files of lines that are not packed are cut, small files put together.

    The parts depend on the files alone. Lines before a part are not counted yet; see `counted`.
    """
    files = list(_files(inputs))
    if size is None:
        size = min(_MOST_BYTES, max(_LEAST_BYTES, sum(file.num_bytes for file in files) // _PARTS))
    parts, together = list[Part](), list[_File]()

    def close() -> None:
        if together:
            paths, kind = [file.path for file in together], together[0].is_of_folder
            num_bytes = sum(file.num_bytes for file in together)
            parts.append(Part(inputs.of(paths, as_of_folder=kind), num_bytes, kind))
            together.clear()

    room = size
    for file in files:
        if file.num_bytes > size and (cut := _cut(inputs, file, size)):
            close()
            parts += cut
            room = size
            continue
        is_other = bool(together) and file.is_of_folder != together[0].is_of_folder
        if is_other or file.num_bytes > room or len(together) == _MOST_FILES:
            close()
            room = size
        together.append(file)
        room -= file.num_bytes
    close()
    return parts


def _cut(inputs: Inputs, file: _File, size: int) -> list[Part]:
    """Return the parts of a large file; none where it cannot be cut."""
    alone = inputs.of([file.path], as_of_folder=file.is_of_folder)
    if not alone.has_plain_lines(file.path):
        return []
    evenly = -(-file.num_bytes // -(-file.num_bytes // size))
    extents = extents_of(file.path, evenly)
    return [Part(alone, file.num_bytes, file.is_of_folder, extent) for extent in extents]


def counted(parts: list[Part], num_lines: list[int]) -> list[Part]:
    """Return the parts with the lines that stand before each in its file: its rows have the numbers, and keys
    that are made of these, that they have where the file is read at once."""
    # A path may be given twice: a file begins with its first extent.
    files = accumulate(part.extent is None or not part.extent.begin for part in parts)
    return [
        part if part.extent is None else replace(part, extent=part.extent._replace(lines_before=before))
        for part, before in zip(parts, lines_before(files, num_lines), strict=True)
    ]


def _files(inputs: Inputs) -> Iterator[_File]:
    """Yield each file."""
    for path in inputs.paths:
        if path == "-":
            raise InputError("stdin", "expected files that other nodes can read, found standard input")
        if is_remote(path) or not os.path.isdir(path):
            num_bytes = inputs.of([path]).total_bytes()
            if num_bytes is None:
                raise InputError(path, "expected a file, found a pipe, which cannot be read twice")
            yield _File(path, num_bytes, False)
            continue
        for file in inputs.files_of(path):
            if not isinstance(file, str):
                raise file
            yield _File(file, os.stat(file).st_size, True)
