"""A file of frames that can be truncated to the end of any frame and appended to from there.

A frame is a part of the file that stands by itself: plain bytes, a member of .gz, a stream of .xz, a frame of
.zst; readers of these formats read them one after the other. Invariant: the bytes of a frame follow from its
content alone.

A frame may be packed and written by a thread, which takes a quarter of a job's work off the others. Then what
is known of the file lags behind by some frames, and an error of the disk comes out with a later one.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Any

from simindex.inputs.streams import require_unpacker

UNDER_WAY = 2
"""Frames that a thread has not written yet."""


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
        in_thread: whether frames are packed and written by a thread; to be set before the first.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path = path
        self.waiting = 0
        self.num_bytes = 0
        self.in_thread = False
        self._pack = packer(name)
        self._pieces: list[bytes | memoryview] = []
        self._file: Any = None
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: deque[Future[int]] = deque()
        self._failure: BaseException | None = None

    def add(self, *content: bytes | memoryview) -> None:
        """Take content for the frame."""
        self._pieces += content
        self.waiting += sum(map(len, content))

    def cut(self) -> None:
        """End the frame and write it, or have it written.

        Raises:
            OSError: it cannot be written, on a full disk for one, or one before it; the error names the file.
        """
        if not self._pieces:
            return
        content = b"".join(self._pieces)
        self._pieces, self.waiting = [], 0
        if not self.in_thread:
            self._write(content)
            return
        self._thread = self._thread or ThreadPoolExecutor(1, thread_name_prefix="simindex-pack")
        self._under_way.append(self._thread.submit(self._write, content))
        if len(self._under_way) > UNDER_WAY:
            self._under_way.popleft().result()

    def _write(self, content: bytes) -> int:
        """Write a frame; returns the bytes of all."""
        if self._failure is not None:
            raise self._failure  # it would stand in the place of the frame that is missing
        try:
            frame = self._pack(content)
            with naming(self.path):
                write_all(self._opened(), frame)
        except BaseException as error:
            self._failure = error
            raise
        self.num_bytes += len(frame)
        return self.num_bytes

    def mark(self) -> Callable[[], int]:
        """Return what returns the bytes of the frames that are cut by now, once they are written; it raises
        what kept one of them from it."""
        if not self._under_way:
            num_bytes = self.num_bytes
            return lambda: num_bytes
        return self._under_way[-1].result

    def sync(self) -> None:
        """Make the frames that are written durable."""
        with naming(self.path):
            os.fsync(self._opened().fileno())

    def finish(self) -> None:
        """Wait for the frames.

        Raises:
            OSError: one of them cannot be written.
        """
        while self._under_way:
            self._under_way.popleft().result()

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
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
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
