"""Open an LMDB file, and verify the pages that opening an index touches before LMDB follows them.

LMDB believes what a page of its trees says, so a damaged one ends the process. Which pages opening touches:
the names of the databases, the trees of those that are read whole then, and the branch pages of the others;
those of the records are most of them, and are proven when LMDB is first to follow them. Invariant: no more
pages are walked than the file has, whatever damaged ones say.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import operator
import os
import time
from collections.abc import Iterable
from itertools import chain

import lmdb
import numpy as np

from simindex.errors import CorruptIndexError
from simindex.storage.folder import DATA_FILE, HEADER_FILE, data_file, identity_of
from simindex.storage.lmdb_file import (
    DATABASES,
    HEAD_KEY,
    MAIN,
    is_in_place,
    kept_open,
    open_lmdb,
    pages_bytes,
)
from simindex.storage.page_file import (
    COMMIT_AT,
    LONGEST_METAS,
    MAGIC,
    META_BYTES,
    META_PAGES,
    MOST_DEPTH,
    PAGE_HEADER_BYTES,
    DatabaseRecord,
    Meta,
    PageFile,
    mapped,
    metas_of,
    pages_of,
)
from simindex.storage.page_walk import (
    Finding,
    Usage,
    records_of,
    walk_file,
    walk_tree,
    wrong_fields,
    wrong_last_page,
    wrong_numbers,
)

RECORDS = "documents"
"""The tree of which opening proves the root alone, for LMDB reads that when it is asked for counts; the rest,
one branch page for some 20,000 documents, at its first use."""

_READ_WHOLE = ("meta", "segments")
"""Trees of which opening reads every key."""

_ATTEMPTS = 100
_PAUSE_SECONDS, _LOOKS = 0.005, 10
_REMEDY = "restore a backup, or save what is left with simindex repair"


_LONGEST_UNFINISHED = 1 << 16
"""Bytes; twice what the first commit takes."""


def open_proven(
    path: str, data: str, map_bytes: int, create: bool, permissions: int | None
) -> tuple[lmdb.Environment, bool, tuple[int, int]]:
    """Open the data file at `data` as `open_lmdb` does, after a proof of the pages that opening touches, and
    again where another file takes its place meanwhile. Returns (environment, whether one may write, (device,
    inode) of the file). Raises FileNotFoundError where there is none and `create` is false, CorruptIndexError
    for damage; errors name `path`, the index's folder."""
    # Another file may take its place at any moment. What lies there before is kept open, so that no
    # other file gets its inode: LMDB has the file that is seen before and after. Another one is opened
    # anew.
    while True:
        with kept_open(data) as file:
            if file is not None:
                prove_meta_pages(file, path)
            elif not create:
                raise FileNotFoundError(errno.ENOENT, "no simindex index", path)
            env, writable = open_lmdb(data, map_bytes, create, permissions)
            try:
                if file is None:  # LMDB has just made it
                    return env, writable, identity_of(data)
                if is_in_place(file, data) and _is_whole(env, path, file, data):
                    prove_entrance(env, file, path)
                    return env, writable, identity_of(file)
            except lmdb.MapResizedError:
                pass  # a writer was quicker: opened anew, the map is as long as the file is now, and more
            except BaseException:
                env.close()  # a traceback may keep it, and a process may open it once only
                raise
            env.close()


def _is_whole(env: lmdb.Environment, path: str, file: int, data: str) -> bool:
    """Return True for a data file that is empty or as long as its pages in use need, False where another file
    took its place. A shorter one is looked at for 50 ms, for a writer may lengthen it, and then walked
    through. Raises CorruptIndexError where it was cut short: reading past its end would kill the process."""
    # A file may end before its last page where that page is free, taken and given back in one commit,
    # until the writer lengthens it: so it is looked at again, and at last walked through for pages in
    # use.
    for _ in range(_LOOKS):
        needed, found = pages_bytes(env), os.fstat(file).st_size
        if found >= needed or not found:
            return True
        time.sleep(_PAUSE_SECONDS)
    # Pages of a state with readers are not used again, so a writer cannot change them under the walk.
    with env.begin() as txn:
        pages = pages_of(mapped(file, path, mmap.MADV_RANDOM), txn.id())
        findings = [] if pages is None else walk_file(pages).findings
    if not is_in_place(file, data):
        return False
    if pages is None or findings:
        problem = findings[-1].message if findings else "no meta page is of that length"
        raise CorruptIndexError(
            f"{path}: expected a data file of {needed} bytes, found {found} ({problem}); "
            "it was cut short, restore a backup"
        )
    return True


