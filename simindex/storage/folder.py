"""The folder of an index: its files, their permissions, and the lock of its one writer.

The data file is ``data.mdb``. Each compaction writes another beside it, ``data.1.mdb``, ``data.2.mdb`` ...:
the one of the highest number is the index, and a writer removes the others. Each has its own lock file of
LMDB.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import stat
import time
import weakref
from collections.abc import Iterable
from functools import reduce
from operator import and_
from pathlib import Path
from typing import ClassVar, Literal, get_args

from simindex.checks import require_int, require_word
from simindex.errors import CorruptIndexError, FormatError, IndexFullError, IndexLockedError
from simindex.system import lock, sync, sync_folder, unlock

DATA_FILE, WRITER_LOCK_FILE = "data.mdb", "writer.lock"
COMPACT_FILE = "compact.tmp"
"""The data file that a compaction builds, before it has its number."""

LOCK_SUFFIX = "-lock"
"""Of LMDB's lock file, behind the name of the data file."""

_DATA_FILE = re.compile(r"data(?:\.([1-9][0-9]{0,17}))?\.mdb")
HEADER_FILE = "header"
_NEW_HEADER_FILE = "header.new"

_MOST_HEADER = 1 << 20
"""Bytes that are read of it at most; it takes a few hundred."""

Mode = Literal["r", "r+", "a", "x"]
"""What an index may be opened for; see `simindex.open`."""

DEFAULT_PERMISSIONS = 0o644
"""Of files, less the umask."""

_OTHER_FILES = {WRITER_LOCK_FILE, HEADER_FILE, _NEW_HEADER_FILE, COMPACT_FILE, COMPACT_FILE + LOCK_SUFFIX}

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


def number_of(name: str) -> int:
    """Return the number in the name of a data file or of its lock file, 0 for data.mdb; -1:
    it is another file."""
    found = _DATA_FILE.fullmatch(name.removesuffix(LOCK_SUFFIX))
    return -1 if found is None else int(found[1] or 0)


def data_file(path: str | os.PathLike[str]) -> str:
    """Return the path of an index's newest data file, the one of the highest number; that of data.mdb where
    there is none."""
    found = os.path.join(path, DATA_FILE)
    for _ in range(_LOOKS):
        try:
            names = os.listdir(path)
        except (FileNotFoundError, NotADirectoryError):
            break
        found = os.path.join(path, _newest(names) or DATA_FILE)
        if HEADER_FILE not in names or os.path.lexists(found):
            break  # else a compaction has removed it, behind a newer one, while the folder was listed
    return found


_LOOKS = 10


def _newest(names: Iterable[str]) -> str:
    """Return which of some names is that of the newest data file; empty where none is of one."""
    found = [name for name in names if number_of(name) >= 0 and not name.endswith(LOCK_SUFFIX)]
    return max(found, key=number_of, default="")


def is_older(data: str) -> bool:
    """Return whether a data file of a higher number lies beside this one, which itself may be gone."""
    folder, name = os.path.split(data)
    return number_of(os.path.basename(data_file(folder))) > number_of(name)


def next_data_file(data: str) -> str:
    """Return the path of the data file, numbered one higher, that a compaction of this one makes."""
    folder, name = os.path.split(data)
    return os.path.join(folder, f"data.{number_of(name) + 1}.mdb")


def remove_older(data: str) -> None:
    """Remove the data files, and their lock files, that lie beside `data`, the newest one, and have smaller
    numbers. First the folder is synced, so that the name of `data` is durable; who has an old file open reads
    on."""
    folder, newest = os.path.split(data)
    older = [name for name in os.listdir(folder) if 0 <= number_of(name) < number_of(newest)]
    if older:
        sync_folder(folder)
    for name in older:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))


def remove_unfinished(path: str) -> None:
    """Remove from an index's folder the new file of a compaction that was broken off, if any."""
    for name in (COMPACT_FILE, COMPACT_FILE + LOCK_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(path, name))


def require_permissions(permissions: int | None) -> None:
    """Raise ValueError for permissions that no file of an index may have: other bits than read and write, or
    not both for its owner. ``None`` is accepted."""
    if permissions is None:
        return
    permissions = require_int("permissions", permissions, 0, 0o777)
    if permissions & 0o600 != 0o600 or permissions & 0o111:
        raise ValueError(
            f"permissions: expected those of a file that its owner reads and writes and no user executes, "
            f"as 0o600 or 0o640, found {permissions:#o}"
        )


def require_plain_files(path: Path) -> None:
    """Raise FormatError for a link, a pipe or another thing with the name of an index's file; the folder may
    be a link, or missing."""
    # To open a pipe would wait for ever, and a link would lead writes and locks to another place.
    try:
        names = os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        if name not in _OTHER_FILES and number_of(name) < 0:
            continue
        try:
            kind = stat.S_IFMT(os.lstat(os.path.join(path, name)).st_mode)
        except FileNotFoundError:
            continue
        if kind != stat.S_IFREG:
            raise FormatError(
                f"{path / name}: expected a file, found {_KINDS.get(kind, 'a device')}; "
                "it was left alone, take it away or put the right one there"
            )


