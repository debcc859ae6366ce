"""A host: the open partitions of one place and the calls over all of them.

A plain class, so that it can be used and tested without Ray. A document is sketched once, whatever the number
of partitions. A partition is opened, never made, unless that is what was asked; one that is not there is an
error that names it. One that was closed for writing is read alone, whatever is killed, until a later version
of the catalog than the one that closed it has it open.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from simindex.batching import num_workers
from simindex.changes.documents import Conflict, NewDocuments
from simindex.config import Config, require_equal
from simindex.errors import ClosedError, ConfigMismatchError, KeyExistsError, ReadOnlyError, SimIndexError
from simindex.format.keys import decode_keys, key_hashes
from simindex.index import Index
from simindex.maintenance.backup import backup_index
from simindex.maintenance.object_store import StoreError, open_store, prove
from simindex.maintenance.reports import RestoreReport
from simindex.maintenance.restore import restore_index
from simindex.queries.search import Query
from simindex.scaleout.answers import Answered
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import CatalogChangedError, PartitionError
from simindex.scaleout.partition import Nearest, Partition, is_by_distance
from simindex.scaleout.wire import Routed
from simindex.sketching.sketch import SketchBatch
from simindex.sketching.sketcher import Sketcher
from simindex.storage.folder import sync_folder

T = TypeVar("T")

OPEN_SECONDS = 60.0
"""How long a partition may be locked by a process that is dying, before that is an error."""

STORE_SECONDS = 3.0
"""Within which a store has to answer its first request."""

_WORTH_A_THREAD = 64
"""Sketches from which on partitions are searched side by side."""

_SKETCHED_AT_ONCE = 256
"""Texts: few enough that they stay in the cache of a processor."""

CLOSED = ".closed"
"""Behind the name of a partition's folder: a file with the version of the catalog that closed it for writing.
"""


class Assignment(NamedTuple):
    """What a host is to have open: it comes with every call, so a host that was restarted needs no other.

    Attributes:
        catalog, version: id and version of the catalog.
        partitions: number -> folder.
        commit_logs: number -> uri of those whose commits go to a store, too, before they are acknowledged.
        closed: numbers of those that take no changes, for they are moved.
    """

    catalog: str
    version: int
    place: str
    partitions: dict[int, str]
    config: Config
    commit_logs: dict[int, str]
    closed: tuple[int, ...] = ()

    @classmethod
    def of(cls, catalog: Catalog, place: str) -> Assignment:
        """Return the assignment of a place's host."""
        numbers, rows = catalog.places.get(place, ()), catalog.partitions
        logs = {number: str(catalog.backup_uri(number)) for number in numbers}
        return cls(
            catalog.id,
            catalog.version,
            place,
            {number: rows[number].path for number in numbers},
            catalog.config,
            logs if catalog.durability == "store" else {},
            tuple(number for number in numbers if rows[number].closed is not None),
        )


