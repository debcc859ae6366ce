"""The open LMDB environments of a process, each shared by its handles on that file: gate and pins; and what
fork() does to them.

The gate counts the threads that are in a transaction, and is closed for growth, for closing or changing files
and for fork. Invariant: while a thread is inside, the map stays where it is.

A second environment of one file would break LMDB's locks, and a forked child must not touch the one that it
has inherited: it forgets every environment without closing it, unless it opens the same file, or uses a
reader's handle that it has inherited; then the inherited one is closed first.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from itertools import chain, count
from traceback import walk_stack
from types import FrameType
from typing import Any, Literal, NamedTuple, cast

import lmdb

from simindex.errors import SimIndexError
from simindex.storage.check_at_open import RECORDS, prove_records
from simindex.storage.folder import DATA_FILE, LMDB_LOCK_FILE
from simindex.storage.page_file import MappedFile, PageMap

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


class FoundMap(NamedTuple):
    """Where the map lies, and its file; ``None`` where another one has taken its path."""

    pages: PageMap
    mapped: MappedFile | None


class Environment:
    """One open LMDB environment.

    Attributes:
        env: LMDB's, for visitors and for the thread that has closed the gate: py-lmdb counts the calls
            under way, and a child that is forked in the middle of one would wait for ever when it
            closes what it inherits.
        lock_inode: of its lock file; ``None`` where there is none.
        handles: the stores that share it.
        databases: LMDB's handles by name; none where the file holds nothing yet.
        map_generation: another one when the map moves; addresses from before are void.
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
        self.found_map: FoundMap | None = None
        self._lock_file = os.path.join(folder, LMDB_LOCK_FILE)
        self.change(env, identity, {})

    def change(
        self, env: lmdb.Environment, identity: tuple[int, int], databases: dict[str, lmdb._Database]
    ) -> None:
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

    def look(self, txn: lmdb.Transaction) -> FoundMap:
        """Return where the map lies; the first time since it moved, the address of a key that `txn` views
        shows it."""
        if self.found_map is not None:
            return self.found_map
        info = self.env.info()
        with txn.cursor(db=self.databases["meta"]) as cursor:
            cursor.first()
            key = cast("memoryview", cursor.key())
            pages = PageMap.around(key, self.env.stat()["psize"], info["last_pgno"] + 1)
        path = os.path.join(self.folder, DATA_FILE)
        mapped = MappedFile.open(path, self.identity, pages.base, info["map_size"])
        self.found_map = found = FoundMap(pages, mapped)
        return found

    def prove_records(self, txn: lmdb.Transaction) -> None:
        """Prove the branch pages of the records, before LMDB follows them for the first time."""
        # Opening does not: of 6.8 million documents they are 344 of the 528 pages that it would
        # read. What comes later LMDB has made.
        pages, mapped = self.look(txn)
        num_pages = self.env.info()["last_pgno"] + 1
        if mapped is not None:
            num_pages = min(num_pages, mapped.length() // pages.page_bytes)
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

    def move_map(self, size: int) -> None:
        """Set the map size (0: what the file says). SimIndexError: no address space."""
        with Exclusive(self) as _exclusive:
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


class Exclusive(Visitor):
    """Keeps every transaction of this process out for a ``with`` block; addresses from before it are void."""

    __slots__ = ("_environment",)

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def __enter__(self) -> Exclusive:
        try:
            self._environment.close_gate(holder=self)
            # Before the map is touched: a thread that comes in later must not use addresses from before.
            self._environment.map_generation, self._environment.found_map = next(_generations), None
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


_FORK_WAIT_SECONDS = 10.0


_MAP_FIXED = 0x10


class Registry:
    """What this process has open.

    Attributes:
        lock: held for every change of the dictionaries.
        environments: (device, inode) of a data file -> its environment.
        on_fork: what the child calls for each open handle, to let go of it; it keeps no handle alive.
        inherited: in a forked child: the parent's environments, kept from the garbage collector, and
            whether they were quiet, so that closing one takes nothing from the parent.
        building: held for every step in a file that a compaction builds.
        unseen: LMDB's environments of such files. A child closes what it has inherited: when the file has got
            its place it could not open it otherwise, and only the writer has locks in it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.environments: dict[tuple[int, int], Environment] = {}
        self.on_fork: set[weakref.WeakMethod[Callable[[], None]]] = set()
        self.inherited: dict[tuple[int, int], tuple[Environment, bool]] = {}
        self.building = threading.Lock()
        self.unseen: set[lmdb.Environment] = set()
        self._has_hooks = False
        self._is_held = self._is_building_held = False
        self._paused: list[Environment] = []  # between the hooks of one fork

    def close_unused(self, leaving: object = None) -> None:
        """Close the environments that no handle but `leaving` has any more. The lock is not held."""
        with self.lock:
            for identity, environment in list(self.environments.items()):
                if leaving is not None:
                    environment.handles.discard(leaving)
                if not environment.handles:
                    # Calls of other threads end first: their addresses lie in the map.
                    with Exclusive(environment) as _exclusive:
                        self.environments.pop(identity, None)
                        environment.env.close()

    def give_up(self, dead: Environment) -> None:
        """Close an environment that was left between two files, if that is still to be done."""
        with self.lock, Exclusive(dead) as _exclusive:
            if self.environments.get(dead.identity) is dead:
                del self.environments[dead.identity]
            dead.env.close()

    def close_inherited(self, identity: tuple[int, int], folder: str, path: str) -> None:
        """In a forked child: close the parent's environment of a file, for a process may open one only."""
        # By the folder, too: another process may have put another file there since the parent
        # opened it.
        for found, (environment, quiet) in list(self.inherited.items()):
            if found != identity and environment.folder != folder:
                continue
            if not quiet:
                raise SimIndexError(
                    f"{path}: the parent process was in the middle of a call on it when it forked; "
                    "open it in a process that is started anew"
                )
            if not _unshare(environment.folder, environment.lock_inode):
                raise SimIndexError(
                    f"{path}: the parent process had it open when it forked, and this system does not tell "
                    "where its lock file lies in memory; open it in a process that is started anew"
                )
            environment.env.close()
            del self.inherited[found]

    def install_hooks(self) -> None:
        """Follow every fork() from now on."""
        with self.lock:
            if not self._has_hooks:
                self._has_hooks = True
                os.register_at_fork(
                    before=self._pause, after_in_parent=self._go_on, after_in_child=self._abandon
                )

    def _pause(self) -> None:
        """Let running transactions end, so that the child inherits none."""
        # For a while only: a signal handler may fork in the middle of one on its own thread.
        self._is_held = self.lock.acquire(timeout=_FORK_WAIT_SECONDS)
        for environment in list(self.environments.values()):
            if environment.close_gate(_FORK_WAIT_SECONDS):
                self._paused.append(environment)
        # The last: a visitor may be about to take a step in a file that is being built.
        self._is_building_held = self.building.acquire(timeout=_FORK_WAIT_SECONDS)

    def _go_on(self) -> None:
        for environment in self._paused:
            environment.gate.open()
        self._paused.clear()
        if self._is_held:
            self.lock.release()
        if self._is_building_held:
            self.building.release()

    def _abandon(self) -> None:
        """In the child: forget every environment without closing it, and let go of the writer lock."""
        self.lock, self.building = threading.Lock(), threading.Lock()
        if self._is_building_held:  # else another thread of the parent is in the middle of something
            while self.unseen:
                self.unseen.pop().close()
        for identity, environment in self.environments.items():
            self.inherited[identity] = environment, environment in self._paused
        self._paused.clear()
        self.environments.clear()
        references, self.on_fork = self.on_fork, set()
        for reference in references:
            let_go = reference()
            if let_go is not None:
                let_go()  # a reader's comes back: it may be forked again before it is used


def _unshare(folder: str, inode: int | None) -> bool:
    """In a forked child: put private memory where LMDB's lock file is mapped; whether that is done."""
    # To close what was inherited ends its transactions, those, too, that a thread of the parent had
    # just ended and not thrown away. The parent may have given their slots to other calls by now, whose
    # snapshots its writer would then overwrite. In private memory no slot is freed.
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            lines = [line.rstrip("\n").split(maxsplit=5) for line in maps]
    except OSError:
        return False
    shared = [line for line in lines if len(line) == 6 and "s" in line[1] and LMDB_LOCK_FILE in line[5]]
    here = [line for line in shared if line[5] == os.path.join(folder, LMDB_LOCK_FILE)]
    # Renamed or removed meanwhile it has another path. On a disk that is read-only there is none.
    found = here or [line for line in shared if int(line[4]) == inode]
    system = ctypes.CDLL(None, use_errno=True).mmap
    system.restype = ctypes.c_void_p
    size, number = ctypes.c_size_t, ctypes.c_int
    system.argtypes = [ctypes.c_void_p, size, number, number, number, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    for place, *_ in found:
        first, behind = (int(end, 16) for end in place.split("-"))
        if system(first, behind - first, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) != first:
            return False
    return True


registry = Registry()
