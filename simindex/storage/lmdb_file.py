"""Open an LMDB file with its map and its databases; lmdb.Error and OSError -> SimIndexError, in one place."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import lmdb

from simindex.errors import (
    ClosedError,
    CorruptIndexError,
    DiskError,
    FormatError,
    IndexFullError,
    ReadOnlyError,
    SimIndexError,
)
from simindex.storage.folder import (
    DATA_FILE,
    DEFAULT_PERMISSIONS,
    LMDB_LOCK_FILE,
    permissions_of,
)

MAX_READERS = 1024
"""Reader slots of an environment."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_HARDLY_FREE_BYTES = 1 << 20

# What LMDB says of tree pages that lead nowhere, or in a circle, or have less room than their header says;
# a transaction that met one is bad.
_DAMAGE = (
    lmdb.CorruptedError
    | lmdb.PageNotFoundError
    | lmdb.CursorFullError
    | lmdb.PageFullError
    | lmdb.ProblemError
    | lmdb.BadTxnError
)


def translated(error: lmdb.Error | OSError, path: str) -> SimIndexError:
    """Return the simindex error for an error of LMDB or of a file; one of simindex as it is."""
    if isinstance(error, SimIndexError):
        return error.located(path)
    return _of(error, path).located(path)


def _of(error: lmdb.Error | OSError, path: str) -> SimIndexError:
    text = str(error)
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    # LMDB says EIO for a short write, too, and a short write is what a disk does that has just become full.
    failed = code == errno.EIO or isinstance(error, lmdb.PanicError)
    is_full = code in _FULL or isinstance(error, lmdb.DiskError) or "SHORT_WRITE" in text
    if (is_full and not failed) or (failed and _has_no_space(path)):
        return IndexFullError(
            f"{path}: the disk did not take the commit ({text}); nothing of it is stored, what was committed "
            "before is intact. Free some space and try again"
        )
    if failed:
        return DiskError(
            f"{path}: the disk failed ({text}); nothing of this commit is stored, what was committed before "
            "is intact as far as the disk is. Look at the system's log before trying again"
        )
    if code in (errno.EMFILE, errno.ENFILE):
        return SimIndexError(f"{path}: no file descriptor is left ({text}); close files or raise the limit")
    if isinstance(error, lmdb.InvalidError | lmdb.VersionMismatchError) or "Bad file descriptor" in text:
        return FormatError(f"{path}: {DATA_FILE} is not an LMDB file that simindex can read ({text})")
    if isinstance(error, _DAMAGE):
        return CorruptIndexError(f"{path}: damaged pages ({text}); restore a backup")
    if isinstance(error, lmdb.ReadonlyError):
        return ReadOnlyError(f"{path}: no permission to write ({text})")
    if isinstance(error, lmdb.ReadersFullError):
        return SimIndexError(f"{path}: all {MAX_READERS} reader slots are taken ({text}); close some readers")
    if isinstance(error, lmdb.Error) and code == errno.EAGAIN:
        # A reader locks the byte of its process's number in the lock file; another container has that number.
        return SimIndexError(
            f"{path}: another container has this index open in a process of the same number ({os.getpid()}), "
            "by which LMDB tells readers apart; give containers that share an index one process namespace"
        )
    return SimIndexError(f"{path}: {text}")


def closed(path: str, why: str) -> ClosedError:
    """Return the error of a handle that is used no more."""
    error = ClosedError(f"{path}: {why}")
    error.path = path
    return error


def read_only(path: str, is_copy: bool = False) -> ReadOnlyError:
    """Return the error of a change through a handle that only reads; `is_copy`: a copy of its own."""
    if is_copy:
        return ReadOnlyError(
            f"{path}: a private copy, which untrusted=True made to be read and which goes with its handle; "
            'save it with backup(), and open that with mode "a" to change it'
        )
    return ReadOnlyError(f'{path}: opened with mode "r"; open it with mode "a" to change it')


def _has_no_space(path: str) -> bool:
    """Whether the file system has hardly a byte left for this user."""
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _HARDLY_FREE_BYTES


DATABASES = ("meta", "documents", "segments", "removed", "groups", "ages")

DEFAULT_MAP_BYTES = 1 << 36
"""Address space reserved at first (sparse: the file is only as long as its data)."""

