"""A host: the open partitions of one place, and what is asked of all of them at once.

A plain class, so that it can be used and tested without Ray. Owns which partitions are open, and that a
document is sketched once, whatever their number. Must not know of other places. Invariant: a partition is
opened, never made, unless that is what was asked; one that is not there is an error that names it.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from simindex.changes.documents import Conflict, NewDocuments
from simindex.config import Config
from simindex.errors import ClosedError, ConfigMismatchError, KeyExistsError, ReadOnlyError, SimIndexError
from simindex.format.keys import Key, key_hashes
from simindex.format.records import NIL
from simindex.format.seals import unpack
from simindex.maintenance.check import Level
from simindex.maintenance.reports import CheckReport
from simindex.parallel import num_workers
from simindex.queries.container import Record
from simindex.queries.search import Query
from simindex.queries.stats import Stats
from simindex.scaleout.answers import Columns
from simindex.scaleout.errors import CatalogChangedError, PartitionError
from simindex.scaleout.hosts.carried import Few, Routed, Texts
from simindex.scaleout.hosts.partition import Nearest, Part, Partition, is_by_distance
from simindex.sketching.sketch import SketchBatch
from simindex.sketching.sketcher import Sketcher

T = TypeVar("T")

OPEN_SECONDS = 60.0
"""How long a partition may be locked by a process that is dying, before that is an error."""

_WORTH_A_THREAD = 64
"""Sketches from which on partitions are searched side by side."""


class Assignment(NamedTuple):
    """What a host is to have open: it comes with every call, so a host that was restarted needs no other.

    Attributes:
        catalog: id of the catalog.
        version: of it.
        place: of the host.
        partitions: (number, folder) of each.
        config: of all of them.
        journals: (number, uri) of those whose commits go to a store, too, before they are acknowledged.
        closed: numbers of those that take no changes, for they are moved.
    """

    catalog: str
    version: int
    place: str
    partitions: tuple[tuple[int, str], ...]
    config: Config
    journals: tuple[tuple[int, str], ...] = ()
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
                            self._open[number] = self.opened(assignment, number, path)
            return dict(self._open)

    def opened(self, assignment: Assignment, number: int, path: str) -> Partition:  # noqa: ARG002 - for others
        """Open a partition."""
        return Partition(path, "r+", assignment.config, timeout=OPEN_SECONDS)

    def _assign(self, assignment: Assignment) -> None:
        current = self._assignment
        if current is not None and assignment.version < current.version:
            if assignment.partitions == current.partitions:
                return  # the newer version tells of backups, or of other places
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

        counts = self.change_some(assignment, routed.partitions, add)
        inserted, replaced, skipped = map(sum, zip(*counts, strict=True))
        return inserted, replaced, skipped

    def remove(
        self, assignment: Assignment, call: bytes, encoded_keys: list[bytes], numbers: np.ndarray
    ) -> int:
        """Remove the documents of some keys, a commit a partition; returns how many there were."""

        def remove(partition: Partition, places: list[int]) -> int:
            return partition.remove_once(call, [encoded_keys[at] for at in places])

        return sum(self.change_some(assignment, numbers, remove))

    def touch(
        self, assignment: Assignment, call: bytes, encoded_keys: list[bytes], numbers: np.ndarray
    ) -> int:
        """Renew the age of the documents of some keys; returns how many there were."""

        def touch(partition: Partition, places: list[int]) -> int:
            return partition.touch_once(call, [encoded_keys[at] for at in places])

        return sum(self.change_some(assignment, numbers, touch))

    def expire(self, assignment: Assignment, call: bytes, limit: int, batch_size: int) -> int:
        """Remove the documents seen last before a time; returns how many."""

        def expire(partition: Partition, _: list[int]) -> int:
            return partition.expire_once(call, limit, batch_size)

        return sum(self.change_some(assignment, np.array([n for n, _ in assignment.partitions]), expire))

    def change_some(
        self, assignment: Assignment, numbers: np.ndarray, change: Callable[[Partition, list[int]], T]
    ) -> list[T]:
        """Return what a change of each partition answers that documents were routed to; it is durable."""
        return self._of_some(assignment, numbers, change)

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

    # ---- all, some or one of them ----

    def each(
        self, assignment: Assignment, ask: Callable[[Partition], T], *, side_by_side: bool = False
    ) -> list[T]:
        """Return what a function returns of each partition, in the order of the assignment."""
        partitions = self.partitions(assignment)

        def named(number: int) -> T:
            try:
                return ask(partitions[number])
            except (SimIndexError, OSError) as exc:  # as `naming`, which a query would pay for 8 times
                _raise_named(exc, assignment, number)

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
        partition = self.partitions(assignment)[number]
        with naming(assignment, number):
            return ask(partition)


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
