"""The folder of an index: what may lie in it, and the lock that only one writer gets.

Owns the names of the files. Must not open the data file.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from simindex.errors import FormatError, IndexLockedError

DATA_FILE, LMDB_LOCK_FILE, WRITER_LOCK_FILE = "data.mdb", "lock.mdb", "writer.lock"
COMPACT_FOLDER = "compact.tmp"

MODES = ("r", "r+", "a", "x")


def require_place(path: Path, mode: str) -> None:
    """Check what lies at the path, and make the folder where the mode allows it.

    Raises:
        FileNotFoundError, FileExistsError, FormatError: see `simindex.open`.
    """
    if mode not in MODES:
        raise ValueError(f'mode: expected "r", "r+", "a" or "x", found {mode!r}')
    if path.exists() and not path.is_dir():
        raise FormatError(f"{path}: expected a folder with an index, found a file")
    names = {entry.name for entry in path.iterdir()} if path.exists() else set()
    if mode == "x" and names - {WRITER_LOCK_FILE}:
        raise FileExistsError(errno.EEXIST, 'mode "x" creates a new index, but there is something', str(path))
    if DATA_FILE in names:
        return
    if mode in ("r", "r+"):
        raise FileNotFoundError(errno.ENOENT, "no simindex index", str(path))
    if names - {WRITER_LOCK_FILE, LMDB_LOCK_FILE, COMPACT_FOLDER}:
        raise FormatError(
            f"{path}: expected an index, an empty folder or nothing, found other files; choose another path"
        )
    path.mkdir(parents=True, exist_ok=True)


def identity_of(path: str) -> tuple[int, int]:
    """Return (device, inode) of a file: what it is, whatever its name."""
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def sync_folder(path: Path) -> None:
    """Make new names in a folder durable."""
    with contextlib.suppress(PermissionError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class WriterLock:
    """The lock file of the one writer, held until `release`. Ends with the process in any case."""

    _file: int | None = None

    def __init__(self, path: str) -> None:
        """Take the lock.

        Raises:
            IndexLockedError: somebody has it.
        """
        self._path = path
        self._file = os.open(Path(path) / WRITER_LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            self.abandon()
            raise IndexLockedError(
                f"{path}: expected to be the only writer, but another handle has the index open for "
                'writing; close it, or open with mode "r"'
            ) from exc

    def require_held(self) -> None:
        """Make sure that the file at the path is still the one that is locked, before anything is written.

        Raises:
            IndexLockedError: it was replaced or removed, so that another writer may be at work.
        """
        assert self._file is not None
        held = os.fstat(self._file)
        try:
            is_held = identity_of(os.path.join(self._path, WRITER_LOCK_FILE)) == (held.st_dev, held.st_ino)
        except OSError:
            is_held = False
        if not is_held:
            raise IndexLockedError(
                f"{self._path}: {WRITER_LOCK_FILE} was replaced or removed while it was held, so another "
                "writer may be at work; nothing of this change is stored. Close the handle and open the "
                "index again"
            ).located(self._path)

    def release(self) -> None:
        """Let the next writer have it."""
        if self._file is not None:
            # Unlocked by hand: a forked child may hold the same open file.
            fcntl.flock(self._file, fcntl.LOCK_UN)
            self.abandon()

    def __del__(self) -> None:
        """Ctrl-C may come before anybody holds the lock that was just taken."""
        with contextlib.suppress(OSError):
            self.release()

    def abandon(self) -> None:
        """In a forked child: close the file and leave the lock to the parent."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
