"""LMDB's pages: those of a data file with its two meta pages, and those of a map, with large values that are
located without touching them.

py-lmdb reads a byte of every page of a value before it hands the value out, so an index whose chunks were
asked for in that way would be read whole when it is opened. LMDB keeps a value that is too long for a leaf
page on pages of its own (overflow pages) and leaves their number in the leaf, right behind the key, where
`PageMap` reads it.

Source: MDB_page, MDB_db, MDB_meta in mdb.c of LMDB 0.9, whose data format (1) has been the same since 2011;
the nodes of pages are read by the kernel (`trees.c`), which follows no page that is not sound: its nodes lie
in it, fill it without gaps or overlaps, and have keys of 1 to 16 bytes (in a branch the first may have none),
in strictly ascending order.

Invariant: no offset behind the end of the file is read; a file that is cut short while it is mapped kills
the process, so a process that must go on reads in a child.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import NamedTuple

import lmdb
import numpy as np

from simindex import _kernel
from simindex.errors import CorruptIndexError
from simindex.storage.folder import DATA_FILE, data_file, identity_of
from simindex.storage.lmdb_file import ENGINE, MAX_READERS, is_in_place, kept_open, translated
from simindex.system import read_at_random

DATABASE = struct.Struct("<IHHQQQQQ")  # padding, flags, depth, pages of three kinds, entries, root
_META = struct.Struct("<II8xQ" + 2 * DATABASE.format.lstrip("<") + "QQ")
"""Magic, data format, (address of the map), size of the map; free list, names; last page, transaction."""

MAGIC, _DATA_FORMAT = 0xBEEFC0DE, 1

PAGE_HEADER_BYTES = 16
LEAF, OVERFLOW = 0x02, 0x04
"""Flags of a page: a leaf, the first one of a large value."""

META_PAGES = 2
"""Pages 0 and 1 of every file."""

NO_PAGE = 2**64 - 1
"""The root of an empty tree."""

MOST_DEPTH = 32
"""Levels of a tree: CURSOR_STACK of LMDB."""

HEADER = np.dtype(
    {
        "names": ["number", "flags", "num_pages"],
        "formats": ["<i8", "<u2", "<u4"],
        "offsets": [0, 10, 12],
        "itemsize": PAGE_HEADER_BYTES,
    }
)
"""Of a page; `num_pages` is of the first page of a large value: how many it has."""

META_BYTES = PAGE_HEADER_BYTES + _META.size
"""Of a meta page; LMDB writes nothing behind them."""

COMMIT_AT = META_BYTES - 8
"""Where in a meta page the number of its commit lies."""

_PAGE_SIZES: tuple[int, ...] = 512, 1024, 2048, 4096, 8192, 16384, 32768
LONGEST_METAS = META_PAGES * _PAGE_SIZES[-1]
"""Bytes at the beginning of a file that have both meta pages, whatever the size of a page."""

_MORE_PAGES = 1 << 16


BIG_VALUE, SUB_TREE = 0x01, 0x02
"""Flags of a leaf's node: its value has pages of its own, or is the record of a named database."""

KEY_ROOM = 16
"""No key of an index is longer."""

_FIELDS = {
    "page": (0, "<i8"),
    "key": (8, f"S{KEY_ROOM}"),
    "octets": (8, ("u1", KEY_ROOM)),
    "key_bytes": (24, "<i8"),
    "child": (32, "<i8"),
    "length": (32, "<i8"),
    "flags": (40, "<i8"),
    "offset": (48, "<i8"),
    "value_page": (48, "<i8"),
}
_OFFSETS, _FORMATS = zip(*_FIELDS.values(), strict=True)

NODE = np.dtype({"names": [*_FIELDS], "formats": [*_FORMATS], "offsets": [*_OFFSETS], "itemsize": 56})
"""A node as the kernel writes it.

`page` is the index of its page among those that were read; `key` is padded with zeros, and `octets` are its
bytes. A branch has the number of the `child` page; a leaf the `length` of the value, and where that begins:
its `offset` in the file, or with `BIG_VALUE` its `value_page`.
"""


