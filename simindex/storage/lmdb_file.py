"""Open an LMDB file with its map, and detect a truncated one."""

from __future__ import annotations

import contextlib
import errno
import mmap
import operator
import os
import resource
import sys
import time
from collections.abc import Callable
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
        env.reader_check()
    except BaseException:
        env.close()
        raise
    return env, not readonly


def open_known(
    path: str,
    map_bytes: int,
    create: bool,
    permissions: int | None,
    prove_meta_pages: Callable[[int, str], None],
    prove: Callable[[lmdb.Environment, int, str], None],
) -> tuple[lmdb.Environment, bool, tuple[int, int]]:
    """Return what `open_lmdb` does, and the (device, inode) of the file, of which all is there.

    A compaction may replace the file at any moment, so LMDB may have opened another one than a look at the
    path sees. The file that lies there before is kept open: it cannot come back, nor another one get its
    inode, so LMDB has the file that is seen before and after. Another one is opened anew, for nothing can be
    said of it.

    Args:
        prove_meta_pages: is given the file's descriptor and the path, before LMDB opens it.
        prove: is given the environment, before LMDB follows a tree, the file's descriptor and the path.

    Raises:
        CorruptIndexError: the file was cut short, or is not what the proofs want.
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
                    prove(env, kept.file, path)
                    return env, writable, kept.identity()
            except lmdb.MapResizedError:
                pass  # a writer was quicker: opened anew, the map is as long as the file is now
            except BaseException:
                env.close()  # a traceback may keep it, and a process may open it once only
                raise
            env.close()


class Kept:
    """The file at a path, kept open for a ``with`` block so that it can be told from every later one.

    Attributes:
        file: its descriptor; ``None`` where there is none, or it may not be read.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self.file: int | None = None

    def __enter__(self) -> Kept:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            self.file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            os.close(self.file)

    def is_in_place(self) -> bool:
        """Whether it is still what lies at the path."""
        try:
            return identity_of(self._path) == self.identity()
        except FileNotFoundError:
            return False

    def identity(self) -> tuple[int, int]:
        """Return its (device, inode)."""
        assert self.file is not None
        kept = os.fstat(self.file)
        return kept.st_dev, kept.st_ino

    def length(self) -> int:
        """Return its bytes now."""
        assert self.file is not None
        return os.fstat(self.file).st_size


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


def _is_whole(env: lmdb.Environment, path: str, kept: Kept) -> bool:
    """Refuse a file that was cut short: reading behind its end would kill the process.

    A file may end before its last page where that page is free, taken and given back in one commit.
    The writer then lengthens it, but may not have come to it yet, or may have been killed before: so
    the file is looked at again, and at last walked through (read, not mapped) for pages in use.

    Returns:
        False: another file has taken its place meanwhile, so nothing is said of it.

    Raises:
        CorruptIndexError: values lie behind its end.
    """
    for _ in range(10):
        needed, found = _pages_bytes(env), kept.length()
        if found >= needed or not found:
            return True
        time.sleep(0.005)
    # Pages of a state that somebody reads are not used again, so a writer cannot change them under the walk.
    with env.begin() as _txn:
        try:
            problems = lmdb.verify.verify(path)  # type: ignore[no-untyped-call]  # it has no annotations
        except lmdb.verify.VerifyError as exc:
            problems = [str(exc)]
    if not problems:
        in_use = _bytes_in_use(env)
        if in_use is None:
            version = ".".join(map(str, env.lib_version()))
            problems = [f"whether the rest is in use cannot be told from the pages of LMDB {version}"]
        elif in_use > (found := kept.length()):
            problems, needed = [f"values lie behind its end, up to {in_use} bytes"], in_use
    if not kept.is_in_place():
        return False
    if problems:
        raise CorruptIndexError(
            f"{path}: expected a data file of {needed} bytes, found {found} ({problems[0]}); "
            "it was cut short, restore a backup"
        )
    return True


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
    """Return the bytes of all pages that the file should hold, and its length. For who alone replaces it: the
    writer."""
    return _pages_bytes(env), os.stat(os.path.join(path, DATA_FILE)).st_size


def _pages_bytes(env: lmdb.Environment) -> int:
    return int((env.info()["last_pgno"] + 1) * env.stat()["psize"])


def databases_of(env: lmdb.Environment, path: str) -> dict[str, lmdb._Database]:
    """Return the handles of an environment's databases; none where it holds nothing yet.

    Raises:
        FormatError: it holds something else.
        lmdb.MapResizedError: a writer has made the file longer than the map since it was opened; for those
            who may move the map.
    """
    try:
        with env.begin() as txn:
            if not txn.stat()["entries"]:
                return {}
        databases = _opened(env)
        with env.begin() as txn:
            for name, database in databases.items():
                if any(cast("Any", database).flags(txn).values()):
                    raise FormatError(f"{path}: database {name!r} has unknown flags; not an index")
    except lmdb.NotFoundError as exc:
        raise FormatError(f"{path}: an LMDB environment, but not a simindex index") from exc
    except lmdb.MapResizedError:
        raise
    except lmdb.Error as exc:
        raise translated(exc, path) from exc
    return databases


def databases_alone(env: lmdb.Environment, path: str) -> dict[str, lmdb._Database]:
    """Return what `databases_of` does, for an environment that nobody else uses yet: its map may be moved."""
    while True:
        try:
            return databases_of(env, path)
        except lmdb.MapResizedError:
            env.set_mapsize(0)


def _opened(env: lmdb.Environment) -> dict[str, lmdb._Database]:
    """Open the databases in a write transaction that writes nothing.

    A handle opened in a read transaction is void once that has ended. One that py-lmdb opens in a transaction
    of its own waits for the writer with the GIL held: this process would stand still for as long as another
    one commits, and for ever where a thread of its own is the one that has the lock and wants the GIL.
    """
    if env.flags()["readonly"]:  # then it waits for nobody
        return {name: env.open_db(name.encode(), create=False) for name in DATABASES}
    with env.begin(write=True) as txn:
        return {name: env.open_db(name.encode(), txn=txn, create=False) for name in DATABASES}


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
