"""A host: the open partitions of one place and the calls over all of them.

A plain class, so that it can be used and tested without Ray. A document is sketched once, whatever the number
of partitions. A partition is opened, never made, unless that is what was asked; one that is not there is an
error that names it. One that was closed for writing is read alone, whatever is killed, until a later version
of the catalog than the one that closed it has it open.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from simindex.changes.documents import Conflict, NewDocuments
from simindex.config import Config, require_equal
from simindex.errors import ClosedError, ConfigMismatchError, KeyExistsError, ReadOnlyError, SimIndexError
from simindex.format.keys import Key, key_hashes
from simindex.format.records import NIL
from simindex.format.seals import unpack
from simindex.index.index import Index
from simindex.maintenance.backup import backup_index
from simindex.maintenance.check import Level
from simindex.maintenance.reports import CheckReport, RestoreReport, StoreBackupReport
from simindex.maintenance.restore import restore_index
from simindex.maintenance.stores import open_store, prove
from simindex.parallel import num_workers
from simindex.queries.container import Record
from simindex.queries.search import Query
from simindex.queries.stats import Stats
from simindex.scaleout.answers import Columns
from simindex.scaleout.errors import CatalogChangedError, PartitionError
from simindex.scaleout.partition import Nearest, Part, Partition, is_by_distance
from simindex.scaleout.wire import Few, Routed, Texts
from simindex.sketching.sketch import SketchBatch
from simindex.sketching.sketcher import Sketcher
from simindex.storage.folder import sync_folder

T = TypeVar("T")

OPEN_SECONDS = 60.0
"""How long a partition may be locked by a process that is dying, before that is an error."""

_WORTH_A_THREAD = 64
"""Sketches from which on partitions are searched side by side."""


CLOSED = ".closed"
"""Behind the name of a partition's folder: a file with the version of the catalog that closed it for writing.
"""


class Assignment(NamedTuple):
    """What a host is to have open: it comes with every call, so a host that was restarted needs no other.

    Attributes:
        catalog: id of the catalog.
        version: of it.
        place: of the host.
        partitions: (number, folder) of each.
        config: of all of them.
        commit_logs: (number, uri) of those whose commits go to a store, too, before they are acknowledged.
        closed: numbers of those that take no changes, for they are moved.
    """

    catalog: str
    version: int
    place: str
    partitions: tuple[tuple[int, str], ...]
    config: Config
    commit_logs: tuple[tuple[int, str], ...] = ()
    closed: tuple[int, ...] = ()


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

    def create(self, assignment: Assignment) -> int:
        """Make the partitions that are not there, empty; returns how many are."""
        for number, path in assignment.partitions:
            with naming(assignment, number, is_opening=True):
                Partition(path, "a", assignment.config).close()
        return len(assignment.partitions)

    def close(self) -> None:
        """Close all partitions."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
            self._assignment = None

    def status(self, assignment: Assignment) -> dict[str, Any]:
        """Return where this host is, and what its partitions hold."""
        stats = self.stats(assignment)
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
                for number, path in assignment.partitions:
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
            if number in dict(assignment.commit_logs):
                partition.keep_commit_log(dict(assignment.commit_logs)[number])
        except BaseException:
            partition.close()
            raise
        return partition

    def _assign(self, assignment: Assignment) -> None:
        current = self._assignment
        if current is not None and assignment.version < current.version:
            if assignment.partitions == current.partitions:
                return  # the newer version has other backups or places
            raise CatalogChangedError(
                f"{assignment.place}: expected version {current.version} of the catalog, found a call by "
                f"version {assignment.version}; load it and begin again",
                place=assignment.place,
            )
        if current is None or current.config != assignment.config:
            self._sketcher = Sketcher(assignment.config)
        wanted = dict(assignment.partitions)
        left = [
            number
            for number, one in self._open.items()
            if one.is_closed_for_writing or wanted.get(number) != one.path
        ]
        for number in left:
            self._open.pop(number).close()
        self._assignment = assignment

    # ---- changes: each may be repeated, and is done once by its id ----

    def insert(
        self, assignment: Assignment, call: bytes, routed: Routed, on_conflict: Conflict
    ) -> tuple[int, int, int]:
        """Store documents, a commit a partition; returns (inserted, replaced, skipped).

        Args:
            call: its id: the same again answers the same, and stores nothing twice.
        """
        self.partitions(assignment)
        documents = self._documents(routed)

        def add(partition: Partition, places: list[int]) -> list[int]:
            own = documents if len(places) == len(documents) else documents.taken(places)
            return partition.add_once(call, own, on_conflict)

        counts = self._change(assignment, routed.partitions, add)
        inserted, replaced, skipped = map(sum, zip(*counts, strict=True))
        return inserted, replaced, skipped

    def remove(
        self, assignment: Assignment, call: bytes, encoded_keys: list[bytes], numbers: np.ndarray
    ) -> int:
        """Remove the documents of some keys, a commit a partition; returns how many there were."""
        return self._change_keys(assignment, Partition.remove_once, call, encoded_keys, numbers)

    def touch(
        self, assignment: Assignment, call: bytes, encoded_keys: list[bytes], numbers: np.ndarray
    ) -> int:
        """Renew the age of the documents of some keys; returns how many there were."""
        return self._change_keys(assignment, Partition.touch_once, call, encoded_keys, numbers)

    def _change_keys(
        self,
        assignment: Assignment,
        change: Callable[[Partition, bytes, list[bytes]], int],
        call: bytes,
        encoded_keys: list[bytes],
        numbers: np.ndarray,
    ) -> int:
        def of_own(partition: Partition, places: list[int]) -> int:
            return change(partition, call, [encoded_keys[at] for at in places])

        return sum(self._change(assignment, numbers, of_own))

    def expire(self, assignment: Assignment, call: bytes, limit: int, batch_size: int) -> int:
        """Remove the documents seen last before a time; returns how many."""

        def expire(partition: Partition, _: list[int]) -> int:
            return partition.expire_once(call, limit, batch_size)

        return sum(self._change(assignment, np.array([n for n, _ in assignment.partitions]), expire))

    def _change(
        self, assignment: Assignment, numbers: np.ndarray, change: Callable[[Partition, list[int]], T]
    ) -> list[T]:
        """Return what a change of each partition answers that documents were routed to.

        The changes are as durable as the catalog says: in the store, too, where they are to be.
        """
        changed = list[Partition]()

        def noted(partition: Partition, places: list[int]) -> T:
            changed.append(partition)
            return change(partition, places)

        answers = self._of_some(assignment, numbers, noted)
        number_of = {path: number for number, path in assignment.partitions}
        for partition in changed:  # these, though the host may have let one go by now
            with naming(assignment, number_of[partition.path]):
                partition.settle()
        return answers

    def _documents(self, routed: Routed) -> NewDocuments:
        """Return documents as an index takes them; texts are sketched here, all at once."""
        sketching = self._sketching(routed.documents)
        # While the threads sketch.
        encoded = routed.encoded_keys.values()
        metadata = [NIL] * len(encoded) if routed.packed_metadata is None else routed.packed_metadata.values()
        keys, hashes = [unpack(key) for key in encoded], key_hashes(encoded)
        return NewDocuments(keys, encoded, hashes, metadata, SketchBatch.joined(list(sketching)))

    def _sketching(self, documents: Texts | SketchBatch) -> Iterator[SketchBatch]:
        """Begin to sketch; returns the sketches, some at a time."""
        if isinstance(documents, SketchBatch):
            return iter([documents])
        sketcher = self._sketcher
        assert sketcher is not None

        def sketched(texts: Callable[[], list[str]]) -> SketchBatch:
            return sketcher.sketch_many(texts())

        side_by_side = self._threads > 1 and len(documents.pieces) > 1
        return (self._pool.map if side_by_side else map)(sketched, documents.some())

    # ---- questions ----

    def query(self, assignment: Assignment, query: Query | Nearest, asked: SketchBatch | Few) -> Columns:
        """Return the matches of each sketch in all partitions together.

        Large batches are searched one after the other, each by all threads, and documents are looked up by
        one of these at a time: each look lets the interpreter's lock go, and threads that wait for it cost
        more than they save (12 us a query that has a match by one thread, 16 of processor time by two).
        """
        batch = asked if isinstance(asked, SketchBatch) else asked.sketches()

        def ask(partition: Partition) -> Part:
            return partition.answers(query, batch, self._looking_up)

        if len(batch) < _WORTH_A_THREAD:
            parts = self.each(assignment, ask)
        else:
            with self._searching:
                parts = self.each(assignment, ask, side_by_side=True)
        limit = query.k if isinstance(query, Nearest) else query.limit
        return Columns.of(parts, limit, is_by_distance(query))

    def get(self, assignment: Assignment, number: int, key: Key) -> Record | None:
        """Return the record of a key in a partition."""
        return self._one(assignment, number, lambda partition: partition.get(key))

    def holds(self, assignment: Assignment, encoded_keys: list[bytes], numbers: np.ndarray) -> list[bytes]:
        """Return which of some keys are stored, in their stored form."""

        def hold(partition: Partition, places: list[int]) -> list[bytes]:
            return [encoded_keys[at] for at in places if unpack(encoded_keys[at]) in partition]

        return [key for found in self._of_some(assignment, numbers, hold) for key in found]

    def keys_from(
        self, assignment: Assignment, number: int, first: int, limit: int
    ) -> tuple[list[Key], int | None, tuple[int, int]]:
        """Return some keys of a partition; see `Partition.keys_from`."""
        return self._one(assignment, number, lambda partition: partition.keys_from(first, limit))

    def count(self, assignment: Assignment) -> dict[int, int]:
        """Return how many documents each partition holds."""
        return self._by_number(assignment, len)

    def stats(self, assignment: Assignment) -> dict[int, Stats]:
        """Return the stats of each partition."""
        return self._by_number(assignment, Partition.stats)

    # ---- jobs ----

    def check(self, assignment: Assignment, level: Level) -> dict[int, CheckReport]:
        """Return what a check of each partition found."""
        return self._by_number(assignment, lambda partition: partition.check(level))

    def compact(self, assignment: Assignment) -> None:
        """Compact each partition, one after the other."""
        self.each(assignment, Partition.compact)

    def prove_store(self, _: Assignment, uri: str) -> None:
        """Refuse a store that this host cannot reach, or that cannot be trusted; see `prove`."""
        prove(open_store(uri))

    def backup(self, assignment: Assignment, uris: dict[int, str]) -> dict[int, StoreBackupReport]:
        """Back up partitions; returns number -> what was done."""
        partitions, reports = self.partitions(assignment), {}
        for number, uri in uris.items():
            with naming(assignment, number):
                reports[number] = partitions[number].back_up(uri)
        return reports

    def copy(self, assignment: Assignment, folder: str) -> None:
        """Copy each partition into a folder, as of its newest commit."""
        for number, partition in self.partitions(assignment).items():
            with naming(assignment, number):
                partition.backup(os.path.join(folder, f"{number:05}"))

    def restore(self, assignment: Assignment, number: int, uri: str, path: str) -> RestoreReport:
        """Make a partition of its backup, in a folder of its own."""
        with naming(assignment, number):
            report = restore_index(uri, path)
            with Index(path, "r") as index:
                require_equal(index.config, assignment.config)
            return report

    def let_go(self, assignment: Assignment, number: int, uri: str) -> str:
        """Close a partition for writing, make a backup of it, and return its state."""
        path = dict(assignment.partitions)[number]
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

    # ---- all, some or one of them ----

    def each(
        self, assignment: Assignment, ask: Callable[[Partition], T], *, side_by_side: bool = False
    ) -> list[T]:
        """Return what a function returns of each partition, in the order of the assignment."""
        partitions = self.partitions(assignment)

        def named(number: int) -> T:
            return self._asked(assignment, partitions[number], number, ask)

        numbers = [number for number, _ in assignment.partitions]
        if side_by_side and self._threads > 1 and len(numbers) > 1:
            return list(self._pool.map(named, numbers))
        return list(map(named, numbers))

    def _by_number(self, assignment: Assignment, ask: Callable[[Partition], T]) -> dict[int, T]:
        numbers = [number for number, _ in assignment.partitions]
        return dict(zip(numbers, self.each(assignment, ask), strict=True))

    def _of_some(
        self, assignment: Assignment, numbers: np.ndarray, ask: Callable[[Partition, list[int]], T]
    ) -> list[T]:
        """Return what a function returns of each partition that documents were routed to.

        All of them are asked, whatever one of them raises: so a change that is repeated finds them alike.
        """
        partitions = self.partitions(assignment)
        order = np.argsort(numbers, kind="stable")
        found, starts = np.unique(numbers[order], return_index=True)
        work = list(zip(found.tolist(), np.split(order, starts[1:]), strict=True))

        def named(one: tuple[int, np.ndarray]) -> T | Exception:
            number, places = one
            try:
                with naming(assignment, number):
                    return ask(partitions[number], places.tolist())
            except Exception as exc:
                return exc

        side_by_side = self._threads > 1 and len(work) > 1
        results = list(self._pool.map(named, work) if side_by_side else map(named, work))
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results  # type: ignore[return-value] # none is an exception

    def _one(self, assignment: Assignment, number: int, ask: Callable[[Partition], T]) -> T:
        return self._asked(assignment, self.partitions(assignment)[number], number, ask)

    def _asked(
        self, assignment: Assignment, partition: Partition, number: int, ask: Callable[[Partition], T]
    ) -> T:
        """Return what a function returns of a partition, opened again where a move closed it meanwhile."""
        for _ in range(_OPENINGS):
            try:
                return ask(partition)
            except ClosedError:
                partition = self.partitions(assignment)[number]
            except (SimIndexError, OSError) as exc:  # as `naming`, which a query would pay for 8 times
                _raise_named(exc, assignment, number)
        with naming(assignment, number):
            return ask(partition)