class Host:
    """The partitions of one place. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Partition] = {}
        self._assignment: Assignment | None = None
        self._sketcher: Sketcher | None = None
        self._threads = num_workers(None)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="simindex")
        self._searching, self._looking_up = threading.Lock(), threading.Lock()

    # ---- what is open ----

    def create(self, assignment: Assignment) -> None:
        """Make the partitions that are not there, empty."""
        for number, path in assignment.partitions.items():
            with naming(assignment, number, is_opening=True):
                Partition(path, "a", assignment.config).close()

    def close(self) -> None:
        """Close all partitions."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
            self._assignment = None

    def status(self, assignment: Assignment) -> dict[str, Any]:
        """Return where this host is, and what its partitions hold."""
        stats = self._each(assignment, assignment.partitions, lambda _, partition: partition.stats())
        return {
            "node": socket.gethostname(),
            "pid": os.getpid(),
            "documents": {number: found.documents for number, found in stats.items()},
            "used_bytes": sum(found.used_bytes for found in stats.values()),
        }

    def partitions(self, assignment: Assignment) -> dict[int, Partition]:
        """Return the open partitions by number, after opening those that are not."""
        with self._lock:
            if assignment != self._assignment:
                self._assign(assignment)
            if len(self._open) < len(assignment.partitions):
                for number, path in assignment.partitions.items():
                    if number not in self._open:
                        with naming(assignment, number, is_opening=True):
                            self._open[number] = self._opened(assignment, number, path)
            return dict(self._open)

    def _opened(self, assignment: Assignment, number: int, path: str) -> Partition:
        """Open a partition: one that is closed for writing to be read, another with its commit log."""
        version = _closed_by(path)
        if number in assignment.closed or version >= assignment.version:
            partition = Partition(path, "r", assignment.config)
            partition.is_closed_for_writing = True
            return partition
        if version:
            _open_again(path)
        partition = Partition(path, "r+", assignment.config, timeout=OPEN_SECONDS)
        try:
            if number in assignment.commit_logs:
                partition.keep_commit_log(assignment.commit_logs[number])
        except BaseException:
            partition.close()
            raise
        return partition

    def _assign(self, assignment: Assignment) -> None:
        current = self._assignment
        if current is not None and assignment.version < current.version:
            if assignment.partitions == current.partitions:
                return  # the newer version has other places
            raise CatalogChangedError(
                f"{assignment.place}: expected version {current.version} of the catalog, found a call by "
                f"version {assignment.version}: partitions have moved; open the index again",
                place=assignment.place,
            )
        if current is None or current.config != assignment.config:
            self._sketcher = Sketcher(assignment.config)
        wanted = assignment.partitions
        left = [n for n, one in self._open.items() if one.is_closed_for_writing or wanted.get(n) != one.path]
        for number in left:
            self._open.pop(number).close()
        self._assignment = assignment

    # ---- calls of partitions ----

    def each(
        self, assignment: Assignment, arguments: Mapping[int, tuple[Any, ...]], method: str
    ) -> dict[int, Any]:
        """Return number -> what a method of some partitions returns, one after the other."""
        return self._each(assignment, arguments, lambda n, one: getattr(one, method)(*arguments[n]))

    def change(
        self, assignment: Assignment, arguments: Mapping[int, tuple[Any, ...]], method: str
    ) -> dict[int, Any]:
        """Return the same of a method that changes a partition, and is done once by the id of its call."""
        return self._change(assignment, arguments, lambda n, one: getattr(one, method)(*arguments[n]))

    def _change(
        self, assignment: Assignment, numbers: Iterable[int], change: Callable[[int, Partition], T]
    ) -> dict[int, T]:
        """Change partitions side by side; what was changed is as durable then as the catalog says."""
        changed = dict[int, Partition]()

        def noted(number: int, partition: Partition) -> T:
            changed[number] = partition
            return change(number, partition)

        answers = self._each(assignment, numbers, noted, side_by_side=True)
        for number, partition in changed.items():  # these, though the host may have let one go by now
            with naming(assignment, number):
                partition.settle()
        return answers

    def insert(
        self, assignment: Assignment, call: bytes, routed: Routed, on_conflict: Conflict
    ) -> dict[int, list[int]]:
        """Store documents, a commit a partition; returns number -> [inserted, replaced, skipped]."""
        self.partitions(assignment)
        documents = self._documents(routed)
        order = np.argsort(routed.partitions, kind="stable")
        numbers, starts = np.unique(routed.partitions[order], return_index=True)
        places = dict(zip(numbers.tolist(), np.split(order, starts[1:]), strict=True))

        def add(number: int, partition: Partition) -> list[int]:
            here = places[number]
            own = documents if len(here) == len(documents) else documents.taken(here.tolist())
            return partition.add_once(call, own, on_conflict)

        return self._change(assignment, places, add)

    def _documents(self, routed: Routed) -> NewDocuments:
        """Return documents as an index takes them; texts are sketched here, some at a time."""
        texts = routed.documents
        sketches = [texts] if isinstance(texts, SketchBatch) else self._sketched(texts)
        # While the threads sketch.
        encoded, metadata, _, times, _ = routed
        keys, hashes = decode_keys(encoded), key_hashes(encoded)
        return NewDocuments(keys, encoded, hashes, metadata, SketchBatch.joined(list(sketches)), times)

    def _sketched(self, texts: list[str]) -> Iterable[SketchBatch]:
        """Yield the sketches of texts, some at a time by each thread."""
        assert self._sketcher is not None
        some = [texts[at : at + _SKETCHED_AT_ONCE] for at in range(0, len(texts), _SKETCHED_AT_ONCE)]
        threads = self._threads > 1 and len(some) > 1
        return (self._pool.map if threads else map)(self._sketcher.sketch_many, some)

    def query(
        self, assignment: Assignment, query: Query | Nearest, documents: list[str] | SketchBatch
    ) -> Answered:
        """Return the matches of each document in all partitions together.

        Large batches are searched one after the other, each by all threads, and documents are looked up by
        one of these at a time: each look lets the interpreter's lock go, and threads that wait for it cost
        more than they save (12 us a query that has a match by one thread, 16 of processor time by two).
        """
        self.partitions(assignment)
        if isinstance(documents, SketchBatch):
            batch = documents
        else:
            batch = SketchBatch.joined(list(self._sketched(documents)))
        is_large = len(batch) >= _WORTH_A_THREAD
        with self._searching if is_large else nullcontext():
            parts = self._each(
                assignment,
                assignment.partitions,
                lambda _, partition: partition.answers(query, batch, self._looking_up),
                side_by_side=is_large,
            )
        limit = query.k if isinstance(query, Nearest) else query.limit
        return Answered.merged(list(parts.values()), limit, is_by_distance(query))

    def _each(
        self,
        assignment: Assignment,
        numbers: Iterable[int],
        ask: Callable[[int, Partition], T],
        *,
        side_by_side: bool = False,
    ) -> dict[int, T]:
        """Return number -> what a function returns of a partition, opened again where a move closed it.

        All of them are asked, whatever one of them raises: so a change that is repeated finds the same.
        """
        partitions = self.partitions(assignment)

        def asked(number: int) -> T | Exception:
            partition = partitions[number]
            try:
                with naming(assignment, number):
                    for _ in range(_OPENINGS):
                        with suppress(ClosedError):
                            return ask(number, partition)
                        partition = self.partitions(assignment)[number]
                    return ask(number, partition)
            except Exception as exc:
                return exc

        every = list(numbers)
        threads = side_by_side and self._threads > 1 and len(every) > 1
        results = dict(zip(every, (self._pool.map if threads else map)(asked, every), strict=True))
        for result in results.values():
            if isinstance(result, Exception):
                raise result
        return results  # type: ignore[return-value] # none is an exception

    # ---- jobs ----

    def prove_store(self, _: Assignment, uri: str) -> None:
        """Refuse a store that this host cannot reach, or that cannot be trusted; see `prove`.

        What fsspec talks by repeats a request for half a minute where nothing answers.
        """
        objects, tried = open_store(uri), threading.Event()

        def try_once() -> None:
            with suppress(StoreError):  # raised again below
                objects.sizes("probe")
            tried.set()

        threading.Thread(target=try_once, daemon=True).start()
        if not tried.wait(STORE_SECONDS):
            raise StoreError(
                objects.uri,
                f"cannot be reached: expected an answer within {STORE_SECONDS:g} seconds, found none; "
                "look at its address and at the network",
            )
        prove(objects)

    def restore(self, assignment: Assignment, number: int, uri: str, path: str) -> RestoreReport:
        """Make a partition of its backup, in a folder of its own."""
        with naming(assignment, number):
            report = restore_index(uri, path)
            with Index(path, "r") as index:
                require_equal(index.config, assignment.config)
            return report

    def let_go(self, assignment: Assignment, number: int, uri: str) -> str:
        """Close a partition for writing, make a backup of it, and return its state."""
        path = assignment.partitions[number]
        with naming(assignment, number):
            with self._lock:
                if number in self._open:
                    self._open.pop(number).finish()
                if _closed_by(path):  # by a move that was broken off
                    _close_for_writing(path, assignment.version)
                else:  # with the writer's lock, for another process may be the host still
                    with Partition(path, "r+", assignment.config, timeout=OPEN_SECONDS):
                        _close_for_writing(path, assignment.version)
            backup_index(path, uri)
            with Partition(path, "r", assignment.config) as partition:
                return partition.state()

    def take(self, assignment: Assignment, number: int, uri: str, path: str, state: str) -> None:
        """Make a partition of the backup of one that was closed for writing."""
        with naming(assignment, number):
            if not os.path.exists(path):
                restore_index(uri, path)
            with Partition(path, "r", assignment.config) as copy:
                if copy.state() != state:
                    raise PartitionError(
                        f"partition {number}: expected a copy of the state {state} at "
                        f"{assignment.place}, found {copy.state()}; it was not moved",
                        place=assignment.place,
                        partition=number,
                    )

    def remove_left(self, assignment: Assignment, number: int, path: str) -> None:
        """Remove the folder of a partition that another place has now, and answer for it no more."""
        self.partitions(assignment)  # refuses earlier versions of the catalog from here on
        with naming(assignment, number):
            shutil.rmtree(path, ignore_errors=True)
            _open_again(path)


