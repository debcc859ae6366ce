"""Read and write transactions over the named databases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from types import TracebackType
from typing import Any, Protocol, cast

import lmdb
import numpy as np

from simindex import _kernel
from simindex.errors import CorruptIndexError, SimIndexError
from simindex.storage.check_at_open import RECORDS
from simindex.storage.environment import Environment, Pin
from simindex.storage.gate import Visitor
from simindex.storage.pages import FoundValues, MappedFile, map_pages, tree_of
from simindex.storage.translation import translated

_PART_BYTES, _PART_ENTRIES = 1 << 22, 512
"""About as many values are copied at a time, by their mean length."""

_FIRST_ENTRIES = 32
"""Entries whose pages are proven first; then `_PART_ENTRIES`."""


class ReadTransaction(Visitor):
    """One consistent state of the databases; valid inside the ``with`` block of `Store.reading` only.

    It is who the gate counts, from before it begins until it has ended.

    Attributes:
        id: of the state: equal ids, equal content.
        map_generation: addresses loaded under another generation are void.
        pin: the pinned snapshot that it is of; ``None`` where it is one of its own.
    """

    __slots__ = ("_environment", "_place", "_txn", "id", "map_generation", "pin")

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.pin: Pin | None = None

    def begin(self, txn: lmdb.Transaction, are_views: bool) -> None:
        """Take LMDB's transaction; `are_views`: whether its values are views of the map."""
        self._txn = txn
        self.id: int = txn.id()
        self.map_generation = self._environment.map_generation
        self._place = self._environment.place(txn) if are_views else None

    def end(self) -> None:
        """Let go of LMDB's transaction: as long as anything refers to one, it keeps its place among the
        readers, and a traceback that somebody keeps refers to this."""
        try:  # noqa: SIM105 - every call passes here, and three more for `suppress` are felt
            del self._txn
        except AttributeError:  # it had not begun
            pass

    def _database(self, name: str) -> lmdb._Database:
        """Return a database for LMDB to follow its tree."""
        environment = self._environment
        if name == RECORDS:
            environment.prove_records(self._txn)
        return environment.databases[name]

    def get(self, database: str, key: bytes) -> memoryview | None:
        """Return a value, or ``None``.

        Raises:
            CorruptIndexError: it lies on a page that belongs elsewhere: it may be an older one of that key.
                Or it is the first record that is asked for, and the tree of them is damaged.
        """
        environment = self._environment  # no call for each record: see `_database`
        if not environment.are_records_proven:
            self._database(database)
        found: Any = self._txn.get(key, db=environment.databases[database])
        if found is not None and self._place is not None and not _kernel.is_in_place(*self._place, found):
            raise CorruptIndexError(
                f"{database}, key {key.hex()}: expected a tree page in its place, found another one; "
                "restore a backup, or save what is left with simindex repair",
                key=key,
            )
        return found  # type: ignore[no-any-return] # a view, where the transaction is one of views

    def finder(self, database: str) -> Callable[[bytes], memoryview | tuple[int, int] | None]:
        """Return a `get` that gives a large value as (address, length), without reading it; see `pages`."""
        cursor = self._txn.cursor(db=self._database(database))
        pages, num_pages = self._environment.pages_of(self._txn)

        def find(key: bytes) -> memoryview | tuple[int, int] | None:
            if not cursor.set_key(key):
                return None
            place = pages and pages.find(cast("memoryview", cursor.key()), num_pages)
            return place or cast("memoryview", cursor.value())

        return find

    def values(self, database: str, first: bytes, count: int) -> FoundValues | None:
        """Return where the values of neighbouring keys lie, large ones without reading them; see `pages`.

        Args:
            first: the first key, of which the others have the length.

        Returns:
            ``None`` where there are fewer keys, or the pages of the map cannot be looked into.
        """
        pages, num_pages = self._environment.pages_of(self._txn)
        tree = self._txn.get(database.encode())
        if pages is None or tree is None:
            return None
        return pages.values(tree_of(bytes(tree)), first, count, num_pages)

    def mapped_file(self) -> MappedFile | None:
        """Return the file behind the map; ``None`` where nothing shows where the map lies."""
        known = self._environment.known_file()
        if known is not None:
            return known
        pages, _ = self._environment.pages_of(self._txn)
        return self._environment.mapped_file(pages) if pages else None

    def items(self, database: str, first: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """Yield (key, value) from `first` on, in order of keys.

        Raises:
            CorruptIndexError: a page on the way is damaged; so do `parts` and `some`.
        """
        with self._txn.cursor(db=self._database(database)) as cursor:
            for key, value in self._walk(cursor, database, first):
                yield bytes(key), cast("memoryview", value)

    def _walk(self, cursor: lmdb.Cursor, database: str, first: bytes) -> Iterator[tuple[Any, Any]]:
        return chain.from_iterable(self._stretches(cursor, database, first))

    def _stretches(
        self, cursor: lmdb.Cursor, database: str, first: bytes
    ) -> Iterator[Iterator[tuple[Any, Any]]]:
        """Yield iterators over neighbouring entries, each to be used up before the next. Their pages are
        proven before LMDB steps on them, for it ends the process on a page that is no leaf."""
        walk: Iterator[tuple[Any, Any]] | None = None
        wanted, most = first, _FIRST_ENTRIES
        while True:
            found, is_damaged = self._sound_entries(database, wanted, most)
            if not found and is_damaged:
                raise CorruptIndexError(
                    f"{database}: expected tree pages that fit together, found a damaged one behind key "
                    f"{wanted.hex() or 'none'}; restore a backup, or save what is left with simindex repair",
                    key=wanted,
                )
            if found and walk is None:
                walk = iter(cursor) if cursor.set_range(first) else iter(())
            yield islice(walk or (), found)
            key = bytes(cursor.key())
            if not key or (found != most and not is_damaged):
                return
            wanted, most = key + b"\0", _PART_ENTRIES

    def _sound_entries(self, database: str, first: bytes, most: int) -> tuple[int, bool]:
        """Return how many entries there are on sound pages from a key on, up to so many, and whether damage
        ends them. More than so many: these are all, and nothing is proven."""
        pages, num_pages = self._environment.pages_of(self._txn)
        tree = self._txn.get(database.encode())
        if pages is None or tree is None:  # where the map lies is not known, so LMDB is believed
            return self.count(database) + most + 1, False
        depth, root = tree_of(bytes(tree))
        if not depth:
            return 0, False
        where = pages.base, num_pages, pages.page_bytes
        found = _kernel.sound_entries(*where, root, depth, first, most)
        return (found, False) if found >= 0 else (-1 - found, True)

    def parts(self, database: str, first: bytes = b"") -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield what `items` does, as copies and some hundred at a time: a third of the time for millions of
        small values, where `Store.reading` was told so."""
        entries, num_bytes = self.count(database), self.sizes()[database]
        size = min(max(_PART_BYTES * entries // max(num_bytes, 1), 1), _PART_ENTRIES)
        with self._txn.cursor(db=self._database(database)) as cursor:
            items = self._walk(cursor, database, first)
            while part := list(islice(items, size)):
                if type(part[0][1]) is not bytes:
                    part = [(bytes(key), bytes(value)) for key, value in part]
                yield cast("list[tuple[bytes, bytes]]", part)

    def some(self, database: str, first: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return so many (key, value) from `first` on, or all where fewer are left; copies where
        `Store.reading` was told so, and then in a third of the time."""
        with self._txn.cursor(db=self._database(database)) as cursor:
            found = list(islice(self._walk(cursor, database, first), limit))
            return cast("list[tuple[bytes, bytes]]", found)

    def read_ahead(self, database: str, keys: Iterable[bytes]) -> None:
        """Bring the pages of large values into memory and the map in one go each: met one by one they would
        cost a fault for every 4 KiB, and a read where the disk has them. For a transaction of views."""
        find = self.finder(database)
        for key in keys:
            place = find(key)
            if isinstance(place, tuple):
                map_pages(*place)

    def map_values(self, database: str) -> None:
        """Bring the large values that are in memory into this process's map, and read no other."""
        with self._txn.cursor(db=self._database(database)) as cursor:
            first = bytes(cursor.key()) if cursor.first() else b""
        found = self.values(database, first, self.count(database)) if first else None
        if found is not None:
            for address, length in zip(found.addresses.tolist(), found.lengths.tolist(), strict=True):
                if address and not _kernel.missing_pages(address, length):
                    map_pages(address, length)

    def ask_for(self, database: str, numbers: np.ndarray) -> None:
        """Let the system read the pages of the tree that numbers are on, all at once and without waiting for
        them; met one by one each that is missing would be waited for.

        Args:
            numbers: uint64, ascending: of a database whose keys they are.
        """
        pages, num_pages = self._environment.pages_of(self._txn)
        tree = self._txn.get(database.encode())
        if pages is not None and tree is not None:
            depth, root = tree_of(bytes(tree))
            _kernel.ask_for_pages(pages.leaves_of(root, depth, numbers, num_pages))

    def let_go(self, database: str, keys: Iterable[bytes]) -> None:
        """Let the pages of large values leave the memory: they were written, and will not be read soon."""
        find, mapped = self.finder(database), self.mapped_file()
        for key in keys if mapped else ():
            place = find(key)
            if mapped and isinstance(place, tuple):
                mapped.let_go(*place)

    def count(self, database: str) -> int:
        """Return the number of entries, as LMDB counts them."""
        return int(self._txn.stat(self._environment.databases[database])["entries"])

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the pages of each database."""
        sizes = {}
        for name, database in self._environment.databases.items():
            stat = self._txn.stat(database)
            sizes[name] = stat["psize"] * (stat["leaf_pages"] + stat["branch_pages"] + stat["overflow_pages"])
        return sizes


class Pinned:
    """The snapshot that a handle keeps between calls: made by the first that needs one. Safe to share
    between threads."""

    def __init__(self) -> None:
        self._pin: Pin | None = None
        self._is_closed = False
        self._making = threading.RLock()

    def enter(self, visitor: ReadTransaction) -> lmdb.Transaction | None:
        """Return the transaction of the snapshot for a call, if there is one now; see `Pin.enter`."""
        pin = self._pin
        txn = None if pin is None else pin.enter(visitor)
        visitor.pin = None if txn is None else pin
        return txn

    def take(self, environment: Environment, visitor: ReadTransaction) -> lmdb.Transaction:
        """Return what `enter` does, of a new snapshot where there is none."""
        with self._making:
            txn = self.enter(visitor)
            while txn is None:
                self._pin = Pin(environment)
                txn = self.enter(visitor)
            if self._is_closed:  # since the call began, and nobody else would end it
                self.end()
            return txn

    def end(self) -> None:
        """Let go of the snapshot; calls under way keep it to their end."""
        with self._making:
            if self._pin is not None:
                self._pin.end()

    def close(self) -> None:
        """Let go of it for good."""
        self._is_closed = True
        self.end()

    def drop(self) -> None:
        """Let go of it at once: for a handle that nobody has any more."""
        if self._pin is not None:
            self._pin.drop()


class Handle(Protocol):
    """What `Reading` asks of a store."""

    path: str

    def environment(self) -> Environment:
        """Return the environment. Raises ClosedError."""

    def begin_read(
        self, environment: Environment, visitor: ReadTransaction, buffers: bool
    ) -> lmdb.Transaction | None:
        """Return a read transaction of LMDB for a visitor who is inside, or ``None``; see `Store`."""


class Reading:
    """A read transaction for the length of a ``with`` block. Bind what it gives: see `Visitor`."""

    __slots__ = ("_buffers", "_environment", "_store", "_txn", "_visitor")

    def __init__(self, store: Handle, buffers: bool) -> None:
        self._store, self._buffers = store, buffers
        self._visitor: ReadTransaction | None = None
        self._txn: lmdb.Transaction | None = None

    def __enter__(self) -> ReadTransaction:
        store = self._store
        txn = None
        try:
            while txn is None:
                self._environment = environment = store.environment()
                self._visitor = visitor = ReadTransaction(environment)
                environment.gate.enter(visitor)
                self._txn = txn = store.begin_read(environment, visitor, self._buffers)
                if txn is None:
                    environment.gate.leave(visitor)
            visitor.begin(txn, self._buffers or visitor.pin is not None)
            return visitor
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        if error is not None:
            if isinstance(error, lmdb.Error):
                raise translated(error, self._store.path) from error
            if isinstance(error, SimIndexError):
                error.located(self._store.path)

    def _leave(self) -> None:
        try:
            txn, self._txn = self._txn, None
            if self._visitor is not None:
                self._visitor.end()
            if self._visitor is not None and self._visitor.pin is not None:
                self._visitor.pin.leave(self._visitor)
            elif txn is not None:
                txn.abort()
        finally:
            if self._visitor is not None:
                self._environment.gate.leave(self._visitor)


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
        if len(items) == 1:
            consumed = added = int(self._txn.put(*items[0], append=True, db=self._databases[database]))
        else:
            with self._txn.cursor(db=self._databases[database]) as cursor:
                consumed, added = cursor.putmulti(items, dupdata=False, overwrite=False, append=True)
        if consumed != len(items) or added != len(items):
            raise CorruptIndexError(
                f"{database}: expected to append {len(items)} new keys, appended {added}; "
                "stored numbers are ahead of the manifest"
            )

    def put_all(self, database: str, items: list[tuple[bytes, bytes]], *, append: bool) -> None:
        """Store values of ascending keys; `append`: keys that follow every stored key."""
        with self._txn.cursor(db=self._databases[database]) as cursor:
            consumed, added = cursor.putmulti(items, overwrite=not append, append=append)
        if consumed != len(items) or (append and added != len(items)):
            raise CorruptIndexError(
                f"{database}: expected {len(items)} keys in ascending order, found one in another place; "
                "restore a backup or rebuild the index"
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


_TURN_KEY = b"turn"
"""Never stored: put and deleted in one commit."""


def change_nothing(txn: WriteTransaction) -> None:
    """A commit all the same, for pages are touched."""
    txn.put("meta", _TURN_KEY, b"")
    txn.delete("meta", _TURN_KEY)
