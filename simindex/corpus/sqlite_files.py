"""Work files of SQLite, whose disk errors are raised as OSError, and the texts of rows in one, by row number.

What is kept of a text, and for how long: as long as the job works. Invariant: memory does not grow with their
number; putting one twice changes nothing.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, TypeVar

from simindex.config import Config
from simindex.corpus.shared_passages import Explanation, explain

T = TypeVar("T")


@contextmanager
def naming_file(path: str) -> Iterator[None]:
    """Run the block; where SQLite meets a full disk or an I/O error there, raise an ``OSError`` that names
    the file. Its other errors are raised as they are."""
    try:
        yield
    except sqlite3.OperationalError as exc:
        code = exc.sqlite_errorcode & 0xFF
        if code == sqlite3.SQLITE_FULL:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path) from exc
        if code == sqlite3.SQLITE_IOERR:
            raise OSError(errno.EIO, str(exc), path) from exc
        raise


@contextmanager
def opened_sqlite(path: str) -> Iterator[sqlite3.Connection]:
    """Open a database, made if it is missing, for the length of the block, without implicit transactions. A
    full or failing disk in the block is an ``OSError``, as in `naming_file`."""
    with (
        naming_file(path),
        # Where a job failed in a thread, its traceback may hold the block, and go in another one.
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as db,
    ):
        yield db


@contextmanager
def in_one(db: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction of the database. Where the block fails, the transaction stays open,
    and is undone when the database is closed."""
    db.execute("begin")
    yield
    db.execute("commit")


MOST_EXPLAINED = 1 << 20
"""Characters of a text that are compared, from its beginning: what is shared is held in arrays."""


class TextFile:
    """Texts in a file, which is made if it is missing."""

    def __init__(self, path: str, config: Config) -> None:
        self._path, self._config, self._opened = path, config, ExitStack()
        self._db = self._opened.enter_context(opened_sqlite(path))
        with naming_file(path):
            self._db.execute("create table if not exists texts (number integer primary key, text blob)")

    def close(self) -> None:
        """Close the file, which stays on the disk."""
        self._opened.close()

    def put(self, items: Iterable[tuple[int, Any]]) -> None:
        """Store the first `MOST_EXPLAINED` characters of each document that is a str under its number, in
        place of what stands there; other documents are passed over."""
        rows = (
            (number, zlib.compress(document[:MOST_EXPLAINED].encode("utf-8", "surrogatepass"), 1))
            for number, document in items
            if isinstance(document, str)
        )
        with naming_file(self._path), in_one(self._db):
            self._db.executemany("insert or replace into texts values (?, ?)", rows)

    def taking(self, batches: Iterable[T], items_of: Callable[[T], Iterable[tuple[int, Any]]]) -> Iterator[T]:
        """Yield the batches unchanged, each after a `put` of its items."""
        for batch in batches:
            self.put(items_of(batch))
            yield batch

    def explain(self, document: Any, kept: int | None) -> Explanation | None:
        """Return what the beginnings of a document, as `a`, and of the text stored under the number `kept`
        share; ``None`` where `kept` is, where no text is stored under it, or where the document is no str."""
        if kept is None or not isinstance(document, str):
            return None
        with naming_file(self._path):
            found = self._db.execute("select text from texts where number = ?", (kept,)).fetchone()
        if found is None:
            return None
        text = zlib.decompress(found[0]).decode("utf-8", "surrogatepass")
        return explain(document[:MOST_EXPLAINED], text, self._config)
