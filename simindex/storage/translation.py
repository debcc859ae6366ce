"""lmdb.Error and OSError -> SimIndexError, in one place.

Owns the wording and what a user can do about it. Must not decide what happens next.
"""

from __future__ import annotations

import errno

import lmdb

from simindex.errors import CorruptIndexError, FormatError, IndexFullError, ReadOnlyError, SimIndexError
from simindex.storage.folder import DATA_FILE

MAX_READERS = 1024
"""Reader slots of an environment."""

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def translated(error: lmdb.Error | OSError, path: str) -> SimIndexError:
    """Return the simindex error for an error of LMDB or of a file."""
    text = str(error)
    code = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    if isinstance(error, lmdb.DiskError) or code in _FULL or "SHORT_WRITE" in text:
        return IndexFullError(
            f"{path}: the disk did not take the commit ({text}); nothing of it is stored, what was committed "
            "before is intact. Free some space and try again"
        )
    if isinstance(error, lmdb.InvalidError | lmdb.VersionMismatchError) or "Bad file descriptor" in text:
        return FormatError(f"{path}: {DATA_FILE} is not an LMDB file that simindex can read ({text})")
    if isinstance(error, lmdb.CorruptedError | lmdb.PageNotFoundError):
        return CorruptIndexError(f"{path}: damaged pages ({text}); restore a backup")
    if isinstance(error, lmdb.ReadonlyError):
        return ReadOnlyError(f"{path}: no permission to write ({text})")
    if isinstance(error, lmdb.ReadersFullError):
        return SimIndexError(f"{path}: all {MAX_READERS} reader slots are taken ({text}); close some readers")
    return SimIndexError(f"{path}: {text}")


def read_only(path: str) -> ReadOnlyError:
    """Return the error of a change through a handle that only reads."""
    return ReadOnlyError(f'{path}: opened with mode "r"; open it with mode "a" to change it')
