"""Read and write transactions over the named databases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from types import TracebackType
from typing import Any

import lmdb

from simindex import _kernel
from simindex.errors import CorruptIndexError, SimIndexError, damaged
from simindex.storage.check_at_open import RECORDS
from simindex.storage.environment import Environment, Pin, Visitor
from simindex.storage.lmdb_file import translated
from simindex.storage.page_file import DatabaseRecord, FoundValues, MappedFile

_PART_BYTES, _PART_ENTRIES = 1 << 22, 512
"""About as many values are copied at a time, by their mean length."""

_FIRST_ENTRIES = 32
"""Entries whose pages are proven first; then `_PART_ENTRIES`."""


class ReadTransaction(Visitor):
    """One consistent state of the databases, for the length of a ``with`` block; made by `Store.reading`.

    The gate counts it from before it begins until it has ended: bind it, as `Visitor` says.

    Attributes:
        environment: that it is inside of.
        id: of the state: equal ids, equal content.
        map_generation: addresses loaded under another generation are void.
        pin: the pinned snapshot that it is of; ``None`` where it is one of its own.
    """

    environment: Environment
    __slots__ = (
        "_are_views",
        "_begin",
        "_pages",
        "_path",
        "_txn",
        "environment",
        "id",
        "map_generation",
        "pin",
    )

    def __init__(
        self, begin: Callable[[ReadTransaction, bool], lmdb.Transaction], path: str, are_views: bool
    ) -> None:
        """Args: begin: comes inside and begins to read; are_views: whether values are views of the map."""
        self._begin, self._path, self._are_views = begin, path, are_views
        self.pin: Pin | None = None

    def __enter__(self) -> ReadTransaction:
        try:
            self._txn = txn = self._begin(self, self._are_views)
            environment = self.environment
            self.id: int = txn.id()
            self.map_generation = environment.map_generation
            self._pages = (environment.found_map or environment.look(txn)).pages
            return self
        except BaseException as exc:
            self.__exit__(type(exc), exc, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # As long as anything refers to LMDB's transaction, it keeps its place among the readers, and a
        # traceback that is kept refers to this.
        try:
            txn = getattr(self, "_txn", None)  # it may not have begun
            if txn is not None:
                del self._txn
            if self.pin is not None:
                self.pin.leave(self)
            elif txn is not None:
                txn.abort()
        finally:
            environment = getattr(self, "environment", None)  # there may have been none to come into
            if environment is not None:
                environment.gate.leave(self)
        if error is not None:
            if isinstance(error, lmdb.Error):
                raise translated(error, self._path) from error
            if isinstance(error, SimIndexError):
                error.located(self._path)

    def get(self, database: str, key: bytes) -> memoryview | None:
        """Return a value, or ``None``. CorruptIndexError: its page lies in the place of another."""
        environment = self.environment
        if not environment.are_records_proven and database == RECORDS:
            environment.prove_records(self._txn)
        found: Any = self._txn.get(key, db=environment.databases[database])
        pages = self._pages
        if type(found) is memoryview and not _kernel.is_in_place(pages.base, pages.page_bytes, found):
            raise CorruptIndexError(
                f"{database}, key {key.hex()}: expected a tree page in its place, found another one; "
                "restore a backup, or save what is left with simindex repair",
                key=key,
            )
        return found  # type: ignore[no-any-return] # a view, where the transaction is one of views

    def values(self, database: str, first: bytes, count: int) -> FoundValues | None:
        """Return where the values of neighbouring keys of one length lie; ``None``: there are fewer."""
        num_pages, tree = self._tree(database)
        return self._pages.values(tree, first, count, num_pages)

    def _tree(self, database: str) -> tuple[int, DatabaseRecord]:
        """Return the number of pages of the map, and the tree of a database."""
        tree = DatabaseRecord.of(bytes(self._txn.get(database.encode()) or b""))
        if tree is None:
            raise CorruptIndexError(
                f"{database}: expected the record of a database, found damage; restore a backup"
            )
        return self.environment.env.info()["last_pgno"] + 1, tree

    def _large_values(self, database: str, keys: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield (address, length) of those values that have pages of their own, without reading them."""
        for key in keys:
            found = self.values(database, key, 1)
            if found and not found.held and found.addresses[0] and found.keys[0].tobytes() == key:
                yield int(found.addresses[0]), int(found.lengths[0])

    def mapped_file(self) -> MappedFile | None:
        """Return the file behind the map; ``None`` where another one has taken its path."""
        return self.environment.look(self._txn).mapped

    def items(self, database: str, first: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """Yield (key, value) from `first` on, in order. CorruptIndexError: a page on the way is damaged."""
        for key, value in self._walk(database, first):
            yield bytes(key), value

    def _walk(self, database: str, first: bytes) -> Iterator[tuple[Any, Any]]:
        return chain.from_iterable(self._stretches(database, first))

    def _stretches(self, database: str, first: bytes) -> Iterator[Iterator[tuple[Any, Any]]]:
        """Yield iterators over neighbouring entries, each to be used up before the next."""
        # Their pages are proven before LMDB steps on them, for it ends the process on a page that
        # is no leaf.
        walk: Iterator[tuple[Any, Any]] | None = None
        wanted, most = first, _FIRST_ENTRIES
        if not self.environment.are_records_proven and database == RECORDS:
            self.environment.prove_records(self._txn)
        with self._txn.cursor(db=self.environment.databases[database]) as cursor:
            while True:
                num_pages, tree = self._tree(database)
                where = self._pages.base, num_pages, self._pages.page_bytes, tree.root, tree.depth
                found = _kernel.sound_entries(*where, wanted, most)
                is_damaged = found < 0
                found = -1 - found if is_damaged else found
                if not found and is_damaged:
                    raise CorruptIndexError(
                        f"{database}: expected tree pages that fit together, found a damaged one behind key "
                        f"{wanted.hex() or 'none'}; restore a backup, or save what is left with simindex "
                        "repair",
                        key=wanted,
                    )
                if found and walk is None:
                    walk = iter(cursor) if cursor.set_range(first) else iter(())
                yield islice(walk or (), found)
                key = bytes(cursor.key())
                if not key or (found != most and not is_damaged):
                    return
                wanted, most = key + b"\0", _PART_ENTRIES

    def parts(self, database: str, first: bytes = b"") -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield what `items` does as copies, some hundred at a time: for millions a third of the time."""
        entries, num_bytes = self.count(database), self.sizes()[database]
        size = min(max(_PART_BYTES * entries // max(num_bytes, 1), 1), _PART_ENTRIES)
        items = self._walk(database, first)
        while part := _copied(islice(items, size)):
            yield part

    def some(self, database: str, first: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return so many (key, value) from `first` on as copies, or all where fewer are left."""
        return _copied(islice(self._walk(database, first), limit))

    def read_ahead(self, database: str, keys: Iterable[bytes]) -> None:
        """Let the system read large values, without waiting: met one by one each page would be waited for."""
        for place in self._large_values(database, keys):
            _kernel.stream_ahead(*place)

    def let_go(self, database: str, keys: Iterable[bytes]) -> None:
        """Let the pages of large values leave the memory: they were written, and will not be read soon."""
        if mapped := self.mapped_file():
            for place in self._large_values(database, keys):
                mapped.let_go(*place)

    def count(self, database: str) -> int:
        """Return the number of entries, as LMDB counts them."""
        return int(self._txn.stat(self.environment.databases[database])["entries"])

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the pages of each database."""
        sizes = {}
        for name, database in self.environment.databases.items():
            stat = self._txn.stat(database)
            sizes[name] = stat["psize"] * (stat["leaf_pages"] + stat["branch_pages"] + stat["overflow_pages"])
        return sizes


def _copied(items: Iterable[tuple[Any, Any]]) -> list[tuple[bytes, bytes]]:
    """Return copies of entries, which come as such or as views."""
    found = list(items)
    is_copy = not found or type(found[0][1]) is bytes
    return found if is_copy else [(bytes(key), bytes(value)) for key, value in found]


class WriteTransaction:
    """The write transaction that `Store.commit` hands to its change."""

    __slots__ = "_databases", "_txn"

    def __init__(self, txn: lmdb.Transaction, databases: dict[str, lmdb._Database]) -> None:
        self._txn = txn
        self._databases = databases

    def put(self, database: str, key: bytes, value: bytes) -> None:
        """Store a value, replacing another."""
        self._txn.put(key, value, db=self._databases[database])

    def append(self, database: str, items: list[tuple[bytes, bytes]]) -> None:
        """Store values whose keys ascend and follow every stored key; CorruptIndexError where they do not."""
        if len(items) == 1:
            consumed = added = int(self._txn.put(*items[0], append=True, db=self._databases[database]))
        else:
            with self._txn.cursor(db=self._databases[database]) as cursor:
                consumed, added = cursor.putmulti(items, overwrite=False, append=True)
        if consumed != len(items) or added != len(items):
            wanted = f"expected to append {len(items)} new keys behind the stored ones, appended {added}"
            raise damaged(f"{database}: {wanted}")

    def put_all(self, database: str, items: list[tuple[bytes, bytes]]) -> None:
        """Store values, replacing others."""
        with self._txn.cursor(db=self._databases[database]) as cursor:
            cursor.putmulti(items)

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


_TURN_KEY = b"turn"
"""Never stored: put and deleted in one commit."""


def change_nothing(txn: WriteTransaction) -> None:
    """A commit all the same, for pages are touched."""
    txn.put("meta", _TURN_KEY, b"")
    txn.delete("meta", _TURN_KEY)
