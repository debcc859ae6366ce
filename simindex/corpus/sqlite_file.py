"""A SQLite work file whose disk errors are raised as OSError."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable
from typing import Any


class SqliteFile(sqlite3.Connection):
    """A connection without implicit transactions; a full disk is an ``OSError`` that names the file."""

    def __init__(self, path: str) -> None:
        super().__init__(path, isolation_level=None)
        self._path = path

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Run a statement."""
        return self._named(super().execute, *arguments)

    def executemany(self, *arguments: Any) -> sqlite3.Cursor:
        """Run a statement for each of some rows."""
        return self._named(super().executemany, *arguments)

    def executescript(self, *arguments: Any) -> sqlite3.Cursor:
        """Run some statements."""
        return self._named(super().executescript, *arguments)

    def _named(self, run: Callable[..., sqlite3.Cursor], *arguments: Any) -> sqlite3.Cursor:
        try:
            return run(*arguments)
        except sqlite3.OperationalError as exc:
            codes = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}
            code = codes.get(exc.sqlite_errorcode & 0xFF)
            if code is None:
                raise
            reason = "No space left on device" if code == errno.ENOSPC else str(exc)
            raise OSError(code, reason, self._path) from exc
