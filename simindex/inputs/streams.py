"""Decompress and decode files and standard input: plain, gzip, xz and Zstandard; report the position.

Invariants: a file that ends too early is an error, never a shorter file; what decompression holds does not
grow with what a compressed file unfolds to; what is no character of the file's encoding is not UTF-8 either
when it comes out.
"""

from __future__ import annotations

import gzip
import importlib
import io
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, BinaryIO, cast

from simindex import remote
from simindex.errors import optional_module
from simindex.remote import is_remote

PACKINGS = (".gz", ".xz", ".zst")
"""Suffixes of compressed files."""

_READ_BYTES = 1 << 20
_UNPACK_BYTES = 1 << 17
_LZMA_BYTES = 1 << 20  # what liblzma takes beside the window
ZSTD_MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"  # the same, before 3.14


def without_packing(path: str) -> str:
    """Return a path without the suffix that says how the file is compressed."""
    suffix = _packing(path)
    return path[: len(path) - len(suffix)]


def require_unpacker(path: str) -> Any:
    """Return the module that decompresses a file, by the end of its name; ``None`` if it is not compressed.
    Raises MissingPackageError where the one for .zst is not installed."""
    packing = _packing(path)
    if packing == ".zst":
        return optional_module(ZSTD_MODULE, f"{path}: reading .zst", package="backports.zstd")
    return importlib.import_module("lzma") if packing == ".xz" else gzip if packing else None


def standard_input() -> BinaryIO:
    """Return standard input as a file of bytes."""
    return sys.stdin.buffer


def _packing(path: str) -> str:
    name = remote.name_of(path) if is_remote(path) else path
    return next(filter(name.lower().endswith, PACKINGS), "")


class _Counted:
    """A compressed file, whose bytes are counted as they are read, so many at a time as are decompressed."""

    def __init__(self, file: BinaryIO) -> None:
        self.num_bytes = 0
        self._file = file

    def read(self, size: int) -> bytes:
        chunk = self._file.read(min(size, _UNPACK_BYTES))
        self.num_bytes += len(chunk)
        return chunk


class _Chunks(io.RawIOBase):
    """What a generator of bytes yields, as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._chunk = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._chunk:
            if (chunk := next(self._chunks, None)) is None:
                return 0
            self._chunk = memoryview(chunk)
        size = min(len(buffer), len(self._chunk))
        buffer[:size] = self._chunk[:size]
        self._chunk = self._chunk[size:]
        return size


def _unpacked(file: _Counted, new_part: Callable[[], Any], padding: bytes) -> Iterator[bytes]:
    """Yield the decompressed content of all parts of a .zst or .xz file, as the consumer asks for it. Raises
    EOFError where the last part has no end. `new_part` makes the decompressor of a part; bytes of `padding`
    may stand between parts."""
    rest = b""
    while rest := rest or file.read(_UNPACK_BYTES):
        if not (rest := rest.lstrip(padding) if padding else rest):
            continue
        part = new_part()
        while not part.eof:
            if part.needs_input and not (rest := rest or file.read(_UNPACK_BYTES)):
                raise EOFError("compressed file ended before its end-of-frame marker")
            yield part.decompress(rest, _UNPACK_BYTES)
            rest = b""
        rest = part.unused_data


def _file_of(chunks: Iterator[bytes]) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(_Chunks(chunks), _UNPACK_BYTES))


class Stream:
    """An input opened for reading, decompressed by its last suffix; "-" is standard input. `max_window`:
    bytes that a part of .zst or .xz may ask to be remembered."""

    def __init__(self, path: str, max_window: int = 1 << 31) -> None:
        self._raw: Any = None
        self._has_position = False
        self.is_packed = False
        self.file = standard_input() if path == "-" else self._opened(path, max_window)

    def _opened(self, path: str, max_window: int) -> BinaryIO:
        unpacker = require_unpacker(path)
        if is_remote(path):
            self._raw = remote.opened(path)
        else:
            self._raw = open(path, "rb", buffering=_READ_BYTES)  # noqa: SIM115 - closed by close()
        self._has_position = self._raw.seekable()
        if unpacker is None:
            return cast("BinaryIO", self._raw)
        self.is_packed, self._counted = True, _Counted(self._raw)
        if unpacker is gzip:
            return cast("BinaryIO", gzip.GzipFile(mode="rb", fileobj=cast("BinaryIO", self._counted)))
        if _packing(path) == ".xz":
            memory = max_window + _LZMA_BYTES
            new_part = partial(unpacker.LZMADecompressor, unpacker.FORMAT_XZ, memlimit=memory)
            return _file_of(_unpacked(self._counted, new_part, padding=b"\0"))
        parameter = unpacker.DecompressionParameter.window_log_max
        least, most = parameter.bounds()
        options = {parameter: min(max(max_window.bit_length() - 1, least), most)}
        return _file_of(_unpacked(self._counted, partial(unpacker.ZstdDecompressor, options=options), b""))

    def position(self) -> int:
        """Return how many bytes of the file have been read; 0 of standard input, and of a pipe that is not
        compressed."""
        if self.is_packed:
            return self._counted.num_bytes
        return int(self._raw.tell()) if self._has_position else 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file; standard input stays open."""
        if self._raw is not None:
            self._raw.close()
