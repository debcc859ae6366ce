"""A host: the open partitions of one place and the calls over all of them.

A plain class, so that it can be used and tested without Ray. The catalog comes with every call, so a host
that was restarted needs nothing else. A document is sketched once, whatever the number of partitions. A
partition is opened, never made, unless that is what was asked; one that is not there is an error that names
it. One that was closed for writing is read alone, whatever is killed, until a later version of the catalog
than the one that closed it has it open.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from simindex.batching import num_workers
from simindex.changes.documents import Conflict, NewDocuments
from simindex.errors import ClosedError, ConfigMismatchError, KeyExistsError, ReadOnlyError, SimIndexError
from simindex.format.keys import decode_keys, key_hashes
from simindex.maintenance.backup import backup_index
from simindex.maintenance.object_store import Objects, StoreError, open_store, prove, written_beside
from simindex.maintenance.reports import RestoreReport
from simindex.maintenance.restore import restore_index
from simindex.queries.search import Query
from simindex.scaleout.answers import Answered
from simindex.scaleout.catalog import Catalog, new_path
from simindex.scaleout.errors import CatalogChangedError, PartitionError, ScaleOutError
from simindex.scaleout.partition import Nearest, Partition, is_by_distance
from simindex.scaleout.wire import Routed
from simindex.sketching.sketch import SketchBatch
from simindex.sketching.sketcher import Sketcher
from simindex.storage.folder import sync_folder

OPEN_SECONDS = 60.0
"""How long a partition may be locked by a process that is dying, before that is an error."""

STORE_SECONDS = 3.0
"""Within which a store has to answer its first request."""

_WORTH_A_THREAD = 64
"""Sketches from which on partitions are searched side by side."""

_SKETCHED_AT_ONCE = 256
"""Texts: few enough that they stay in the cache of a processor."""

_OPENINGS = 5
"""A move closes a partition three times at its old place: for writing, at each version of the catalog."""

_OF_THE_CALLER = KeyExistsError, PartitionError, CatalogChangedError
"""Errors that are about what was asked, or that say already where they happened."""

_OF_A_MOVE = ReadOnlyError, ClosedError
"""Errors of a partition that is on its way to another place: it is read only, or has just been closed."""

_sketcher_of = lru_cache(2)(Sketcher)

_loaded = lru_cache(4)(pickle.loads)
"""The catalog of a pickle, which is the same for many calls and is read once."""


def attempted(method: Any, *arguments: Any) -> Any:
    """Return what a call returns, or the error that it raises."""
    try:
        return method(*arguments)
    except Exception as exc:
        return exc


class Host:
    """The partitions of one place. Safe to share between threads. Its calls begin with the catalog of who
    calls."""

    def __init__(self, place: str) -> None:
        self.place, self._lock = place, threading.Lock()
        self._open: dict[int, Partition] = {}
        self._catalog: Catalog | None = None
        self._threads = num_workers(None)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="simindex")
        self._searching, self._looking_up = threading.Lock(), threading.Lock()
        # Of all drivers: changes come one after the other, and so do jobs; neither keeps the other waiting.
        self._turns: dict[str, Any] = {"changes": threading.Lock(), "jobs": threading.Lock()}

    def call(self, catalog: bytes, frame: bytes) -> bytes:
        """Call a method: two pickles, of (group, its name, first arguments) and of the other arguments."""

        def call() -> Any:
            file = io.BytesIO(frame)
            (group, method, own), others = pickle.load(file), pickle.load(file)
            with self._turns.get(group, nullcontext()):
                return getattr(self, method)(self._given(catalog), *own, *others)

        done = attempted(call)
        try:
            return pickle.dumps(done, protocol=5)
        except Exception as exc:  # of an error of another package, say
            return pickle.dumps(ScaleOutError(f"{done!r}, which cannot be sent: {exc}"))

    def _given(self, catalog: bytes) -> Catalog:
        found: Catalog = _loaded(catalog)
        return found

    # ---- what is open ----

    def create(self, catalog: Catalog) -> None:
        """Make the partitions that are not there, empty."""
        for number, path in catalog.folders(self.place).items():
            with self._naming(number, is_opening=True):
                Partition(path, "a", catalog.config).close()

    def close(self) -> None:
        """Close all partitions."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
            self._catalog = None

    def status(self, catalog: Catalog) -> dict[str, Any]:
        """Return where this host is, and what its partitions hold."""
        stats = self.each(catalog, dict.fromkeys(catalog.folders(self.place), ()), "stats")
        return {
            "node": socket.gethostname(),
            "pid": os.getpid(),
            "documents": {number: found.documents for number, found in stats.items()},
            "used_bytes": sum(found.used_bytes for found in stats.values()),
        }

    def partitions(self, catalog: Catalog) -> dict[int, Partition]:
        """Return the open partitions by number, after opening those that are not."""
        with self._lock:
            if self._catalog is None or catalog.version != self._catalog.version:
                self._take_over(catalog)
            for number in catalog.places.get(self.place, ()):
                if number not in self._open:
                    with self._naming(number, is_opening=True):
                        self._open[number] = self._opened(catalog, number)
            return dict(self._open)

    def _opened(self, catalog: Catalog, number: int) -> Partition:
        """Open a partition: one that is closed for writing to be read, another with its commit log."""
        row = catalog.partitions[number]
        path, version = row.path, _closed_by(row.path)
        if row.closed is not None or version >= catalog.version:
            partition = Partition(path, "r", catalog.config)
            partition.is_closed_for_writing = True
            return partition
        if version:
            _open_again(path)
        partition = Partition(path, "r+", catalog.config, timeout=OPEN_SECONDS)
        try:
            self._keep_commit_log(catalog, number, partition)
        except BaseException:
            partition.close()
            raise
        return partition

    def _keep_commit_log(self, catalog: Catalog, number: int, partition: Partition) -> None:
        """Let a partition put its commits into the store where the catalog says so, and no later version of
        it has the partition elsewhere."""
        if catalog.durability == "store":
            uri, path = str(catalog.backup_uri(number)), catalog.partitions[number].path
            if not _claimed(open_store(uri), catalog.version, path):
                raise CatalogChangedError(
                    f"{self.place}: expected partition {number} in {path}, found that a later version of the "
                    f"catalog than {catalog.version} has it elsewhere; open the index again",
                    place=self.place,
                    partition=number,
                )
            partition.keep_commit_log(uri)

    def _close_lost(self, catalog: Catalog, number: int, partition: Partition) -> None:
        """Close a partition that another host has by now: batches of its next commits might come before that
        host's."""
        objects = open_store(str(catalog.backup_uri(number)))
        if not _claimed(objects, catalog.version, catalog.partitions[number].path):
            with self._lock:
                if self._open.get(number) is partition:
                    del self._open[number]
            partition.close()

    def _take_over(self, catalog: Catalog) -> None:
        """Close what another version of the catalog has not here, or may have open for writing."""
        current, wanted = self._catalog, catalog.folders(self.place)
        if current is not None and catalog.version < current.version:
            if wanted == current.folders(self.place):
                return  # the newer version has other places
            raise CatalogChangedError(
                f"{self.place}: expected version {current.version} of the catalog, found a call by "
                f"version {catalog.version}: partitions have moved; open the index again",
                place=self.place,
            )
        left = [n for n, one in self._open.items() if one.is_closed_for_writing or wanted.get(n) != one.path]
        for number in left:
            self._open.pop(number).close()
        self._catalog = catalog

    # ---- calls of partitions ----

    def each(self, catalog: Catalog, arguments: Mapping[int, tuple[Any, ...]], method: str) -> dict[int, Any]:
        """Return number -> what a method of some partitions returns, one after the other."""
        return {number: found for number, (found, _) in self._each(catalog, arguments, method).items()}

    def change(
        self, catalog: Catalog, arguments: Mapping[int, tuple[Any, ...]], method: str
    ) -> dict[int, Any]:
        """Return the same of a method that changes a partition, and is done once by the id of its call.

        Partitions are changed side by side; what was changed is as durable then as the catalog says.
        """
        changed = self._each(catalog, arguments, method, side_by_side=True)
        for number, (_, partition) in changed.items():  # these, though the host may have let one go by now
            with self._naming(number):
                try:
                    partition.settle()
                except StoreError:
                    with suppress(StoreError):
                        self._close_lost(catalog, number, partition)
                    raise
        return {number: found for number, (found, _) in changed.items()}

    def insert(
        self, catalog: Catalog, call: bytes, routed: Routed, on_conflict: Conflict
    ) -> dict[int, list[int]]:
        """Store documents, a commit a partition; returns number -> [inserted, replaced, skipped]."""
        sketches = self._sketched(catalog, routed.documents)
        # While the threads sketch.
        encoded, metadata, _, times, _ = routed
        keys, hashes = decode_keys(encoded), key_hashes(encoded)
        joined = SketchBatch.joined(list(sketches))
        documents = NewDocuments(keys, encoded, hashes, metadata, joined, times)
        order = np.argsort(routed.partitions, kind="stable")
        numbers, starts = np.unique(routed.partitions[order], return_index=True)
        own = zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)
        arguments = {number: (call, documents.taken(here.tolist()), on_conflict) for number, here in own}
        return self.change(catalog, arguments, "add_once")

    def _sketched(self, catalog: Catalog, documents: list[str] | SketchBatch) -> Iterable[SketchBatch]:
        """Yield the sketches of documents: of texts some at a time by each thread."""
        if isinstance(documents, SketchBatch):
            return [documents]
        cuts = range(0, len(documents), _SKETCHED_AT_ONCE)
        some = [documents[at : at + _SKETCHED_AT_ONCE] for at in cuts]
        threads = self._threads > 1 and len(some) > 1
        return (self._pool.map if threads else map)(_sketcher_of(catalog.config).sketch_many, some)

    def query(self, catalog: Catalog, query: Query | Nearest, documents: list[str] | SketchBatch) -> Answered:
        """Return the matches of each document in all partitions together.

        Large batches are searched one after the other, each by all threads, and documents are looked up by
        one of these at a time: each look lets the interpreter's lock go, and threads that wait for it cost
        more than they save (12 us a query that has a match by one thread, 16 of processor time by two).
        """
        is_ready = isinstance(documents, SketchBatch)
        batch = documents if is_ready else SketchBatch.joined(list(self._sketched(catalog, documents)))
        is_large = len(batch) >= _WORTH_A_THREAD
        arguments = dict.fromkeys(catalog.places[self.place], (query, batch, self._looking_up))
        with self._searching if is_large else nullcontext():
            found = self._each(catalog, arguments, "answers", side_by_side=is_large)
        limit = query.k if isinstance(query, Nearest) else query.limit
        return Answered.merged([part for part, _ in found.values()], limit, is_by_distance(query))

    def _each(
        self,
        catalog: Catalog,
        arguments: Mapping[int, tuple[Any, ...]],
        method: str,
        *,
        side_by_side: bool = False,
    ) -> dict[int, tuple[Any, Partition]]:
        """Return number -> (what a method of a partition returns, the partition), which is opened again where
        a move closed it.

        All of them are called, whatever one of them raises: so a change that is repeated finds the same.
        """
        partitions = self.partitions(catalog)

        def call(number: int) -> tuple[Any, Partition]:
            partition = partitions[number]
            with self._naming(number):
                for _ in range(_OPENINGS):
                    with suppress(ClosedError):
                        return getattr(partition, method)(*arguments[number]), partition
                    partition = self.partitions(catalog)[number]
                return getattr(partition, method)(*arguments[number]), partition

        threads = side_by_side and self._threads > 1 and len(arguments) > 1
        results = list((self._pool.map if threads else map)(lambda one: attempted(call, one), arguments))
        for result in results:
            if isinstance(result, Exception):
                raise result
        return dict(zip(arguments, results, strict=True))

    # ---- jobs ----

    def prove_store(self, _: Catalog, uri: str) -> None:
        """Refuse a store that this host cannot reach, or that cannot be trusted; see `prove`.

        What fsspec talks by repeats a request for half a minute where nothing answers.
        """
        objects = open_store(uri)
        first = threading.Thread(target=attempted, args=(objects.sizes, "probe"), daemon=True)
        first.start()
        first.join(STORE_SECONDS)
        if first.is_alive():
            raise StoreError(
                objects.uri,
                f"cannot be reached: expected an answer within {STORE_SECONDS:g} seconds, found none; "
                "look at its address and at the network",
            )
        prove(objects)

    def restore(
        self, catalog: Catalog, number: int, uri: str, folder: str, state: str | None = None
    ) -> tuple[str, RestoreReport]:
        """Make a partition of its backup, and return its path; one of another state is refused.

        Each call makes a path of its own: a call whose answer was lost is repeated, and may come late.
        """
        path = new_path(folder, number)
        with self._naming(number):
            report = restore_index(uri, path)
            with Partition(path, "r", catalog.config) as copy:
                if state not in (None, copy.state()):
                    raise PartitionError(
                        f"partition {number}: expected a copy of the state {state} at "
                        f"{self.place}, found {copy.state()}; it was not moved",
                        place=self.place,
                        partition=number,
                    )
            return path, report

    def let_go(self, catalog: Catalog, number: int, uri: str) -> str:
        """Close a partition for writing, make a backup of it, and return its state."""
        path = catalog.partitions[number].path
        with self._naming(number):
            with self._lock:
                if number in self._open:
                    self._open.pop(number).finish()
                # With the writer's lock, for another process may be the host still.
                with Partition(path, "r+", catalog.config, timeout=OPEN_SECONDS) as partition:
                    self._keep_commit_log(catalog, number, partition)
                    _close_for_writing(path, catalog.version)
                    state, last = partition.state(), partition.settled()
            # Another host may have the partition before this is done: its batches are not in this backup.
            backup_index(path, uri, position=None if last is None else lambda: last)
            return state

    def remove_left(self, catalog: Catalog, number: int, path: str) -> None:
        """Remove the folder of a partition that another place has now, and answer for it no more."""
        self.partitions(catalog)  # refuses earlier versions of the catalog from here on
        with self._naming(number):
            shutil.rmtree(path, ignore_errors=True)
            _open_again(path)

    @contextmanager
    def _naming(self, number: int, *, is_opening: bool = False) -> Iterator[None]:
        """Let what goes wrong in a partition say in which one, and where that is."""
        try:
            yield
        except (SimIndexError, OSError) as exc:
            is_asked_for = isinstance(exc, ConfigMismatchError) and not is_opening
            if is_asked_for or isinstance(exc, _OF_THE_CALLER):
                raise
            node = socket.gethostname()
            found = f"partition {number} at {self.place} ({node})"
            where: dict[str, Any] = {"place": self.place, "partition": number, "node": node}
            if isinstance(exc, _OF_A_MOVE):
                raise CatalogChangedError(
                    f"{found} is closed for writing while it is moved; open the index again and repeat the "
                    "change. A move that was broken off is taken over by the next one, to any place",
                    **where,
                ) from exc
            raise PartitionError(f"{found}: {exc}", reason=exc, **where) from exc


