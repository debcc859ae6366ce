"""Work files of SQLite, whose disk errors are raised as OSError, and the texts of rows in one, by row number.

What is kept of a text, and for how long: as long as the job works. Invariant: memory does not grow with their
number; putting one twice changes nothing.
"""

from __future__ import annotations

import errno
import sqlite3
import zlib
from collections.abc import Callable, Iterable
from typing import Any

from simindex.config import Config
from simindex.corpus.explain import Explanation, explain


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


MOST_EXPLAINED = 1 << 20
"""Characters of a text that are compared, from its beginning: what is shared is held in arrays."""


class TextFile:
    """Texts in a file, which is made if it is missing."""

    def __init__(self, path: str, config: Config) -> None:
        self._db = SqliteFile(path)
        self._db.execute("create table if not exists texts (number integer primary key, text blob)")
        self._config = config

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def put(self, items: Iterable[tuple[int, Any]]) -> None:
        """Keep the texts among the documents of these numbers."""
        rows = (
            (number, zlib.compress(document[:MOST_EXPLAINED].encode("utf-8", "surrogatepass"), 1))
            for number, document in items
            if isinstance(document, str)
        )
        self._db.execute("begin")
        self._db.executemany("insert or replace into texts values (?, ?)", rows)
        self._db.execute("commit")

    def explain(self, document: Any, kept: int | None) -> Explanation | None:
        """Return what a document shares with the kept row of a number; ``None`` if one is no text at hand."""
        if kept is None or not isinstance(document, str):
            return None
        found = self._db.execute("select text from texts where number = ?", (kept,)).fetchone()
        if found is None:
            return None
        text = zlib.decompress(found[0]).decode("utf-8", "surrogatepass")
        return explain(document[:MOST_EXPLAINED], text, self._config)
