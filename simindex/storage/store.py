"""`Store`: one handle on the LMDB file: reading, commits, close.

What reliability needs of LMDB: a writer lock of its own; a map that is as large as the file can become; read
transactions that live only for the length of one call.

A handle, and each call through it, refers to the environment of one data file, and none waits for another:
who closes drops its reference, and so does who finds that a compaction has put a newer file beside its own.

Locking rule: a write transaction begins and ends inside `Store.commit`, on one thread. (Committed on another
thread it would block every later writer for ever.)

Invariant of space: with `max_bytes`, what an ordinary commit leaves in use is short of it by what is kept for
removals; only a commit that frees space goes further.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from simindex.checks import local_path, require_int, require_seconds
from simindex.errors import ClosedError, FormatError, IndexFullError, IndexLockedError, SimIndexError
from simindex.events import event
from simindex.storage.check_at_open import is_unfinished, open_proven
from simindex.storage.environment import (
    BROKEN,
    INHERITED,
    OPENED_ANEW,
    Call,
    Environment,
    Pin,
    ReadTransaction,
    WriteTransaction,
    calls,
    change_nothing,
)
from simindex.storage.folder import (
    LOCK_SUFFIX,
    Mode,
    WriterLock,
    data_file,
    free_bytes,
    identity_of,
    is_older,
    keep_header,
    next_data_file,
    permissions_of,
    remove_older,
    require_permissions,
    require_place,
    require_plain_files,
    require_room,
)
from simindex.storage.lmdb_file import (
    HEAD_KEY,
    MAIN,
    MIN_MAP_BYTES,
    Limit,
    closed,
    databases_of,
    never_completed,
    open_databases,
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
"""Left in a file (database "meta") just before a newer one comes beside it; see `Store.supersede`."""

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
        self.data = data_file(self.path)
        if max_bytes is not None:
            max_bytes = require_int("max_bytes", max_bytes, MIN_MAP_BYTES)
        self.writable = mode != "r"
        self.is_new = False
        self._limit = Limit.of(max_bytes)
        self.is_pinned = pinned
        self._pins: dict[int, Pin] = {}
        """The pinned snapshot, by the serial of its environment."""
        self._last_page = self.last_commit = -1
        """The file is as long as its pages up to the first of the two."""
        self._environment: Environment | None = None
        self._lock: WriterLock | None = None
        self.is_closed = self._has_renamed = False
        """Whether `supersede` may have put a newer file in place, which is still to be opened."""
        self._header: tuple[bytes, bytes] | None = None
        """Key and value, in the database "meta", by which the file is known again."""
        self._checked_readers = time.monotonic()
        self._oldest_snapshot: tuple[int, int] | None = None
        """The oldest at the last look at readers; `_bytes_then` is how long the file was when it was met."""
        self._bytes_then, self._has_warned, self._is_short = 0, False, False
        require_seconds("timeout", timeout)
        require_permissions(permissions)
        self._permissions = permissions
        try:
            require_place(Path(self.path), mode, permissions)
            if self.writable:
                self._take_lock(mode, permissions, timeout)
            self.data = data_file(self.path)
            if is_unfinished(self.path):
                if mode != "a":
                    raise never_completed(self.path)
                os.truncate(self.data, 0)
                event("recovered", self.path, dropped="an index that was never completed")
            self._use(environment := self._open_environment())
            with Call(environment):
                self.is_new = not self._open_databases(environment, mode)
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
        """Open, or share, the environment of the newest data file, also where a compaction brings
        a newer one meanwhile."""
        while True:
            data = data_file(self.path)
            try:
                environment = self._environment_of(data)
            except (OSError, SimIndexError):
                if not is_older(data):  # a compaction may have removed it meanwhile
                    raise
            else:
                if not is_older(data):
                    return environment
                registry.leave(environment, self)

    def _environment_of(self, data: str) -> Environment:
        """Return the environment of a data file with this handle in it: one that this process has open, or a
        new one. A writer that opens one removes older data files. Raises IndexLockedError for a writer where
        this process has the file open read-only, SimIndexError where a call goes on in an ended one."""
        with registry.lock:
            if os.path.exists(data):
                identity = identity_of(data)
                shared = registry.environments.get(identity)
                if shared is not None and shared.ended in OPENED_ANEW:
                    if calls.of(shared):
                        raise translated(lmdb.PanicError("a call is still reading"), self.path)
                    shared.env.close()
                elif shared is not None and (shared.writable or not self.writable):
                    shared.handles.add(self)
                    return shared
                elif shared is not None:
                    raise IndexLockedError(
                        f"{self.path}: this process has it open without permission to write; close that first"
                    )
                registry.close_inherited(identity, self.path)
            map_bytes = self._limit.map_bytes(data, len(registry.environments))
            env, writable, identity = open_proven(
                self.path, data, map_bytes, self.writable, self._permissions
            )
            try:
                if self.writable:
                    remove_older(data)
                opened = Environment(env, data, identity, writable)
                opened.handles.add(self)
                registry.add(opened)
                return opened
            except BaseException:  # Ctrl-C may come after it was added, and a traceback keep it
                registry.environments.pop(identity, None)
                env.close()
                raise

    def _use(self, environment: Environment) -> None:
        """Take an environment for that of this handle; the former one is not closed."""
        self.data = os.path.join(self.path, environment.name)
        self._last_page, self._has_renamed = -1, False
        self._environment = environment

    def _open_databases(self, environment: Environment, mode: Mode) -> bool:
        """Open the databases of an environment, unless they are; returns whether there are any. Raises
        FileNotFoundError where there are none, and the mode makes no index."""
        if not environment.databases:
            environment.databases = databases_of(environment.env, self.path)
        if not environment.databases and mode in ("r", "r+"):
            raise never_completed(self.path)
        return bool(environment.databases)

    def _open_again(self, old: Environment) -> Environment:
        """Open the newest data file in place of `old`, which has ended or is not the newest any more,
        and return its environment. Raises ClosedError for a forked writer, FormatError where another
        index is there now."""
        if old.ended == INHERITED and self.writable:
            why = "this handle was inherited through fork() and belongs to the parent process"
            raise closed(self.path, f"{why}; open it again")
        if self._lock is not None:
            self._lock.require_held()
        require_place(Path(self.path), "r+" if self.writable else "r")
        environment = self._open_environment()
        try:
            with Call(environment):
                if not environment.ended:  # by another thread, which has gone on to a newer one
                    self._open_databases(environment, "r")
                    self._require_same(environment)
            with registry.lock:
                newest = self._environment
                is_newest = newest is None or newest is old or newest.ids_from <= environment.ids_from
                if is_newest:
                    self._use(environment)
        except BaseException:
            registry.leave(environment, self)
            raise
        if not is_newest:
            registry.leave(environment, self)
        registry.leave(old, self)
        if self.is_closed:  # by another thread meanwhile
            self.close()
        return self.environment()

    def known_by(self, key: bytes, value: bytes) -> None:
        """Remember a key and value of the database "meta" that the index never changes: where the handle goes
        on to a newer file with another value there, that call raises FormatError."""
        self._header = key, value

    def _require_same(self, environment: Environment) -> None:
        if self._header is None:
            return
        key, value = self._header
        with environment.env.begin() as txn:
            found = txn.get(key, db=environment.databases["meta"])
        if found != value:
            raise FormatError(
                f"{self.path}: expected the index that this handle had open, found one of another "
                "configuration; close this handle and open the index again"
            ).located(self.path)

    def initialise(self, header_key: bytes, header: bytes, manifest: bytes) -> None:
        """Create the databases with header and manifest in one commit, make it and the names of folder and
        files durable, and write the second copy of the header."""
        environment = self.environment()
        try:
            with Call(environment), environment.env.begin(write=True) as txn:
                databases = open_databases(environment.env, txn, create=True)
                txn.put(header_key, header, db=databases["meta"])
                txn.put(HEAD_KEY, manifest, db=databases[MAIN])
            environment.databases = databases
        except lmdb.Error as exc:
            raise translated(exc, self.path) from exc
        sync_folder(Path(self.path))
        sync_folder(Path(self.path).parent)
        keep_header(self.path, header)
        self.is_new = False

    # ---- life ----

    def environment(self) -> Environment:
        """Return the environment, that of the newest data file where the handle's own has ended. Raises
        ClosedError when the handle is closed, was a writer's before a fork, or its file was replaced."""
        environment = self._environment
        if environment is None:
            raise closed(self.path, "the index is closed; open it again")
        if environment.ended:
            if environment.ended in OPENED_ANEW:
                return self._open_again(environment)
            raise self._lost(environment)
        return environment

    def _lost(self, environment: Environment) -> ClosedError:
        return closed(self.path, f"{environment.ended}; close this handle and open the index again")

    @property
    def is_abandoned(self) -> bool:
        """Whether it is a writer's handle that was inherited through fork(), which cannot be used."""
        environment = self._environment
        return self.writable and environment is not None and environment.ended == INHERITED

    def close(self) -> None:
        """Close the handle, again without effect, and release the writer's lock; the last handle of a file,
        or the last call in it, closes its environment."""
        # Interrupted anywhere, the handle is closed and the next writer is let in.
        environment = self._environment
        self.is_closed, self._environment = True, None
        try:
            self._pins = {}
            if environment is not None:
                registry.leave(environment, self)
        finally:
            if self._lock is not None:
                try:
                    self._lock.release()
                finally:
                    self._lock.release()  # again, where Ctrl-C came on the way into it

    def __del__(self) -> None:
        """Release the lock of a writer that was not closed, with a ResourceWarning."""
        environment = getattr(self, "_environment", None)
        if environment is not None and self._lock is not None and environment.ended != INHERITED:
            self._lock.release()
            message = f"{self.path}: an index was open for writing and was not closed"
            warnings.warn(message, ResourceWarning, stacklevel=2)

    # ---- reading ----

    def reading(self, *, buffers: bool = True) -> ReadTransaction:
        """Return a read transaction for a ``with`` block: of views of the map, or with `buffers` false of
        copies, which is cheaper for many small values (but a pinned one, or the first in a file, may be of
        views all the same)."""
        return ReadTransaction(self._begin_read, self.path, buffers)

    def refresh(self) -> None:
        """Let go of a pinned snapshot; the next call takes the newest, and those under way keep theirs.
        Raises ClosedError where the handle is closed."""
        self.environment()
        self._pins = {}

    def _begin_read(self, call: ReadTransaction, buffers: bool) -> lmdb.Transaction:
        """Begin a call, and return its transaction: the pinned one, or one of the newest data file; a new one
        is pinned if the handle pins. Raises SimIndexError after six attempts in vain."""
        for attempt in range(6):
            pins = self._pins  # before the rest, for another thread may close or refresh meanwhile
            environment = self._environment
            if environment is None or environment.ended:
                environment = self.environment()
            call.environment = environment
            calls.begin(call)
            try:
                if not environment.ended:  # by another thread, since it was looked at
                    if self.is_pinned and (pin := pins.get(environment.serial)) is not None:
                        call.pin = pin
                        return pin.txn
                    txn = self._begin(environment, buffers=buffers or environment.pages is None)
                    if txn is not None and self.is_pinned:
                        call.pin = pins.setdefault(environment.serial, Pin(environment, txn))
                        return call.pin.txn
                    if txn is not None:
                        return txn
                    calls.end(call)
                    self._open_again(environment)
            except lmdb.PanicError:
                environment.ended = BROKEN
            except lmdb.ReadersFullError as exc:
                if not environment.env.reader_check() and attempt > 2:
                    raise translated(exc, self.path) from exc
            except lmdb.Error as exc:
                raise translated(exc, self.path) from exc
            calls.end(call)
        raise SimIndexError(f"{self.path}: no read transaction after six attempts; too many readers")

    def _begin(self, environment: Environment, *, buffers: bool) -> lmdb.Transaction | None:
        """Begin to read an environment, by views if `buffers`; ``None`` where a newer file has come beside
        its own. Raises ClosedError where its file was removed or replaced otherwise; the path is looked at
        once a second."""
        begin: Any = environment.env.begin  # its types tell views from copies; who uses them does not
        txn: lmdb.Transaction = begin(buffers=buffers)
        if not environment.databases:
            return txn
        if txn.id() != environment.checked_id:
            environment.is_marked = txn.get(MOVED_KEY, db=environment.databases["meta"]) is not None
            environment.checked_id = txn.id()
        is_due = time.monotonic() - environment.looked_at > _LOOK_AGAIN_SECONDS
        if not is_due and not environment.is_marked:
            return txn
        data = os.path.join(self.path, environment.name)  # another thread may have gone on with a newer one
        is_gone = is_due and environment.bytes_in_place(data) is None
        if is_gone:  # the mark may have come behind this snapshot
            with environment.env.begin() as newest:
                environment.is_marked = newest.get(MOVED_KEY, db=environment.databases["meta"]) is not None
        if environment.is_marked and is_older(data):
            return None
        if is_gone:
            self._lose(environment)
        return txn

    def _lose(self, environment: Environment) -> None:
        """Mark an environment as ended, for its file is not the one at the path any
        more. Always raises ClosedError."""
        environment.ended = f"{environment.missing} was replaced or removed while it was open"
        raise self._lost(environment)

    def require_in_place(self) -> None:
        """Raise ClosedError where no data file is at the path any more, as when the folder was renamed."""
        data = data_file(self.path)
        if not os.path.exists(data) and not is_older(data):  # a compaction may just have removed it
            raise closed(
                self.path,
                f"{os.path.basename(self.data)} is not there any more: its folder was renamed or removed "
                "while the index was open; close this handle, and open the index where it is now",
            )

    # ---- writing ----

    def commit(self, change: Callable[[WriteTransaction], Result], only_frees_space: bool = False) -> Result:
        """Run `change`, which may run again, in a write transaction, make it durable, and return its result.

        Where an error is raised, by `change` too, nothing is stored: ReadOnlyError through a reader's handle,
        IndexFullError where the disk or `max_bytes` has no room.

        Args:
            change: gets the transaction; called on this thread.
            only_frees_space: whether it stores nothing but what makes space free; only then it may use what
                is kept of `max_bytes` for removals.
        """
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
        usable = None if only_frees_space else self._limit.usable_bytes
        has_panicked = False
        while True:
            environment = self.environment()
            if self._has_renamed and is_older(self.data):
                environment = self._open_again(environment)
            if self._lock is not None:
                self._lock.require_held()
            file_bytes = environment.bytes_in_place(self.data)
            if file_bytes is None:
                self._lose(environment)
            elif time.monotonic() - self._checked_readers > _READER_CHECK_SECONDS:
                self._checked_readers = time.monotonic()
                self._look_at_readers(environment, file_bytes)
            at, older = 0, b""
            try:
                with Call(environment):
                    if environment.ended:
                        continue  # by another thread, since it was looked at
                    env = environment.env
                    with env.begin(write=True, buffers=True) as txn:
                        pages, number = environment.pages or environment.find_pages(txn), txn.id()
                        at = number % META_PAGES * pages.page_bytes
                        older = bytes(pages.metas[at : at + META_BYTES])
                        if not environment.are_records_proven:
                            environment.prove_records(txn)
                        result = change(WriteTransaction(txn, environment.databases))
                        if usable is not None and used_bytes(txn, environment.databases) > usable:
                            raise self._limit.reached(self.path, env.info()["map_size"])
                    self.last_commit = environment.ids_from + number
                    if not only_frees_space:  # only a compaction leaves the mark, and it frees
                        environment.checked_id = number
                    self._lengthen_file(env, file_bytes or 0)
                    return result
            except lmdb.PanicError as exc:
                if has_panicked:
                    raise translated(exc, self.path) from exc
                # An earlier commit met an error; what it left is decided by the file.
                environment.ended, has_panicked = BROKEN, True
            except lmdb.MapFullError:
                raise self._limit.reached(self.path, environment.info("map_size")) from None
            except lmdb.Error as exc:
                if older:
                    self._put_back(at, older)
                raise translated(exc, self.path) from exc

    def _look_at_readers(self, environment: Environment, file_bytes: int) -> None:
        """Free the slots of killed readers, log a disk that is nearly full, and warn, once, of a snapshot
        beside which the file has grown by ten times its live bytes."""
        with Call(environment):
            # They pin pages until LMDB is made to look for them.
            freed = environment.env.reader_check()
            oldest = min(snapshots(environment.env), default=None)
            with environment.env.begin() as txn:
                live = used_bytes(txn, environment.databases)
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
        """Write the meta page at the offset `at` back as it was before a commit that failed, where that
        changed it; errors are passed over."""
        # Where that write fails, LMDB puts back the number alone, beside the roots of the commit
        # that failed (`mdb_env_write_meta`). Nothing tells these bytes from a stored commit whose
        # number was damaged.
        with contextlib.suppress(OSError), open(self.data, "rb+", buffering=0) as file:
            if os.pread(file.fileno(), META_BYTES, at) != older:
                os.pwrite(file.fileno(), older, at)

    def _lengthen_file(self, env: lmdb.Environment, file_bytes: int) -> None:
        """Make the file, of `file_bytes` before the commit, hold all its pages, free ones too;
        errors are passed over."""
        last_page = env.info()["last_pgno"]
        if last_page == self._last_page:
            return
        needed = (last_page + 1) * env.stat()["psize"]
        with contextlib.suppress(OSError):  # the commit is durable all the same
            if file_bytes < needed and os.stat(self.data).st_size < needed:
                os.truncate(self.data, needed)
            self._last_page = last_page

    def _free_pages_of_last_commits(self) -> None:
        """Make two commits of nothing, after which LMDB uses the pages that the last commits have freed."""
        for _ in range(2):
            self._commit(change_nothing, only_frees_space=True)

    def supersede(self, new: str) -> None:
        """Let the data file at `new`, which is whole and durable, be the index: leave MOVED_KEY in the old
        file, give the new one and its lock file their names, and open it. Readers open it at their next
        call."""
        environment = self.environment()
        self.commit(partial(WriteTransaction.put, database="meta", key=MOVED_KEY, value=b"1"), True)
        self._has_renamed = True
        data = next_data_file(self.data)
        for suffix in LOCK_SUFFIX, "":
            os.replace(new + suffix, data + suffix)
        self._open_again(environment)

    def require_room(self, needed: int) -> None:
        """Check that a compaction can write `needed` bytes beside the data file. Raises
        IndexFullError where not, ClosedError where the file is gone, FormatError where a link or the
        like lies among the index's files."""
        self.require_in_place()
        require_plain_files(Path(self.path))
        require_room(self.path, max(os.stat(self.data).st_size, needed), needed)

    @property
    def waited_seconds(self) -> float:
        """How long opening has waited for another writer; 0.0 for a reader."""
        return 0.0 if self._lock is None else self._lock.waited_seconds

    def snapshots(self) -> list[int]:
        """Return the id of each snapshot of the newest data file that a process reads now,
        one for each reader."""
        while True:
            environment = self.environment()
            with Call(environment):
                if not environment.ended:  # by another thread, since it was looked at
                    return [environment.ids_from + number for number, _ in snapshots(environment.env)]

    def figures(self, txn: ReadTransaction) -> dict[str, int]:
        """Return sizes in bytes: `file_bytes`, each database's by name, and as `used_bytes` their sum."""
        sizes, mapped = txn.sizes(), txn.mapped_file()
        file_bytes = os.stat(self.data).st_size if mapped is None else mapped.length()
        return {"file_bytes": file_bytes, "used_bytes": sum(sizes.values()), **sizes}
