"""Opening an LMDB file with a map, and telling whether all of it is there.

Plain functions of a path and an environment. Must not know handles, transactions of others, or what the
bytes mean.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import operator
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any, cast

import lmdb
import lmdb.verify

from simindex.errors import CorruptIndexError, FormatError, SimIndexError
from simindex.storage.folder import (
    BALLAST_FILE,
    DATA_FILE,
    DEFAULT_PERMISSIONS,
    LMDB_LOCK_FILE,
    identity_of,
    permissions_of,
)
from simindex.storage.pages import PageMap
from simindex.storage.translation import MAX_READERS, translated

DATABASES = ("meta", "documents", "segments", "removed", "groups", "ages")

DEFAULT_MAP_BYTES = 1 << 36
"""Address space reserved at first (sparse: the file is only as long as its data)."""

MIN_MAP_BYTES = 1 << 20
MAX_MAP_BYTES = 1 << 44
# Of a meta page: LMDB's mark, and the number of its commit.
_MAGIC_AT, _COMMITS_AT, _META_END = 16, 144, 152
_MAGIC = (0xBEEFC0DE).to_bytes(4, sys.byteorder)

_LONGEST_UNFINISHED = 1 << 16
"""Bytes; twice what the first commit takes."""

ENGINE = 0  # LMDB 0.9 files (data format 1); pinned, for the two engines cannot read each other's


def open_lmdb(
    path: str, map_bytes: int, create: bool, permissions: int | None = None
) -> tuple[lmdb.Environment, bool]:
    """Open an environment with as large a map as the system grants, down from `map_bytes`.

    Readers open writable too where they may, so that a writer of the same process can share the environment.

    Args:
        create: whether to create a file that is missing.
        permissions: of the data file, if it is to be made; the lock file always has those of the data file.

    Returns:
        The environment, and whether it may be written to.
    """
    data = Path(path) / DATA_FILE
    missing = [file for file in (data, Path(path) / LMDB_LOCK_FILE) if not file.exists()]
    permissions = permissions_of(Path(path), permissions)
    least = max(MIN_MAP_BYTES, data.stat().st_size if data.exists() else 0)
    size = max(map_bytes, least)
    readonly = not create and not os.access(data, os.W_OK)
    while True:
        try:
            env = lmdb.open(
                path,
                map_size=size,
                readonly=readonly,
                create=create,
                mode=permissions or DEFAULT_PERMISSIONS,
                max_readers=MAX_READERS,
                max_dbs=len(DATABASES) + 16,
                # A spare transaction keeps its reader slot, and a forked child that ends would free
                # the parent's. Without spares a transaction costs 0.06 us more.
                max_spare_txns=0,
                # Random access by many small reads: reading ahead would only fill the cache.
                readahead=False,
                lib_version=ENGINE,
            )
            break
        except (lmdb.MemoryError, MemoryError) as exc:
            if size <= least:
                raise SimIndexError(f"{path}: no address space for a map of {size} bytes") from exc
            size = max(size // 2, least)
        except lmdb.Error as exc:
            raise translated(exc, path) from exc
    try:
        if permissions is not None:
            for file in missing:
                with contextlib.suppress(FileNotFoundError, PermissionError):  # not made, or by somebody else
                    file.chmod(permissions)
        _require_whole_file(env, path)
        env.reader_check()
    except BaseException:
        env.close()
        raise
    return env, not readonly


def open_known(
    path: str, map_bytes: int, create: bool, permissions: int | None = None
) -> tuple[lmdb.Environment, bool, tuple[int, int]]:
    """Return what `open_lmdb` does, and the (device, inode) of the file, for a compaction may replace it
    meanwhile."""
    data = os.path.join(path, DATA_FILE)
    while True:
        before = identity_of(data) if os.path.exists(data) else None
        env, writable = open_lmdb(path, map_bytes, create, permissions)
        try:
            identity = identity_of(data)
        except BaseException:
            env.close()  # a traceback may keep it, and a process may open it once only
            raise
        if before in (None, identity):
            return env, writable, identity
        env.close()


def is_unfinished(path: str) -> bool:
    """Whether the making of a data file was cut off before its first commit was durable.

    LMDB writes its two meta pages at the beginning and syncs them with that commit: a power cut before it may
    leave any part of them, and what there is of them has seen no commit. An index has had one, and a ballast
    behind it, and is not as short but for a while.
    """
    data = Path(path, DATA_FILE)
    if Path(path, BALLAST_FILE).exists() or not data.exists() or data.stat().st_size > _LONGEST_UNFINISHED:
        return False
    with data.open("rb") as file:
        pages = [file.read(mmap.PAGESIZE)[:_META_END] for _ in range(2)]
    are_new = [
        page[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] == _MAGIC and not any(page[_COMMITS_AT:]) for page in pages
    ]
    are_missing = [not any(page) for page in pages]
    return any(are_missing) and all(map(operator.or_, are_new, are_missing)) and any(map(len, pages))


def never_completed(path: str) -> FileNotFoundError:
    """Return the error of an index whose making was cut off, where none may be made."""
    return FileNotFoundError(errno.ENOENT, "an index that was never completed", path)


def _require_whole_file(env: lmdb.Environment, path: str) -> None:
    """Refuse a file that was cut short: reading behind its end would kill the process.

    A file may end before its last page where that page is free, taken and given back in one commit.
    The writer then lengthens it, but may not have come to it yet, or may have been killed before: so
    the file is looked at again, and at last walked through (read, not mapped) for pages in use.
    """
    for _ in range(10):
        needed, found = file_lengths(env, path)
        if found >= needed or not found:
            return
        time.sleep(0.005)
    try:
        problems = lmdb.verify.verify(path)  # type: ignore[no-untyped-call]  # it has no annotations
    except lmdb.verify.VerifyError as exc:
        problems = [str(exc)]
    if not problems:
        in_use = _bytes_in_use(env)
        if in_use is None:
            version = ".".join(map(str, env.lib_version()))
            problems = [f"whether the rest is in use cannot be told from the pages of LMDB {version}"]
        elif in_use > found:
            problems, needed = [f"values lie behind its end, up to {in_use} bytes"], in_use
    if problems:
        raise CorruptIndexError(
            f"{path}: expected a data file of {needed} bytes, found {found} ({problems[0]}); "
            "it was cut short, restore a backup"
        )


def _bytes_in_use(env: lmdb.Environment) -> int | None:
    """Return where the last page of the large values ends; no value is touched.

    ``None`` where their places are not known without touching them: a value behind the end of the file
    would kill the process. `lmdb.verify` looks at the first page of a large value only, and a file may end
    behind that.
    """
    num_pages, page_bytes = env.info()["last_pgno"] + 1, env.stat()["psize"]
    last = 0
    databases = databases_of(env, env.path())
    with env.begin(buffers=True) as txn:
        with txn.cursor(db=databases["meta"]) as cursor:
            pages = PageMap.around(env, cursor.value(), num_pages) if cursor.first() else None
        if pages is None:
            return None
        for database in databases.values():
            with txn.cursor(db=database) as cursor:
                for key in cursor.iternext(keys=True, values=False):
                    place = pages.find(key, num_pages)
                    if place is not None:
                        last = max(last, place[0] + place[1] - pages.base)
    return -(-last // page_bytes) * page_bytes


def file_lengths(env: lmdb.Environment, path: str) -> tuple[int, int]:
    """Return the bytes of all pages that the file should hold, and its length."""
    pages = env.info()["last_pgno"] + 1
    return pages * env.stat()["psize"], os.stat(os.path.join(path, DATA_FILE)).st_size


def databases_of(env: lmdb.Environment, path: str) -> dict[str, lmdb._Database]:
    """Return the handles of an environment's databases; none where it holds nothing yet.

    Raises:
        FormatError: it holds something else.
    """
    try:
        with env.begin() as txn:
            if not txn.stat()["entries"]:
                return {}
        # Each in a transaction of py-lmdb's own: a handle opened in a read transaction is void once
        # that has ended.
        databases = {name: env.open_db(name.encode(), create=False) for name in DATABASES}
        with env.begin() as txn:
            for name, database in databases.items():
                if any(cast("Any", database).flags(txn).values()):
                    raise FormatError(f"{path}: database {name!r} has unknown flags; not an index")
    except lmdb.NotFoundError as exc:
        raise FormatError(f"{path}: an LMDB environment, but not a simindex index") from exc
    except lmdb.Error as exc:
        raise translated(exc, path) from exc
    return databases


def used_bytes(env: lmdb.Environment, txn: lmdb.Transaction, databases: dict[str, lmdb._Database]) -> int:
    """Return the bytes of the pages that a write transaction leaves in use, those of the free list apart."""
    stats = [env.stat(), *(txn.stat(database) for database in databases.values())]
    pages = sum(stat["leaf_pages"] + stat["branch_pages"] + stat["overflow_pages"] for stat in stats)
    return (pages + 2) * stats[0]["psize"]


def limit_of(max_bytes: int | None) -> tuple[int, str]:
    """Return the largest length of the data file, and how to have more. The process's own limit counts."""
    limit = min(max_bytes or MAX_MAP_BYTES, MAX_MAP_BYTES)
    longest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if longest == resource.RLIM_INFINITY or longest >= limit:
        return limit, "open with a larger max_bytes"
    return max(longest, MIN_MAP_BYTES), "let the process write longer files (RLIMIT_FSIZE)"
