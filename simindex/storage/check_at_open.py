"""Open an LMDB file, and verify the pages that opening an index touches before LMDB follows them.

LMDB believes what a page of its trees says, so a damaged one ends the process. Which pages opening touches:
the names of the databases, the trees of those that are read whole then, and the branch pages of the others;
those of the records are most of them, and are proven when LMDB is first to follow them. Invariant: no more
pages are walked than the file has, whatever damaged ones say.
"""

from __future__ import annotations

import ctypes
import mmap
import operator
import os
import time

import lmdb
import numpy as np

from simindex import _kernel
from simindex.errors import CorruptIndexError
from simindex.storage.folder import BALLAST_FILE, DATA_FILE, identity_of
from simindex.storage.lmdb_file import DATABASES, Kept, open_lmdb, pages_bytes, translated
from simindex.storage.page_file import (
    BIG_VALUE,
    COMMIT_AT,
    LONGEST_METAS,
    MAGIC,
    META_BYTES,
    META_PAGES,
    MOST_DEPTH,
    NO_PAGE,
    PAGE_HEADER_BYTES,
    SUB_TREE,
    DatabaseRecord,
    Meta,
    PageFile,
    metas_of,
    pages_of,
    pages_of_values,
    read_nodes,
)
from simindex.storage.page_walk import MAIN, walk_file, wrong_fields, wrong_last_page, wrong_numbers

RECORDS = "documents"
"""The tree of which opening proves the root alone, for LMDB reads that when it is asked for counts; the rest,
one branch page for some 20,000 documents, at its first use."""

_READ_AT_OPENING = ("meta", "segments")
"""Trees of which opening reads every key."""

_PAGES_AT_ONCE = 256
_ATTEMPTS = 100
_PAUSE_SECONDS, _LOOKS = 0.005, 10
_REMEDY = "restore a backup, or save what is left with simindex repair"


_LONGEST_UNFINISHED = 1 << 16
"""Bytes; twice what the first commit takes."""


def open_proven(
    path: str, map_bytes: int, create: bool, permissions: int | None
) -> tuple[lmdb.Environment, bool, tuple[int, int]]:
    """Return what `open_lmdb` does, and the (device, inode) of the file, whose pages are proven.

    A compaction may replace the file at any moment, so LMDB may have opened another one than a look at the
    path sees. The file that lies there before is kept open: it cannot come back, nor another one get its
    inode, so LMDB has the file that is seen before and after. Another one is opened anew.

    Raises:
        CorruptIndexError: the file was cut short, or a page is not what the pages above say.
    """
    data = os.path.join(path, DATA_FILE)
    while True:
        with Kept(data) as kept:
            if kept.file is not None:
                prove_meta_pages(kept.file, path)
            env, writable = open_lmdb(path, map_bytes, create, permissions)
            try:
                if kept.file is None:  # LMDB has just made it
                    return env, writable, identity_of(data)
                if kept.is_in_place() and _is_whole(env, path, kept):
                    prove_entrance(env, kept.file, path)
                    return env, writable, kept.identity()
            except lmdb.MapResizedError:
                pass  # a writer was quicker: opened anew, the map is as long as the file is now
            except BaseException:
                env.close()  # a traceback may keep it, and a process may open it once only
                raise
            env.close()


def _is_whole(env: lmdb.Environment, path: str, kept: Kept) -> bool:
    """Refuse a file that was cut short: reading behind its end would kill the process. False: another file
    has taken its place meanwhile, and nothing is said of it.

    A file may end before its last page where that page is free, taken and given back in one commit. The
    writer then lengthens it, but may not have come to it yet, or may have been killed before: so the file is
    looked at again, and at last walked through for pages in use.
    """
    for _ in range(_LOOKS):
        needed, found = pages_bytes(env), kept.length()
        if found >= needed or not found:
            return True
        time.sleep(_PAUSE_SECONDS)
    assert kept.file is not None
    # Pages of a state that somebody reads are not used again, so a writer cannot change them under the walk.
    with env.begin() as txn:
        pages = pages_of(_mapped(kept.file, path), txn.id())
        findings = [] if pages is None else walk_file(pages).findings
    if not kept.is_in_place():
        return False
    if pages is None or findings:
        problem = findings[-1].message if findings else "no meta page is of that length"
        raise CorruptIndexError(
            f"{path}: expected a data file of {needed} bytes, found {found} ({problem}); "
            "it was cut short, restore a backup"
        )
    return True


def _mapped(file: int, path: str) -> np.ndarray:
    try:
        mapped = mmap.mmap(file, 0, access=mmap.ACCESS_READ)
    except OSError as exc:  # no address space
        raise translated(exc, path) from exc
    mapped.madvise(mmap.MADV_RANDOM)
    return np.frombuffer(mapped, dtype=np.uint8)


def prove_meta_pages(file: int, path: str) -> None:
    """Prove what both meta pages say, but for what changes with a commit, before LMDB looks at them; LMDB
    itself refuses a file that has none.

    Raises:
        CorruptIndexError: a meta page is damaged.
    """
    octets = np.frombuffer(os.pread(file, LONGEST_METAS, 0), dtype=np.uint8)
    page_bytes, metas = metas_of(octets)
    if any(metas):
        for page, message in wrong_fields(octets, page_bytes, metas):
            raise _damaged(path, "", message, page)


