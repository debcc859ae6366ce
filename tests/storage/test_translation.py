"""Errors of LMDB and of files, each as what a user can do something about."""

import errno

import lmdb
import pytest

from simindex import CorruptIndexError, DiskError, FormatError, IndexFullError, ReadOnlyError, SimIndexError
from simindex.storage.lmdb_file import MAX_READERS, read_only, translated


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (lmdb.DiskError("mdb_txn_commit: No space left"), IndexFullError, "nothing of it is stored"),
        (OSError(errno.ENOSPC, "No space left on device"), IndexFullError, "Free some space"),
        (OSError(errno.EDQUOT, "Quota exceeded"), IndexFullError, "Free some space"),
        (OSError(errno.EFBIG, "File too large"), IndexFullError, "Free some space"),
        (OSError(errno.EIO, "Input/output error"), DiskError, "Look at the system's log"),
        (lmdb.Error("mdb_txn_commit: MDB_SHORT_WRITE"), IndexFullError, "Free some space"),
        (lmdb.CursorFullError("mdb_cursor_get"), CorruptIndexError, "damaged pages"),
        (lmdb.PageFullError("mdb_put"), CorruptIndexError, "damaged pages"),
        (lmdb.BadTxnError("mdb_stat"), CorruptIndexError, "damaged pages"),
        (lmdb.InvalidError("MDB_INVALID"), FormatError, "data.mdb is not an LMDB file"),
        (lmdb.VersionMismatchError("MDB_VERSION_MISMATCH"), FormatError, "data.mdb is not an LMDB file"),
        (lmdb.Error("Bad file descriptor"), FormatError, "data.mdb is not an LMDB file"),
        (lmdb.CorruptedError("MDB_CORRUPTED"), CorruptIndexError, "damaged pages .*restore a backup"),
        (lmdb.PageNotFoundError("MDB_PAGE_NOTFOUND"), CorruptIndexError, "damaged pages"),
        (lmdb.ReadonlyError("Permission denied"), ReadOnlyError, "no permission to write"),
        (lmdb.ReadersFullError("MDB_READERS_FULL"), SimIndexError, f"all {MAX_READERS} reader slots"),
        (OSError(errno.EACCES, "Permission denied"), SimIndexError, "Permission denied"),
    ],
    ids=lambda value: str(value) if isinstance(value, Exception) else None,
)
def test_error_becomes_one_of_simindex_that_names_the_path(
    error: lmdb.Error | OSError, kind: type[SimIndexError], says: str
) -> None:
    made = translated(error, "/data/news")
    assert type(made) is kind
    with pytest.raises(kind, match=f"^/data/news: .*{says}"):
        raise made


def test_read_only_says_how_to_open_it() -> None:
    made = read_only("/data/news")
    assert type(made) is ReadOnlyError
    assert str(made) == '/data/news: opened with mode "r"; open it with mode "a" to change it'
