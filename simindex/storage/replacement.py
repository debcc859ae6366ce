"""Replace the data file by a new one, atomically.

Readers keep the old file until their next call, which finds the mark and changes over. A crash before the
rename leaves the old file as it was, with a mark that counts for nothing as long as the file is in its place,
and that the next writer takes back.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import stat
import sys
from collections.abc import Callable, Container, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import lmdb
import numpy as np

from simindex.errors import SimIndexError
from simindex.storage.environment import ReadTransaction, WriteTransaction, change_nothing
from simindex.storage.folder import COMPACT_FOLDER, DATA_FILE, DEFAULT_PERMISSIONS
from simindex.storage.lmdb_file import (
    DATABASES,
    ENGINE,
    MIN_MAP_BYTES,
    Limit,
    pages_bytes,
    translated,
    with_map,
)
from simindex.storage.page_file import COMMIT_AT, LONGEST_METAS, META_PAGES, metas_of
from simindex.storage.registry import registry
from simindex.storage.store import MOVED_KEY, Store
from simindex.system import sync, sync_folder

Result = TypeVar("Result")

_COPIED_KEY = b"copied"

# LMDB chooses between a file's two meta pages by the parity of the last transaction's number, which the lock
# file keeps and the old file's was. Two commits write both.
_BOTH_META_PAGES = (b"1", b"2")

_PART_BYTES = 8 << 20
"""Of values that are copied in one commit, about."""

_PART_VALUES = 2_048
"""Of them, at most, for some may be much longer than the mean."""

_START_WRITING = 2  # SYNC_FILE_RANGE_WRITE


class NewFile:
    """The file that is being built: neither durable nor seen by other handles before it is whole."""

    def __init__(self, env: lmdb.Environment, data: str) -> None:
        self._env = env
        with registry.building, env.begin(write=True) as txn:
            self._databases = {name: env.open_db(name.encode(), txn=txn) for name in DATABASES}
        self._data = data
        self._start_writing: Any = getattr(ctypes.CDLL(None), "sync_file_range", None)

    def commit(self, change: Callable[[WriteTransaction], Result]) -> Result:
        """Run `change` in a transaction of the new file."""
        try:
            with registry.building, self._env.begin(write=True) as txn:
                result = change(WriteTransaction(txn, self._databases))
            self._write_out()
            return result
        except lmdb.Error as exc:
            raise translated(exc, self._data) from exc

    def copy(
        self,
        txn: ReadTransaction,
        database: str,
        first: bytes = b"",
        behind: bytes | None = None,
        without: Container[bytes] = (),
        *,
        append: bool = True,
    ) -> tuple[bytes | None, int]:
        """Copy some values up to `behind` from a transaction of copies; where to go on, and how many."""
        # No loop in Python over each of millions of values: their number goes by the mean length.
        mean = txn.sizes()[database] // max(txn.count(database), 1)
        size = min(max(_PART_BYTES // max(mean, 1), 1), _PART_VALUES)
        items = txn.some(database, first, size)
        last = bytes(items[-1][0]) + b"\0" if len(items) == size else None
        if behind is not None and items and items[-1][0] >= behind:
            items, last = [item for item in items if item[0] < behind], None
        if without:
            items = [item for item in items if item[0] not in without]
        if items:
            self.commit(lambda new: (new.append if append else new.put_all)(database, items))
        return last, len(items)

    def _write_out(self) -> None:
        """Let the system begin to write."""
        # At the end there would be all of it to wait for, and unwritten pages push out others.
        if self._start_writing is not None:
            with open(self._data, "rb") as data:
                self._start_writing(data.fileno(), ctypes.c_int64(0), ctypes.c_int64(0), _START_WRITING)

    def finish(self) -> int:
        """Make both meta pages valid and the file as long as its pages; returns the last commit's number."""
        for number in _BOTH_META_PAGES:
            self.commit(partial(WriteTransaction.put, database="meta", key=_COPIED_KEY, value=number))
        with registry.building:
            needed, found = pages_bytes(self._env), os.stat(self._data).st_size
            last = int(self._env.info()["last_txnid"])
        if found < needed:
            os.truncate(self._data, needed)
        return last


