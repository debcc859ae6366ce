"""One open LMDB environment, shared by all handles of a process on the same file."""

from __future__ import annotations

import itertools
import os
import threading
import time
import weakref
from typing import Any, cast

import lmdb

from simindex.errors import SimIndexError
from simindex.storage.check_at_open import RECORDS, prove_entrance, prove_records
from simindex.storage.folder import DATA_FILE, LMDB_LOCK_FILE
from simindex.storage.gate import Gate, Visitor
from simindex.storage.pages import MappedFile, PageMap

_generations = itertools.count()
"""Of maps: no two environments of a process have one in common, nor a forked child's and its parent's."""


BETWEEN_FILES = "its data file could not be opened again"
"""The failure of an environment that was closed to open another file, and then was broken off."""


class Environment:
    """One open LMDB environment.

    Attributes:
        env: LMDB's; for who is inside, or keeps everybody out. py-lmdb counts the calls under way, and a
            child that is forked in the middle of one would wait for ever when it closes what it inherits.
        lock_inode: of its lock file; ``None`` where there is none.
        writable: whether it may be written to.
        handles: the stores that share it; one that became garbage has left.
        databases: LMDB's handles by name; none where the file holds nothing yet.
        map_generation: another one when the map moves; addresses from before are void.
        checked_id: newest transaction id that was seen not to be moved away from.
        looked_at: when its place in the file system was looked at, by the monotonic clock.
        are_records_proven: whether LMDB may follow the tree of the records; see `prove_records`.
        missing: which of its files another one was found in the place of, where one was.
        is_broken: whether LMDB refuses to go on with it after an error.
        failure: why it is dead, where it is; `BETWEEN_FILES` for its handles to open another one.
    """

    def __init__(self, env: lmdb.Environment, folder: str, identity: tuple[int, int], writable: bool) -> None:
        self.env = env
        self.folder = folder
        self.identity = identity
        self._lock_file = os.path.join(folder, LMDB_LOCK_FILE)
        self.lock_inode = self._lock_inode_there()
        self.writable = writable
        self.gate = Gate()
        self.handles: weakref.WeakSet[object] = weakref.WeakSet()
        self.databases: dict[str, lmdb._Database] = {}
        self.pins: set[Pin] = set()
        self.map_generation = next(_generations)
        self.checked_id = -1
        self.looked_at = time.monotonic()
        self.are_records_proven = False
        self.missing = DATA_FILE
        self.is_broken = False
        self.failure = ""
        self._pages: tuple[int, PageMap | None] = -1, None
        self._mapped: tuple[int, MappedFile | None] = -1, None

    @property
    def is_between_files(self) -> bool:
        """Whether nothing is wrong but that its file is closed."""
        return self.failure == BETWEEN_FILES

    def inside(self) -> Visit:
        """Keep the environment open and its map in place for a ``with`` block; bind what it gives."""
        return Visit(self)

    def change(
        self, env: lmdb.Environment, identity: tuple[int, int], databases: dict[str, lmdb._Database]
    ) -> None:
        """Go on with another file. Everybody is kept out."""
        self.env = env
        self.identity = identity
        self.lock_inode = self._lock_inode_there()
        self.databases = databases
        self.are_records_proven = False
        self.checked_id = -1
        self.is_broken = False
        self.failure = ""

    def _lock_inode_there(self) -> int | None:
        try:
            return os.stat(self._lock_file).st_ino
        except OSError:
            return None

    def map_bytes(self) -> int:
        """Return the length of the map. The caller is not inside."""
        with self.inside() as visit:
            return int(visit.env.info()["map_size"])

    def last_transaction(self) -> int:
        """Return the number of the last commit. The caller is not inside."""
        with self.inside() as visit:
            return int(visit.env.info()["last_txnid"])

    def check_readers(self) -> None:
        """Free the slots that killed readers have left. The caller is not inside."""
        with self.inside() as visit:
            visit.env.reader_check()

    def stop(self, timeout: float | None = None, holder: Visitor | None = None) -> bool:
        """Keep everybody out once nobody is inside, and end pinned snapshots; see `Gate.stop`."""
        if not self.gate.stop(timeout, holder):
            return False
        try:
            for pin in list(self.pins):
                pin.drop()
        except BaseException:
            self.gate.go_on()
            raise
        return True

    def alone(self) -> Alone:
        """Keep every transaction of this process out for a ``with`` block; bind what it gives."""
        return Alone(self)

    def pages_of(self, txn: lmdb.Transaction) -> tuple[PageMap | None, int]:
        """Return the map, as far as a short value shows where it lies, and the number of its pages."""
        num_pages = self.env.info()["last_pgno"] + 1
        generation, pages = self._pages
        if generation != self.map_generation:
            with txn.cursor(db=self.databases["meta"]) as cursor:
                key = cursor.key() if cursor.first() else None
                value: object = cursor.value()
            if key is not None and type(value) is not memoryview:
                try:
                    with self.env.begin(buffers=True) as views:  # the transaction gives copies
                        value = views.get(bytes(key), db=self.databases["meta"])
                except lmdb.Error:
                    value = None
                if value is None:
                    return None, num_pages
            pages = None if key is None else PageMap.around(self.env, cast("memoryview", value), num_pages)
            self._pages = self.map_generation, pages
        return pages, num_pages

    def place(self, txn: lmdb.Transaction) -> tuple[int, int] | None:
        """Return where the map lies and the bytes of its pages, as far as `pages_of` knows."""
        if self._pages[0] != self.map_generation:
            if not self.databases:
                return None
            try:
                self.pages_of(txn)
            except lmdb.Error:  # whoever asks for a value is told
                return None
        pages = self._pages[1]
        return None if pages is None else (pages.base, pages.page_bytes)

    def prove_records(self, txn: lmdb.Transaction) -> None:
        """Prove the branch pages of the records in the state of a transaction, before LMDB follows them, if
        nobody has.

        Opening does not: of 6.8 million documents they are 344 of the 528 pages that it would read. Once is
        enough, as for what opening proves: what comes later LMDB has made.

        Raises:
            CorruptIndexError: one of them is damaged.
        """
        if self.are_records_proven:
            return
        pages, num_pages = self.pages_of(txn)
        record = txn.get(RECORDS.encode())
        mapped = self.mapped_file(txn)
        if pages is not None and record is not None:
            if mapped is not None:
                num_pages = min(num_pages, mapped.length() // pages.page_bytes)
            prove_records(pages.base, num_pages, pages.page_bytes, bytes(record), self.folder)
        else:
            with open(os.path.join(self.folder, DATA_FILE), "rb") as file:
                prove_entrance(self.env, file.fileno(), self.folder, of_records=True)
        self.are_records_proven = True

    def mapped_file(self, txn: lmdb.Transaction) -> MappedFile | None:
        """Return the data file as it is mapped; ``None`` where nothing shows where, or it was replaced."""
        generation, mapped = self._mapped
        if generation != self.map_generation or mapped is None:
            pages, _ = self.pages_of(txn)
            path, num_bytes = os.path.join(self.folder, DATA_FILE), self.env.info()["map_size"]
            mapped = None if pages is None else MappedFile.open(path, self.identity, pages.base, num_bytes)
            self._mapped = self.map_generation, mapped
        return mapped

    def bytes_in_place(self, data: str) -> int | None:
        """Return the length of the data file; ``None`` where another one or none is in its place, a path.

        Or in that of LMDB's lock file, by which writers and readers know of one another: see `missing`.
        """
        self.looked_at = time.monotonic()
        self.missing = DATA_FILE
        try:
            found = os.stat(data)
        except OSError:
            return None
        if (found.st_dev, found.st_ino) != self.identity:
            return None
        try:
            if self.lock_inode is None or os.stat(self._lock_file).st_ino == self.lock_inode:
                return found.st_size
        except OSError:
            pass
        self.missing = LMDB_LOCK_FILE
        return None

    def move_map(self, size: int) -> None:
        """Set the map size (0: what the file says).

        Raises:
            SimIndexError: no address space; every handle opens the file again at its next call.
        """
        with self.alone() as _alone:
            try:
                self.env.set_mapsize(size)
            except lmdb.Error as exc:
                # LMDB has let go of the old map by then, and nothing can be read through it any more.
                self.failure = BETWEEN_FILES
                raise SimIndexError(
                    f"{self.folder}: expected address space for a larger map, found none ({exc}); nothing of "
                    "this change is stored, and what was committed before is intact. Close what takes "
                    "memory, or raise the limit (ulimit -v)"
                ) from exc


class Visit(Visitor):
    """Somebody who is inside for a ``with`` block, with LMDB's environment at hand as `env`, and its
    `map_generation`."""

    __slots__ = ("_environment", "env", "map_generation")

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __enter__(self) -> Visit:
        try:
            self._environment.gate.enter(self)
            self.env = self._environment.env  # it may have been another one before
            self.map_generation = self._environment.map_generation
            return self
        except BaseException:
            self._environment.gate.leave(self)
            raise

    def __exit__(self, *_: object) -> None:
        self._environment.gate.leave(self)


class Alone(Visitor):
    """Somebody who keeps everybody out for a ``with`` block. Addresses from before it are void."""

    __slots__ = ("_environment",)

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __enter__(self) -> Alone:
        try:
            self._environment.stop(holder=self)
            # Before the map is touched: whoever comes in later must not go by addresses from before.
            self._environment.map_generation = next(_generations)
            return self
        except BaseException:
            self._environment.gate.go_on()
            raise

    def __exit__(self, *_: object) -> None:
        self._environment.gate.go_on()


class Pin:
    """A snapshot that a handle keeps between calls. Safe to share between threads.

    Attributes:
        txn: LMDB's transaction; ``None`` when it was dropped.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._lock = threading.RLock()  # a signal handler may come in between
        self._users: weakref.WeakSet[Visitor] = weakref.WeakSet()
        self._has_ended = False
        for other in list(environment.pins):
            other.forget_lost()
        self.txn: lmdb.Transaction | None = begun(environment.env, buffers=True)
        environment.pins.add(self)

    def enter(self, visitor: Visitor) -> lmdb.Transaction | None:
        """Return the transaction for a call, which keeps it until `leave`; ``None`` where it has ended."""
        with self._lock:
            if self._has_ended or self.txn is None:
                return None
            self._users.add(visitor)
            return self.txn

    def leave(self, visitor: Visitor) -> None:
        """Let go of it; the last one drops a snapshot that has ended meanwhile."""
        with self._lock:
            self._users.discard(visitor)
            self.forget_lost()

    def end(self) -> None:
        """Let no further call in, and drop the snapshot once the calls under way have left it."""
        with self._lock:
            self._has_ended = True
            self.forget_lost()

    def forget_lost(self) -> None:
        """Drop it if it has ended and no call is in it: one that Ctrl-C broke off may not have left."""
        with self._lock:
            if self._has_ended and not self._users:
                self.drop()

    def drop(self) -> None:
        """End the snapshot at once: for who knows that no call is under way in it."""
        self._environment.pins.discard(self)
        txn, self.txn = self.txn, None
        if txn is not None:
            txn.abort()


def begun(env: lmdb.Environment, *, buffers: bool) -> lmdb.Transaction:
    """Begin to read, of views or of copies: the state that the transaction's number says.

    LMDB writes the number down, which keeps the pages of that state, and then copies the meta page of its
    parity. A reader that the system halts between the two for the length of two commits copies a later state
    than it says, and whoever knows states by their numbers would have two of one. Nobody has come to write
    over that page while no meta page has a later number, or while the next to begin gets the same one.
    """
    begin: Any = env.begin  # its types tell views from copies; who uses them does not
    txn: lmdb.Transaction = begin(buffers=buffers)
    while env.info()["last_txnid"] > txn.id():
        # A commit is under way, or done.
        later: lmdb.Transaction = begin(buffers=buffers)
        if later.id() == txn.id():
            later.abort()
            return txn
        txn.abort()
        txn = later
    return txn
