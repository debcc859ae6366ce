"""Write files so that they are whole and durable, with the name of the file in each error; pack frames."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from simindex.inputs.streams import require_unpacker

GZIP_LEVEL = 5
"""A deduplication of abstracts into a .gz takes 0.64 of the processor time of zlib's own level, 6, for a file
that is 1.7 % larger; with 4 it is 0.45, for 6 %. zstd keeps its own level, 3: with 1 it saves 1.4 us of some
12 a row, for 12 %."""


def packer(name: str) -> Callable[[bytes], bytes]:
    """Return what makes a frame of content, by the suffix of the file's name."""
    module: Any = require_unpacker(name)
    if module is None:
        return bytes
    if module.__name__ == "gzip":
        return lambda content: bytes(module.compress(content, GZIP_LEVEL, mtime=0))
    return lambda content: bytes(module.compress(content))


class naming:  # noqa: N801 - reads as a word of the statement
    """Give an error of the system the name of the file that it is about."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError) and error.filename is None:
            raise type(error)(error.errno, error.strerror, self._path) from error


def write_all(file: Any, content: bytes | memoryview) -> None:
    """Write to a file without a buffer: a full disk takes a part before it says so."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Give a file that takes the place of the one at a path when the block ends well: whole, and durable but
    for its name."""
    with naming(path):
        with open(path + ".partial", "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".partial", path)


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