def prove_entrance(env: lmdb.Environment, file: int, path: str, *, of_records: bool = False) -> None:
    """Prove the pages that opening will touch.

    Args:
        env: of LMDB, which has followed no tree yet.
        file: descriptor of its data file.
        of_records: prove the branch pages of the records in place of all others.

    Raises:
        CorruptIndexError: one of the pages is not what the pages above say, or a meta page is wrong.
    """
    for _ in range(_ATTEMPTS):
        # While somebody reads a state, its pages are not used again.
        with env.begin() as txn:
            if os.fstat(file).st_size < META_PAGES * mmap.PAGESIZE:
                return  # nothing was ever committed
            pages = pages_of(_mapped(file, path), txn.id())
            if pages is not None:
                _prove(pages, path, of_records=of_records)
                return
        # A later commit has taken the place of that meta page.
    raise CorruptIndexError(
        f"{path}: its meta pages and its lock file contradict each other; restore a backup, or repair it"
    )


def _prove(file: PageFile, path: str, *, of_records: bool) -> None:
    for page, message in wrong_numbers(file):
        raise _damaged(path, "", message, page)
    databases = _databases(file, path)
    for name, record in databases.items():
        if of_records:
            levels = record.depth - 1 if name == RECORDS else 0
        else:
            levels = (
                min(record.depth - 1, 1) if name == RECORDS else record.depth - (name not in _READ_AT_OPENING)
            )
        if min(record.depth, levels) > 0:
            _walk(file, name, record, path, levels)
    if databases and not of_records:
        for page, message in wrong_last_page(file, databases.values()):
            raise _damaged(path, "", message, page)


def prove_records(base: int, num_pages: int, page_bytes: int, record: bytes, path: str) -> None:
    """Prove the branch pages of the records where they are mapped, in any state that LMDB reads.

    Args:
        base: address of page 0.
        record: what LMDB keeps of the tree in that state.

    Raises:
        CorruptIndexError: as `prove_entrance` does.
    """
    tree = DatabaseRecord.of(record)
    if tree is None:
        raise _damaged(path, RECORDS, "expected the record of a database, found damage")
    mapped = (ctypes.c_uint8 * (num_pages * page_bytes)).from_address(base)
    octets = np.frombuffer(memoryview(mapped), dtype=np.uint8)
    file = PageFile(octets, page_bytes, num_pages, Meta(tree, tree, num_pages - 1, 0))
    _walk(file, RECORDS, tree, path, tree.depth - 1)


def _databases(file: PageFile, path: str) -> dict[str, DatabaseRecord]:
    """Return the records of the databases by name; none where the file is another program's."""
    found = {}
    nodes, _ = read_nodes(file, _walk(file, MAIN, file.meta.main, path, MOST_DEPTH), are_leaves=True)
    for node in nodes:
        name = node["octets"][: node["key_bytes"]].tobytes().decode("latin-1")
        if name not in DATABASES:
            return {}
        value = bytes(file.value(int(node["place"]), int(node["length"])))
        record = DatabaseRecord.of(value) if node["flags"] == SUB_TREE else None
        if record is None:
            raise _damaged(path, name, "expected the record of a database, found damage")
        found[name] = record
    return found


def _walk(file: PageFile, name: str, record: DatabaseRecord, path: str, levels: int) -> np.ndarray:
    """Prove so many levels of a tree, the leaves being the last; returns the pages of the lowest of them."""
    level = np.array([min(record.root, 2**62)], dtype=np.int64)
    if record.root == NO_PAGE and not record.depth:
        return level[:0]
    last = min(record.depth, levels) - 1
    for depth in range(last + 1):
        # Not by np.unique, which imports a part of NumPy that takes as long as all the rest of an opening.
        ascending = np.sort(level)
        is_once = (ascending[1:] > ascending[:-1]).all()
        if not is_once or ascending[0] < META_PAGES or ascending[-1] >= file.num_used:
            raise _damaged(path, name, "expected pages of the file, each once, found damage")
        # All of a level at once: met one by one each that is missing would be waited for.
        places = _kernel.address(file.octets) + level * file.page_bytes
        _kernel.ask_for_pages(places.astype(np.uint64))
        below = []
        for first in range(0, len(level), _PAGES_AT_ONCE):
            part, are_leaves = level[first : first + _PAGES_AT_ONCE], depth == record.depth - 1
            nodes, is_sound = read_nodes(file, part, are_leaves=are_leaves)
            if not is_sound.all():
                what = "a leaf page" if are_leaves else "a branch page"
                raise _damaged(path, name, f"expected {what}, found damage", int(part[np.argmin(is_sound)]))
            big = nodes[nodes["flags"] == BIG_VALUE] if are_leaves else nodes[:0]
            if len(big) and len(lost := big["page"][~pages_of_values(file, big)[1]]):
                raise _damaged(
                    path, name, "expected values within the file, found damage", int(part[lost[0]])
                )
            below.append(nodes["child"])
        if depth < last:
            level = np.concatenate(below)
    return level


def _damaged(path: str, tree: str, what: str, page: int | None = None) -> CorruptIndexError:
    where = [DATA_FILE, *filter(None, [tree]), *([] if page is None else [f"page {page}"])]
    return CorruptIndexError(f"{path}: {', '.join(where)}: {what}; {_REMEDY}", path=path)


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