_OWNER = "owner"
"""Beside the backup of a partition: the path at which its commit log is kept, and by which version of the
catalog it was first."""


def _claimed(objects: Objects, version: int, path: str) -> bool:
    """Claim the commit log of a partition for a path; False where it was claimed for another one by a version
    of the catalog that is not earlier."""
    prove(objects)
    while True:
        content = objects.current(_OWNER)
        by, owner = (0, "") if content is None else json.loads(content)
        if owner == path or by >= version:
            return bool(owner == path)
        objects.exchange(_OWNER, content, json.dumps([version, path]).encode())


CLOSED = ".closed"
"""Behind the name of a partition's folder: a file with the version of the catalog that closed it for writing.
"""


def _closed_by(path: str) -> int:
    """Return the version of the catalog that closed a partition for writing; 0 where none did."""
    try:
        return int(Path(path + CLOSED).read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0


def _close_for_writing(path: str, version: int) -> None:
    """Write down, durable, that a partition is closed by a version of the catalog, or by a later one."""
    content = str(max(version, _closed_by(path))).encode("ascii")
    with written_beside(Path(path + CLOSED), content) as new:
        new.replace(path + CLOSED)


def _open_again(path: str) -> None:
    with suppress(FileNotFoundError):
        os.remove(path + CLOSED)
        sync_folder(Path(path).parent)
