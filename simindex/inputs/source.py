"""One input while it is read: its path, its name in messages, and how far the reading is.

Owns the place of an input in what others are told: keys of rows without one, errors, progress. Must not
know formats: they know it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from simindex.inputs.errors import InputError
from simindex.inputs.streams import Stream


class Source:
    """An input that one format reads, once.

    Args:
        path: of a file or folder; "-" is standard input.

    Attributes:
        path: the same.
        name: what it is called in keys and messages.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "stdin" if path == "-" else path
        self._position: Callable[[], int] = int

    @property
    def bytes_read(self) -> int:
        """Bytes read so far, as they lie on disk; 0 for standard input."""
        return self._position()

    def follow(self, position: Callable[[], int]) -> None:
        """Let `position` tell from now on how many bytes have been read."""
        self._position = position

    def total_bytes(self) -> int | None:
        """Return the bytes of the file, or ``None`` if nobody knows them, as with a pipe."""
        if self.path == "-":
            return None
        status = os.stat(self.path)
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    @contextmanager
    def lines(self) -> Iterator[Iterator[bytes]]:
        """Open the file for the length of the block; gives its lines, decompressed, with their ends.

        Raises:
            InputError: the file cannot be read on; names the line after which that was.
        """
        with Stream(self.path) as stream:
            self.follow(stream.position)
            yield self._lines_of(stream)

    def _lines_of(self, stream: Stream) -> Iterator[bytes]:
        number = 0
        try:
            for number, line in enumerate(stream.file, 1):  # noqa: B007 - told below
                yield line
        except Exception as exc:  # gzip, zlib and zstandard each raise errors of their own
            beyond = f" beyond line {number:,}" if number else ""
            raise InputError(self.name, f"cannot be read{beyond}: {exc}") from exc
