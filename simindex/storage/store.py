"""`Store`: one handle on the LMDB file: reading, commits, close.

What reliability needs of LMDB: a writer lock of its own; a map that is as large as the file can become, for a
map that moves has to wait for all who read through it; read transactions that live only for the length of one
call.

Locking rules.
* A write transaction begins and ends inside `Store.commit`, on one thread. (Committed on another
  thread it would block every later writer for ever.)
* Every transaction lives inside the gate of its environment. Closing and fork() wait until
  no thread is inside; addresses into the map are valid inside `Store.reading` only.

Invariant of space: with `max_bytes`, what an ordinary commit leaves in use is short of it by what is kept for
removals; only a commit that frees space goes further.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import lmdb

from simindex.checks import local_path, require_int, require_seconds
from simindex.errors import ClosedError, FormatError, IndexFullError, IndexLockedError, SimIndexError
from simindex.events import event
from simindex.storage.check_at_open import is_unfinished, open_proven
from simindex.storage.environment import (
    BETWEEN_FILES,
    Environment,
    Exclusive,
    Pin,
    ReadTransaction,
    Visit,
    Visitor,
    WriteTransaction,
    begun,
    change_nothing,
)
from simindex.storage.folder import (
    DATA_FILE,
    Mode,
    WriterLock,
    free_bytes,
    identity_of,
    keep_header,
    permissions_of,
    require_permissions,
    require_place,
    require_plain_files,
    require_room,
)
from simindex.storage.lmdb_file import (
    DATABASES,
    MIN_MAP_BYTES,
    Limit,
    closed,
    databases_of,
    never_completed,
    read_only,
    snapshots,
    translated,
    used_bytes,
)
from simindex.storage.page_file import META_BYTES, META_PAGES
from simindex.storage.registry import registry
from simindex.system import sync_folder

Result = TypeVar("Result")

MOVED_KEY = b"moved"
"""Left in a file (database "meta") just before another one takes its place; see `replacement`."""

_READER_CHECK_SECONDS = 60.0

_HELD_BACK = 10
"""Times the live bytes by which a file grows beside an old snapshot before a writer warns of it."""

_NEARLY_FULL_BYTES = 1 << 26
"""Less free disk, or a twentieth of the file, is little."""

_LOOK_AGAIN_SECONDS = 1.0
"""A reader looks that often whether its file is still in its place."""


class Store:
    """One handle on an index's environment.

    Thread safety: any thread may read; `commit` is serialised by the caller (Session). Processes: one
    writable handle at a time, any number of reading ones. Durable: what `commit` returned from.

    Attributes:
        is_closed: whether `close` has begun; then nothing is written any more.
        is_pinned: whether its read transactions are all of one snapshot, until `refresh`.
        last_commit: id of the last transaction that `commit` has made durable.
        is_new: True until `initialise`: the environment is there, but holds nothing yet.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Mode,
        max_bytes: int | None = None,
        *,
        pinned: bool = False,
        permissions: int | None = None,
        timeout: float | None = 0.0,
    ) -> None:
        self.path = str(Path(local_path(path)))
        self.data = os.path.join(self.path, DATA_FILE)
        if max_bytes is not None:
            max_bytes = require_int("max_bytes", max_bytes, MIN_MAP_BYTES)
        self.writable = mode != "r"
        self.is_new = False
        self._limit = Limit.of(max_bytes)
        self.is_pinned = pinned
        self._pin: Pin | None = None
        self._pinning = threading.RLock()
        self._last_page = self.last_commit = -1
        """The file is as long as its pages up to the first of the two."""
        self._environment: Environment | None = None
        self._lock: WriterLock | None = None
        self._reason = ""
        """Why the handle is dead, where it was not closed."""
        self.is_closed = False
        self._was_inherited = False
        """Whether it came through fork() and may open its file anew, as a reader's may."""
        self._opening = threading.Lock()
        self._header: tuple[bytes, bytes] | None = None
        """Key and value, in the database "meta", by which the file is known again."""
        self._checked_readers = time.monotonic()
        self._oldest_snapshot: tuple[int, int] | None = None
        """The oldest at the last look at readers; `_bytes_then` is how long the file was when it was met."""
        self._bytes_then, self._has_warned, self._is_short = 0, False, False
        require_seconds("timeout", timeout)
        require_permissions(permissions)
        self._permissions = permissions
        registry.install_hooks()
        registry.close_unused()
        try:
            require_place(Path(self.path), mode, permissions)
            registry.on_fork.add(weakref.WeakMethod(self._abandon))
            if self.writable:
                self._take_lock(mode, permissions, timeout)
            if is_unfinished(self.path):
                if mode != "a":
                    raise never_completed(self.path)
                os.truncate(self.data, 0)
                event("recovered", self.path, dropped="an index that was never completed")
            self._environment = self._open_environment()
            self.is_new = not self._open_databases(self._environment, mode)
        except BaseException as exc:
            self.close()
            if isinstance(exc, SimIndexError):
                exc.located(self.path)
            raise

    # ---- opening ----

    def _take_lock(self, mode: Mode, permissions: int | None, timeout: float | None) -> None:
        self._lock = WriterLock(self.path, permissions_of(Path(self.path), permissions), timeout)
        if waited := self._lock.waited_seconds:
            event("waited for the writer", self.path, waited_seconds=waited)
            require_place(Path(self.path), mode, permissions)  # it may have been made meanwhile

    def _open_environment(self) -> Environment:
        folder = os.path.realpath(self.path)
        stale = self._stale_environment(folder)
        if stale is not None:
            self._environment = stale
            self._reopen()
            return stale
        with registry.lock:
            if os.path.exists(self.data):
                identity = identity_of(self.data)
                shared = registry.environments.get(identity)
                if shared is not None and (shared.writable or not self.writable):
                    shared.handles.add(self)
                    return shared
                if shared is not None:
                    raise IndexLockedError(
                        f"{self.path}: this process has it open without permission to write; close that first"
                    )
                registry.close_inherited(identity, folder, self.path)
            env, writable, identity = self._open_lmdb()
            try:
                opened = Environment(env, folder, identity, writable)
                opened.handles.add(self)
                registry.environments[opened.identity] = opened
            except BaseException:
                env.close()
                raise
            return opened

    def _open_lmdb(self) -> tuple[lmdb.Environment, bool, tuple[int, int]]:
        map_bytes = self._limit.map_bytes(self.data, len(registry.environments))
        return open_proven(self.path, map_bytes, self.writable, self._permissions)

    def _stale_environment(self, folder: str) -> Environment | None:
        """Return this process's environment of a file that a compaction has moved away from this path."""
        # A process may open the folder only once, so its other handles change over together with
        # this one.
        with registry.lock:
            for environment in registry.environments.values():
                if environment.folder != folder or not environment.databases or environment.failure:
                    continue
                with Visit(environment.gate) as _visit, environment.env.begin() as txn:
                    try:
                        if not self._moved_away(environment, txn):
                            continue
                    except ClosedError:  # replaced by another index, as its own handles say from now on
                        continue
                environment.handles.add(self)
                return environment
        return None

    def _open_databases(self, environment: Environment, mode: Mode) -> bool:
        """Open the databases of an environment, if that is still to be done; whether there are any."""
        if not environment.databases:
            with Visit(environment.gate) as _visit:
                environment.databases = databases_of(environment.env, self.path)
        if not environment.databases and mode in ("r", "r+"):
            raise never_completed(self.path)
        return bool(environment.databases)

    def _open_again(self) -> Environment:
        """Open the file anew at the first use in a forked child, or after a change-over was broken off."""
        with self._opening:
            dead = self._environment
            if (dead is None or dead.is_between_files) and not self.is_closed:
                try:
                    if dead is not None:
                        registry.give_up(dead)
                    if self._lock is not None:
                        self._lock.require_held()
                    require_place(Path(self.path), "r+" if self.writable else "r")
                    environment = self._open_environment()
                    self._open_databases(environment, "r")
                    self._require_same(environment)
                    self._last_page = -1
                    self._environment = environment
                except BaseException:
                    self._environment = dead
                    registry.close_unused(leaving=self)
                    raise
                if self.is_closed:
                    self.close()  # again, for another thread has done so meanwhile
        return self.environment()

    def known_by(self, key: bytes, value: bytes) -> None:
        """Take note of a value (database "meta") that the file has and keeps."""
        self._header = key, value

    def _require_same(self, environment: Environment) -> None:
        if self._header is None:
            return
        key, value = self._header
        with Visit(environment.gate) as _visit, environment.env.begin() as txn:
            found = txn.get(key, db=environment.databases["meta"])
        if found != value:
            raise FormatError(
                f"{self.path}: expected the index that the parent process had open, found one of another "
                "configuration; close this handle and open the index again"
            ).located(self.path)

    def initialise(self, header_key: bytes, header: bytes, manifest_key: bytes, manifest: bytes) -> None:
        """Create the databases with their first values, in one commit."""
        environment = self.environment()
        try:
            with Visit(environment.gate) as _visit, environment.env.begin(write=True) as txn:
                databases = {name: environment.env.open_db(name.encode(), txn=txn) for name in DATABASES}
                txn.put(header_key, header, db=databases["meta"])
                txn.put(manifest_key, manifest, db=databases["meta"])
            environment.databases = databases
        except lmdb.Error as exc:
            raise translated(exc, self.path) from exc
        sync_folder(Path(self.path))
        sync_folder(Path(self.path).parent)
        keep_header(self.path, header)
        self.is_new = False

    # ---- life ----

    def environment(self) -> Environment:
        """Return the environment. Raises ClosedError when the handle is closed, or a writer's was forked."""
        environment = self._environment
        if environment is None:
            if self._was_inherited and not self.is_closed:
                return self._open_again()
            raise closed(self.path, f"{self._reason or 'the index is closed'}; open it again")
        if environment.failure and not environment.gate.is_closed:
            if environment.is_between_files:
                return self._open_again()
            raise self._lost(environment)
        return environment

    def _lost(self, environment: Environment) -> ClosedError:
        return closed(self.path, f"{environment.failure}; close this handle and open the index again")

    @property
    def is_abandoned(self) -> bool:
        """Whether it is a writer's handle that was inherited through fork()."""
        return bool(self._reason)

    def _abandon(self) -> None:
        """In a forked child: let go without touching the environment or the parent's lock."""
        self._environment = None
        if not self.writable:
            # A thread that the child has not may have held it, and its snapshot ended before the fork.
            self._opening, self._pinning, self._pin = threading.Lock(), threading.RLock(), None
            self._was_inherited = True
            registry.on_fork.add(weakref.WeakMethod(self._abandon))
            return
        self._reason = "this handle was inherited through fork() and belongs to the parent process"
        if self._lock is not None:
            self._lock.abandon()

    def close(self) -> None:
        """Close the handle; the last one of a file closes its environment."""
        # Interrupted anywhere, the handle is closed and the next writer is let in.
        self.is_closed, self._environment = True, None
        try:
            registry.on_fork.discard(weakref.WeakMethod(self._abandon))
            self._end_pin()
            registry.close_unused(leaving=self)
        finally:
            if self._lock is not None:
                try:
                    self._lock.release()
                finally:
                    self._lock.release()  # again, where Ctrl-C came on the way into it

    def __del__(self) -> None:
        """Let the next writer in, and the space of a pinned snapshot."""
        # What needs a lock is left to the next handle: `Registry.close_unused`.
        if getattr(self, "_environment", None) is None:
            return
        if self._pin is not None:
            self._pin.drop()
        if self._lock is not None:
            self._lock.release()
            message = f"{self.path}: an index was open for writing and was not closed"
            warnings.warn(message, ResourceWarning, stacklevel=2)

    # ---- reading ----

    def reading(self, *, buffers: bool = True) -> ReadTransaction:
        """Return a read transaction, of views of the map or (cheaper for many small values) of copies."""
        return ReadTransaction(self._begin_read, self.path, buffers)

    def refresh(self) -> None:
        """Let go of a pinned snapshot; the next call takes the newest, and those under way keep theirs."""
        self.environment()
        self._end_pin()

    def _end_pin(self) -> None:
        with self._pinning:
            if self._pin is not None:
                self._pin.end()

    def _take_pin(self, environment: Environment, visitor: ReadTransaction) -> lmdb.Transaction:
        """Return the transaction of the pinned snapshot, a new one where there is none."""
        with self._pinning:
            while self._pin is None or (txn := self._pin.enter(visitor)) is None:
                self._pin = Pin(environment)
            visitor.pin = self._pin
            if self.is_closed:  # since the call began, and nothing else would end it
                self._pin.end()
            return txn

    def _begin_read(self, visitor: ReadTransaction, buffers: bool) -> lmdb.Transaction:
        """Enter the gate and begin to read; the visitor leaves, and ends a transaction that is not pinned."""
        environment = self._environment
        if environment is None or environment.failure:
            environment = self.environment()
        visitor.environment = environment
        environment.gate.enter(visitor)
        for attempt in range(6):
            while environment.failure:
                if not environment.is_between_files:
                    if environment.gate.is_closed:
                        break
                    raise self._lost(environment)  # while the gate was closed
                environment.gate.leave(visitor)
                visitor.environment = environment = self.environment()
                environment.gate.enter(visitor)
            try:
                if self.is_pinned:
                    pin = visitor.pin = self._pin
                    if pin is not None and (kept := pin.enter(visitor)) is not None:
                        return kept  # no process writes into a file that was replaced, and it stays open
                    visitor.pin = None
                    txn = self._take_pin(environment, visitor)
                else:
                    txn = begun(environment.env, buffers=buffers or environment.pages is None)
                is_known = txn.id() == environment.checked_id
                if is_known and time.monotonic() - environment.looked_at < _LOOK_AGAIN_SECONDS:
                    return txn
                if not self._moved_away(environment, txn):
                    return txn
                if visitor.pin is not None:
                    visitor.pin.end()
                    visitor.pin.leave(visitor)
                else:
                    txn.abort()
                self._outside(environment, visitor, self._reopen)
            except lmdb.PanicError:
                environment.is_broken = True
                self._outside(environment, visitor, self._reopen)
            except lmdb.ReadersFullError as exc:
                if not environment.env.reader_check() and attempt > 2:
                    raise translated(exc, self.path) from exc
            except lmdb.Error as exc:
                raise translated(exc, self.path) from exc
        raise SimIndexError(f"{self.path}: no read transaction after six attempts; too many readers")

    def _outside(self, environment: Environment, visitor: Visitor, action: Callable[[], None]) -> None:
        environment.gate.leave(visitor)
        try:
            action()
        finally:
            environment.gate.enter(visitor)

    def _moved_away(self, environment: Environment, txn: lmdb.Transaction) -> bool:
        """Whether a compaction has put another file in its place; ClosedError where another process has."""
        # It leaves its mark in the old file just before, which counts for nothing while that is in
        # its place.
        if not environment.databases or environment.bytes_in_place(self.data) is not None:
            if environment.databases and txn.get(MOVED_KEY, db=environment.databases["meta"]) is None:
                environment.checked_id = txn.id()
            return False
        # The mark may have come behind this snapshot.
        with environment.env.begin() as newest:
            is_marked = newest.get(MOVED_KEY, db=environment.databases["meta"]) is not None
            if is_marked and os.path.exists(self.data):
                return True
        self._lose(environment)
        return False

    def _lose(self, environment: Environment) -> None:
        """Give up a file that is not the one at the path any more. Raises ClosedError."""
        environment.failure = (
            environment.failure or f"{environment.missing} was replaced or removed while it was open"
        )
        if not environment.gate.is_closed:
            raise self._lost(environment)

    def _reopen(self) -> None:
        """Change over to the file that now lies at the path."""
        environment = self.environment()
        with registry.lock, Exclusive(environment) as _exclusive:
            identity = identity_of(self.data)
            if identity == environment.identity and not environment.is_broken:
                return  # another thread was first
            # Whatever comes between here and the end: a handle works, or opens the file at its next use.
            environment.failure = BETWEEN_FILES
            registry.environments.pop(environment.identity, None)
            environment.env.close()
            env, _, identity = self._open_lmdb()
            try:
                self._last_page = -1
                environment.change(env, identity, databases_of(env, self.path))
                registry.environments[identity] = environment
            except BaseException:
                environment.failure = BETWEEN_FILES
                env.close()
                raise

    def change_over(self) -> None:
        """Change over to the file that this handle has put at the path."""
        self._reopen()
        self._last_page = -1  # a reader of this process may have been first

    def require_in_place(self) -> None:
        """Refuse a file that is no longer at its path, before its size is looked at there."""
        if not os.path.exists(self.data):
            raise closed(
                self.path,
                f"{DATA_FILE} is not there any more: its folder was renamed or removed while the index was "
                "open; close this handle, and open the index where it is now",
            )

    # ---- writing ----

    def commit(self, change: Callable[[WriteTransaction], Result], only_frees_space: bool = False) -> Result:
        """Run `change`, which may run again, in a write transaction and make it durable.

        Args:
            only_frees_space: whether it stores nothing but what makes space free; only then it may use what
                is kept of `max_bytes` for removals."""
        if not self.writable:
            raise read_only(self.path)
        if not only_frees_space:
            return self._commit(change, only_frees_space=False)
        try:
            return self._commit(change, only_frees_space=True)
        except IndexFullError:
            self._free_pages_of_last_commits()
            return self._commit(change, only_frees_space=True)

    def _commit(self, change: Callable[[WriteTransaction], Result], *, only_frees_space: bool) -> Result:
        environment = self.environment()
        if self._lock is not None:
            self._lock.require_held()
        file_bytes = environment.bytes_in_place(self.data)
        if file_bytes is None:
            self._lose(environment)
        elif time.monotonic() - self._checked_readers > _READER_CHECK_SECONDS:
            self._checked_readers = time.monotonic()
            self._look_at_readers(environment, file_bytes)
        usable = None if only_frees_space else self._limit.usable_bytes
        while True:
            at, older = 0, b""
            try:
                with Visit(environment.gate) as _visit:
                    env = environment.env
                    with env.begin(write=True, buffers=True) as txn:
                        pages, number = environment.pages or environment.look(txn), txn.id()
                        at = number % META_PAGES * pages.page_bytes
                        older = bytes(pages.metas[at : at + META_BYTES])
                        if not environment.are_records_proven:
                            environment.prove_records(txn)
                        result = change(WriteTransaction(txn, environment.databases))
                        if usable is not None and used_bytes(env, txn, environment.databases) > usable:
                            raise self._limit.reached(self.path, env.info()["map_size"])
                    self.last_commit = number
                    if not only_frees_space:  # only a compaction leaves the mark, and it frees
                        environment.checked_id = number
                    self._lengthen_file(env, file_bytes or 0)
                    return result
            except lmdb.PanicError as exc:
                if environment.is_broken:
                    raise translated(exc, self.path) from exc
                # An earlier commit met an error; what it left is decided by the file.
                environment.is_broken = True
                self._reopen()
            except lmdb.MapFullError:
                raise self._limit.reached(self.path, environment.info("map_size")) from None
            except lmdb.Error as exc:
                if older:
                    self._put_back(at, older)
                raise translated(exc, self.path) from exc

    def _look_at_readers(self, environment: Environment, file_bytes: int) -> None:
        """Free the slots of killed readers, and warn of a snapshot beside which the file grows and grows."""
        with Visit(environment.gate) as _visit:
            # They pin pages until LMDB is made to look for them.
            freed = environment.env.reader_check()
            oldest = min(snapshots(environment.env), default=None)
            with environment.env.begin() as txn:
                live = used_bytes(environment.env, txn, environment.databases)
        if freed:
            event("readers freed", self.path, readers=freed)
        self._look_at_disk(file_bytes)
        if oldest is None or oldest != self._oldest_snapshot:
            self._oldest_snapshot, self._bytes_then = oldest, file_bytes
        elif file_bytes - self._bytes_then > _HELD_BACK * max(live, 1 << 20) and not self._has_warned:
            self._has_warned = True
            grown = file_bytes - self._bytes_then
            event("snapshot held", self.path, reader=oldest[1], grown_bytes=grown, live_bytes=live)
            warnings.warn(
                f"{self.path}: a snapshot of process {oldest[1]}, older than {_READER_CHECK_SECONDS:.0f} "
                f"seconds, keeps the space of every change since: beside it the file has grown by {grown:,} "
                f'bytes, of {live:,} that are live. Call `refresh` of its handle (refresh="manual") now and '
                "then, or end the call that reads; `compact` gives the space back",
                RuntimeWarning,
                stacklevel=2,
            )

    def _look_at_disk(self, file_bytes: int) -> None:
        """Log that the disk is nearly full, once until there is room again."""
        with contextlib.suppress(OSError):
            free = free_bytes(self.path)
            is_short = free < max(_NEARLY_FULL_BYTES, file_bytes // 20)
            if is_short and not self._is_short:
                event("disk nearly full", self.path, free_bytes=free, file_bytes=file_bytes)
            self._is_short = is_short

    def _put_back(self, at: int, older: bytes) -> None:
        """Write the meta page that a failed commit was about to write over as it was before."""
        # Where that write fails, LMDB puts back the number alone, beside the roots of the commit
        # that failed (`mdb_env_write_meta`). Nothing tells these bytes from a stored commit whose
        # number was damaged.
        with contextlib.suppress(OSError), open(self.data, "rb+", buffering=0) as file:
            if os.pread(file.fileno(), META_BYTES, at) != older:
                os.pwrite(file.fileno(), older, at)

    def _lengthen_file(self, env: lmdb.Environment, file_bytes: int) -> None:
        """Make the file, which was so long before the commit, hold all its pages, free ones too."""
        last_page = env.info()["last_pgno"]
        if last_page == self._last_page:
            return
        needed = (last_page + 1) * env.stat()["psize"]
        with contextlib.suppress(OSError):  # the commit is durable all the same
            if file_bytes < needed and os.stat(self.data).st_size < needed:
                os.truncate(self.data, needed)
            self._last_page = last_page

    def _free_pages_of_last_commits(self) -> None:
        """Let LMDB have the pages that the last commits have freed: it uses them two commits later."""
        for _ in range(2):
            self._commit(change_nothing, only_frees_space=True)

    def require_room(self, needed: int) -> None:
        """Refuse a compaction that has no room for a new file beside this one. Raises IndexFullError."""
        self.require_in_place()
        require_plain_files(Path(self.path))
        require_room(self.path, max(os.stat(self.data).st_size, needed), needed)

    @property
    def waited_seconds(self) -> float:
        """How long the opening has waited for another writer."""
        return 0.0 if self._lock is None else self._lock.waited_seconds

    def snapshots(self) -> list[int]:
        """Return the transaction id of each snapshot that any process reads."""
        environment = self.environment()
        with Visit(environment.gate) as _visit:
            return [number for number, _ in snapshots(environment.env)]

    def figures(self, txn: ReadTransaction) -> dict[str, int]:
        """Return sizes in bytes: of the file, of the pages in use and of each database."""
        self.require_in_place()
        sizes = txn.sizes()
        return {"file_bytes": os.stat(self.data).st_size, "used_bytes": sum(sizes.values()), **sizes}