def prove_meta_pages(file: int, path: str) -> None:
    """Prove what both meta pages say, but for what changes with a commit, before LMDB looks at them. Raises
    CorruptIndexError, but not where neither is one: LMDB refuses that."""
    octets = np.frombuffer(os.pread(file, LONGEST_METAS, 0), dtype=np.uint8)
    page_bytes, metas = metas_of(octets)
    if any(metas):
        _require_none(wrong_fields(octets, page_bytes, metas), path)


def prove_entrance(env: lmdb.Environment, file: int, path: str) -> None:
    """Prove the pages that opening will touch, before LMDB follows a tree: the numbers in the meta pages, all
    pages of "meta" and "segments", the root of the records, and the branch pages of the other databases.
    Raises CorruptIndexError for damage. A file to which nothing was ever committed, or one with another
    program's databases, passes."""
    for _ in range(_ATTEMPTS):
        # While a state has readers, its pages are not used again.
        with env.begin() as txn:
            if os.fstat(file).st_size < META_PAGES * mmap.PAGESIZE:
                return  # nothing was ever committed
            pages = pages_of(mapped(file, path, mmap.MADV_RANDOM), txn.id())
            if pages is not None:
                _prove(pages, path)
                return
        # A later commit has taken the place of that meta page.
    raise CorruptIndexError(
        f"{path}: its meta pages and its lock file contradict each other; restore a backup, or repair it"
    )


def _prove(file: PageFile, path: str) -> None:
    _require_none(wrong_numbers(file), path)
    usage = Usage(file)
    main = walk_tree(file, MAIN, file.meta.main, usage, MOST_DEPTH)
    values = dict(main.values())
    if main.is_whole and values.keys() != {HEAD_KEY, *(name.encode() for name in DATABASES)}:
        return  # nothing was ever committed, or it is another program's file
    databases = records_of(main, values.items())
    trees = [main]
    for name, record in databases.items() if main.is_whole else ():
        levels = min(record.depth - 1, 1) if name == RECORDS else record.depth - (name not in _READ_WHOLE)
        trees.append(walk_tree(file, name, record, usage, levels))
    _require_none(chain.from_iterable(tree.findings for tree in trees), path)
    _require_none(wrong_last_page(file, databases.values()), path)


def prove_records(base: int, num_pages: int, page_bytes: int, record: bytes, path: str) -> None:
    """Prove the branch pages of the tree of the records in the map that begins at address `base`; `record`:
    the bytes that LMDB keeps of that tree. Raises CorruptIndexError."""
    tree = DatabaseRecord.of(record)
    if tree is None:
        damage = Finding("expected the record of a database, found damage", RECORDS)
        raise _damaged(path, damage)
    mapped = (ctypes.c_uint8 * (num_pages * page_bytes)).from_address(base)
    octets = np.frombuffer(memoryview(mapped), dtype=np.uint8)
    file = PageFile(octets, page_bytes, num_pages, Meta(tree, tree, num_pages - 1, 0))
    _require_none(walk_tree(file, RECORDS, tree, Usage(file), tree.depth - 1).findings, path)


def _require_none(findings: Iterable[Finding], path: str) -> None:
    for finding in findings:
        raise _damaged(path, finding)


def _damaged(path: str, finding: Finding) -> CorruptIndexError:
    page = "" if finding.page < 0 else f"page {finding.page}"
    where = ", ".join(filter(None, [DATA_FILE, finding.database, page]))
    return CorruptIndexError(f"{path}: {where}: {finding.message}; {_REMEDY}", path=path)


def is_unfinished(path: str) -> bool:
    """Return whether the newest data file of an index is one whose making was cut off before its first commit
    was durable: it has 64 KiB at most, its meta pages are zeros or without a commit (one of them zeros), and
    no second header lies beside it. False for an empty file, or where there is none."""
    # LMDB syncs its two meta pages with that commit: a power cut before may leave any part of them.
    data = data_file(path)
    if os.path.exists(os.path.join(path, HEADER_FILE)) or not os.path.exists(data):
        return False
    if os.path.getsize(data) > _LONGEST_UNFINISHED:
        return False
    with open(data, "rb") as file:
        pages = [file.read(mmap.PAGESIZE)[:META_BYTES] for _ in range(META_PAGES)]
    magic = MAGIC.to_bytes(4, "little")
    are_new = [page[PAGE_HEADER_BYTES:].startswith(magic) and not any(page[COMMIT_AT:]) for page in pages]
    are_missing = [not any(page) for page in pages]
    return any(are_missing) and all(map(operator.or_, are_new, are_missing)) and any(map(len, pages))
