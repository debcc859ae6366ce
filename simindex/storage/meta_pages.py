"""Verify LMDB's two meta pages, which have no checksum: by their constants, by each other, by the free lists.

Invariant, of LMDB 0.9 and of every file that `replacement` puts in place: each commit writes the page of its
parity, so the other page is of the commit before. A commit behind the first gives up at least the page that
had the names of the databases; its own free list has that page under the commit's number, the last there. So
the end of the newest free list proves the number of its page, and by what it names that of the other page.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import operator
import os
import time
from collections.abc import Iterable, Iterator

import numpy as np

from simindex.storage.folder import BALLAST_FILE, DATA_FILE
from simindex.storage.page_file import (
    BIG_VALUE,
    COMMIT_AT,
    MAGIC,
    META_BYTES,
    META_PAGES,
    NO_PAGE,
    PAGE_HEADER_BYTES,
    DatabaseRecord,
    Meta,
    PageFile,
    metas_of,
    read_nodes,
)

_PAGE_FLAGS, _FREE_FLAGS = 0x08, 0x08
"""Of every meta page (P_META), and of every free list, whose keys are integers (MDB_INTEGERKEY)."""

_LOOKS, _PAUSE_SECONDS = 100, 0.01

_NUMBER_BYTES = 8
"""Of a page in a list of free pages."""

_NOWHERE = 2**62

_LONGEST_UNFINISHED = 1 << 16
"""Bytes; twice what the first commit takes."""

Wrong = tuple[int, str]
"""Number of a meta page, and what was expected and found."""


def wrong_fields(octets: np.ndarray) -> Iterator[Wrong]:
    """Yield what contradicts the fields that LMDB writes the same into every meta page of an index.

    `octets` are a file, or so much of its beginning as has both meta pages.
    """
    page_bytes, metas = metas_of(octets)
    for page, meta in enumerate(metas):
        if meta is None:
            yield page, "expected a meta page of LMDB, found other bytes"
            continue
        header = octets[page * page_bytes : page * page_bytes + PAGE_HEADER_BYTES].view("<u2")
        found = int(header[5]), meta.free.flags, meta.main.flags, meta.main.pad
        if found != (_PAGE_FLAGS, _FREE_FLAGS, 0, 0):
            message = (
                f"expected flags {_PAGE_FLAGS} of a meta page, {_FREE_FLAGS} of the free list, flags "
                f"and pad 0 of the names of databases, found {', '.join(map(str, found))}"
            )
            yield page, message


def wrong_numbers(file: PageFile) -> list[Wrong]:
    """Return what contradicts the numbers of commits in the two meta pages; of a lost one nothing is said. A
    reader keeps the pages of the file, or nobody writes to it."""
    found: list[Wrong] = []
    for _ in range(_LOOKS):
        metas = metas_of(file.octets)[1]
        known = [meta for meta in metas if meta]
        newest = max(known, key=lambda meta: meta.transaction, default=file.meta)
        if newest.transaction > file.meta.transaction and newest.last_page >= file.num_pages:
            break  # committed since the file was mapped, to pages behind the map
        found = [] if None in metas else list(_contradictions(file, known))
        if not found:
            break
        # A commit may have come between the looks at the two, or be half in one of them; damage stays.
        time.sleep(_PAUSE_SECONDS)
        if metas_of(file.octets)[1] == metas:
            return found
    return []


def wrong_last_page(file: PageFile, records: Iterable[DatabaseRecord]) -> Iterator[Wrong]:
    """Yield what contradicts the number of the last page, behind which a commit takes new pages.

    Every page up to the last is in use once or free, so by their counts they are not more. They are counted
    where the file is longer alone: no file is shorter than its last pages in use, and one that a commit has
    made longer stays so.
    """
    if file.num_pages <= file.meta.last_page + 1:
        return
    used = META_PAGES + sum(
        record.branch_pages + record.leaf_pages + record.overflow_pages
        for record in (file.meta.free, file.meta.main, *records)
    )
    expected = used + _num_free(file) - 1
    if expected > file.meta.last_page:
        page = metas_of(file.octets)[1].index(file.meta)
        yield (
            page,
            f"expected {expected} or more as the number of the last page, found {file.meta.last_page}",
        )


def with_last_commit(file: PageFile) -> PageFile:
    """Return the pages as of the meta page of the last commit, whatever number it has now."""
    first, second = metas_of(file.octets)[1]
    if first is None or second is None:
        return file
    other = second if file.meta == first else first
    last, given_up = _last_freed(file, file.meta)
    is_later = _last_freed(file, other)[0] > last and other.main.root not in given_up
    return dataclasses.replace(file, meta=other) if is_later else file


def _contradictions(file: PageFile, metas: list[Meta]) -> Iterator[Wrong]:
    at = int(metas[1].transaction > metas[0].transaction)
    newest, other = metas[at], metas[1 - at]
    for page, meta in ((at, newest), (1 - at, other)):
        if meta.transaction and meta.transaction % META_PAGES != page:
            yield page, f"expected a meta page of every second commit, found commit {meta.transaction}"
            return
        if (meta.transaction == 0) != (meta.main.root == NO_PAGE):
            found = "others in commit" if meta.transaction == 0 else "none in commit"
            yield page, f"expected databases behind the first commit alone, found {found} {meta.transaction}"
            return
    number = newest.transaction
    last, given_up = _last_freed(file, newest)
    if last < 0:
        yield at, f"expected a free list that ends with commit {number}, found damage"
    elif last != (number if number > 1 else 0):
        yield at, f"expected commit {last}, with which its free list ends, found commit {number}"
    elif other.transaction < number - 1:
        message = (
            f"expected the meta page of commit {number - 1}, found that of commit {other.transaction}; "
            f"if that took the newest one's place, commit {number + 1} is lost"
        )
        yield 1 - at, message
    elif number > 1 and other.main.root not in given_up:
        message = (
            f"expected the meta page of commit {number - 1}, of which commit {number} gave up a page, found "
            f"one of another commit; commit {number + 1} may be lost"
        )
        yield 1 - at, message


def _last_freed(file: PageFile, meta: Meta) -> tuple[int, list[int]]:
    """Return the last commit on the free list of a meta page, and the pages that it gave up.

    0 and none where the list is empty, -1 and none where it is damaged.
    """
    damaged: tuple[int, list[int]] = -1, []
    root, depth = meta.free.root, meta.free.depth
    if root == NO_PAGE or not depth:
        return (0, []) if root == NO_PAGE and not depth else damaged
    nodes = _free_nodes(file, meta, slice(-1, None))
    if nodes is None:
        return damaged
    places = _places_of_lists(file, nodes)
    place, length = int(places[-1]), int(nodes["length"][-1])
    if not 0 <= place <= place + length <= len(file.octets) or length % _NUMBER_BYTES or not length:
        return damaged
    # LMDB's list of page numbers (MDB_IDL): how many, and then each.
    numbers = np.frombuffer(file.value(place, length), dtype="<u8")
    return int.from_bytes(nodes["octets"][-1, :_NUMBER_BYTES].tobytes(), "big"), numbers[
        1 : 1 + int(numbers[0])
    ].tolist()


def _num_free(file: PageFile) -> int:
    """Return how many pages are on the free list, as far as it is whole."""
    nodes = _free_nodes(file, file.meta, slice(None)) if file.meta.free.depth else None
    if nodes is None:
        return 0
    places = _places_of_lists(file, nodes)
    places = places[(places >= 0) & (places + _NUMBER_BYTES <= len(file.octets))]
    return int(file.octets[places[:, None] + np.arange(_NUMBER_BYTES)].view("<u8").sum())


def _free_nodes(file: PageFile, meta: Meta, followed: slice) -> np.ndarray | None:
    """Return the entries of the lowest pages of a free list; ``None`` where it is damaged."""
    pages = np.array([min(meta.free.root, _NOWHERE)], dtype=np.int64)
    for level in range(1, meta.free.depth + 1):
        if not ((pages >= META_PAGES) & (pages < file.num_pages)).all():
            return None
        nodes, is_sound = read_nodes(file, pages, are_leaves=level == meta.free.depth, integer_keys=True)
        if not is_sound.all() or not len(nodes):
            return None
        pages = nodes["child"][followed]
    return nodes


def _places_of_lists(file: PageFile, nodes: np.ndarray) -> np.ndarray:
    is_big = nodes["flags"] & BIG_VALUE != 0
    return np.where(is_big, nodes["value_page"] * file.page_bytes + PAGE_HEADER_BYTES, nodes["place"])


def is_unfinished(path: str) -> bool:
    """Whether the making of a data file was cut off before its first commit was durable.

    LMDB writes its two meta pages at the beginning and syncs them with that commit: a power cut before it may
    leave any part of them, and what there is of them has seen no commit. An index has had one, and a ballast
    behind it, and is not as short but for a while.
    """
    data = os.path.join(path, DATA_FILE)
    if os.path.exists(os.path.join(path, BALLAST_FILE)) or not os.path.exists(data):
        return False
    if os.path.getsize(data) > _LONGEST_UNFINISHED:
        return False
    with open(data, "rb") as file:
        pages = [file.read(mmap.PAGESIZE)[:META_BYTES] for _ in range(META_PAGES)]
    magic = MAGIC.to_bytes(4, "little")
    are_new = [page[PAGE_HEADER_BYTES:].startswith(magic) and not any(page[COMMIT_AT:]) for page in pages]
    are_missing = [not any(page) for page in pages]
    return any(are_missing) and all(map(operator.or_, are_new, are_missing)) and any(map(len, pages))


class OlderMeta:
    """The meta page that a commit is about to write over, as it was before.

    Where that write fails, LMDB puts back the number alone, beside the roots of the commit that failed
    (`mdb_env_write_meta`). Nothing tells these bytes from a stored commit whose number was damaged.
    """

    def __init__(self, data: str, page_bytes: int, commit: int) -> None:
        self._data, self._at = data, commit % META_PAGES * page_bytes
        self._bytes = self._read()

    def put_back(self) -> None:
        """Write it as it was, if the commit has changed it; nothing happens where the disk fails again."""
        with contextlib.suppress(OSError):
            if self._read() != self._bytes:
                file = os.open(self._data, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.pwrite(file, self._bytes, self._at)
                finally:
                    os.close(file)

    def _read(self) -> bytes:
        file = os.open(self._data, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, META_BYTES, self._at)
        finally:
            os.close(file)
