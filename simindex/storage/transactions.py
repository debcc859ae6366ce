"""Transactions as the rest of simindex sees them: read ones for a call, write ones for a commit.

Owns access to the databases by name. Must not begin, end or commit anything, and calls nobody who does:
`store` opens what stands here and translates its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import cast

import lmdb
import numpy as np

from simindex import _kernel
from simindex.errors import CorruptIndexError
from simindex.storage.environment import Environment
from simindex.storage.gate import Visitor
from simindex.storage.pages import LargeValues


class ReadTransaction(Visitor):
    """One consistent state of the databases; valid inside the ``with`` block of `Store.reading` only.

    It is who the gate counts, from before it begins until it has ended.

    Attributes:
        id: of the state: equal ids, equal content.
        map_generation: addresses loaded under another generation are void.
    """

    __slots__ = ("_environment", "_txn", "id", "map_generation")

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def begin(self, txn: lmdb.Transaction) -> None:
        """Take LMDB's transaction."""
        self._txn = txn
        self.id: int = txn.id()
        self.map_generation = self._environment.map_generation

    def get(self, database: str, key: bytes) -> memoryview | None:
        """Return a value, or ``None``."""
        return cast("memoryview | None", self._txn.get(key, db=self._environment.databases[database]))

    def finder(self, database: str) -> Callable[[bytes], memoryview | tuple[int, int] | None]:
        """Return a `get` that gives a large value as (address, length), without reading it; see `pages`."""
        cursor = self._txn.cursor(db=self._environment.databases[database])
        pages, num_pages = self._environment.pages_of(self._txn)

        def find(key: bytes) -> memoryview | tuple[int, int] | None:
            if not cursor.set_key(key):
                return None
            place = pages and pages.find(cast("memoryview", cursor.key()), num_pages)
            return place or cast("memoryview", cursor.value())

        return find

    def large_values(self, database: str, first: bytes, count: int) -> LargeValues | None:
        """Return where the values of so many neighbouring keys lie, without reading them; see `pages`.

        Args:
            first: the first key, of which the others have the length.

        Returns:
            ``None`` where there are fewer keys, or the pages of the map cannot be looked into.
        """
        pages, num_pages = self._environment.pages_of(self._txn)
        if pages is None:
            return None
        with self._txn.cursor(db=self._environment.databases[database]) as cursor:
            if not cursor.set_key(first):
                return None
            keys = islice(cursor.iternext(keys=True, values=False), count)
            places = np.fromiter(map(_kernel.address, keys), dtype=np.uint64)
        return pages.find_all(places, len(first), num_pages) if len(places) == count else None

    def items(self, database: str, first: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """Yield (key, value) from `first` on, in order of keys."""
        with self._txn.cursor(db=self._environment.databases[database]) as cursor:
            if not cursor.set_range(first):
                return
            for key, value in cursor:
                yield bytes(key), cast("memoryview", value)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the pages of each database."""
        sizes = {}
        for name, database in self._environment.databases.items():
            stat = self._txn.stat(database)
            sizes[name] = stat["psize"] * (stat["leaf_pages"] + stat["branch_pages"] + stat["overflow_pages"])
        return sizes


class WriteTransaction:
    """The write transaction that `Store.commit` hands to its change."""

    def __init__(self, txn: lmdb.Transaction, databases: dict[str, lmdb._Database]) -> None:
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
