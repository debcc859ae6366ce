"""A file in frames: what is written can be cut back to the end of any frame, and gone on with there.

Owns compression of outputs and what becomes durable when. A frame is a part of the file that stands by
itself: plain bytes, a member of .gz, a stream of .xz, a frame of .zst; readers of these formats read them one
after the other. Invariant: the bytes of a frame follow from its content alone.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import Any

from simindex.inputs.streams import require_unpacker


def packer(name: str) -> Callable[[bytes], bytes]:
    """Return what makes a frame of content, by the suffix of the file's name.

    Raises:
        MissingPackageError: the package that does it is not installed.
    """
    module: Any = require_unpacker(name)
    if module is None:
        return bytes
    if module.__name__ == "gzip":
        return lambda content: bytes(module.compress(content, 6, mtime=0))
    return lambda content: bytes(module.compress(content))


class FramedFile:
    """A file that is written frame by frame.

    Args:
        path: of the file as long as it is not complete.
        name: that it will have, whose suffix says how it is compressed.

    Attributes:
        waiting: bytes that wait for the end of the frame.
        num_bytes: of whole frames that are written.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.waiting = 0
        self.num_bytes = 0
        self._pack = packer(name)
        self._pieces: list[bytes] = []
        self._file: Any = None

    def add(self, *content: bytes) -> None:
        """Take content for the frame."""
        self._pieces += content
        self.waiting += sum(map(len, content))

    def cut(self) -> None:
        """End the frame and write it.

        Raises:
            OSError: it cannot be written, on a full disk for one; the error names the file.
        """
        if not self._pieces:
            return
        frame = self._pack(b"".join(self._pieces))
        self._pieces, self.waiting = [], 0
        left = memoryview(frame)
        with naming(self.path):
            while left:
                left = left[self._opened().write(left) :]  # a full disk takes a part before it says so
        self.num_bytes += len(frame)

    def sync(self) -> None:
        """Make the frames durable."""
        with naming(self.path):
            os.fsync(self._opened().fileno())

    def begin_at(self, num_bytes: int) -> None:
        """Go on behind so many bytes of whole frames; what is behind them goes.

        Raises:
            OSError: the file is missing, or shorter.
        """
        found = os.stat(self.path).st_size if os.path.exists(self.path) else 0
        if found < num_bytes:
            raise OSError(errno.EIO, f"expected at least {num_bytes:,} bytes, found {found:,}", self.path)
        self.num_bytes = num_bytes
        self._opened().truncate(num_bytes)
        self._opened().seek(num_bytes)

    def close(self) -> None:
        """Close the file; a frame that is not cut is lost."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> Any:
        if self._file is None:
            with naming(self.path):
                self._file = open(  # noqa: SIM115 - closed by close()
                    os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0
                )
        return self._file


class naming:  # noqa: N801 - reads as a word of the statement
    """Give an error of the system the name of the file that it is about."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError) and error.filename is None:
            raise type(error)(error.errno, error.strerror, self._path) from error


def sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
