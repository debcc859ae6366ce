"""lmdb.Error and OSError -> SimIndexError, in one place."""

from __future__ import annotations

import errno
import os

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
from simindex.storage.folder import DATA_FILE

MAX_READERS = 1024
"""Reader slots of an environment."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_HARDLY_FREE_BYTES = 1 << 20

# What LMDB says of tree pages that lead nowhere, or in a circle, or have less room than their header says;
# whoever met one has a bad transaction.
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