MIN_MAP_BYTES = 1 << 20
MAX_MAP_BYTES = 1 << 44

ENGINE = 0  # LMDB 0.9 files (data format 1); pinned, for the two engines cannot read each other's


def open_lmdb(
    path: str, map_bytes: int, create: bool, permissions: int | None = None
) -> tuple[lmdb.Environment, bool]:
    """Open an environment with as large a map as the system grants; returns it, and whether one may write."""
    # Readers open writable too where they may, so that a writer of the same process can share it.
    data, lock = os.path.join(path, DATA_FILE), os.path.join(path, LMDB_LOCK_FILE)
    missing = [file for file in (data, lock) if not os.path.exists(file)]
    permissions = permissions_of(Path(path), permissions)
    least = max(MIN_MAP_BYTES, 0 if data in missing else os.path.getsize(data))
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
                with contextlib.suppress(FileNotFoundError, PermissionError):  # not made, or another user's
                    os.chmod(file, permissions)
        env.reader_check()
    except BaseException:
        env.close()
        raise
    return env, not readonly


@contextlib.contextmanager
def kept_open(path: str) -> Iterator[int | None]:
    """Keep the file at a path open for a block, to tell it from later ones; ``None``: there is none."""
    file = None
    try:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        yield file
    finally:
        if file is not None:
            os.close(file)


def is_in_place(file: int, path: str) -> bool:
    """Whether an open file is still what lies at the path."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def never_completed(path: str) -> FileNotFoundError:
    """Return the error of an index whose making was cut off, where none may be made."""
    return FileNotFoundError(errno.ENOENT, "an index that was never completed", path)


def pages_bytes(env: lmdb.Environment) -> int:
    """Return the bytes of all pages that the file should hold."""
    return int((env.info()["last_pgno"] + 1) * env.stat()["psize"])


def databases_of(env: lmdb.Environment, path: str) -> dict[str, Any]:
    """Return the handles of the databases, none where there is nothing yet. Raises lmdb.MapResizedError."""
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
    except lmdb.Error as exc:
        if isinstance(exc, lmdb.MapResizedError):
            raise
        raise translated(exc, path) from exc
    return databases


def databases_alone(env: lmdb.Environment, path: str) -> dict[str, Any]:
    """Return what `databases_of` does, for an environment that no other thread uses: its map may be moved."""
    while True:
        try:
            return databases_of(env, path)
        except lmdb.MapResizedError:
            env.set_mapsize(0)


def _opened(env: lmdb.Environment) -> dict[str, Any]:
    """Open the databases in a write transaction that writes nothing."""
    # A handle opened in a read transaction is void once that has ended, and py-lmdb's own transaction
    # waits for the writer with the GIL held: for ever, where that one is a thread of this process.
    if env.flags()["readonly"]:  # then it does not wait
        return {name: env.open_db(name.encode(), create=False) for name in DATABASES}
    with env.begin(write=True) as txn:
        return {name: env.open_db(name.encode(), txn=txn, create=False) for name in DATABASES}


def used_bytes(env: lmdb.Environment, txn: lmdb.Transaction, databases: dict[str, Any]) -> int:
    """Return the bytes of the pages that a write transaction leaves in use, those of the free list apart."""
    stats = [env.stat(), *(txn.stat(database) for database in databases.values())]
    pages = sum(stat["leaf_pages"] + stat["branch_pages"] + stat["overflow_pages"] for stat in stats)
    return (pages + 2) * stats[0]["psize"]


def snapshots(env: lmdb.Environment) -> list[tuple[int, int]]:
    """Return (transaction id, process id) of each snapshot that any process reads."""
    # A headline, then the process, thread and transaction of each slot: "-" where none is under way.
    slots = [line.split() for line in env.readers().splitlines()[1:]]
    return [(int(slot[2]), int(slot[0])) for slot in slots if slot[2:] not in ([], ["-"])]


def limit_of(max_bytes: int | None) -> tuple[int, str]:
    """Return the largest length of the data file, and how to have more. The process's own limit counts."""
    limit = min(max_bytes or MAX_MAP_BYTES, MAX_MAP_BYTES)
    longest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if longest == resource.RLIM_INFINITY or longest >= limit:
        return limit, "open with a larger max_bytes"
    return max(longest, MIN_MAP_BYTES), "let the process write longer files (RLIMIT_FSIZE)"
