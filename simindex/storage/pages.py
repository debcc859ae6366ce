"""Locate large values in LMDB's memory map without touching them.

py-lmdb reads a byte of every page of a value before it hands the value out, so an index whose chunks were
asked for in that way would be read whole when it is opened. LMDB keeps a value that is too long for a leaf
page on pages of its own (overflow pages) and leaves their number in the leaf, right behind the key; this
module reads it there. What does not look as expected is answered with ``None``, and the caller asks py-lmdb,
which is slower and right with any engine: that of another LMDB (1.0 has a longer page header) is never looked
into.

Source: MDB_page, MDB_db, MDB_meta in mdb.c of LMDB 0.9, whose data format (1) has been the same since 2011.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import lmdb
import numpy as np

from simindex import _kernel
from simindex.storage.page_file import HEADER, LEAF, META_BYTES, PAGE_HEADER_BYTES, DatabaseRecord, meta_of

KNOWN_ENGINES = frozenset({(0, 9)})
"""(major, minor) of the LMDBs whose pages are laid out as above."""

_IS_KNOWN_MACHINE = sys.byteorder == "little" and sys.maxsize == 2**63 - 1

_VALUES_AHEAD = 16
"""So many values, of some MiB at most, are asked for before the first of them is read."""


def engine_of(env: lmdb.Environment) -> tuple[int, int]:
    """Return (major, minor) of the LMDB that has the file open: py-lmdb's own, or the system's."""
    major, minor, *_ = env.lib_version()
    return major, minor


def _bytes_at(address: int, size: int) -> bytes:
    try:
        return ctypes.string_at(address, size)
    except ctypes.ArgumentError as exc:  # ctypes's word for a number that it had no memory for
        raise MemoryError(f"no memory to read {size} bytes") from exc


class FoundValues(NamedTuple):
    """Neighbouring keys of one length, and where their values lie.

    Attributes:
        keys: uint8, shape (n, bytes of a key).
        addresses: uint64, shape (n,); 0: a page that does not look as expected.
        lengths: int64, shape (n,); in bytes, where there is an address.
        held: copies of the values that lie in leaf pages, which move; their addresses are of the copies.
    """

    keys: np.ndarray
    addresses: np.ndarray
    lengths: np.ndarray
    held: list[bytes]


class MappedFile:
    """A descriptor of the file behind a map, open for as long as somebody has this object.

    What is read through LMDB's map does not count as used: it is advised as random, and since Linux 6.3 such
    pages leave the cache in the order in which they came, however often they are read. What is read through a
    descriptor counts.

    Attributes:
        place: address and bytes of the map, and the descriptor.
    """

    __slots__ = ("place",)

    def __init__(self, descriptor: int, base: int, num_bytes: int) -> None:
        self.place = base, num_bytes, descriptor

    @classmethod
    def open(cls, path: str, identity: tuple[int, int], base: int, num_bytes: int) -> MappedFile | None:
        """Open a file; ``None`` where it cannot be, or has another (device, inode)."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        mapped = cls(descriptor, base, num_bytes)
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) != identity:
            return None
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        return mapped

    def length(self) -> int:
        """Return the bytes of the file now."""
        return os.fstat(self.place[2]).st_size

    def let_go(self, address: int, length: int) -> None:
        """Let the whole pages among some bytes of the map leave the memory; other bytes stay as they are."""
        _kernel.let_go(*self.place, address, length)

    def bring(self, addresses: np.ndarray, lengths: np.ndarray) -> int:
        """Read values of the map of which something is missing, in order of their places and through the
        descriptor; returns how many bytes were read. What lies elsewhere is in memory."""
        base, num_bytes, descriptor = self.place
        wanted = sorted(zip(addresses.tolist(), lengths.tolist(), strict=True))
        missing = [
            (address, length)
            for address, length in wanted
            if 0 <= address - base < num_bytes and _kernel.missing_pages(address, length)
        ]
        room = memoryview(bytearray(max([length for _, length in missing], default=0)))
        for nth, (address, length) in enumerate(missing):
            for ahead in missing[nth + _VALUES_AHEAD if nth else 0 : nth + _VALUES_AHEAD + 1]:
                _kernel.stream_ahead(*ahead)
            os.preadv(descriptor, [room[:length]], address - base)
        return sum(length for _, length in missing)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        """Ctrl-C may come before there is anything to close; at exit `os` may be gone."""
        if hasattr(self, "place"):
            close(self.place[2])


@dataclass(frozen=True)
class PageMap:
    """LMDB's pages in memory.

    Attributes:
        base: address of page 0.
        page_bytes: bytes of a page, a power of two.
    """

    base: int
    page_bytes: int

    @classmethod
    def around(cls, env: lmdb.Environment, value: memoryview, num_pages: int) -> PageMap | None:
        """Return the map that a short value (one that lies in a leaf page) is part of, where so many pages
        are in use; ``None`` where the engine or the data format is another than the known."""
        if not _IS_KNOWN_MACHINE or engine_of(env) not in KNOWN_ENGINES:
            return None
        page_bytes = env.stat()["psize"]
        page = _kernel.address(value) & -page_bytes
        header = np.frombuffer(_bytes_at(page, PAGE_HEADER_BYTES), dtype=HEADER)[0]
        if header["flags"] != LEAF or not 0 < header["number"] < num_pages:
            return None
        base = page - int(header["number"]) * page_bytes
        return cls(base, page_bytes) if meta_of(_bytes_at(base, META_BYTES)) else None

    def values(self, tree: DatabaseRecord, first: bytes, count: int, num_pages: int) -> FoundValues | None:
        """Return where the values of neighbouring keys lie, by a walk of its own over the tree; ``None``
        where there are fewer keys of the length of the first, or a page does not look as expected."""
        keys = np.empty((count, len(first)), dtype=np.uint8)
        addresses, lengths = np.empty(count, dtype=np.uint64), np.empty(count, dtype=np.int64)
        are_large = np.empty(count, dtype=bool)
        columns = keys, addresses, lengths, are_large
        if (
            _kernel.find_values(self.base, num_pages, self.page_bytes, tree.root, tree.depth, first, *columns)
            < count
        ):
            return None
        held = []
        for at in np.flatnonzero(~are_large & (addresses > 0)).tolist():
            held.append(_bytes_at(int(addresses[at]), int(lengths[at])))
            addresses[at] = _kernel.address(held[-1])
        return FoundValues(keys, addresses, lengths, held)