class DatabaseRecord(NamedTuple):
    """What LMDB keeps of a tree.

    Attributes:
        pad: of no meaning but in the record of the free list, where it is the size of a page.
        flags: 0 in a simindex index but for the free list's integer keys.
        root: number of its page; `NO_PAGE` where it is empty.
    """

    pad: int
    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int

    @classmethod
    def of(cls, value: bytes) -> DatabaseRecord | None:
        """Unpack a record as it is stored; ``None`` for another length, or a depth that no tree has."""
        if len(value) != DATABASE.size:
            return None
        found = cls(*DATABASE.unpack(value))
        return found if found.depth <= MOST_DEPTH else None


class Meta(NamedTuple):
    """A meta page.

    Attributes:
        free, main: the trees of the free list and of the named databases.
        last_page: number of the last page that was ever used.
    """

    free: DatabaseRecord
    main: DatabaseRecord
    last_page: int
    transaction: int


@dataclass(frozen=True)
class PageFile:
    """The pages of a data file, from its bytes (`octets`, uint8), as the state of `meta` has them."""

    octets: np.ndarray
    page_bytes: int
    num_pages: int
    meta: Meta

    @property
    def headers(self) -> np.ndarray:
        """The header of every page, of dtype `HEADER`; not copied."""
        return np.ndarray(self.num_pages, HEADER, self.octets.data, strides=(self.page_bytes,))

    @property
    def num_known(self) -> int:
        """How many pages the state of `meta` knows of; free ones at its end may not be in the file yet. Equal
        to `num_used` where that is more than twice what the file holds and 65,536, which is damage."""
        known = self.meta.last_page + 1
        return known if known <= 2 * self.num_pages + _MORE_PAGES else self.num_used

    @cached_property
    def num_used(self) -> int:
        """How many pages the state of `meta` knows of, at most as many as the file holds."""
        return min(self.meta.last_page + 1, self.num_pages)

    def value(self, offset: int, length: int) -> memoryview:
        """Return `length` bytes of the file from the offset `offset` on, as a view."""
        return self.octets[offset : offset + length].data


def meta_of(content: bytes) -> Meta | None:
    """Unpack a meta page from its first `META_BYTES`; ``None`` where these are of no meta page."""
    if len(content) < META_BYTES:
        return None
    magic, data_format, _, *fields = _META.unpack_from(content, PAGE_HEADER_BYTES)
    free, main = DatabaseRecord(*fields[:8]), DatabaseRecord(*fields[8:16])
    if (magic, data_format) != (MAGIC, _DATA_FORMAT) or max(free.depth, main.depth) > MOST_DEPTH:
        return None
    return Meta(free, main, *fields[16:])


def metas_of(octets: np.ndarray) -> tuple[int, list[Meta | None]]:
    """Return the bytes of a page (the system's where both meta pages are damaged), and what meta pages 0 and
    1 say, ``None`` for a damaged one. `octets`: the beginning of a file, or all of it."""
    sizes = _PAGE_SIZES
    first = meta_of(octets[:META_BYTES].tobytes())
    if first is not None and first.free.pad in sizes:
        sizes = (first.free.pad,)
    for size in sizes:
        second = meta_of(octets[size : size + META_BYTES].tobytes())
        if second is not None and second.free.pad == size:
            return size, [first if first is not None and first.free.pad == size else None, second]
    if first is not None and len(sizes) == 1:
        return sizes[0], [first, None]
    return mmap.PAGESIZE, [None, None]


