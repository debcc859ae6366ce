"""An output file that becomes visible under its name when it is complete, and what writes and packs files.

A job writes rows, cuts frames where it wants to, and asks for a mark of what is whole; given the mark back,
it goes on there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from typing import IO, Any

from simindex import system
from simindex.corpus.entries import Entry
from simindex.corpus.outputs.rows import Note
from simindex.inputs.streams import require_unpacker
from simindex.system import sync as sync_file

GZIP_LEVEL = 5
"""A deduplication of abstracts into a .gz takes 0.64 of the processor time of zlib's own level, 6, for a file
that is 1.7 % larger; with 4 it is 0.45, for 6 %. zstd keeps its own level, 3: with 1 it saves 1.4 us of some
12 a row, for 12 %."""


def packer(name: str) -> Callable[[bytes], bytes]:
    """Return the function that makes a frame of content: packed as the suffix of the file's name says, else
    as it is."""
    module: Any = require_unpacker(name)
    if module is None:
        return bytes
    if module.__name__ == "gzip":
        return lambda content: bytes(module.compress(content, GZIP_LEVEL, mtime=0))
    return lambda content: bytes(module.compress(content))


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Run the block; an OSError of it that names no file is raised as one that names `path`."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise type(error)(error.errno, error.strerror, path) from error


def opened(path: str) -> FileIO:
    """Open a file to be read and written without a buffer, from its beginning; it is made where it is
    missing, and is not cut off."""
    with naming(path):
        return FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")


def write_all(file: Any, content: bytes | memoryview) -> None:
    """Write the whole content to a file without a buffer, whose write may take a part only: a full disk does
    so before it fails."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Give a file that takes the place of the one at a path when the block ends well: whole, and durable but
    for its name. It is PATH.partial until then, which stays where the block fails."""
    with naming(path):
        with open(path + ".partial", "wb") as file:
            yield file
            file.flush()
            sync_file(file.fileno())
        os.replace(path + ".partial", path)


@contextmanager
def whole_file(path: str) -> Iterator[IO[bytes]]:
    """Give a file that takes the place of the one at `path` when the block ends well, whole, and durable but
    for its name. As of `system.whole_file` several processes may write it at once, and nothing is left where
    the block fails. Where `path` is a link, the file that it leads to is replaced; errors name `path`."""
    with naming(path), system.whole_file(os.path.realpath(path)) as file:
        yield file


def sync(path: str) -> None:
    """Make a file durable, or the names in a folder."""
    with naming(path):
        file = os.open(path or ".", os.O_RDONLY)
        try:
            sync_file(file)
        finally:
            os.close(file)


Mark = Callable[[], Any]
"""Returns what an output goes on from, as JSON has it."""


class Output:
    """Where rows go: nowhere, unless a subclass says where. Bytes `waiting` for the end of their frame;
    `has_head`: whether without rows there are columns still."""

    has_head = False
    waiting = 0
    num_bytes = 0

    def write(self, row: Entry, note: Note | None = None) -> None:
        """Take a row for the frame."""

    def write_head(self, row: Entry, note: Note | None = None) -> None:
        """Write what an output of no rows has: the columns of such a row."""

    def cut(self) -> None:
        """End the frame."""

    def mark(self) -> Mark:
        """Return a function that returns what `begin_at` goes on from: here, without a file, ``None``. That
        of a file tells which frames are cut by now; it waits for them, and raises what kept one from being
        written."""
        return lambda: None

    def sync(self) -> None:
        """Make the frames durable that are written."""

    def finish(self) -> None:
        """Wait for all frames, and raise what kept one from being written."""

    def begin_at(self, mark: Any) -> None:
        """Go on from a mark; ``None``: from the beginning."""

    def complete(self) -> None:
        """Make the file whole, with nothing to be added, under its temporary name; may be called again."""

    def publish(self) -> None:
        """Give the complete file its name; may be called again."""

    def close(self) -> None:
        """Close the files; a frame that is not cut is lost."""


class CallOutput(Output):
    """A callable that is given the rows. Nothing can be taken back from it."""

    def __init__(self, take: Callable[[Any], object], make: Callable[[Entry, Note | None], Any]) -> None:
        self._take, self._make = take, make

    def write(self, row: Entry, note: Note | None = None) -> None:
        """Call the callable with what `make` makes of a row and its note."""
        self._take(self._make(row, note))


def temporary(path: str) -> str:
    """Return the path of a file until it is complete: ``.NAME.partial`` in its folder."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.partial")


def folder_of_parts(path: str) -> str:
    """Return the folder that has the parts of a Parquet output until it is complete."""
    return f"{temporary(path)}.parts"


def publish(path: str) -> None:
    """Give a complete file its name, durably, where it has not got it yet."""
    if os.path.exists(temporary(path)):
        with naming(path):
            os.replace(temporary(path), path)
        sync(os.path.dirname(path))