def permissions_of(path: Path, permissions: int | None) -> int | None:
    """Return the permission bits for new files: those of the data file, with reading and writing for its
    owner; where there is no data file, `permissions` as given, which may be ``None``."""
    while os.path.exists(data := data_file(path)):
        with contextlib.suppress(FileNotFoundError):  # a compaction may just have removed it
            return stat.S_IMODE(os.stat(data).st_mode) & 0o666 | 0o600
    return permissions


def permissions_of_all(paths: Iterable[str]) -> int | None:
    """Return the permission bits that the data files of all these indexes have in common, for an index that
    is made from them; ``None`` where none of the paths has a data file."""
    found = [permissions_of(Path(path), None) for path in paths]
    return reduce(and_, [each for each in found if each is not None]) if any(found) else None


def require_place(path: Path, mode: Mode, permissions: int | None = None) -> None:
    """Require at the path what a mode needs: an index for "r" and "r+" (else FileNotFoundError), nothing or
    an empty folder for "x" (else FileExistsError), either for "a" (else FormatError, or CorruptIndexError
    where the second header lies there without a data file). "a" and "x" make a missing folder, with bits
    that suit `permissions`. In each mode a file in the place of the folder, and a link or the like among an
    index's files, is a FormatError; an empty data file beside the second header is a CorruptIndexError, but
    a FileExistsError for "x"."""
    require_word("mode", mode, get_args(Mode))
    if path.exists() and not path.is_dir():
        raise FormatError(f"{path}: expected a folder with an index, found a file")
    require_plain_files(path)
    names = set(os.listdir(path)) if path.exists() else set()
    if mode == "x" and names - {WRITER_LOCK_FILE}:
        raise FileExistsError(errno.EEXIST, 'mode "x" creates a new index, but there is something', str(path))
    if data := _newest(names):
        # One that was never completed has none yet.
        if HEADER_FILE in names and _is_empty(path / data):
            raise CorruptIndexError(
                f"{path}: {data} is empty, and the second copy of an index's header lies beside it; it "
                "was cut short, restore a backup"
            )
        return
    if mode in ("r", "r+"):
        make = ' (mode "r+" makes none; "a" and "x" do)' if mode == "r+" else ""
        raise FileNotFoundError(errno.ENOENT, f"no simindex index{make}", str(path))
    if HEADER_FILE in names:
        raise CorruptIndexError(
            f"{path}: {DATA_FILE} is gone, and the second copy of an index's header lies there alone; "
            "restore a backup, or choose another path"
        )
    if names - {WRITER_LOCK_FILE, DATA_FILE + LOCK_SUFFIX, COMPACT_FILE, COMPACT_FILE + LOCK_SUFFIX}:
        raise FormatError(
            f"{path}: expected an index, an empty folder or nothing, found other files; choose another path"
        )
    if permissions is not None and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(permissions | (permissions & 0o444) >> 2)
    path.mkdir(parents=True, exist_ok=True)


def _is_empty(file: Path) -> bool:
    try:
        return file.stat().st_size == 0
    except FileNotFoundError:  # a compaction has just removed it
        return False


def remove_index(path: Path, *, keeps_folder: bool = False) -> None:
    """Remove the first data file of a new index, its lock files and header, and then the folder if it is
    empty, unless `keeps_folder`; errors of the system are passed over. Takes no file descriptor."""
    for name in (DATA_FILE, DATA_FILE + LOCK_SUFFIX, *_OTHER_FILES):
        with contextlib.suppress(OSError):
            os.unlink(path / name)
    if keeps_folder:
        return
    with contextlib.suppress(OSError):
        os.rmdir(path)


def identity_of(file: str | int) -> tuple[int, int]:
    """Return (device, inode) of a file, by its path or descriptor: what it is, whatever its name."""
    found = os.stat(file)
    return found.st_dev, found.st_ino


