"""One open LMDB environment: its snapshots, and the transactions over its named databases.

No call waits for a reader. A data file's map never moves, a compaction writes another file, and each reader
holds a reference to the environment. The last handle closes it, or where a call is still under way then, the
end of that: py-lmdb closes what nothing refers to. A fork alone waits, and for a while only; see `Calls`.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain, count, islice
from types import TracebackType
from typing import Any, Literal, cast

import lmdb

from simindex import _kernel
from simindex.errors import CorruptIndexError, SimIndexError, damaged
from simindex.events import event
from simindex.storage.check_at_open import RECORDS, prove_records
from simindex.storage.folder import LOCK_SUFFIX, number_of
from simindex.storage.lmdb_file import MAIN, translated
from simindex.storage.page_file import DatabaseRecord, FoundValues, MappedFile, PageMap

FORK_WAIT_SECONDS, _PAUSE_SECONDS = 10.0, 0.001
"""The longest that a fork waits, and between its looks."""


class Call:
    """A step of this process in an environment, for a ``with`` block; one at a time for each object.

    Attributes:
        environment: that it is a step in.
    """

    __slots__ = ("__weakref__", "environment")

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def __enter__(self) -> Call:
        calls.begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        calls.end(self)


class Calls:
    """The steps under way in all environments of this process. Safe to share between threads.

    A fork waits until there are none, for a while: a child can neither close an environment in which one of
    its parent's threads was, nor open the same file beside it.
    """

    def __init__(self) -> None:
        self._under_way: dict[int, weakref.ref[Call]] = {}
        """By id. One that Ctrl-C broke off is gone with its traceback."""
        self._given_up = weakref.WeakSet[Call]()
        """Those that a fork has waited for in vain: a traceback that is kept may keep them for good."""
        self._may_begin = threading.Event()
        self._may_begin.set()
        self._is_stopped = False

    def begin(self, call: Call) -> None:
        """Note that a step begins; where a fork is under way, wait for its end first."""
        self._under_way[id(call)] = weakref.ref(call)
        while self._is_stopped:  # looked at behind the entry: `stop` does the two the other way round
            del self._under_way[id(call)]
            self._may_begin.wait(FORK_WAIT_SECONDS)
            self._under_way[id(call)] = weakref.ref(call)

    def end(self, call: Call) -> None:
        """Note that a step has ended; without effect for one that has not begun."""
        self._under_way.pop(id(call), None)

    def of(self, environment: Environment) -> bool:
        """Whether a step is under way in an environment."""
        found = [call() for call in list(self._under_way.values())]
        return any(call is not None and call.environment is environment for call in found)

    def stop(self) -> None:
        """Let no step begin until `go_on`, and wait until none is under way, 10 seconds at most. A step that
        was waited for in vain is not waited for by later forks."""
        # For a while only: a signal handler may fork in the middle of a step of its own thread.
        self._may_begin.clear()
        self._is_stopped = True
        ends = time.monotonic() + FORK_WAIT_SECONDS
        while (awaited := self._awaited()) and time.monotonic() < ends:
            time.sleep(_PAUSE_SECONDS)
        self._given_up.update(awaited)

    def _awaited(self) -> list[Call]:
        found = [call() for call in list(self._under_way.values())]
        return [call for call in found if call is not None and call not in self._given_up]

    def go_on(self) -> None:
        """Let steps begin again."""
        self._is_stopped = False
        self._may_begin.set()

    def forget(self) -> None:
        """In a forked child: forget the steps of the parent's threads, and let steps begin again."""
        self.__init__()  # type: ignore[misc]


calls = Calls()

CLOSED, INHERITED, BROKEN = "closed", "inherited from the parent process", "broken by an error"
"""Why an environment has ended, where a handle that is not closed itself may open the file anew."""

OPENED_ANEW = CLOSED, INHERITED, BROKEN

_serials = count()
"""Of environments: no two of a process have one in common, nor a forked child's and its parent's."""


