"""Files and standard input -> bytes: plain, gzip and Zstandard, and where in the file the reading stands.

Owns decompression. Must not know rows. Invariants: a file that ends too early is an error, never a shorter
file; what decompression holds does not grow with what a compressed file unfolds to.
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
_UNPACK_BYTES = 1 << 17
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"  # the same, before 3.14

MAX_READ_AHEAD = 1 << 18
"""Compressed bytes that may have been read for what comes behind the newest line."""


def without_packing(path: str) -> str:
    """Return a path without the suffix that says how the file is compressed.

    >>> without_packing("a.jsonl.gz"), without_packing("a.jsonl")
    ('a.jsonl', 'a.jsonl')
    """
    suffix = _packing(path)
    return path[: len(path) - len(suffix)]


def require_unpacker(path: str) -> Any:
    """Return the module that decompresses a file; ``None`` if that is gzip's.

    Raises:
        MissingPackageError: it is not installed.
    """
    if _packing(path) != ".zst":
        return None
    return optional_module(_ZSTD, f"{path}: reading .zst", package="backports.zstd")


def standard_input() -> BinaryIO:
    """Return the bytes of standard input."""
    return sys.stdin.buffer


def _packing(path: str) -> str:
    return next((suffix for suffix in PACKINGS if path.lower().endswith(suffix)), "")


class _Counted:
    """A compressed file, whose bytes are counted as they are read.

    Attributes:
        num_bytes: read so far.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.num_bytes = 0
        self._file = file

    def read(self, size: int) -> bytes:
        """Return the next bytes, up to `size` and up to what is decompressed at a time."""
        chunk = self._file.read(min(size, _UNPACK_BYTES))
        self.num_bytes += len(chunk)
        return chunk


class _ZstdFile(io.RawIOBase):
    """The content of all frames of a .zst file, decompressed as far as there is room for it.

    A file without a frame is empty, as it is with gzip.

    Args:
        file: the compressed bytes.
        zstd: the module that decompresses.
        max_window: bytes of content that a frame may ask to be remembered.
    """

    def __init__(self, file: _Counted, zstd: Any, max_window: int) -> None:
        self._file = file
        self._zstd = zstd
        parameter = zstd.DecompressionParameter.window_log_max
        least, most = parameter.bounds()
        self._options = {parameter: min(max(max_window.bit_length() - 1, least), most)}
        self._frame: Any = None
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._frame is None or self._frame.needs_input:
                chunk = self._rest or self._file.read(_UNPACK_BYTES)
                self._rest = b""
                if not chunk and self._frame is not None:
                    raise EOFError("compressed file ended before its end-of-frame marker")
                if not chunk:
                    return 0
            else:
                chunk = b""
            if self._frame is None:
                self._frame = self._zstd.ZstdDecompressor(options=self._options)
            content = self._frame.decompress(chunk, len(buffer))
            if self._frame.eof:
                self._rest, self._frame = self._frame.unused_data, None
            if content:
                buffer[: len(content)] = content
                return len(content)


class Stream:
    """An input opened for reading, decompressed by its last suffix; "-" is standard input.

    Args:
        path: as it was given.
        max_window: bytes of content that a frame of .zst may ask to be remembered while it is read.

    Attributes:
        file: gives the decompressed bytes.
        is_packed: whether they were compressed.
    """

    def __init__(self, path: str, max_window: int = 1 << 31) -> None:
        self._raw: Any = None
        self._last_position = 0
        self.is_packed = False
        if path == "-":
            self.file = standard_input()
            return
        zstd = require_unpacker(path)
        self._raw = open(path, "rb", buffering=_READ_BYTES)  # noqa: SIM115 - closed by close()
        self._counted = _Counted(self._raw)
        self.is_packed = bool(_packing(path))
        if zstd is not None:
            unpacked = _ZstdFile(self._counted, zstd, max_window)
            self.file = cast("BinaryIO", io.BufferedReader(unpacked, _UNPACK_BYTES))
        elif self.is_packed:
            self.file = cast("BinaryIO", gzip.GzipFile(mode="rb", fileobj=cast("BinaryIO", self._counted)))
        else:
            self.file = self._raw

    @property
    def packed_bytes(self) -> int:
        """Compressed bytes read so far; 0 for a file that is not compressed."""
        return self._counted.num_bytes if self.is_packed else 0

    def position(self) -> int:
        """Return how many bytes of the file have been read, also when it is closed; 0 for standard input."""
        if self.is_packed:
            return self._counted.num_bytes
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