def read_nodes(
    file: PageFile, pages: np.ndarray, *, are_leaves: bool, integer_keys: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes (dtype `NODE`, page after page) of those pages that are sound, and bool for each page,
    whether it is. `pages`: numbers of leaf pages (`are_leaves`), or of branch pages; `integer_keys`: of the
    free list."""
    pages = np.ascontiguousarray(pages, dtype=np.int64)
    nodes = np.empty(len(pages) * (file.page_bytes // 12 + 1), dtype=NODE)
    is_sound = np.empty(len(pages), dtype=bool)
    found = _kernel.read_nodes(file.octets, file.page_bytes, pages, are_leaves, integer_keys, is_sound, nodes)
    return nodes[:found], is_sound


def pages_of_values(file: PageFile, big: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many pages each large value needs, and whether these lie in the file (bool); `big`: their
    nodes. The pages are not looked at."""
    needed = (PAGE_HEADER_BYTES + big["length"] + file.page_bytes - 1) // file.page_bytes
    return needed, (big["value_page"] > 1) & (big["value_page"] + needed <= file.num_used)


def mapped(file: int, path: str, advice: int = mmap.MADV_NORMAL) -> np.ndarray:
    """Return an open data file, by its descriptor, as uint8: mapped, not read; empty where the file is.
    `path` is that of the index, for errors; raises SimIndexError where no address space is left."""
    if not os.fstat(file).st_size:
        return np.empty(0, dtype=np.uint8)
    try:
        octets = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
    except OSError as exc:  # no address space
        raise translated(exc, path) from exc
    octets.madvise(advice)
    return np.frombuffer(octets, dtype=np.uint8)


def _mapped(path: str, data: str = "") -> np.ndarray:
    with open(data or data_file(path), "rb") as file:
        return mapped(file.fileno(), path)


def read_pages(path: str, data: str = "") -> PageFile:
    """Map the newest data file of an index, or the one at `data`, in its newest state. Raises
    CorruptIndexError where it is empty, or no meta page is left."""
    octets = _mapped(path, data)
    if not len(octets):
        raise CorruptIndexError(f"{path}: {DATA_FILE} is empty; restore a backup", path=path)
    pages = pages_of(octets)
    if pages is None:
        raise CorruptIndexError(
            f"{path}: expected a meta page of LMDB in {DATA_FILE}, found none; restore a backup, or repair "
            "it",
            path=path,
        )
    return pages


def pages_of(octets: np.ndarray, transaction: int | None = None) -> PageFile | None:
    """Return the pages of a mapped file in its newest state, or in that of commit `transaction`; ``None``
    where no meta page is of it."""
    page_bytes, metas = metas_of(octets)
    known = [meta for meta in metas if meta and transaction in (None, meta.transaction)]
    if not known:
        return None
    newest = max(known, key=attrgetter("transaction"))
    return PageFile(octets, page_bytes, len(octets) // page_bytes, newest)


def bare_pages(path: str) -> PageFile | None:
    """Map the newest data file of an index as if its trees were empty, for a look at each page by itself;
    ``None`` where it is too short to have any page but meta pages."""
    octets = _mapped(path)
    if len(octets) < mmap.PAGESIZE * (META_PAGES + 1):
        return None
    page_bytes, _ = metas_of(octets)
    nothing = DatabaseRecord(page_bytes, 0, 0, 0, 0, 0, 0, NO_PAGE)
    num_pages = len(octets) // page_bytes
    return PageFile(octets, page_bytes, num_pages, Meta(nothing, nothing, num_pages - 1, 0))


@contextlib.contextmanager
def pinned_pages(path: str) -> Iterator[PageFile]:
    """Map the newest state of an index for a ``with`` block, in which no writer uses its pages again (but
    where LMDB cannot open the file: then nothing is pinned). Not for a process that has the index open
    otherwise. Raises CorruptIndexError where no meta page is of the newest commit."""
    # Where LMDB cannot have a place in the lock file, as on media that cannot be written to, nothing is
    # pinned, and there is no writer either. Not for a process that has the index open otherwise.
    env, data = _environment(path)
    try:
        for _ in range(100):
            if env is None:
                yield read_pages(path)
                return
            try:
                txn = env.begin()
            except lmdb.Error as exc:
                raise translated(exc, path) from exc
            with txn:
                pages = _pages_of_commit(path, data, txn.id())
                if pages is not None:
                    yield pages
                    return
            # A commit came between, or a compaction; if it is damage, it stays.
            env.close()
            env, data = _environment(path)
        raise CorruptIndexError(f"{path}: its meta pages and its lock file contradict each other", path=path)
    finally:
        if env is not None:
            env.close()


def _pages_of_commit(path: str, data: str, transaction: int) -> PageFile | None:
    """Map a data file as commit `transaction` has it; ``None`` where it has no meta page of
    that, or is gone."""
    with contextlib.suppress(FileNotFoundError):
        return pages_of(_mapped(path, data), transaction)
    return None


def _environment(path: str) -> tuple[lmdb.Environment | None, str]:
    """Open LMDB's environment of the newest data file, read-only, to pin a snapshot. Returns it, ``None``
    where LMDB cannot open the file, and the path of the file."""
    while True:
        data = data_file(path)
        with kept_open(data) as file:
            if file is None and data_file(path) != data:
                continue  # a compaction has just removed it
            try:
                env = lmdb.open(
                    data,
                    subdir=False,
                    readonly=True,
                    map_size=max(os.stat(data).st_size, 1 << 20),
                    max_readers=MAX_READERS,
                    max_spare_txns=0,
                    readahead=False,
                    lib_version=ENGINE,
                )
                env.reader_check()  # frees the slots that killed readers have left
            except lmdb.Error:
                if data_file(path) == data:
                    return None, data
                continue
            if file is None or is_in_place(file, data):
                return env, data
            env.close()


_VALUES_AHEAD = 16
"""So many values, of some MiB at most, are asked for before the first of them is read."""


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
    """A descriptor of the file behind a map, open for as long as this object lives.

    What is read through LMDB's map does not count as used: it is advised as random, and since Linux 6.3 such
    pages leave the cache in the order in which they came, however often they are read. What is read through a
    descriptor counts.

    Attributes:
        mapping: address and bytes of the map, and the descriptor.
    """

    __slots__ = ("mapping",)

    def __init__(self, descriptor: int, base: int, num_bytes: int) -> None:
        self.mapping = base, num_bytes, descriptor

    @classmethod
    def open(cls, path: str, identity: tuple[int, int], base: int, num_bytes: int) -> MappedFile | None:
        """Open the file at a path, which lies behind the map of `num_bytes` at the address `base`; ``None``
        where it cannot be opened, or is not the one of this (device, inode)."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        mapped = cls(descriptor, base, num_bytes)
        if identity_of(descriptor) != identity:
            return None
        read_at_random(descriptor)
        return mapped

    def length(self) -> int:
        """Return the bytes of the file now."""
        return os.fstat(self.mapping[2]).st_size

    def let_go(self, address: int, length: int) -> None:
        """Let the pages of the map that lie wholly within these bytes leave the
        memory; their content stays."""
        _kernel.let_go(*self.mapping, address, length)

    def bring(self, addresses: np.ndarray, lengths: np.ndarray) -> int:
        """Read those values at these addresses into memory of which a page is missing there, in order of
        addresses; returns how many bytes they have. Addresses outside of the map are passed over."""
        base, num_bytes, descriptor = self.mapping
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
        if hasattr(self, "mapping"):
            close(self.mapping[2])


@dataclass(frozen=True)
class PageMap:
    """LMDB's pages in memory.

    Attributes:
        base: address of page 0.
        page_bytes: bytes of a page, a power of two.
        mapped: the file behind them; ``None`` where another one has taken its path.
    """

    base: int
    page_bytes: int
    mapped: MappedFile | None = None

    @cached_property
    def metas(self) -> memoryview:
        """The meta pages, as they lie in the map."""
        return memoryview((ctypes.c_char * (META_PAGES * self.page_bytes)).from_address(self.base))

    @classmethod
    def around(cls, value: memoryview, page_bytes: int, num_pages: int) -> PageMap:
        """Return the map in which a view of a leaf page's bytes lies, without its file. Raises
        CorruptIndexError where it is no leaf page, or page 0 no meta page."""
        page = _kernel.address(value) & -page_bytes
        header = np.frombuffer(_bytes_at(page, PAGE_HEADER_BYTES), dtype=HEADER)[0]
        base = page - int(header["number"]) * page_bytes
        is_leaf = header["flags"] == LEAF and 0 < header["number"] < num_pages
        if not is_leaf or not meta_of(_bytes_at(base, META_BYTES)):
            raise CorruptIndexError("expected a leaf page of LMDB, found damage; restore a backup")
        return cls(base, page_bytes)

    def values(self, tree: DatabaseRecord, first: bytes, count: int, num_pages: int) -> FoundValues | None:
        """Return where the values of the first `count` keys of a tree from `first` on lie, which must be as
        long as `first`; ``None`` where there are fewer. Values in leaf pages are copied, large ones not
        read."""
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
