"""Open an LMDB file with its map and its databases; lmdb.Error and OSError -> SimIndexError, in one place."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
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
    LOCK_SUFFIX,
    data_file,
    free_bytes,
    longest_file,
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
    """Return the simindex error, located at `path`, for an error of LMDB or of the file system; an error of
    simindex itself is returned, not a new one. Nothing is raised."""
    if isinstance(error, SimIndexError):
        return error.located(path)
    return _of(error, path).located(path)


def _of(error: lmdb.Error | OSError, path: str) -> SimIndexError:
    text = str(error)
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    # LMDB says EIO for a short write, too, and a short write is what a disk does that has just become full.
    failed = code == errno.EIO or isinstance(error, lmdb.PanicError)
    is_full = code in _FULL or isinstance(error, lmdb.DiskError) or "SHORT_WRITE" in text
    if (is_full and not failed) or (failed and _cannot_grow(path)):
        return IndexFullError(
            f"{path}: the disk did not take the commit ({text}); nothing of it is stored, what was committed "
            "before is intact. Free some space (16 MiB is enough to remove documents), or let the process "
            "write longer files (RLIMIT_FSIZE), and try again"
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
        return ReadOnlyError(
            f"{path}: no permission to write ({text}); readers note what they read in the file beside it "
            f"whose name ends in {LOCK_SUFFIX}. Let them write that, mount the folder read-only, or read a "
            "private copy (untrusted=True)"
        )
    if isinstance(error, lmdb.MapResizedError):
        return SimIndexError(
            f"{path}: expected a data file within the address space that this handle has reserved, found one "
            "that another process has made longer; close the handle and open the index again. It reserves "
            "more where fewer are open, or the process may have more (ulimit -v)"
        )
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
    """Return, not raise, the error of a handle that is used no more."""
    error = ClosedError(f"{path}: {why}")
    error.path = path
    return error


def read_only(path: str, is_copy: bool = False) -> ReadOnlyError:
    """Return, not raise, the error of a change through a handle that only reads; `is_copy`: it reads a
    private copy, which untrusted=True made."""
    if is_copy:
        return ReadOnlyError(
            f"{path}: a private copy, which untrusted=True made to be read and which goes with its handle; "
            'save it with backup(), and open that with mode "a" to change it'
        )
    return ReadOnlyError(f'{path}: opened with mode "r"; open it with mode "a" to change it')


def _cannot_grow(path: str) -> bool:
    """Return whether less than 1 MiB of the file system is free for this user, or the data file is as long as
    the process may write (that limit may have been lowered since it was opened); False where neither can be
    asked."""
    longest = longest_file()
    try:
        data = data_file(path) if os.path.isdir(path) else path
        is_longest = longest is not None and _length(data) >= longest
        return is_longest or free_bytes(path) < _HARDLY_FREE_BYTES
    except OSError:
        return False


DATABASES = ("meta", "documents", "segments", "removed", "groups", "ages")

MAIN, HEAD_KEY = "main", b"manifest"
"""LMDB's own tree, of the names of the databases. Every commit writes its page, so that the value which every
commit replaces lies there, too."""

_MAP_BYTES, _MAP_BYTES_IN_A_CROWD, _CROWD = 1 << 40, 1 << 36, 32
"""Address space of an index: takes no memory and no disk. A process has 128 TiB of it, and the last place of
them is not an index's: behind so many that are open, the next get less."""

_GROWTH = 4
"""Times the length of the data file that are reserved at least."""

MIN_MAP_BYTES = 1 << 20
MAX_MAP_BYTES = 1 << 44

_CLOSING_SECONDS, _PAUSE_SECONDS = 1.0, 0.001

ENGINE = 0  # LMDB 0.9 files (data format 1); pinned, for the two engines cannot read each other's


