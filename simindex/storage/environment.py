"""One open LMDB environment: its gate, its snapshots, and the transactions over its named databases.

The gate counts the threads that are in a transaction, and is closed for growth, for closing or changing files
and for fork. Invariant: while a thread is inside, the map stays where it is.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain, count, islice
from traceback import walk_stack
from types import FrameType, TracebackType
from typing import Any, Literal, cast

import lmdb

from simindex import _kernel
from simindex.errors import CorruptIndexError, SimIndexError, damaged
from simindex.events import event
from simindex.storage.check_at_open import RECORDS, prove_records
from simindex.storage.folder import DATA_FILE, LMDB_LOCK_FILE
from simindex.storage.lmdb_file import translated
from simindex.storage.page_file import DatabaseRecord, FoundValues, MappedFile, PageMap

_LOOK_AGAIN_SECONDS = 0.5

_LOOKS = 3
"""At what runs, until nothing has changed meanwhile."""


class Visitor:
    """What a thread shows at the gate, to be bound to a local variable for as long as it is inside.

    One that is in no variable of a running function was lost to a Ctrl-C; a traceback may keep it alive.
    """

    __slots__ = ("__weakref__",)


class Visit(Visitor):
    """Keeps an environment open and its map in place for a ``with`` block; bind what it gives."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __enter__(self) -> Visit:
        try:
            self._gate.enter(self)
            return self
        except BaseException:
            self._gate.leave(self)
            raise

    def __exit__(self, *_: object) -> None:
        self._gate.leave(self)


class Gate:
    """Counts the visitors inside; who closes it waits until it is empty. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._inside: dict[int, tuple[weakref.ref[Visitor], int]] = {}
        """By id: the visitor, and the thread that it came with."""
        self._closed_by: int | None = None
        self._holder: weakref.ref[Visitor] | None = None

    def enter(self, visitor: Visitor) -> None:
        """Let a visitor in; waits while the gate is closed."""
        # Ctrl-C can come between any two steps, so a visitor may be gone without having left: only
        # those that are alive, and in the variables of a running function, count.
        thread = threading.get_ident()
        with self._lock:
            if self._closed_by == thread:
                self._open_if_lost()  # it was interrupted itself, so there is no thread to wait for
            while self._closed_by is not None:
                if not self._changed.wait(_LOOK_AGAIN_SECONDS):
                    self._open_if_lost()
            self._inside[id(visitor)] = weakref.ref(visitor), thread

    def leave(self, visitor: Visitor) -> None:
        """Let a visitor out; without effect for one that is not inside."""
        with self._lock:
            self._inside.pop(id(visitor), None)
            if self._closed_by is not None and not self._inside:
                self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether no visitor is inside."""
        return all(visitor() is None for visitor, _ in list(self._inside.values()))

    @property
    def is_closed(self) -> bool:
        """Whether a thread has closed it, or waits for that."""
        return self._closed_by is not None

    def close(self, timeout: float | None = None, holder: Visitor | None = None) -> bool:
        """Close the gate once no visitor is inside; False after a timeout. The holder lives until `open`."""
        # The caller has the holder in a local variable: where Ctrl-C takes that away, the gate opens again.
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while self._closed_by is not None:
                if not self._wait(deadline):
                    return False
                self._open_if_lost()
            try:
                self._holder = None if holder is None else weakref.ref(holder)
                self._closed_by = threading.get_ident()
                while not self.is_empty:
                    if not self._wait(deadline):
                        self._open()
                        return False
                    self._forget_lost(may_wait=timeout is not None)
                self._inside.clear()
            except BaseException:
                self._open()
                raise
        return True

    def _forget_lost(self, *, may_wait: bool) -> None:
        """Forget visitors that no running function has any more. The lock is held."""
        running = _running_visitors()
        for key, (visitor, thread) in list(self._inside.items()):
            alive = visitor()
            if alive is None or (running is not None and id(alive) not in running):
                del self._inside[key]
            elif thread == threading.get_ident() and not may_wait:
                raise SimIndexError(
                    "expected a call of its own, found one from inside another call of the same thread, "
                    "such as a signal handler's; close or compact when that one is done"
                )

    def _open_if_lost(self) -> None:
        """Open the gate where no running function is left that would. The lock is held."""
        if self._closed_by is not None and self._holder is not None:
            running = _running_visitors()  # before `holder` is one of these variables
            holder = self._holder()
            if holder is None or (running is not None and id(holder) not in running):
                self._open()

    def _wait(self, deadline: float | None) -> bool:
        """Wait for a change, or a little; False behind the deadline. The lock is held."""
        left = _LOOK_AGAIN_SECONDS
        if deadline is not None:
            left = min(left, deadline - time.monotonic())
        if left <= 0:
            return False
        self._changed.wait(left)
        return True

    def _open(self) -> None:
        self._closed_by = None
        self._changed.notify_all()

    def open(self) -> None:
        """Open the gate, if this thread has closed it: Ctrl-C may come while it waits for another thread."""
        with self._lock:
            if self._closed_by == threading.get_ident():
                self._open()


