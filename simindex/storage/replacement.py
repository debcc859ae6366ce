"""Write a new data file beside the old one of an index, or of a new index.

Readers keep the old file until their next call, which finds the mark in it and opens the new one. A crash
before the new file has its name leaves the old one as it was, with a mark that counts for nothing as long as
there is no newer file, and that the next writer takes back.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from simindex.errors import SimIndexError
from simindex.storage.environment import Call, Environment, ReadTransaction, WriteTransaction
from simindex.storage.folder import (
    COMPACT_FILE,
    DATA_FILE,
    DEFAULT_PERMISSIONS,
    LOCK_SUFFIX,
    identity_of,
    remove_unfinished,
)
from simindex.storage.lmdb_file import (
    DATABASES,
    ENGINE,
    MIN_MAP_BYTES,
    Limit,
    open_databases,
    pages_bytes,
    translated,
    with_map,
)
from simindex.storage.registry import registry
from simindex.storage.store import Store
from simindex.system import sync, sync_folder

Result = TypeVar("Result")

_PART_BYTES = 8 << 20
"""Of values that are copied in one commit, about."""

_PART_VALUES = 2_048
"""Of them, at most, for some may be much longer than the mean."""

_START_WRITING = 2  # SYNC_FILE_RANGE_WRITE


class NewFile:
    """The file that is being built: neither durable nor seen by other handles before it is whole."""

    def __init__(self, environment: Environment, data: str) -> None:
        self._environment, self._data = environment, data
        with Call(environment), environment.env.begin(write=True) as txn:
            databases = open_databases(environment.env, txn, create=True)
        environment.databases = databases
        self._start_writing: Any = getattr(ctypes.CDLL(None), "sync_file_range", None)

    def commit(self, change: Callable[[WriteTransaction], Result]) -> Result:
        """Run `change` in a transaction of the new file and return its result; the commit is not durable yet.
        Where an error is raised, LMDB's as SimIndexError, nothing of it is stored. No call may be open on
        this thread."""
        try:
            with Call(self._environment), self._environment.env.begin(write=True) as txn:
                result = change(WriteTransaction(txn, self._environment.databases))
            self._write_out()
            return result
        except lmdb.Error as exc:
            raise translated(exc, self._data) from exc

    def _write_out(self) -> None:
        """Ask the system to begin to write the file, where it can be asked, without waiting."""
        # At the end there would be all of it to wait for, and unwritten pages push out others.
        if self._start_writing is not None:
            with open(self._data, "rb") as data:
                self._start_writing(data.fileno(), ctypes.c_int64(0), ctypes.c_int64(0), _START_WRITING)

    def finish(self) -> None:
        """Lengthen the file to hold all its pages, free ones at its end too."""
        with Call(self._environment):
            needed, found = pages_bytes(self._environment.env), os.stat(self._data).st_size
        if found < needed:
            os.truncate(self._data, needed)


def some_values(
    txn: ReadTransaction,
    database: str,
    first: bytes = b"",
    end: bytes | None = None,
    without: Container[bytes] = (),
) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
    """Return (key, value) pairs with keys from `first` to before `end` (``None``: to the last), as many as
    one transaction of copying takes (about 8 MiB, 2,048 at most), less those whose key is in `without`, so
    perhaps none; and the key to go on from, ``None`` at the end."""
    # No loop in Python over each of millions of values: their number goes by the mean length.
    mean = txn.sizes()[database] // max(txn.count(database), 1)
    size = min(max(_PART_BYTES // max(mean, 1), 1), _PART_VALUES)
    items = txn.some(database, first, size)
    last = bytes(items[-1][0]) + b"\0" if len(items) == size else None
    if end is not None and items and items[-1][0] >= end:
        items, last = [item for item in items if item[0] < end], None
    if without:
        items = [item for item in items if item[0] not in without]
    return items, last


def replace_file(store: Store, build: Callable[[NewFile], bool]) -> bool:
    """Build a new data file beside the old one by `build`, and where that returns True, make it durable and
    let it be the index; else remove it, and the index is as before. Returns which."""
    new = os.path.join(store.path, COMPACT_FILE)
    try:
        with _translating(store.path):
            remove_unfinished(store.path)
            with _building(new, 0o600) as file:
                if not build(file):
                    return False
            for suffix in "", LOCK_SUFFIX:
                _keep_owner(new + suffix, os.stat(store.data + suffix))
            with open(new, "rb+") as data:
                sync(data.fileno())
            store.supersede(new)
    finally:
        remove_unfinished(store.path)
    return True


@contextlib.contextmanager
def new_file(folder: Path) -> Iterator[NewFile]:
    """Create the data file of a new index in `folder`, which holds none, to be filled within the ``with``
    block; durable at its end. Where the block raises, what was written stays."""
    with _translating(str(folder)):
        with _building(str(folder / DATA_FILE), DEFAULT_PERMISSIONS) as file:
            yield file
        with open(folder / DATA_FILE, "rb+") as data:
            sync(data.fileno())
        sync_folder(folder)


@contextlib.contextmanager
def _building(data: str, permissions: int) -> Iterator[NewFile]:
    """Create a data file, registered so that calls may use it, for a ``with`` block; closed at its end."""
    with registry.lock:
        env = _open(data, permissions)
        environment = Environment(env, data, identity_of(data), writable=True)
        registry.add(environment)
    try:
        file = NewFile(environment, data)
        yield file
        file.finish()
    finally:
        registry.close(environment)


@contextlib.contextmanager
def _translating(path: str) -> Iterator[None]:
    try:
        yield
    except SimIndexError:
        raise  # an IndexFullError is an OSError, too
    except (lmdb.Error, OSError) as exc:
        raise translated(exc, path) from exc


def _open(data: str, permissions: int) -> lmdb.Environment:
    # Neither `max_bytes` nor what the process may write holds it back: the disk was asked before.
    size = Limit(None).map_bytes(data, len(registry.environments))
    options = {"mode": permissions, "max_dbs": len(DATABASES), "lib_version": ENGINE}
    return with_map(data, size, MIN_MAP_BYTES, **options, sync=False)  # synced once, when it is whole


def _keep_owner(file: str, old: os.stat_result) -> None:
    """Give a private file the owner, group and permissions of another as far as this user may; where not, it
    grants no more than the other did."""
    # Who may not give it the group must not give its own group's members what the old one's had.
    mode = stat.S_IMODE(old.st_mode)
    try:
        os.chown(file, old.st_uid, old.st_gid)
    except PermissionError:
        try:
            os.chown(file, -1, old.st_gid)
        except PermissionError:
            mode &= ~0o070 | (mode & 0o007) << 3
    os.chmod(file, mode)
