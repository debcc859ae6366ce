"""The writer's lock: one writer for an index."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from simindex.errors import IndexLockedError
from simindex.storage.folder import WRITER_LOCK_FILE, open_plain

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.001, 0.05
"""Between two attempts to get the writer's lock; each is twice the one before."""


class WriterLock:
    """The lock file of the one writer, held until `release`. Ends with the process in any case."""

    _file: int | None = None

    def __init__(self, path: str, permissions: int | None = None, timeout: float | None = 0.0) -> None:
        """Take the lock, or wait for it in pauses that grow (``None``: for ever).

        Raises:
            IndexLockedError: another one still had it when the time was up.
        """
        self._path, self._place = path, os.path.join(path, WRITER_LOCK_FILE)
        started, pause = time.monotonic(), _FIRST_PAUSE_SECONDS
        self.waited_seconds = 0.0
        while not self._take(permissions):
            left = None if timeout is None else timeout - self.waited_seconds
            if left is not None and left <= 0:
                raise self._locked()
            time.sleep(pause if left is None else min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            self.waited_seconds = time.monotonic() - started

    def _take(self, permissions: int | None) -> bool:
        """Take the lock if it is free.

        The file is opened for every attempt: one that is kept open would go along into a forked child, which
        would then hold the lock, too.
        """
        self._file = open_plain(Path(self._place), permissions)
        held = os.fstat(self._file)
        self._held = held.st_dev, held.st_ino
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.abandon()
            return False
        except BaseException as exc:
            self.abandon()
            if isinstance(exc, OSError):  # the file system has no locks
                exc.filename = self._place
            raise
        return True

    def _locked(self) -> IndexLockedError:
        waited = self.waited_seconds
        how_long = f", still after {waited:.3g} seconds; wait longer" if waited else "; wait for it"
        return IndexLockedError(
            f"{self._path}: expected to be the only writer, but another handle has the index open for "
            f'writing{how_long} (timeout=), close it, or open with mode "r"',
            waited_seconds=waited,
        )

    def require_held(self) -> None:
        """Refuse to write where the file at the path is not the one that is locked: another writer may be at
        work."""
        assert self._file is not None
        try:
            found = os.stat(self._place)
            is_held = (found.st_dev, found.st_ino) == self._held
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
        if self._file is not None:  # a released lock may outlive the modules at the end of the interpreter
            with contextlib.suppress(OSError):
                self.release()

    def abandon(self) -> None:
        """In a forked child: close the file and leave the lock to the parent."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