def _running_visitors() -> set[int] | None:
    """Return the ids of the visitors in the local variables of running functions.

    ``None`` where a thread went on while they were looked for, as it may on a busy machine: a generator in
    which it was then has no caller any more, and the caller may be inside.
    """
    for _ in range(_LOOKS):
        frames = sys._current_frames()
        before = _places(frames)
        running = chain.from_iterable(map(walk_stack, frames.values()))
        values = chain.from_iterable(list(frame.f_locals.values()) for frame, _ in running)
        found = {id(value) for value in values if isinstance(value, Visitor)}
        if _places(sys._current_frames()) == before:
            return found
    return None


def _places(frames: dict[int, FrameType]) -> dict[int, tuple[int, int]]:
    """Return where each thread but this one is."""
    here = threading.get_ident()
    return {thread: (id(frame), frame.f_lasti) for thread, frame in frames.items() if thread != here}


_generations = count()
"""Of maps: no two environments of a process have one in common, nor a forked child's and its parent's."""


BETWEEN_FILES = "its data file could not be opened again"
"""The failure of an environment that was closed to open another file, and then was broken off."""


class Environment:
    """One open LMDB environment.

    Attributes:
        env: LMDB's, for visitors and for the thread that has closed the gate: py-lmdb counts the calls
            under way, and a child that is forked in the middle of one would wait for ever when it
            closes what it inherits.
        lock_inode: of its lock file; ``None`` where there is none.
        handles: the stores that share it.
        databases: LMDB's handles by name; none where the file holds nothing yet.
        map_generation: another one with each file that is mapped; addresses from before are void.
        checked_id: newest transaction id without a mark of a compaction.
        looked_at: when its path was last looked at, by the monotonic clock.
        are_records_proven: whether LMDB may follow the tree of the records; see `prove_records`.
        missing: which of its files was replaced or removed, where one was.
        is_broken: whether LMDB refuses to go on with it after an error.
        failure: why it is dead, where it is; `BETWEEN_FILES` for its handles to open another one.
    """

    def __init__(self, env: lmdb.Environment, folder: str, identity: tuple[int, int], writable: bool) -> None:
        self.folder, self.writable = folder, writable
        self.gate = Gate()
        self.handles: weakref.WeakSet[object] = weakref.WeakSet()
        self.pins: set[Pin] = set()
        self.map_generation = next(_generations)
        self.looked_at = time.monotonic()
        self.missing = DATA_FILE
        self.pages: PageMap | None = None  # `look` finds them
        self._lock_file = os.path.join(folder, LMDB_LOCK_FILE)
        self.change(env, identity, {})

    def change(self, env: lmdb.Environment, identity: tuple[int, int], databases: dict[str, Any]) -> None:
        """Go on with another file. The gate is closed."""
        self.env, self.identity, self.databases = env, identity, databases
        try:
            self.lock_inode: int | None = os.stat(self._lock_file).st_ino
        except OSError:
            self.lock_inode = None
        self.are_records_proven = self.is_broken = False
        self.checked_id, self.failure = -1, ""

    @property
    def is_between_files(self) -> bool:
        """Whether nothing is wrong but that its file is closed."""
        return self.failure == BETWEEN_FILES

    def info(self, field: Literal["map_size", "last_txnid"]) -> int:
        """Return a figure of LMDB's. The caller is no visitor."""
        with Visit(self.gate) as _visit:
            return int(self.env.info()[field])

    def close_gate(self, timeout: float | None = None, holder: Visitor | None = None) -> bool:
        """Close the gate once no visitor is inside, and end pinned snapshots; see `Gate.close`."""
        if not self.gate.close(timeout, holder):
            return False
        try:
            for pin in list(self.pins):
                pin.drop()
        except BaseException:
            self.gate.open()
            raise
        return True

    def look(self, txn: lmdb.Transaction) -> PageMap:
        """Return where the map lies; the first time since it moved, the address of a key that `txn` views
        shows it."""
        if self.pages is not None:
            return self.pages
        info = self.env.info()
        with txn.cursor(db=self.databases["meta"]) as cursor:
            cursor.first()
            key = cast("memoryview", cursor.key())
            pages = PageMap.around(key, self.env.stat()["psize"], info["last_pgno"] + 1)
        path = os.path.join(self.folder, DATA_FILE)
        mapped = MappedFile.open(path, self.identity, pages.base, info["map_size"])
        self.pages = found = replace(pages, mapped=mapped)
        return found

    def prove_records(self, txn: lmdb.Transaction) -> None:
        """Prove the branch pages of the records, before LMDB follows them for the first time."""
        # Opening does not: of 6.8 million documents they are 344 of the 528 pages that it would
        # read. What comes later LMDB has made.
        pages = self.look(txn)
        num_pages = self.env.info()["last_pgno"] + 1
        if pages.mapped is not None:
            num_pages = min(num_pages, pages.mapped.length() // pages.page_bytes)
        record = bytes(txn.get(RECORDS.encode()) or b"")
        prove_records(pages.base, num_pages, pages.page_bytes, record, self.folder)
        self.are_records_proven = True

    def bytes_in_place(self, data: str) -> int | None:
        """Return the length of the data file; ``None`` where that or the lock file is another."""
        self.looked_at = time.monotonic()
        self.missing = DATA_FILE
        try:
            found = os.stat(data)
            if (found.st_dev, found.st_ino) != self.identity:
                return None
            self.missing = LMDB_LOCK_FILE
            if self.lock_inode is None or os.stat(self._lock_file).st_ino == self.lock_inode:
                return found.st_size
        except OSError:
            pass
        return None


class Exclusive(Visitor):
    """Keeps every transaction of this process out for a ``with`` block; addresses from before it are void."""

    __slots__ = ("_environment",)

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __enter__(self) -> Exclusive:
        try:
            self._environment.close_gate(holder=self)
            # Before the map is touched: a thread that comes in later must not use addresses from before.
            self._environment.map_generation, self._environment.pages = next(_generations), None
            return self
        except BaseException:
            self._environment.gate.open()
            raise

    def __exit__(self, *_: object) -> None:
        self._environment.gate.open()


class Pin:
    """A snapshot that a handle keeps between calls. Safe to share between threads."""

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
        """End the snapshot at once; no call may be under way in it."""
        self._environment.pins.discard(self)
        txn, self.txn = self.txn, None
        if txn is not None:
            txn.abort()


def begun(env: lmdb.Environment, *, buffers: bool) -> lmdb.Transaction:
    """Begin to read, of views or of copies: the state that the transaction's number says."""
    # LMDB writes the number down, which keeps the pages of that state, and then copies the meta page of
    # its parity. A reader that is halted between the two for two commits copies a later state than it
    # says. No commit has written over that page while no meta page has a later number, or the next to
    # begin gets the same.
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


_PART_BYTES, _PART_ENTRIES = 1 << 22, 512
"""About as many values are copied at a time, by their mean length."""

_FIRST_ENTRIES = 32
"""Entries whose pages are proven first; then `_PART_ENTRIES`."""


class ReadTransaction(Visitor):
    """One consistent state of the databases, for the length of a ``with`` block; made by `Store.reading`.

    The gate counts it from before it begins until it has ended: bind it, as `Visitor` says.

    Attributes:
        environment: that it is inside of.
        id: of the state: equal ids, equal content.
        map_generation: addresses loaded under another generation are void.
        pin: the pinned snapshot that it is of; ``None`` where it is one of its own.
    """

    environment: Environment
    __slots__ = (
        "_are_views",
        "_begin",
        "_pages",
        "_path",
        "_txn",
        "environment",
        "id",
        "map_generation",
        "pin",
    )

    def __init__(
        self, begin: Callable[[ReadTransaction, bool], lmdb.Transaction], path: str, are_views: bool
    ) -> None:
        """Args: begin: comes inside and begins to read; are_views: whether values are views of the map."""
        self._begin, self._path, self._are_views = begin, path, are_views
        self.pin: Pin | None = None

    def __enter__(self) -> ReadTransaction:
        try:
            self._txn = txn = self._begin(self, self._are_views)
            environment = self.environment
            self.id: int = txn.id()
            self.map_generation = environment.map_generation
            self._pages = environment.pages or environment.look(txn)
            return self
        except BaseException as exc:
            self.__exit__(type(exc), exc, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # As long as anything refers to LMDB's transaction, it keeps its place among the readers, and a
        # traceback that is kept refers to this.
        try:
            txn = getattr(self, "_txn", None)  # it may not have begun
            if txn is not None:
                del self._txn
            if self.pin is not None:
                self.pin.leave(self)
            elif txn is not None:
                txn.abort()
        finally:
            environment = getattr(self, "environment", None)  # there may have been none to come into
            if environment is not None:
                environment.gate.leave(self)
        if error is not None:
            if isinstance(error, lmdb.Error):
                raise translated(error, self._path) from error
            if isinstance(error, SimIndexError):
                if isinstance(error, CorruptIndexError) and error.path is None:
                    event("damage met", self._path, damage=str(error))
                error.located(self._path)

    def get(self, database: str, key: bytes) -> memoryview | None:
        """Return a value, or ``None``. CorruptIndexError: its page lies in the place of another."""
        environment = self.environment
        if not environment.are_records_proven and database == RECORDS:
            environment.prove_records(self._txn)
        found: Any = self._txn.get(key, db=environment.databases[database])
        pages = self._pages
        if type(found) is memoryview and not _kernel.is_in_place(pages.base, pages.page_bytes, found):
            raise CorruptIndexError(
                f"{database}, key {key.hex()}: expected a tree page in its place, found another one; "
                "restore a backup, or save what is left with simindex repair",
                key=key,
            )
        return found  # type: ignore[no-any-return] # a view, where the transaction is one of views

    def tree(self, database: str) -> tuple[int, int, int, int, int]:
        """Return where the kernel finds a database: address of the map, its pages, their bytes; root and
        depth. Of equal states in one map generation they are equal."""
        num_pages, tree = self._tree(database)
        return self._pages.base, num_pages, self._pages.page_bytes, tree.root, tree.depth

    def values(self, database: str, first: bytes, count: int) -> FoundValues | None:
        """Return where the values of neighbouring keys of one length lie; ``None``: there are fewer."""
        num_pages, tree = self._tree(database)
        return self._pages.values(tree, first, count, num_pages)

    def _tree(self, database: str) -> tuple[int, DatabaseRecord]:
        """Return the number of pages of the map, and the tree of a database."""
        tree = DatabaseRecord.of(bytes(self._txn.get(database.encode()) or b""))
        if tree is None:
            raise CorruptIndexError(
                f"{database}: expected the record of a database, found damage; restore a backup"
            )
        return self.environment.env.info()["last_pgno"] + 1, tree

    def _large_values(self, database: str, keys: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield (address, length) of those values that have pages of their own, without reading them."""
        for key in keys:
            found = self.values(database, key, 1)
            if found and not found.held and found.addresses[0] and found.keys[0].tobytes() == key:
                yield int(found.addresses[0]), int(found.lengths[0])

    def mapped_file(self) -> MappedFile | None:
        """Return the file behind the map; ``None`` where another one has taken its path."""
        return self._pages.mapped

    def items(self, database: str, first: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """Yield (key, value) from `first` on, in order. CorruptIndexError: a page on the way is damaged."""
        for key, value in self._walk(database, first):
            yield bytes(key), value

    def _walk(self, database: str, first: bytes) -> Iterator[tuple[Any, Any]]:
        return chain.from_iterable(self._stretches(database, first))

    def _stretches(self, database: str, first: bytes) -> Iterator[Iterator[tuple[Any, Any]]]:
        """Yield iterators over neighbouring entries, each to be used up before the next."""
        # Their pages are proven before LMDB steps on them, for it ends the process on a page that
        # is no leaf.
        walk: Iterator[tuple[Any, Any]] | None = None
        wanted, most = first, _FIRST_ENTRIES
        if not self.environment.are_records_proven and database == RECORDS:
            self.environment.prove_records(self._txn)
        with self._txn.cursor(db=self.environment.databases[database]) as cursor:
            while True:
                found = _kernel.sound_entries(*self.tree(database), wanted, most)
                is_damaged = found < 0
                found = -1 - found if is_damaged else found
                if not found and is_damaged:
                    raise CorruptIndexError(
                        f"{database}: expected tree pages that fit together, found a damaged one behind key "
                        f"{wanted.hex() or 'none'}; restore a backup, or save what is left with simindex "
                        "repair",
                        key=wanted,
                    )
                if found and walk is None:
                    walk = iter(cursor) if cursor.set_range(first) else iter(())
                yield islice(walk or (), found)
                key = bytes(cursor.key())
                if not key or (found != most and not is_damaged):
                    return
                wanted, most = key + b"\0", _PART_ENTRIES

    def parts(self, database: str, first: bytes = b"") -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield what `items` does as copies, some hundred at a time: for millions a third of the time."""
        entries, num_bytes = self.count(database), self.sizes()[database]
        size = min(max(_PART_BYTES * entries // max(num_bytes, 1), 1), _PART_ENTRIES)
        items = self._walk(database, first)
        while part := _copied(islice(items, size)):
            yield part

    def some(self, database: str, first: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return so many (key, value) from `first` on as copies, or all where fewer are left."""
        return _copied(islice(self._walk(database, first), limit))

    def read_ahead(self, database: str, keys: Iterable[bytes]) -> None:
        """Let the system read large values, without waiting: met one by one each page would be waited for."""
        for place in self._large_values(database, keys):
            _kernel.stream_ahead(*place)

    def let_go(self, database: str, keys: Iterable[bytes]) -> None:
        """Let the pages of large values leave the memory: they were written, and will not be read soon."""
        if mapped := self.mapped_file():
            for place in self._large_values(database, keys):
                mapped.let_go(*place)

    def count(self, database: str) -> int:
        """Return the number of entries, as LMDB counts them."""
        return int(self._txn.stat(self.environment.databases[database])["entries"])

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the pages of each database."""
        sizes = {}
        for name, database in self.environment.databases.items():
            stat = self._txn.stat(database)
            sizes[name] = stat["psize"] * (stat["leaf_pages"] + stat["branch_pages"] + stat["overflow_pages"])
        return sizes


def _copied(items: Iterable[tuple[Any, Any]]) -> list[tuple[bytes, bytes]]:
    """Return copies of entries, which come as such or as views."""
    found = list(items)
    is_copy = not found or type(found[0][1]) is bytes
    return found if is_copy else [(bytes(key), bytes(value)) for key, value in found]


class WriteTransaction:
    """The write transaction that `Store.commit` hands to its change."""

    __slots__ = "_databases", "_txn"

    def __init__(self, txn: lmdb.Transaction, databases: dict[str, Any]) -> None:
        self._txn = txn
        self._databases = databases

    def put(self, database: str, key: bytes, value: bytes) -> None:
        """Store a value, replacing another."""
        self._txn.put(key, value, db=self._databases[database])

    def append(self, database: str, items: Collection[tuple[bytes, bytes]]) -> None:
        """Store values whose keys ascend and follow every stored key; CorruptIndexError where they do not."""
        if len(items) == 1:
            ((key, value),) = items
            consumed = added = int(self._txn.put(key, value, append=True, db=self._databases[database]))
        else:
            with self._txn.cursor(db=self._databases[database]) as cursor:
                consumed, added = cursor.putmulti(iter(items), overwrite=False, append=True)
        if consumed != len(items) or added != len(items):
            wanted = f"expected to append {len(items)} new keys behind the stored ones, appended {added}"
            raise damaged(f"{database}: {wanted}")

    def put_all(self, database: str, items: list[tuple[bytes, bytes]]) -> None:
        """Store values, replacing others."""
        with self._txn.cursor(db=self._databases[database]) as cursor:
            cursor.putmulti(items)

    def delete(self, database: str, key: bytes) -> bool:
        """Remove a key; False when it was not there."""
        return bool(self._txn.delete(key, db=self._databases[database]))

    def delete_prefix(self, database: str, prefix: bytes) -> int:
        """Remove every key with a prefix; returns how many."""
        removed = 0
        with self._txn.cursor(db=self._databases[database]) as cursor:
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()).startswith(prefix):
                found = cursor.delete()
                removed += 1
        return removed


_TURN_KEY = b"turn"
"""Never stored: put and deleted in one commit."""


def change_nothing(txn: WriteTransaction) -> None:
    """A commit all the same, for pages are touched."""
    txn.put("meta", _TURN_KEY, b"")
    txn.delete("meta", _TURN_KEY)
