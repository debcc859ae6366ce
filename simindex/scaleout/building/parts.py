"""The sources of a build in parts: what one task reads.

Owns where a part ends. Must not read rows. Invariant: the same sources give the same parts, in order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

from simindex.inputs import InputError, Inputs
from simindex.inputs.reader import Rows
from simindex.inputs.source import Extent
from simindex.remote import is_remote
from simindex.scaleout.parts.lines import count_lines, extents_of, lines_before

_MOST_BYTES = 64 << 20
"""Bytes of a part, about, where nobody says how many: some ten thousand documents, a second of a core."""

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
        """Return what tells the part from another one."""
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

    Args:
        size: bytes of a part, about; a file that cannot be cut may have more. ``None``: 16 to 64 MiB, for 64
            parts if that can be.

    Raises:
        InputError: one is standard input, which other nodes cannot read, or a folder cannot be read.
        OSError: one cannot be read.
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
    that are made of these, that they have where the file is read at once.

    Args:
        num_lines: of each; of one that is whole files any number.
    """
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