def open_lmdb(
    data: str, map_bytes: int, create: bool, permissions: int | None = None
) -> tuple[lmdb.Environment, bool]:
    """Open a data file with a map of `map_bytes`, or less where the system grants less; returns the
    environment and whether one may write: with `create`, which makes a missing file, or where the file may be
    written. What is made gets the permissions of the data file, or `permissions`. Frees the reader slots of
    killed processes. Raises SimIndexError, as `translated`, where LMDB cannot open it."""
    # Readers open writable too where they may, so that a writer of the same process can share it.
    path = os.path.dirname(data)
    missing = [file for file in (data, data + LOCK_SUFFIX) if not os.path.exists(file)]
    permissions = permissions_of(Path(path), permissions)
    least = max(MIN_MAP_BYTES, _length(data))
    size = max(map_bytes, least)
    readonly = not create and not os.access(data, os.W_OK)
    try:
        env = with_map(
            data,
            size,
            least,
            readonly=readonly,
            mode=permissions or DEFAULT_PERMISSIONS,
            max_readers=MAX_READERS,
            max_dbs=len(DATABASES) + 16,
            # A spare transaction keeps its reader slot, and a forked child that ends would free the
            # parent's. Without spares a transaction costs 0.06 us more.
            max_spare_txns=0,
            # Random access by many small reads: reading ahead would only fill the cache.
            readahead=False,
            lib_version=ENGINE,
        )
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