def replace_file(store: Store, build: Callable[[NewFile], bool]) -> bool:
    """Put a new file that `build` fills in the data file's place, if that returns True; whether it did."""
    folder, new = Path(store.path), Path(store.path) / COMPACT_FOLDER
    try:
        with _translating(store.path):
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(mode=0o700)
        with _building(store, new) as file:
            if not build(file):
                return False
            with _translating(store.path):
                last = file.finish()
        with _translating(store.path):
            _get_ahead_of(store, last)
            for number in _BOTH_META_PAGES:
                store.commit(
                    partial(WriteTransaction.put, database="meta", key=MOVED_KEY, value=number), True
                )
            _renumber(new / DATA_FILE, last, store.environment().info("last_txnid"))
        with _building(store, new) as file, _translating(store.path):
            file.finish()
        with _translating(store.path):
            _make_durable(store, new / DATA_FILE)
            os.replace(new / DATA_FILE, folder / DATA_FILE)
            sync_folder(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    store.change_over()
    return True


@contextlib.contextmanager
def new_file(folder: Path) -> Iterator[NewFile]:
    """Build the data file of a new index, durable at the end of the block, in a folder of its own."""
    with _translating(str(folder)):
        with _open(folder, DEFAULT_PERMISSIONS) as env:
            file = NewFile(env, str(folder / DATA_FILE))
            yield file
            file.finish()
        with open(folder / DATA_FILE, "rb+") as data:
            sync(data.fileno())
        sync_folder(folder)


@contextlib.contextmanager
def _building(store: Store, new: Path) -> Iterator[NewFile]:
    """Open the new file for a ``with`` block."""
    with _translating(store.path), registry.building:
        env = _open(new)
        registry.unseen.add(env)
    try:
        with _translating(store.path):
            file = NewFile(env, str(new / DATA_FILE))
        yield file
    finally:
        with registry.building:  # a fork in the middle of it would leave the child one that never closes
            env.close()
            registry.unseen.discard(env)


@contextlib.contextmanager
def _translating(path: str) -> Iterator[None]:
    try:
        yield
    except SimIndexError:
        raise  # an IndexFullError is an OSError, too
    except (lmdb.Error, OSError) as exc:
        raise translated(exc, path) from exc


def _open(new: Path, permissions: int = 0o600) -> lmdb.Environment:
    # Neither `max_bytes` nor what the process may write holds it back: the disk was asked before.
    size = Limit(None).map_bytes(str(new / DATA_FILE), len(registry.environments))
    options = {"mode": permissions, "max_dbs": len(DATABASES), "lib_version": ENGINE}
    return with_map(str(new), size, MIN_MAP_BYTES, **options, sync=False)  # synced once, when it is whole


def _make_durable(store: Store, new: Path) -> None:
    with open(new, "rb+") as data:
        _keep_owner(data.fileno(), os.stat(store.data))
        sync(data.fileno())


def _get_ahead_of(store: Store, number: int) -> None:
    """Let the old file's transactions have no smaller numbers than the new one's, which goes on from them."""
    # By an even number: a reader takes the meta page of that parity, and the other one's state has
    # pages that the next commit may use again.
    environment = store.environment()
    while (ahead := environment.info("last_txnid") - number) < 0 or ahead % len(_BOTH_META_PAGES):
        store.commit(change_nothing, True)


def _renumber(data: Path, last: int, number: int) -> None:
    """Let the new file's last two commits, which are still to come, have the numbers of the old file's."""
    # Those in the lock file, which others may have open, go on from there. Without a gap, each meta
    # page of a file is of the commit before the other's, so one that is not is damaged.
    earlier = number - len(_BOTH_META_PAGES)
    with open(data, "rb+") as file:
        page_bytes, _ = metas_of(np.frombuffer(file.read(LONGEST_METAS), dtype=np.uint8))
        file.seek(last % META_PAGES * page_bytes + COMMIT_AT)
        file.write(earlier.to_bytes(8, sys.byteorder))


def _keep_owner(file: int, old: os.stat_result) -> None:
    """Give a private file the owner, group and permissions of another."""
    # Who may not give it the group must not give its own group's members what the old one's had.
    mode = stat.S_IMODE(old.st_mode)
    try:
        os.fchown(file, old.st_uid, old.st_gid)
    except PermissionError:
        try:
            os.fchown(file, -1, old.st_gid)
        except PermissionError:
            mode &= ~0o070 | (mode & 0o007) << 3
    os.fchmod(file, mode)