_OPENINGS = 5
"""A move closes a partition three times at its old place: for writing, at each version of the catalog."""


_OF_THE_CALLER = (KeyExistsError, PartitionError, CatalogChangedError)
"""Errors that are about what was asked, or that say already where they happened."""

_OF_A_MOVE = (ReadOnlyError, ClosedError)
"""Errors of a partition that is on its way to another place: it is read only, or has just been closed."""


@contextmanager
def naming(assignment: Assignment, number: int, *, is_opening: bool = False) -> Iterator[None]:
    """Let what goes wrong in a partition say in which one, and where that is."""
    try:
        yield
    except (SimIndexError, OSError) as exc:
        is_asked_for = isinstance(exc, ConfigMismatchError) and not is_opening
        if is_asked_for or isinstance(exc, _OF_THE_CALLER):
            raise
        node, found = socket.gethostname(), f"partition {number} at {assignment.place}"
        where: dict[str, Any] = {"place": assignment.place, "partition": number, "node": node}
        if isinstance(exc, _OF_A_MOVE):
            raise CatalogChangedError(
                f"{found} ({node}) is closed for writing while it is moved; open the index again and repeat "
                "the change. A move that was broken off is taken over by the next one, to any place",
                **where,
            ) from exc
        raise PartitionError(f"{found} ({node}): {exc}", reason=exc, **where) from exc


def _closed_by(path: str) -> int:
    """Return the version of the catalog that closed a partition for writing; 0 where none did."""
    try:
        return int(Path(path + CLOSED).read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0


def _close_for_writing(path: str, version: int) -> None:
    """Write down, durable, that a partition is closed by a version of the catalog, or by a later one."""
    new = Path(f"{path}{CLOSED}.new")
    with new.open("w", encoding="ascii") as file:
        file.write(str(max(version, _closed_by(path))))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path + CLOSED)
    sync_folder(new.parent)


def _open_again(path: str) -> None:
    with suppress(FileNotFoundError):
        os.remove(path + CLOSED)
        sync_folder(Path(path).parent)