class Environment:
    """One open data file, shared by the handles and calls that refer to it.

    Attributes:
        env: LMDB's, to be used within a `Call` alone.
        folder, name, identity: of the data file; the last is its (device, inode).
        databases: LMDB's handles by name; none where the file holds nothing yet.
        handles, pins: the stores that share it, and the snapshots that these keep.
        ids_from: what numbers of its commits are added to, so that they ascend over compactions.
        serial: addresses in the map of an environment of another serial are void; later ones are higher.
        checked_id: the transaction id at which `is_marked` was read.
        is_marked: whether a compaction has left its mark, which counts once there is a newer file.
        looked_at: when its path was last looked at, by the monotonic clock.
        are_records_proven: whether LMDB may follow the tree of the records; see `prove_records`.
        missing: which of its files was replaced or removed, where one was.
        ended: why no call may begin in it any more; empty as long as one may.
    """

    def __init__(self, env: lmdb.Environment, data: str, identity: tuple[int, int], writable: bool) -> None:
        folder, self.name = os.path.split(data)
        self.folder = os.path.realpath(folder)
        self.env, self.identity, self.writable = env, identity, writable
        self.databases: dict[str, Any] = {}
        self.ids_from = number_of(self.name) * 10**12
        self.serial = next(_serials)
        self.pages: PageMap | None = None  # `find_pages` does
        self.handles: weakref.WeakSet[object] = weakref.WeakSet()
        self.pins: weakref.WeakSet[Pin] = weakref.WeakSet()
        self.checked_id, self.is_marked = -1, False
        self.looked_at = time.monotonic()
        self.missing = self.ended = ""
        self.are_records_proven = False
        self._lock_file = os.path.join(self.folder, self.name + LOCK_SUFFIX)
        try:
            self._lock_inode: int | None = os.stat(self._lock_file).st_ino
        except OSError:
            self._lock_inode = None

    def info(self, field: Literal["map_size", "last_txnid"]) -> int:
        """Return a figure of `lmdb.Environment.info`."""
        with Call(self):
            return int(self.env.info()[field])

    def find_pages(self, txn: lmdb.Transaction) -> PageMap:
        """Return where LMDB's map lies in memory, and the file behind it. Found at the first call, by the
        address of a key that `txn`, a transaction of views, reads, and kept in `pages`. Raises
        CorruptIndexError where that key is in no leaf page."""
        if self.pages is not None:
            return self.pages
        info = self.env.info()
        with txn.cursor(db=self.databases[MAIN]) as cursor:
            cursor.first()
            key = cast("memoryview", cursor.key())
            pages = PageMap.around(key, self.env.stat()["psize"], info["last_pgno"] + 1)
        data = os.path.join(self.folder, self.name)
        mapped = MappedFile.open(data, self.identity, pages.base, info["map_size"])
        self.pages = found = replace(pages, mapped=mapped)
        return found

    def prove_records(self, txn: lmdb.Transaction) -> None:
        """Prove the branch pages of the records, at each call, and set `are_records_proven`: who finds it
        False calls this before LMDB follows those pages. Raises CorruptIndexError for damage."""
        # Opening does not: of 6.8 million documents they are 344 of the 528 pages that it would
        # read. What comes later LMDB has made.
        pages = self.find_pages(txn)
        num_pages = self.env.info()["last_pgno"] + 1
        if pages.mapped is not None:
            num_pages = min(num_pages, pages.mapped.length() // pages.page_bytes)
        record = bytes(txn.get(RECORDS.encode()) or b"")
        prove_records(pages.base, num_pages, pages.page_bytes, record, self.folder)
        self.are_records_proven = True

    def bytes_in_place(self, data: str) -> int | None:
        """Return the length of the data file at the path `data`; ``None`` where that file or its lock file is
        not the one that was opened, or is gone. Sets `looked_at` to now and, where it returns ``None``,
        `missing` to the name of that file."""
        self.looked_at = time.monotonic()
        self.missing = self.name
        try:
            found = os.stat(data)
            if (found.st_dev, found.st_ino) != self.identity:
                return None
            self.missing += LOCK_SUFFIX
            if self._lock_inode is None or os.stat(self._lock_file).st_ino == self._lock_inode:
                return found.st_size
        except OSError:
            pass
        return None


class Pin:
    """A snapshot that a handle keeps between calls: one transaction, which ends when nothing refers to it."""

    def __init__(self, environment: Environment, txn: lmdb.Transaction) -> None:
        self.txn = txn
        environment.pins.add(self)


_PART_BYTES, _PART_ENTRIES = 1 << 22, 512
"""About as many values are copied at a time, by their mean length."""

_FIRST_ENTRIES = 32
"""Entries whose pages are proven first; then `_PART_ENTRIES`."""


class ReadTransaction(Call):
    """One consistent state of the databases, for the length of a ``with`` block; made by `Store.reading`.

    Attributes:
        id: of the state: equal ids, equal content; that of a later commit is higher.
        map_generation: serial of the environment; addresses loaded under another one are void.
        pin: the pinned snapshot that it is of, which goes on; ``None`` where it is one of its own.
    """

    __slots__ = ("_are_views", "_begin", "_pages", "_path", "_txn", "id", "map_generation", "pin")

    def __init__(
        self, begin: Callable[[ReadTransaction, bool], lmdb.Transaction], path: str, are_views: bool
    ) -> None:
        """Args: begin: chooses the environment and begins to read; are_views: whether values are views."""
        self._begin, self._path, self._are_views = begin, path, are_views
        self.pin: Pin | None = None

    def __enter__(self) -> ReadTransaction:
        try:
            self._txn = self._begin(self, self._are_views)
            environment = self.environment
            self.id: int = environment.ids_from + self._txn.id()
            self.map_generation = environment.serial
            self._pages = environment.pages or environment.find_pages(self._txn)
            return self
        except BaseException as exc:
            self.__exit__(type(exc), exc, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # As long as anything refers to LMDB's transaction, it keeps its place among the readers, and a
        # traceback that is kept refers to this. It is gone before the call has ended, for a fork's sake.
        if hasattr(self, "_txn"):  # it may not have begun
            if self.pin is None:
                self._txn.abort()
            del self._txn
            self.pin = None
        calls.end(self)
        if hasattr(self, "environment"):
            del self.environment
        if error is not None:
            if isinstance(error, lmdb.Error):
                raise translated(error, self._path) from error
            if isinstance(error, SimIndexError):
                if isinstance(error, CorruptIndexError) and error.path is None:
                    event("damage met", self._path, damage=str(error))
                error.located(self._path)

    def get(self, database: str, key: bytes) -> memoryview | None:
        """Return a value, ``None`` where there is none; a view, valid within the block, or bytes, as the
        transaction was begun. Raises CorruptIndexError where the page of a view does not have the number of
        its place; bytes are not checked."""
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

    def tree(self, database: str) -> tuple[int, int, int, int, int]:
        """Return (address of the map, pages up to the last one that the newest commit used, bytes of a page,
        page number of the root, depth) of a database, by which the kernel searches it. Raises
        CorruptIndexError where LMDB's record of it is damaged."""
        num_pages, tree = self._tree(database)
        return self._pages.base, num_pages, self._pages.page_bytes, tree.root, tree.depth

    def values(self, database: str, first: bytes, count: int) -> FoundValues | None:
        """Return where the values of the first `count` keys from `first` on lie, which must be as long as
        `first`; ``None`` where there are fewer. Large values are not read."""
        num_pages, tree = self._tree(database)
        return self._pages.values(tree, first, count, num_pages)

    def _tree(self, database: str) -> tuple[int, DatabaseRecord]:
        """Return the number of pages up to the last one that the newest commit used, and LMDB's record of a
        database. Raises CorruptIndexError where that is damaged or missing."""
        tree = DatabaseRecord.of(bytes(self._txn.get(database.encode()) or b""))
        if tree is None:
            raise CorruptIndexError(
                f"{database}: expected the record of a database, found damage; restore a backup"
            )
        return self.environment.env.info()["last_pgno"] + 1, tree

    def _large_values(self, database: str, keys: Iterable[bytes]) -> Iterator[tuple[int, int]]:
        """Yield (address, length) of the values of these keys that have pages of their own, without reading
        them; other keys are passed over."""
        for key in keys:
            found = self.values(database, key, 1)
            if found and not found.held and found.addresses[0] and found.keys[0].tobytes() == key:
                yield int(found.addresses[0]), int(found.lengths[0])

    def mapped_file(self) -> MappedFile | None:
        """Return the file behind the map; ``None`` where its path led to another one, or to none, when the
        map was first looked for."""
        return self._pages.mapped

    def items(self, database: str, first: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
        """Yield (key, value) in order of keys from the first one at or after `first`; the value is a view,
        valid within the block, or bytes. Raises CorruptIndexError at a damaged page on the way."""
        for key, value in self._walk(database, first):
            yield bytes(key), value

    def _walk(self, database: str, first: bytes) -> Iterator[tuple[Any, Any]]:
        return chain.from_iterable(self._stretches(database, first))

    def _stretches(self, database: str, first: bytes) -> Iterator[Iterator[tuple[Any, Any]]]:
        """Yield iterators over neighbouring entries, in order of keys; each is to be used up before the next
        one, and its pages are proven. Raises CorruptIndexError behind the last sound entry."""
        # Their pages are proven before LMDB steps on them, for it ends the process on a page that
        # is no leaf.
        walk: Iterator[tuple[Any, Any]] | None = None
        wanted, most = first, _FIRST_ENTRIES
        if not self.environment.are_records_proven and database == RECORDS:
            self.environment.prove_records(self._txn)
        with self._txn.cursor(db=self.environment.databases[database]) as cursor:
            while True:
                found = _kernel.sound_entries(*self.tree(database), wanted, most)
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
        """Yield what `items` does as lists of (key, value) in bytes, up to 512 pairs or about 4 MiB at a
        time: for millions in a third of the time."""
        entries, num_bytes = self.count(database), self.sizes()[database]
        size = min(max(_PART_BYTES * entries // max(num_bytes, 1), 1), _PART_ENTRIES)
        items = self._walk(database, first)
        while part := _copied(islice(items, size)):
            yield part

    def some(self, database: str, first: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return the first `limit` (key, value) at or after the key `first`, in bytes; all
        where fewer are left."""
        return _copied(islice(self._walk(database, first), limit))

    def read_ahead(self, database: str, keys: Iterable[bytes]) -> None:
        """Ask the system to read the large values of these keys into memory, without waiting: met one by one,
        each page would be waited for."""
        for stretch in self._large_values(database, keys):
            _kernel.stream_ahead(*stretch)

    def let_go(self, database: str, keys: Iterable[bytes]) -> None:
        """Let the pages of these keys' large values leave the memory, without any change to them: they were
        written, and will not be read soon. Does nothing where `mapped_file` is ``None``."""
        if mapped := self.mapped_file():
            for stretch in self._large_values(database, keys):
                mapped.let_go(*stretch)

    def count(self, database: str) -> int:
        """Return the number of entries of a database, from LMDB's record of it."""
        return int(self._txn.stat(self.environment.databases[database])["entries"])

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the pages of each database by name, `MAIN` too; free pages left out."""
        sizes = {}
        for name, database in self.environment.databases.items():
            stat = self._txn.stat(database)
            sizes[name] = stat["psize"] * (stat["leaf_pages"] + stat["branch_pages"] + stat["overflow_pages"])
        return sizes


def _copied(items: Iterable[tuple[Any, Any]]) -> list[tuple[bytes, bytes]]:
    """Return entries as a list of bytes; views are copied."""
    found = list(items)
    is_copy = not found or type(found[0][1]) is bytes
    return found if is_copy else [(bytes(key), bytes(value)) for key, value in found]


class WriteTransaction:
    """The write transaction that `Store.commit` hands to its change."""

    __slots__ = "_databases", "_txn"

    def __init__(self, txn: lmdb.Transaction, databases: dict[str, Any]) -> None:
        self._txn = txn
        self._databases = databases

    def put(self, database: str, key: bytes, value: bytes) -> None:
        """Store a value under a key, in place of one that is there."""
        self._txn.put(key, value, db=self._databases[database])

    def append(self, database: str, items: Collection[tuple[bytes, bytes]]) -> None:
        """Store values whose keys ascend and follow every stored key. Raises CorruptIndexError where they do
        not; then the transaction must not be committed."""
        if len(items) == 1:
            ((key, value),) = items
            consumed = added = int(self._txn.put(key, value, append=True, db=self._databases[database]))
        else:
            with self._txn.cursor(db=self._databases[database]) as cursor:
                consumed, added = cursor.putmulti(iter(items), overwrite=False, append=True)
        if consumed != len(items) or added != len(items):
            wanted = f"expected to append {len(items)} new keys behind the stored ones, appended {added}"
            raise damaged(f"{database}: {wanted}")

    def put_all(self, database: str, items: list[tuple[bytes, bytes]]) -> None:
        """Store (key, value) pairs in any order of keys, in place of those that are there."""
        with self._txn.cursor(db=self._databases[database]) as cursor:
            cursor.putmulti(items)

    def count(self, database: str) -> int:
        """Return the number of entries of a database, with those that this transaction stores."""
        return int(self._txn.stat(self._databases[database])["entries"])

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
    """Put and delete a key, a change for `Store.commit` that stores nothing: it touches pages, so LMDB makes
    a commit of it."""
    txn.put("meta", _TURN_KEY, b"")
    txn.delete("meta", _TURN_KEY)
