"""The LMDB file: opening, the writer's lock, commits, growth.

Owns what reliability needs of LMDB: a writer lock of its own; a map that grows by itself; read
transactions that live only for the length of one call; every lmdb exception translated. Must not know
what the bytes mean.

Locking rules.
* A write transaction begins and ends inside `Store.commit`, on one thread. (Committed on another
  thread it would block every later writer for ever.)
* Every transaction lives inside the gate of its environment. Growing, closing and fork() wait until
  nobody is inside; addresses into the map are valid inside `Store.reading` only.
* An environment inherited through fork() is not touched again by the child, unless the child opens
  the same file: then it is closed first.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import lmdb
import lmdb.verify

from simindex.checks import require_int
from simindex.errors import (
    ClosedError,
    CorruptIndexError,
    FormatError,
    IndexFullError,
    IndexLockedError,
    ReadOnlyError,
    SimIndexError,
)
from simindex.storage.environment import Environment, Pin, registry
from simindex.storage.transactions import ReadTransaction, WriteTransaction

Result = TypeVar("Result")

DATA_FILE, LMDB_LOCK_FILE, WRITER_LOCK_FILE = "data.mdb", "lock.mdb", "writer.lock"
COMPACT_FOLDER = "compact.tmp"
DATABASES = ("meta", "documents", "segments", "removed", "groups")

DEFAULT_MAP_BYTES = 1 << 36
"""Address space reserved at first (sparse: the file is only as long as its data)."""

_MIN_MAP_BYTES = 1 << 20
_MAX_MAP_BYTES = 1 << 44
_MAX_READERS = 1024
_ENGINE = 0  # LMDB 0.9 files (data format 1); pinned, for the two engines cannot read each other's
_READER_CHECK_SECONDS = 60.0
_MOVED_KEY = b"moved"
_COPIED_KEY = b"copied"


class Reading:
    """A read transaction for the length of a ``with`` block.

    It is the visitor that the environment's gate counts: from the first step of `__enter__` to the last of
    `__exit__` the map stays where it is.
    """

    __slots__ = ("__weakref__", "_environment", "_store", "_txn")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._environment: Environment | None = None
        self._txn: lmdb.Transaction | None = None

    def __enter__(self) -> ReadTransaction:
        self._environment = environment = self._store.environment()
        try:
            environment.enter(self)
            self._txn = self._store.begin_read(environment, self)
            return ReadTransaction(environment, self._txn)
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if isinstance(error, lmdb.Error):
            raise _translated(error, self._store.path) from error

    def _leave(self) -> None:
        try:
            txn, self._txn = self._txn, None
            if txn is not None:
                self._store.end_read(txn)
        finally:
            if self._environment is not None:
                self._environment.leave(self)


class Store:
    """One handle on an index's environment.

    Thread safety: any thread may read; `commit` is serialised by the caller (Index). Processes: one
    writable handle at a time, any number of reading ones. Durable: what `commit` returned from.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: str,
        map_bytes: int = DEFAULT_MAP_BYTES,
        max_bytes: int | None = None,
        *,
        pinned: bool = False,
    ) -> None:
        self.path = str(Path(path))
        self._data = os.path.join(self.path, DATA_FILE)
        require_int("map_bytes", map_bytes, 1)
        if max_bytes is not None:
            require_int("max_bytes", max_bytes, _MIN_MAP_BYTES)
        self.writable = mode != "r"
        self.is_new = False
        """True until `initialise`: the environment is there, but holds nothing yet."""
        self._map_bytes = map_bytes
        self._max_bytes = max_bytes
        self._pinned = pinned
        self._pin: Pin | None = None
        self._last_page = -1
        """The file is as long as its pages up to this one."""
        self._environment: Environment | None = None
        self._lock_file: int | None = None
        self._dead = ""
        self._checked_readers = time.monotonic()
        registry.install_hooks()
        self._require_place(mode)
        try:
            if self.writable:
                self._take_writer_lock()
            self._environment = self._open_environment()
            self._keep_limit()
            self._open_databases(mode)
        except BaseException:
            self.close()
            raise
        registry.handles.add(self)

    # ---- opening ----

    def _require_place(self, mode: str) -> None:
        """Check what lies at the path, and make the folder where the mode allows it."""
        path = Path(self.path)
        if mode not in ("r", "r+", "a", "x"):
            raise ValueError(f'mode: expected "r", "r+", "a" or "x", found {mode!r}')
        if path.exists() and not path.is_dir():
            raise FormatError(f"{path}: expected a folder with an index, found a file")
        names = {entry.name for entry in path.iterdir()} if path.exists() else set()
        if mode == "x" and names - {WRITER_LOCK_FILE}:
            raise FileExistsError(
                errno.EEXIST, 'mode "x" creates a new index, but there is something', str(path)
            )
        if DATA_FILE in names:
            return
        if mode in ("r", "r+"):
            raise FileNotFoundError(errno.ENOENT, "no simindex index", str(path))
        if names - {WRITER_LOCK_FILE, LMDB_LOCK_FILE, COMPACT_FOLDER}:
            raise FormatError(
                f"{path}: expected an index, an empty folder or nothing, found other files; "
                "choose another path"
            )
        path.mkdir(parents=True, exist_ok=True)

    def _take_writer_lock(self) -> None:
        lock = os.open(Path(self.path) / WRITER_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(lock)
            raise IndexLockedError(
                f"{self.path}: expected to be the only writer, but another handle has the index open for "
                'writing; close it, or open with mode "r"'
            ) from exc
        self._lock_file = lock

    def _open_environment(self) -> Environment:
        stale = self._stale_environment()
        if stale is not None:
            self._environment = stale
            self._reopen()
            return stale
        with registry.lock:
            data = Path(self._data)
            if data.exists():
                stat = data.stat()
                shared = registry.environments.get((stat.st_dev, stat.st_ino))
                if shared is not None and (shared.writable or not self.writable):
                    shared.handles += 1
                    return shared
                if shared is not None:
                    raise IndexLockedError(
                        f"{self.path}: this process has it open without permission to write; close that first"
                    )
                self._close_inherited((stat.st_dev, stat.st_ino))
            env, writable = self._open_lmdb()
            stat = data.stat()
            opened = Environment(env, self._folder(), (stat.st_dev, stat.st_ino), writable)
            registry.environments[opened.identity] = opened
            return opened

    def _folder(self) -> str:
        return os.path.realpath(self.path)

    def _stale_environment(self) -> Environment | None:
        """Return this process's environment of a file that a compaction has moved away from this path.

        A process may open the folder only once, so its other handles change over together with this one.
        """
        with registry.lock:
            for environment in registry.environments.values():
                if environment.folder != self._folder() or not environment.databases:
                    continue
                with environment.inside() as env, env.begin() as txn:
                    if not self._moved_away(environment, txn):
                        continue
                environment.handles += 1
                return environment
        return None

    def _close_inherited(self, identity: tuple[int, int]) -> None:
        """In a forked child: close the parent's environment of a file, for a process may open one only."""
        environment, quiet = registry.inherited.get(identity, (None, False))
        if environment is None:
            return
        if not quiet:
            raise SimIndexError(
                f"{self.path}: the parent process was in the middle of a call on it when it forked; "
                "open it in a process that is started anew"
            )
        environment.env.close()
        del registry.inherited[identity]

    def _open_lmdb(self) -> tuple[lmdb.Environment, bool]:
        """Open with as large a map as the system grants. Readers open writable too where they may, so
        that a writer of the same process can share the environment."""
        data = Path(self._data)
        size = max(min(self._map_bytes, self._max_bytes or _MAX_MAP_BYTES), _MIN_MAP_BYTES)
        if data.exists():
            size = max(size, data.stat().st_size)
        readonly = not self.writable and not os.access(data, os.W_OK)
        while True:
            try:
                env = lmdb.open(
                    self.path,
                    map_size=size,
                    readonly=readonly,
                    create=self.writable,
                    mode=0o644,
                    max_readers=_MAX_READERS,
                    max_dbs=len(DATABASES) + 16,
                    # A spare transaction keeps its reader slot, and a forked child that ends would free
                    # the parent's. Without spares a transaction costs 0.06 us more.
                    max_spare_txns=0,
                    # Random access by many small reads: reading ahead would only fill the cache.
                    readahead=False,
                    lib_version=_ENGINE,
                )
                break
            except (lmdb.MemoryError, MemoryError) as exc:
                if size <= 1 << 26:
                    raise IndexFullError(f"{self.path}: no address space for a map of {size} bytes") from exc
                size //= 2
            except lmdb.Error as exc:
                raise _translated(exc, self.path) from exc
        try:
            self._require_whole_file(env)
        except BaseException:
            env.close()
            raise
        env.reader_check()
        return env, not readonly

    def _require_whole_file(self, env: lmdb.Environment) -> None:
        """Refuse a file that was cut short: reading behind its end would kill the process.

        A file may end before its last page where that page is free, taken and given back in one commit.
        The writer then lengthens it, but may not have come to it yet, or may have been killed before: so
        the file is looked at again, and at last walked through (read, not mapped) for pages in use.
        """
        for _ in range(10):
            needed, found = self._file_lengths(env)
            if found >= needed or not found:
                return
            time.sleep(0.005)
        try:
            problems = lmdb.verify.verify(self.path)  # type: ignore[no-untyped-call]  # it has no annotations
        except lmdb.verify.VerifyError as exc:
            problems = [str(exc)]
        if problems:
            raise CorruptIndexError(
                f"{self.path}: expected a data file of {needed} bytes, found {found} ({problems[0]}); "
                "it was cut short, restore a backup"
            )

    def _file_lengths(self, env: lmdb.Environment) -> tuple[int, int]:
        """Return the bytes of all pages that the file should hold, and its length."""
        pages: int = env.info()["last_pgno"] + 1
        return pages * env.stat()["psize"], os.stat(self._data).st_size

    def _lengthen_file(self, env: lmdb.Environment) -> None:
        """Make the file hold all its pages, the free ones at its end too. Only the writer may do so."""
        last_page = env.info()["last_pgno"]
        if last_page == self._last_page:
            return
        with contextlib.suppress(OSError):  # the commit is durable all the same
            needed, found = self._file_lengths(env)
            if found < needed:
                os.truncate(self._data, needed)
            self._last_page = last_page

    def _open_databases(self, mode: str) -> None:
        environment = self.environment()
        if not environment.databases:
            with environment.inside() as env:
                environment.databases = self._databases_of(env)
        self.is_new = not environment.databases
        if self.is_new and mode in ("r", "r+"):
            raise FileNotFoundError(errno.ENOENT, "an index that was never completed", self.path)

    def _databases_of(self, env: lmdb.Environment) -> dict[str, Any]:
        """Return the handles of an environment's databases; none where it holds nothing yet."""
        try:
            with env.begin() as txn:
                if not txn.stat()["entries"]:
                    return {}
            # Each in a transaction of py-lmdb's own: a handle opened in a read transaction is void once
            # that has ended.
            databases = {name: env.open_db(name.encode(), create=False) for name in DATABASES}
            with env.begin() as txn:
                for name, database in databases.items():
                    if any(cast("Any", database).flags(txn).values()):
                        raise FormatError(f"{self.path}: database {name!r} has unknown flags; not an index")
        except lmdb.NotFoundError as exc:
            raise FormatError(f"{self.path}: an LMDB environment, but not a simindex index") from exc
        except lmdb.Error as exc:
            raise _translated(exc, self.path) from exc
        return databases

    def initialise(self, header_key: bytes, header: bytes, manifest_key: bytes, manifest: bytes) -> None:
        """Create the databases with their first values, in one commit."""
        try:
            with self.environment().inside() as env, env.begin(write=True) as txn:
                databases = {name: env.open_db(name.encode(), txn=txn) for name in DATABASES}
                txn.put(header_key, header, db=databases["meta"])
                txn.put(manifest_key, manifest, db=databases["meta"])
            self.environment().databases = databases
        except lmdb.Error as exc:
            raise _translated(exc, self.path) from exc
        _sync_folder(Path(self.path))
        _sync_folder(Path(self.path).parent)
        self.is_new = False

    # ---- life ----

    def environment(self) -> Environment:
        """Return the environment. Raises ClosedError when the handle is closed or was forked."""
        if self._environment is None:
            raise ClosedError(f"{self.path}: {self._dead or 'the index is closed'}; open it again")
        return self._environment

    def require_open(self) -> None:
        """Raise ClosedError when the handle is closed or was forked."""
        self.environment()

    @property
    def is_abandoned(self) -> bool:
        """Whether the handle was inherited through fork()."""
        return bool(self._dead)

    def abandon(self) -> None:
        """In a forked child: let go without touching the environment or the parent's lock."""
        self._environment = None
        self._dead = "this handle was inherited through fork() and belongs to the parent process"
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def close(self) -> None:
        """Close the handle; the last one of a file closes its environment."""
        environment, self._environment = self._environment, None
        registry.handles.discard(self)
        try:
            if environment is not None:
                self._let_go(environment)
        finally:
            if self._lock_file is not None:
                # Unlocked by hand: a forked child may hold the same open file.
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)
                os.close(self._lock_file)
                self._lock_file = None

    def _let_go(self, environment: Environment) -> None:
        with registry.lock:
            environment.handles -= 1
            if not environment.handles:
                # Calls of other threads end first: their addresses lie in the map.
                with environment.alone():
                    registry.environments.pop(environment.identity, None)
                    environment.env.close()
            elif self._pin is not None:
                self._pin.drop()

    # ---- reading ----

    def reading(self) -> Reading:
        """Return a context manager for one call's length, which gives a `ReadTransaction`."""
        return Reading(self)

    def refresh(self) -> None:
        """Let go of a pinned snapshot; the next call takes the newest."""
        self.require_open()
        if self._pin is not None:
            self._pin.drop()

    def begin_read(self, environment: Environment, visitor: object) -> lmdb.Transaction:
        """Return a read transaction of LMDB for a visitor who is inside; see `end_read`."""
        for attempt in range(6):
            try:
                txn = self._snapshot(environment)
                if not self._moved_away(environment, txn):
                    return txn
                self.end_read(txn)
                self._outside(environment, visitor, self._reopen)
            except lmdb.MapResizedError:
                # Another process grew the file beyond this one's map.
                self._outside(environment, visitor, lambda: environment.move_map(0))
            except lmdb.ReadersFullError as exc:
                if not environment.env.reader_check() and attempt > 2:
                    raise _translated(exc, self.path) from exc
            except lmdb.Error as exc:
                raise _translated(exc, self.path) from exc
        raise SimIndexError(f"{self.path}: no read transaction after six attempts; too many readers")

    def end_read(self, txn: lmdb.Transaction) -> None:
        """End a read transaction, unless it is this handle's pinned one."""
        if self._pin is None or txn is not self._pin.txn:
            txn.abort()

    def _snapshot(self, environment: Environment) -> lmdb.Transaction:
        """Return LMDB's snapshot of the newest state, or of the pinned one."""
        txn: lmdb.Transaction
        if not self._pinned:
            txn = environment.env.begin(buffers=True)
            return txn
        if self._pin is None or self._pin.txn is None:
            self._pin = Pin(environment)
        txn = self._pin.txn
        return txn

    def _outside(self, environment: Environment, visitor: object, action: Callable[[], None]) -> None:
        environment.leave(visitor)
        try:
            action()
        finally:
            environment.enter(visitor)

    def _moved_away(self, environment: Environment, txn: lmdb.Transaction) -> bool:
        """Whether `compact_copy` has put another file in this one's place. Looked at once a commit."""
        if txn.id() == environment.checked_id or not environment.databases:
            return False
        if txn.get(_MOVED_KEY, db=environment.databases["meta"]) is not None:
            # Left in the old file just before the new one takes its place, so the place decides.
            try:
                stat = os.stat(self._data)
            except FileNotFoundError:
                return False
            return (stat.st_dev, stat.st_ino) != environment.identity
        environment.checked_id = txn.id()
        return False

    def _reopen(self) -> None:
        """Change over to the file that now lies at the path."""
        environment = self.environment()
        with registry.lock, environment.alone():
            stat = os.stat(self._data)
            if (stat.st_dev, stat.st_ino) == environment.identity:
                return  # another thread was first
            registry.environments.pop(environment.identity, None)
            environment.env.close()
            environment.env, _ = self._open_lmdb()
            self._last_page = -1
            environment.identity = (stat.st_dev, stat.st_ino)
            environment.databases = self._databases_of(environment.env)
            environment.checked_id = -1
            registry.environments[environment.identity] = environment

    # ---- writing ----

    def commit(self, change: Callable[[WriteTransaction], Result]) -> Result:
        """Run `change` in a write transaction and make it durable.

        `change` must be a pure function of what it closes over: it runs again after the map has grown.

        Raises:
            IndexFullError: no space; nothing of the change is kept.
        """
        if not self.writable:
            raise read_only(self.path)
        environment = self.environment()
        now = time.monotonic()
        if now - self._checked_readers > _READER_CHECK_SECONDS:
            # Slots of killed readers pin pages until somebody looks.
            self._checked_readers = now
            environment.env.reader_check()
        while True:
            try:
                with environment.inside() as env:
                    with env.begin(write=True) as txn:
                        result = change(WriteTransaction(txn, environment.databases))
                    self._lengthen_file(env)
                    return result
            except lmdb.MapFullError:
                self._grow()
            except lmdb.MapResizedError:
                environment.move_map(0)
            except lmdb.Error as exc:
                raise _translated(exc, self.path) from exc

    def _keep_limit(self) -> None:
        """Shrink a larger map, which a reader of the same process has opened before, to `max_bytes`."""
        environment = self.environment()
        if self.writable and environment.env.info()["map_size"] > (self._max_bytes or _MAX_MAP_BYTES):
            file_bytes = os.stat(self._data).st_size
            environment.move_map(max(self._max_bytes or _MAX_MAP_BYTES, file_bytes))

    def _grow(self) -> None:
        environment = self.environment()
        size = environment.env.info()["map_size"]
        limit = min(self._max_bytes or _MAX_MAP_BYTES, _MAX_MAP_BYTES)
        if size >= limit:
            raise IndexFullError(
                f"{self.path}: the index reached its largest allowed size of {limit} bytes; nothing of this "
                "commit was written. Remove documents, or open with a larger max_bytes"
            )
        try:
            environment.move_map(min(max(2 * size, size + (1 << 20)), limit))
        except lmdb.Error as exc:
            raise _translated(exc, self.path) from exc

    def compact_copy(self) -> None:
        """Put a copy without free pages in the data file's place.

        Readers keep the old file until their next call, which finds the mark left in it and changes over.
        The lock file stays. A crash before the rename leaves the old file as it was, with a mark that
        counts for nothing as long as the file is in its place, and that the next writer takes back.
        """
        folder, copy = Path(self.path), Path(self.path) / COMPACT_FOLDER
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        try:
            # LMDB's own `copy` writes past the page cache: the next queries would read from disk.
            with self.environment().inside() as env, open(copy / DATA_FILE, "wb") as data:
                env.copyfd(data.fileno(), compact=True)
                os.fsync(data.fileno())
            shutil.copymode(folder / DATA_FILE, copy / DATA_FILE)
            with lmdb.open(str(copy), max_dbs=1, map_size=self._copy_bytes(copy), lib_version=_ENGINE) as env:
                # LMDB chooses between a file's two meta pages by the parity of the last transaction's
                # number, which the lock file keeps and the old file's was. Two commits make both valid.
                for number in (b"1", b"2"):
                    with env.begin(write=True) as txn:
                        txn.put(_COPIED_KEY, number, db=env.open_db(b"meta", txn=txn))
            # In both meta pages of the old file as well, for the same reason.
            for number in (b"1", b"2"):
                self.commit(lambda txn, number=number: txn.put("meta", _MOVED_KEY, number))  # type: ignore[misc]
            os.replace(copy / DATA_FILE, folder / DATA_FILE)
            _sync_folder(folder)
        except (lmdb.Error, OSError) as exc:
            raise _translated(exc, self.path) from exc
        finally:
            shutil.rmtree(copy, ignore_errors=True)
        self._reopen()
        # A reader of this process may have been first, with a map of its own size.
        self._last_page = -1
        self._keep_limit()
        self._map_pages()

    def _map_pages(self) -> None:
        """Touch every page of the segments, where they fit into memory: each 64 KiB that a query were the
        first to touch would cost it a page fault of some microseconds."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if 4 * os.stat(self._data).st_size < memory:
            with self.reading() as txn:
                for _, value in txn.items("segments"):
                    bytes(value[:: mmap.PAGESIZE])

    def _copy_bytes(self, copy: Path) -> int:
        return max((copy / DATA_FILE).stat().st_size + (1 << 24), 1 << 24)

    def clear_traces(self) -> None:
        """Take back what a compaction that was killed has left."""
        shutil.rmtree(Path(self.path) / COMPACT_FOLDER, ignore_errors=True)
        with self.reading() as txn:
            marked = txn.get("meta", _MOVED_KEY) is not None
        if marked:
            self.commit(lambda txn: txn.delete("meta", _MOVED_KEY))

    # ---- figures ----

    def figures(self, txn: ReadTransaction) -> dict[str, int]:
        """Return sizes in bytes: of the file, of the pages in use and of each database."""
        sizes = txn.sizes()
        return {
            "file_bytes": os.stat(self._data).st_size,
            "used_bytes": sum(sizes.values()),
            **sizes,
        }


def read_only(path: str) -> ReadOnlyError:
    """Return the error of a change through a handle that only reads."""
    return ReadOnlyError(f'{path}: opened with mode "r"; open it with mode "a" to change it')


def _sync_folder(path: Path) -> None:
    """Make new names in a folder durable."""
    with contextlib.suppress(PermissionError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def _translated(error: lmdb.Error | OSError, path: str) -> SimIndexError:
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
        return SimIndexError(
            f"{path}: all {_MAX_READERS} reader slots are taken ({text}); close some readers"
        )
    return SimIndexError(f"{path}: {text}")