def with_map(data: str, size: int, least: int, **options: Any) -> lmdb.Environment:
    """Open an environment with a map of `size` bytes, or half of it, a quarter ... down to `least`, where no
    more is granted; waits up to a second where this process still has the file open. Raises SimIndexError
    where not even `least` is granted, and other errors of LMDB as they are."""
    # A process opens a file once at a time, and its last user may just be closing it on another thread.
    ends = time.monotonic() + _CLOSING_SECONDS
    while True:
        try:
            return lmdb.open(data, map_size=size, subdir=False, **options)
        except (lmdb.MemoryError, MemoryError) as exc:
            if size <= least:
                raise SimIndexError(
                    f"{data}: no address space for a map of {size} bytes; raise the limit (ulimit -v), or "
                    "close what takes memory"
                ) from exc
            size = max(size // 2, least)
        except lmdb.Error as exc:
            if "already open" not in str(exc) or time.monotonic() > ends:
                raise
            time.sleep(_PAUSE_SECONDS)


@contextlib.contextmanager
def kept_open(path: str) -> Iterator[int | None]:
    """Keep the file at a path open for a block, so that its inode is not given to another one; yields the
    descriptor, ``None`` where there is no file that may be read."""
    file = None
    try:
        with contextlib.suppress(FileNotFoundError, PermissionError):
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        yield file
    finally:
        if file is not None:
            os.close(file)


def is_in_place(file: int, path: str) -> bool:
    """Return whether the file of a descriptor is still the one at the path."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False


def never_completed(path: str) -> FileNotFoundError:
    """Return, not raise, the error of an index whose making was cut off, for a mode that makes none."""
    return FileNotFoundError(errno.ENOENT, "an index that was never completed", path)


def pages_bytes(env: lmdb.Environment) -> int:
    """Return how long the data file should be, to hold all pages up to the last one ever used."""
    return int((env.info()["last_pgno"] + 1) * env.stat()["psize"])


def databases_of(env: lmdb.Environment, path: str) -> dict[str, Any]:
    """Open the databases of an index and return their handles by name, none where the file holds nothing yet.
    Raises FormatError where it is another program's."""
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
        raise translated(exc, path) from exc
    return databases


def _opened(env: lmdb.Environment) -> dict[str, Any]:
    """Open the databases, in a write transaction that writes nothing (where the environment is read-only, in
    none), and return their handles."""
    # A handle opened in a read transaction is void once that has ended, and py-lmdb's own transaction
    # waits for the writer with the GIL held: for ever, where that one is a thread of this process.
    if env.flags()["readonly"]:  # then it does not wait
        return open_databases(env, None, create=False)
    with env.begin(write=True) as txn:
        return open_databases(env, txn, create=False)


def open_databases(env: lmdb.Environment, txn: lmdb.Transaction | None, *, create: bool) -> dict[str, Any]:
    """Open all databases and return their handles by name, that of LMDB's own tree as MAIN; missing ones are
    made if `create`, else lmdb.NotFoundError is raised. `txn`: a write transaction, or ``None`` for one of
    py-lmdb's own."""
    named: dict[str, Any] = {name: env.open_db(name.encode(), txn=txn, create=create) for name in DATABASES}
    return {MAIN: env.open_db(txn=txn), **named}


def used_bytes(txn: lmdb.Transaction, databases: dict[str, Any]) -> int:
    """Return the bytes of the pages in use, the two meta pages too, as a transaction has them;
    without the free list."""
    stats = [txn.stat(database) for database in databases.values()]
    pages = sum(stat["leaf_pages"] + stat["branch_pages"] + stat["overflow_pages"] for stat in stats)
    return (pages + 2) * stats[0]["psize"]


def snapshots(env: lmdb.Environment) -> list[tuple[int, int]]:
    """Return (transaction id, process id) of each snapshot that any process reads."""
    # A headline, then the process, thread and transaction of each slot: "-" where none is under way.
    slots = [line.split() for line in env.readers().splitlines()[1:]]
    return [(int(slot[2]), int(slot[0])) for slot in slots if slot[2:] not in ([], ["-"])]


@dataclass(frozen=True)
class Limit:
    """How long the data file may become.

    Attributes:
        max_bytes: its largest length; ``None``: what address space there is for it.
        remedy: how to have more.
    """

    max_bytes: int | None
    remedy: str = "open with a larger max_bytes"

    @classmethod
    def of(cls, max_bytes: int | None) -> Limit:
        """Return the limit of an index with this `max_bytes`, or less where the process may not
        write files so long."""
        if max_bytes is not None:
            max_bytes = min(max_bytes, MAX_MAP_BYTES)
        longest = longest_file()
        if longest is None or longest >= (max_bytes or MAX_MAP_BYTES):
            return cls(max_bytes)
        return cls(max(longest, MIN_MAP_BYTES), "let the process write longer files (RLIMIT_FSIZE)")

    @property
    def usable_bytes(self) -> int | None:
        """The most that a commit which stores documents may leave in use; ``None``: no limit. The rest is
        kept for removals, which write new pages before they free old ones."""
        return None if self.max_bytes is None else self.max_bytes - _kept_for_removals(self.max_bytes)

    def map_bytes(self, data: str, num_open: int) -> int:
        """Return how many bytes of address space to reserve for a data file: `max_bytes` as it is; without it
        1 TiB (64 GiB where `num_open`, how many others the process has open, is 32 or more) or four times
        the length of the file, if that is more, but at most 16 TiB and a sixth of what the process may
        have."""
        if self.max_bytes is not None:
            return self.max_bytes
        most = max(_MAP_BYTES if num_open < _CROWD else _MAP_BYTES_IN_A_CROWD, _GROWTH * _length(data))
        space = resource.getrlimit(resource.RLIMIT_AS)[0]
        if space != resource.RLIM_INFINITY:
            most = min(most, space // 6)  # the program needs some, and two files are open behind a compaction
        return min(most, MAX_MAP_BYTES)

    def reached(self, path: str, map_bytes: int) -> IndexFullError:
        """Return, not raise, the error of a commit that would need more than the limit, or than the map, of
        `map_bytes`, where that is smaller."""
        if self.max_bytes is None or map_bytes < self.max_bytes:
            return IndexFullError(
                f"{path}: the index filled the {map_bytes} bytes of address space that its first handle in "
                "this process has reserved; nothing of this commit was written. Close all of its handles and "
                "open it again, with a larger max_bytes, fewer other indexes or a higher ulimit -v"
            )
        return IndexFullError(
            f"{path}: the index reached its largest allowed size of {self.max_bytes} bytes, "
            f"{_kept_for_removals(self.max_bytes)} of them kept for removals; nothing of this commit was "
            "written. Remove documents (fewer at a time, if this was a removal) and compact, or "
            f"{self.remedy}"
        )


def _kept_for_removals(limit: int) -> int:
    """Return how many bytes of a limit are kept: a 64th in whole MiB, 1 to 16 of them, at most a quarter."""
    share = limit // 64 & -(1 << 20)
    return min(max(share, 1 << 20), 1 << 24, limit // 4)


def _length(data: str) -> int:
    """Return the bytes of a file, 0 where there is none."""
    try:
        return os.path.getsize(data)
    except OSError:
        return 0
