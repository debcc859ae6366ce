"""A copy of the data file without free pages, put in the file's place.

Owns the copy, its way into place and the mark left in the old file. Must not know what the bytes mean.
Readers keep the old file until their next call, which finds the mark and changes over. A crash before the
rename leaves the old file as it was, with a mark that counts for nothing as long as the file is in its place,
and that the next writer takes back.
"""

from __future__ import annotations

import mmap
import os
import shutil
import stat
from pathlib import Path

import lmdb

from simindex.errors import SimIndexError
from simindex.storage.folder import COMPACT_FOLDER, DATA_FILE, sync_folder
from simindex.storage.lmdb_file import ENGINE
from simindex.storage.store import MOVED_KEY, Store
from simindex.storage.translation import translated

_COPIED_KEY = b"copied"

_COPY_ATTEMPTS = 5

# LMDB chooses between a file's two meta pages by the parity of the last transaction's number, which the lock
# file keeps and the old file's was. Two commits make both valid.
_BOTH_META_PAGES = (b"1", b"2")


def replace_by_copy(store: Store) -> None:
    """Put a copy without free pages in the data file's place. The lock file stays.

    Raises:
        IndexFullError: no space for the copy; the index is as it was.
    """
    folder, copy = Path(store.path), Path(store.path) / COMPACT_FOLDER
    try:
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir(mode=0o700)
        _copy(store, copy / DATA_FILE)
        _mark_copied(copy)
        for number in _BOTH_META_PAGES:
            store.commit(lambda txn, number=number: txn.put("meta", MOVED_KEY, number), True)  # type: ignore[misc]
        os.replace(copy / DATA_FILE, folder / DATA_FILE)
        sync_folder(folder)
    except SimIndexError:
        raise  # an IndexFullError is an OSError, too
    except (lmdb.Error, OSError) as exc:
        raise translated(exc, store.path) from exc
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    store.change_over()
    _map_pages(store)


def _copy(store: Store, target: Path) -> None:
    # LMDB's own `copy` writes past the page cache: the next queries would read from disk.
    with store.environment().inside() as visit, open(target, "xb", opener=_open_private) as data:
        for attempt in range(_COPY_ATTEMPTS):
            try:
                visit.env.copyfd(data.fileno(), compact=True)
                break
            except lmdb.IncompatibleError:
                # LMDB compares the pages that it has copied with those of its snapshot. Beside processes that
                # open and fork all the time it was seen to disagree once in some thousand compactions.
                if attempt == _COPY_ATTEMPTS - 1:
                    raise
                data.seek(0)
                data.truncate()
        _keep_owner(data.fileno(), os.stat(store.data))
        os.fsync(data.fileno())


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _keep_owner(file: int, old: os.stat_result) -> None:
    """Give a private file the owner, group and permissions of another.

    Who may not give it the group must not give its own group's members what the old one's had.
    """
    mode = stat.S_IMODE(old.st_mode)
    try:
        os.fchown(file, old.st_uid, old.st_gid)
    except PermissionError:
        try:
            os.fchown(file, -1, old.st_gid)
        except PermissionError:
            mode &= ~0o070 | (mode & 0o007) << 3
    os.fchmod(file, mode)


def _mark_copied(copy: Path) -> None:
    map_bytes = (copy / DATA_FILE).stat().st_size + (1 << 24)
    with lmdb.open(str(copy), max_dbs=1, map_size=map_bytes, lib_version=ENGINE) as env:
        for number in _BOTH_META_PAGES:
            with env.begin(write=True) as txn:
                txn.put(_COPIED_KEY, number, db=env.open_db(b"meta", txn=txn))


def _map_pages(store: Store) -> None:
    """Touch every page of the segments, where they fit into memory: each 64 KiB that a query were the
    first to touch would cost it a page fault of some microseconds."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 4 * os.stat(store.data).st_size < memory:
        with store.reading() as txn:
            for _, value in txn.items("segments"):
                bytes(value[:: mmap.PAGESIZE])


def clear_traces(store: Store) -> None:
    """Take back what a compaction that was killed has left."""
    shutil.rmtree(Path(store.path) / COMPACT_FOLDER, ignore_errors=True)
    with store.reading() as txn:
        marked = txn.get("meta", MOVED_KEY) is not None
    if marked:
        store.commit(lambda txn: txn.delete("meta", MOVED_KEY), True)
