"""A data file as pages, with its two meta pages.

Source: MDB_page, MDB_db, MDB_meta in mdb.c of LMDB 0.9, whose data format (1) has been the same since 2011;
the nodes of pages are read by the kernel (`page_nodes`).

Invariant: no offset behind the end of the file is read; a file that somebody cuts short while it is mapped
kills the process, so whoever must not die reads in a child.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import lmdb
import numpy as np

from simindex.errors import CorruptIndexError
from simindex.storage.folder import DATA_FILE
from simindex.storage.lmdb_file import ENGINE, Kept
from simindex.storage.translation import MAX_READERS, translated

DATABASE = struct.Struct("<IHHQQQQQ")  # padding, flags, depth, pages of three kinds, entries, root
_META = struct.Struct("<II8xQ")  # magic, data format, (address of the map), size of the map
_LAST = struct.Struct("<QQ")  # last page, transaction
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

META_BYTES = PAGE_HEADER_BYTES + _META.size + 2 * DATABASE.size + _LAST.size
"""Of a meta page; LMDB writes nothing behind them."""

COMMIT_AT = META_BYTES - 8
"""Where in a meta page the number of its commit lies."""

_LEAST_PAGE, _MOST_PAGE = 512, 1 << 15
LONGEST_METAS = META_PAGES * _MOST_PAGE
"""Bytes at the beginning of a file that have both meta pages, whatever the size of a page."""

_MORE_PAGES = 1 << 16


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
        """Return a record as it is stored; ``None`` for other bytes."""
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
        """Pages that the state of `meta` knows of; free ones at its end may not be in the file yet.

        A number that no file comes to, for it is out of a page without a seal, counts as what the file holds.
        """
        known = self.meta.last_page + 1
        return known if known <= 2 * self.num_pages + _MORE_PAGES else self.num_used

    @property
    def num_used(self) -> int:
        """Pages that the state of `meta` knows of, as far as the file holds them."""
        return min(self.meta.last_page + 1, self.num_pages)

    def value(self, place: int, length: int) -> memoryview:
        """Return bytes of the file, which are not copied."""
        return self.octets[place : place + length].data


def meta_of(content: bytes) -> Meta | None:
    """Return a meta page, of its first `META_BYTES`; ``None`` for other bytes."""
    if len(content) < META_BYTES or _META.unpack_from(content, PAGE_HEADER_BYTES)[:2] != (
        MAGIC,
        _DATA_FORMAT,
    ):
        return None
    at = PAGE_HEADER_BYTES + _META.size
    free = DatabaseRecord.of(content[at : at + DATABASE.size])
    main = DatabaseRecord.of(content[at + DATABASE.size : at + 2 * DATABASE.size])
    if free is None or main is None:
        return None
    return Meta(free, main, *_LAST.unpack_from(content, at + 2 * DATABASE.size))


def metas_of(octets: np.ndarray) -> tuple[int, list[Meta | None]]:
    """Return the size of a page and both meta pages, ``None`` for one that is none."""
    sizes = [_LEAST_PAGE << shift for shift in range(7) if _LEAST_PAGE << shift <= _MOST_PAGE]
    first = meta_of(octets[:META_BYTES].tobytes())
    if first is not None and first.free.pad in sizes:
        sizes = [first.free.pad]
    for size in sizes:
        second = meta_of(octets[size : size + META_BYTES].tobytes())
        if second is not None and second.free.pad == size:
            return size, [first if first is not None and first.free.pad == size else None, second]
    if first is not None and len(sizes) == 1:
        return sizes[0], [first, None]
    return mmap.PAGESIZE, [None, None]


def _mapped(path: str) -> np.ndarray:
    """Return the data file of a folder as uint8, mapped and not read; none where it is empty."""
    with open(os.path.join(path, DATA_FILE), "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return np.empty(0, dtype=np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), dtype=np.uint8)


def read_pages(path: str, transaction: int | None = None) -> PageFile:
    """Map the data file of a folder, in the state of `transaction` as `pages_of` has it.

    Raises:
        CorruptIndexError: no meta page is left, or none is of that commit.
    """
    octets = _mapped(path)
    if not len(octets):
        raise CorruptIndexError(f"{path}: {DATA_FILE} is empty; restore a backup", path=path)
    pages = pages_of(octets, transaction)
    if pages is None:
        raise CorruptIndexError(
            f"{path}: expected a meta page of LMDB in {DATA_FILE}, found none"
            f"{'' if transaction is None else f' of commit {transaction}'}; restore a backup, or repair it",
            path=path,
        )
    return pages


def pages_of(octets: np.ndarray, transaction: int | None = None) -> PageFile | None:
    """Return the pages of a mapped file; ``None`` where no meta page is of that state.

    Args:
        transaction: the number of a read transaction; ``None``: the newest state. As LMDB has it, its state
        is
            the meta page of its parity. That one's own number is smaller where somebody has put another file
            beside a lock file in use, which goes on counting.
    """
    page_bytes, metas = metas_of(octets)
    known = [meta for meta in metas if meta]
    if transaction is not None:
        meta = metas[transaction % META_PAGES]
        is_its = (
            meta and meta.transaction <= transaction and (transaction - meta.transaction) % META_PAGES == 0
        )
        known = [meta] if meta and is_its else []
    if not known:
        return None
    newest = max(known, key=lambda meta: meta.transaction)
    return PageFile(octets, page_bytes, len(octets) // page_bytes, newest)


def bare_pages(path: str) -> PageFile | None:
    """Map a data file of which no meta page is left: its pages can be looked at, but no tree leads to them.

    ``None`` where there is not even a page.
    """
    octets = _mapped(path)
    if len(octets) < mmap.PAGESIZE * (META_PAGES + 1):
        return None
    page_bytes, _ = metas_of(octets)
    nothing = DatabaseRecord(page_bytes, 0, 0, 0, 0, 0, 0, NO_PAGE)
    num_pages = len(octets) // page_bytes
    return PageFile(octets, page_bytes, num_pages, Meta(nothing, nothing, num_pages - 1, 0))


@contextlib.contextmanager
def pinned_pages(path: str) -> Iterator[PageFile]:
    """Map the newest state of a folder, and keep its pages from being used again for the block.

    LMDB looks at meta pages only. Where it cannot have a place in the lock file, as on media that cannot be
    written to, nothing is pinned; then nobody writes either. Must not be called in a process that has the
    index open otherwise.

    Raises:
        CorruptIndexError: there is no meta page of LMDB.
        FileNotFoundError: there is no file.
    """
    env = _environment(path)
    try:
        for _ in range(100):
            if env is None:
                yield read_pages(path)
                return
            with _begun(env, path) as txn:
                pages = _pages_at(path, txn.id())
                if pages is not None:
                    yield pages
                    return
            # A commit came between, or a compaction; if it is damage, it stays.
            env.close()
            env = _environment(path)
        raise CorruptIndexError(f"{path}: its meta pages and its lock file contradict each other", path=path)
    finally:
        if env is not None:
            env.close()


def _begun(env: lmdb.Environment, path: str) -> lmdb.Transaction:
    """Begin to read; slots of the lock file that killed readers have left are freed first if need be."""
    try:
        try:
            return env.begin()
        except lmdb.ReadersFullError:
            env.reader_check()
            return env.begin()
    except lmdb.Error as exc:
        raise translated(exc, path) from exc


def _pages_at(path: str, transaction: int) -> PageFile | None:
    try:
        return read_pages(path, transaction)
    except CorruptIndexError:
        read_pages(path)  # raises where there is no meta page at all
        return None


def _environment(path: str) -> lmdb.Environment | None:
    """Open LMDB's environment for a pin; ``None`` where it cannot have one."""
    data = os.path.join(path, DATA_FILE)
    while True:
        with Kept(data) as kept:
            try:
                env = lmdb.open(
                    path,
                    readonly=True,
                    create=False,
                    map_size=max(os.stat(data).st_size, 1 << 20),
                    max_readers=MAX_READERS,
                    max_spare_txns=0,
                    readahead=False,
                    lib_version=ENGINE,
                )
            except lmdb.Error:
                return None
            if kept.file is None or kept.is_in_place():
                return env
            env.close()
