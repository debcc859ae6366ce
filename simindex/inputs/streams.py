"""Files and standard input -> bytes: plain, gzip and Zstandard, and where in the file the reading stands.

Owns decompression. Must not know rows. Invariant: a file that ends too early is an error, never a shorter
file.
"""

from __future__ import annotations

import gzip
import io
import sys
from typing import Any, BinaryIO, cast

from simindex.inputs.errors import optional_module

PACKINGS = (".gz", ".zst")
"""Suffixes of compressed files."""

_READ_BYTES = 1 << 20
_MAX_ZSTD_WINDOW = 1 << 31  # what `zstd --long=31` writes


def without_packing(path: str) -> str:
    """Return a path without the suffix that says how the file is compressed.

    >>> without_packing("a.jsonl.gz"), without_packing("a.jsonl")
    ('a.jsonl', 'a.jsonl')
    """
    suffix = _packing(path)
    return path[: len(path) - len(suffix)]


def require_unpacker(path: str) -> Any:
    """Return the package that decompresses a file; ``None`` if Python itself can.

    Raises:
        MissingPackageError: it is not installed.
    """
    return optional_module("zstandard", f"{path}: reading .zst") if _packing(path) == ".zst" else None


def standard_input() -> BinaryIO:
    """Return the bytes of standard input."""
    return sys.stdin.buffer


def _packing(path: str) -> str:
    return next((suffix for suffix in PACKINGS if path.lower().endswith(suffix)), "")


class _ZstdFile(io.RawIOBase):
    """The content of all frames of a .zst file.

    zstandard's own reader takes the end of a cut-off file for its end, and stops after one frame.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._zstandard = require_unpacker(name)
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
        self._last_position = 0
        if path == "-":
            self.file = standard_input()
            return
        self._raw = open(path, "rb", buffering=_READ_BYTES)  # noqa: SIM115 - closed by close()
        packing = _packing(path)
        if packing == ".gz":
            self.file = cast("BinaryIO", gzip.GzipFile(fileobj=self._raw))
        elif packing == ".zst":
            self.file = cast("BinaryIO", io.BufferedReader(_ZstdFile(self._raw, path), _READ_BYTES))
        else:
            self.file = self._raw

    def position(self) -> int:
        """Return how many bytes of the file have been read, also when it is closed; 0 for standard input."""
        if self._raw is not None and not self._raw.closed:
            self._last_position = int(self._raw.tell())
        return self._last_position

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._raw is not None:
            self.position()
            self._raw.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
