"""Files -> bytes: plain, gzip and Zstandard, and where in the file the reading stands.

Owns decompression. Must not know rows. Invariant: a file that ends too early is an error, never a shorter
file.
"""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from simindex.inputs.errors import InputError, optional_module

_READ_BYTES = 1 << 20
_MAX_ZSTD_WINDOW = 1 << 31  # what `zstd --long=31` writes


class _ZstdFile(io.RawIOBase):
    """The content of all frames of a .zst file.

    zstandard's own reader takes the end of a cut-off file for its end, and stops after one frame.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._zstandard = optional_module("zstandard", f"{name}: reading .zst")
        self._frame: Any = None
        self._rest = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._rest or self._file.read(_READ_BYTES)
            if not chunk:
                if self._frame is not None:
                    raise EOFError("compressed file ended before its end-of-frame marker")
                return 0
            if self._frame is None:
                decompressor = self._zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW)
                self._frame = decompressor.decompressobj()
            self._ready = memoryview(self._frame.decompress(chunk))
            self._rest = b""
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
        taken = self._ready[: len(buffer)]
        buffer[: len(taken)] = taken
        self._ready = self._ready[len(taken) :]
        return len(taken)


class Stream:
    """An input opened for reading, decompressed by its last suffix; "-" is standard input.

    Args:
        path: as it was given.

    Attributes:
        file: gives the decompressed bytes.
    """

    def __init__(self, path: str) -> None:
        self._raw: Any = None
        if path == "-":
            self.file: BinaryIO = sys.stdin.buffer
            return
        self._raw = open(path, "rb", buffering=_READ_BYTES)  # noqa: SIM115 - closed by close()
        suffix = Path(path).suffix.lower()
        if suffix == ".gz":
            self.file = cast("BinaryIO", gzip.GzipFile(fileobj=self._raw))
        elif suffix == ".zst":
            self.file = cast("BinaryIO", io.BufferedReader(_ZstdFile(self._raw, path), _READ_BYTES))
        else:
            self.file = self._raw

    def position(self) -> int:
        """Return how many bytes of the file have been read; 0 for standard input."""
        return 0 if self._raw is None or self._raw.closed else int(self._raw.tell())

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._raw is not None:
            self._raw.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def lines(stream: Stream, name: str) -> Iterator[bytes]:
    """Yield the lines of a stream.

    Raises:
        InputError: the file cannot be read on; names the line after which that was.
    """
    number = 0
    try:
        for number, line in enumerate(stream.file, 1):  # noqa: B007 - told below
            yield line
    except Exception as exc:  # gzip, zlib and zstandard each raise errors of their own
        beyond = f" beyond line {number:,}" if number else ""
        raise InputError(name, f"cannot be read{beyond}: {exc}") from exc
