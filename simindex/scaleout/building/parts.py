"""The sources of a build in parts: what one task reads.

Owns where a part ends. Must not read rows. Invariant: the same sources give the same parts, in order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from simindex.inputs import InputError, Inputs
from simindex.inputs.remote import is_remote

PART_BYTES = 64 << 20
"""Files are read by one task until they have so many bytes; a longer file is one part."""

_MOST_FILES = 1_000


@dataclass(frozen=True)
class Part:
    """Some files in order.

    Attributes:
        inputs: them, and how they are read.
        num_bytes: of all of them, as the driver sees them.
        is_of_folder: whether they were found in folders: then those that are binary are left out.
    """

    inputs: Inputs
    num_bytes: int
    is_of_folder: bool

    def to_json(self) -> list[Any]:
        """Return what tells the part from another one."""
        changed = [None if is_remote(path) else os.stat(path).st_mtime_ns for path in self.inputs.paths]
        return [list(self.inputs.paths), self.num_bytes, changed]


def parts_of(inputs: Inputs) -> list[Part]:
    """Return the parts of some inputs.

    Raises:
        InputError: one is standard input, which other nodes cannot read, or a folder cannot be read.
        OSError: one cannot be read.
    """
    parts, files, room, kind = list[Part](), list[str](), PART_BYTES, False

    def close() -> None:
        nonlocal files, room
        if files:
            parts.append(Part(inputs.of(files, as_of_folder=kind), PART_BYTES - room, kind))
        files, room = [], PART_BYTES

    for path, num_bytes, is_of_folder in _files(inputs):
        if is_of_folder != kind or num_bytes > room or len(files) == _MOST_FILES:
            close()
        kind = is_of_folder
        files.append(path)
        room -= num_bytes
    close()
    return parts


def _files(inputs: Inputs) -> Iterator[tuple[str, int, bool]]:
    """Yield (path, bytes, whether it was found in a folder) of each file."""
    for path in inputs.paths:
        if path == "-":
            raise InputError("stdin", "expected files that other nodes can read, found standard input")
        if is_remote(path) or not os.path.isdir(path):
            num_bytes = inputs.of([path]).total_bytes()
            if num_bytes is None:
                raise InputError(path, "expected a file, found a pipe, which cannot be read twice")
            yield path, num_bytes, False
            continue
        for file in inputs.files_of(path):
            if not isinstance(file, str):
                raise file
            yield file, os.stat(file).st_size, True