_OPENINGS = 5
"""A move closes a partition three times at its old place: for writing, at each version of the catalog."""


_OF_THE_CALLER = (KeyExistsError, PartitionError, CatalogChangedError)
"""Errors that are about what was asked, or that say already where they happened."""

_OF_A_MOVE = (ReadOnlyError, ClosedError)
"""Errors of a partition that is on its way to another place: it is read only, or has just been closed."""


@contextmanager
def naming(assignment: Assignment, number: int, *, is_opening: bool = False) -> Iterator[None]:
    """Let what goes wrong in a partition say where that is."""
    try:
        yield
    except (SimIndexError, OSError) as exc:
        _raise_named(exc, assignment, number, is_opening=is_opening)


def _raise_named(
    exc: SimIndexError | OSError, assignment: Assignment, number: int, *, is_opening: bool = False
) -> NoReturn:
    if isinstance(exc, _OF_THE_CALLER) or (isinstance(exc, ConfigMismatchError) and not is_opening):
        raise exc
    node, hint = socket.gethostname(), ""
    if isinstance(exc, _OF_A_MOVE):
        raise CatalogChangedError(
            f"partition {number} at {assignment.place} ({node}) is closed for writing while it is moved; try "
            "again. A move that was broken off is taken over by the next one, which may be to the same place",
            place=assignment.place,
            partition=number,
            node=node,
        ) from exc
    if is_opening and _is_out_of_descriptors(exc):
        hint = (
            f"; {len(assignment.partitions)} partitions take {_DESCRIPTORS} descriptors each or so: "
            "allow more of them (ulimit -n) where Ray is started on this node, or move partitions "
            "to another one"
        )
    raise PartitionError(
        f"partition {number} at {assignment.place} ({node}): {exc}{hint}",
        place=assignment.place,
        partition=number,
        node=node,
        reason=exc,
    ) from exc


_DESCRIPTORS = 5


def _is_out_of_descriptors(error: BaseException | None) -> bool:
    while error is not None:
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE) or "Too many open files" in str(
            error
        ):
            return True
        error = error.__cause__
    return False


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
