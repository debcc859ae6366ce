"""Transactions as the rest of simindex sees them: read ones for a call, write ones for a commit.

Owns access to the databases by name. Must not begin or commit by itself; `store` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Protocol, cast

from simindex.environment import Environment
from simindex.errors import CorruptIndexError


class Opened(Protocol):
    """What a read transaction needs of a store."""

    def environment(self) -> Environment:
        """Return the environment; raises ClosedError."""

    def begin_read(self, environment: Environment, visitor: object) -> tuple[Any, bool]:
        """Return a read transaction of LMDB and whether it is pinned; `visitor` is inside."""

    def raise_translated(self, error: BaseException) -> None:
        """Raise an error of LMDB as one of simindex."""


class Transaction:
    """A read transaction for the length of a ``with`` block; see `Store.reading`.

    Attributes:
        id: of the snapshot: equal ids, equal content.
        map_generation: addresses loaded under another generation are void.
    """

    __slots__ = (
        "__weakref__",
        "_databases",
        "_environment",
        "_pinned",
        "_store",
        "_txn",
        "id",
        "map_generation",
    )

    def __init__(self, store: Opened) -> None:
        self._txn: Any = None
        self._pinned = False
        self._store = store
        self._environment = environment = store.environment()
        try:
            environment.enter(self)
            self._txn, self._pinned = store.begin_read(environment, self)
        except BaseException:
            environment.leave(self)
            raise
        self._databases = environment.databases
        self.id: int = self._txn.id()
        self.map_generation = environment.map_generation

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            txn, self._txn = self._txn, None
            if not self._pinned:
                txn.abort()
        finally:
            self._environment.leave(self)
        if error is not None:
            self._store.raise_translated(error)

    def get(self, database: str, key: bytes) -> memoryview | None:
        """Return a value, valid inside the ``with`` block only, or ``None``."""
        return cast("memoryview | None", self._txn.get(key, db=self._databases[database]))

    def finder(self, database: str) -> Callable[[bytes], memoryview | tuple[int, int] | None]:
        """Return a `get` that gives a large value as (address, length), without reading it; see `pages`."""
        cursor = self._txn.cursor(db=self._databases[database])
        pages, num_pages = self._environment.pages_of(self._txn)

        def find(key: bytes) -> memoryview | tuple[int, int] | None:
            if not cursor.set_key(key):
                return None
            place = pages and pages.find(cast("memoryview", cursor.key()), num_pages)
            return place or cast("memoryview", cursor.value())

        return find

    def items(self, database: str, first: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """Yield (key, value) from `first` on, in order of keys."""
        with self._txn.cursor(db=self._databases[database]) as cursor:
            if not cursor.set_range(first):
                return
            for key, value in cursor:
                yield bytes(key), cast("memoryview", value)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the pages of each database."""
        sizes = {}
        for name, database in self._databases.items():
            stat = self._txn.stat(database)
            sizes[name] = stat["psize"] * (stat["leaf_pages"] + stat["branch_pages"] + stat["overflow_pages"])
        return sizes


class WriteTransaction:
    """The write transaction that `Store.commit` hands to its change."""

    def __init__(self, txn: Any, databases: dict[str, Any]) -> None:
        self._txn = txn
        self._databases = databases

    def put(self, database: str, key: bytes, value: bytes) -> None:
        """Store a value, replacing another."""
        self._txn.put(key, value, db=self._databases[database])

    def append(self, database: str, items: list[tuple[bytes, bytes]]) -> None:
        """Store values whose keys ascend and follow every stored key.

        Raises:
            CorruptIndexError: a key is not behind the last one; nothing of the transaction is kept.
        """
        with self._txn.cursor(db=self._databases[database]) as cursor:
            consumed, added = cursor.putmulti(items, dupdata=False, overwrite=False, append=True)
        if consumed != len(items) or added != len(items):
            raise CorruptIndexError(
                f"{database}: expected to append {len(items)} new keys, appended {added}; "
                "stored numbers are ahead of the manifest"
            )

    def delete(self, database: str, key: bytes) -> bool:
        """Remove a key; False when it was not there."""
        return bool(self._txn.delete(key, db=self._databases[database]))

    def delete_prefix(self, database: str, prefix: bytes) -> int:
        """Remove every key with a prefix; returns how many."""
        removed = 0
        with self._txn.cursor(db=self._databases[database]) as cursor:
            found = cursor.set_range(prefix)
            while found and bytes(cursor.key()).startswith(prefix):
                found = cursor.delete()
                removed += 1
        return removed