def is_index(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder with a data file of an index, by its name, is at a path; nothing is opened."""
    try:
        with os.scandir(path) as files:
            return bool(_newest(file.name for file in files if file.is_file()))
    except OSError:
        return False


def second_header(path: str) -> bytes:
    """Return the second copy of the header, in its file; empty where there is none, or it cannot be read."""
    try:
        file = os.open(os.path.join(path, HEADER_FILE), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    with open(file, "rb") as header:
        return header.read(_MOST_HEADER)


def keep_header(path: str, header: bytes) -> None:
    """Write the second copy of the header, whole and durable, in place of one that is there. An error of the
    system is passed over: the next writer tries again."""
    new = os.path.join(path, _NEW_HEADER_FILE)
    with contextlib.suppress(OSError):
        file = open_plain(Path(new), permissions_of(Path(path), None))
        try:
            os.ftruncate(file, 0)
            os.write(file, header)
            sync(file)
        finally:
            os.close(file)
        os.replace(new, os.path.join(path, HEADER_FILE))
        sync_folder(Path(path))


def open_plain(file: Path, permissions: int | None) -> int:
    """Open a file for reading and writing, and return its descriptor; a missing one is made, with
    `permissions` (``None``: 0o644 less the umask). Raises OSError for a link."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        return os.open(file, flags)
    with contextlib.suppress(FileExistsError):
        made = os.open(file, flags | os.O_CREAT | os.O_EXCL, permissions or DEFAULT_PERMISSIONS)
        if permissions is not None:
            os.fchmod(made, permissions)
        return made
    return os.open(file, flags)  # another process was first


_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.05
"""Between two attempts to get the writer's lock; each is twice the one before."""


class WriterLock:
    """The lock file of the one writer, held until `release`. Ends with the process in any case.

    Attributes:
        held: the locks of this process, which a forked child abandons.
    """

    held: ClassVar[weakref.WeakSet[WriterLock]] = weakref.WeakSet()
    _file: int | None = None

    def __init__(self, path: str, permissions: int | None = None, timeout: float | None = 0.0) -> None:
        """Take the lock, or try again in growing pauses for `timeout` seconds (``None``: for ever). Raises
        IndexLockedError when they are over."""
        self._path, self._lock_path = path, os.path.join(path, WRITER_LOCK_FILE)
        started, pause = time.monotonic(), _FIRST_PAUSE_SECONDS
        self.waited_seconds = 0.0
        while not self._take(permissions):
            left = None if timeout is None else timeout - self.waited_seconds
            if left is not None and left <= 0:
                waited = self.waited_seconds
                how_long = f", still after {waited:.3g} seconds; wait longer" if waited else "; wait for it"
                raise IndexLockedError(
                    f"{path}: expected to be the only writer, but another handle has the index open for "
                    f'writing{how_long} (timeout=), close it, or open with mode "r"',
                    waited_seconds=waited,
                )
            time.sleep(pause if left is None else min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            self.waited_seconds = time.monotonic() - started

    def _take(self, permissions: int | None) -> bool:
        """Take the lock if it is free, and return whether it was; the lock file is made if missing. Raises
        OSError where the file system has no locks."""
        # Opened for every attempt: a file kept open would go along into a forked child, which would
        # hold the lock, too.
        self.held.add(self)
        self._file = open_plain(Path(self._lock_path), permissions)
        self._held = identity_of(self._file)
        try:
            lock(self._file)
        except BlockingIOError:
            self.abandon()
            return False
        except BaseException as exc:
            self.abandon()
            if isinstance(exc, OSError):  # the file system has no locks
                exc.filename = self._lock_path
            raise
        return True

    def require_held(self) -> None:
        """Raise IndexLockedError where another file than the locked one, or none, is at the path: there may
        be another writer."""
        assert self._file is not None
        try:
            is_held = identity_of(self._lock_path) == self._held
        except OSError:
            is_held = False
        if not is_held:
            raise IndexLockedError(
                f"{self._path}: {WRITER_LOCK_FILE} was replaced or removed while it was held, so another "
                "writer may be at work; nothing of this change is stored. Close the handle and open the "
                "index again"
            ).located(self._path)

    def release(self) -> None:
        """Let the next writer have the lock; without effect when it is not held."""
        if self._file is not None:
            # Unlocked by hand: a forked child may hold the same open file.
            unlock(self._file)
            self.abandon()

    def __del__(self) -> None:
        """Ctrl-C may come before anybody holds the lock that was just taken."""
        if self._file is not None:  # a released lock may outlive the modules at the end of the interpreter
            with contextlib.suppress(OSError):
                self.release()

    def abandon(self) -> None:
        """Close the file, if open, without unlocking: in a forked child the lock stays the parent's."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def free_bytes(path: str) -> int:
    """Return the free bytes, for this user, of the disk on which a path lies."""
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def longest_file() -> int | None:
    """Return how many bytes a file may have that this process writes, RLIMIT_FSIZE; ``None``: no limit."""
    longest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if longest == resource.RLIM_INFINITY else longest


def require_room(path: str, file_bytes: int, needed: int) -> None:
    """Raise IndexFullError where the disk has fewer than `needed` bytes free, or the process may not write a
    file of `file_bytes`; nothing is changed."""
    longest = longest_file()
    if longest is not None and file_bytes > longest:
        raise IndexFullError(
            f"{path}: expected a file of {file_bytes} bytes to be allowed, found a limit of {longest} "
            "(RLIMIT_FSIZE); nothing was changed. Raise it, or remove documents",
            needed_bytes=needed,
        )
    if needed > (found := free_bytes(path)):
        raise IndexFullError(
            f"{path}: expected {needed} bytes of free disk for the copy, found {found}; nothing was changed. "
            "Free some space, or remove documents",
            needed_bytes=needed,
        )
