"""A host: the open partitions of one place, and what is asked of all of them at once.

A plain class, so that it can be used and tested without Ray. Owns which partitions are open, and that a
document is sketched once, whatever their number. Must not know of other places. Invariant: a partition is
opened, never made, unless that is what was asked; one that is not there is an error that names it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from simindex.changes.documents import NewDocuments
from simindex.config import Config
from simindex.errors import ClosedError, KeyExistsError, ReadOnlyError, SimIndexError
from simindex.format.keys import key_hashes, plain_keys
from simindex.format.seals import unpack
from simindex.index.index import Conflict
from simindex.queries.matches import Matches
from simindex.queries.search import Query
from simindex.scaleout.answers import merged
from simindex.scaleout.errors import CatalogChangedError, PartitionError
from simindex.scaleout.hosts.partition import Partition
from simindex.sketching.sketch import HAS_FINGERPRINT, SketchBatch
from simindex.sketching.sketcher import Sketcher

OPEN_SECONDS = 60.0
"""How long a partition may be locked by a process that is dying, before that is an error."""


_OF_THE_CALLER = (KeyExistsError, PartitionError, CatalogChangedError)
"""Errors that are about what was asked, or that say already where they happened."""

_OF_A_MOVE = (ReadOnlyError, ClosedError)
"""Errors of a partition that is on its way to another place: it is read only, or has just been closed."""


class Assignment(NamedTuple):
    """What a host is to have open: it comes with every call, so a host that was restarted needs no other.

    Attributes:
        catalog: id of the catalog.
        version: of it.
        place: of the host.
        partitions: (number, folder) of each.
        config: of all of them.
        journals: (number, uri) of those whose commits go to a store, too, before they are acknowledged.
    """

    catalog: str
    version: int
    place: str
    partitions: tuple[tuple[int, str], ...]
    config: Config
    journals: tuple[tuple[int, str], ...] = ()


class Routed(NamedTuple):
    """Documents on their way to one place.

    Attributes:
        encoded_keys, packed_metadata: as they will be stored.
        partitions: number of the partition of each, uint32.
        documents: texts, or the sketches of other documents.
    """

    encoded_keys: list[bytes]
    packed_metadata: list[bytes]
    partitions: np.ndarray
    documents: list[str] | SketchBatch


class Host:
    """The partitions of one place. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, Partition] = {}
        self._assignment: Assignment | None = None
        self._sketcher: Sketcher | None = None

    # ---- what is open ----

    def create(self, assignment: Assignment) -> int:
        """Make the partitions that are not there, empty; returns how many are."""
        for number, path in assignment.partitions:
            with self._naming(assignment, number):
                Partition(path, "a", assignment.config).close()
        return len(assignment.partitions)

    def close(self) -> None:
        """Close all partitions."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
            self._assignment = None

    def _partitions(self, assignment: Assignment) -> dict[int, Partition]:
        """Return the open partitions by number, after opening those that are not."""
        with self._lock:
            if assignment is not self._assignment:
                self._assign(assignment)
            for number, path in assignment.partitions:
                if number not in self._open:
                    with self._naming(assignment, number):
                        self._open[number] = self.opened(assignment, number, path)
            return self._open

    def opened(self, assignment: Assignment, number: int, path: str) -> Partition:
        """Open a partition."""
        with self._naming(assignment, number):
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
        for number in [
            number for number, partition in self._open.items() if wanted.get(number) != partition.home
        ]:
            self._open.pop(number).close()
        self._assignment = assignment

    @contextmanager
    def _naming(self, assignment: Assignment, number: int) -> Iterator[None]:
        """Let what goes wrong say where it did."""
        node = socket.gethostname()
        try:
            yield
        except (SimIndexError, OSError) as exc:
            if isinstance(exc, _OF_THE_CALLER):
                raise
            if isinstance(exc, _OF_A_MOVE):
                raise CatalogChangedError(
                    f"partition {number} at {assignment.place} ({node}) is being moved; try again",
                    place=assignment.place,
                    partition=number,
                    node=node,
                ) from exc
            raise PartitionError(
                f"partition {number} at {assignment.place} ({node}): {exc}",
                place=assignment.place,
                partition=number,
                node=node,
                reason=exc,
            ) from exc

    # ---- what is asked ----

    def insert(
        self, assignment: Assignment, call: bytes, routed: Routed, on_conflict: Conflict
    ) -> tuple[int, int, int]:
        """Store documents, a commit a partition; returns (inserted, replaced, skipped).

        Args:
            call: its id: the same again answers the same, and stores nothing twice.
        """
        partitions = self._partitions(assignment)
        documents = self._documents(routed)
        totals = [0, 0, 0]
        for number in np.unique(routed.partitions).tolist():
            places = np.flatnonzero(routed.partitions == number).tolist()
            with self._naming(assignment, number):
                counts = partitions[number].add_once(call, documents.taken(places), on_conflict)
            totals = [total + count for total, count in zip(totals, counts, strict=True)]
        return totals[0], totals[1], totals[2]

    def _documents(self, routed: Routed) -> NewDocuments:
        """Return documents as an index takes them; texts are sketched here, all at once."""
        assert self._sketcher is not None
        sketches = routed.documents
        if not isinstance(sketches, SketchBatch):
            sketches = self._sketcher.sketch_many(sketches)
        keys = [unpack(key) for key in routed.encoded_keys]
        return NewDocuments(
            plain_keys(keys, routed.encoded_keys),
            routed.encoded_keys,
            key_hashes(routed.encoded_keys),
            routed.packed_metadata,
            sketches,
        )

    def query(self, assignment: Assignment, query: Query, batch: SketchBatch) -> list[Matches]:
        """Return the matches of each sketch in all partitions together."""

        def ask(partition: Partition) -> list[Matches]:
            return partition.answers(query, batch)

        return merged(self.each(assignment, ask), query.limit, query.compares == HAS_FINGERPRINT)

    def each(self, assignment: Assignment, ask: Callable[[Partition], Any]) -> list[Any]:
        """Return what a function returns of each partition, in the order of the assignment."""
        partitions = self._partitions(assignment)
        results = []
        for number, _ in assignment.partitions:
            with self._naming(assignment, number):
                results.append(ask(partitions[number]))
        return results

    def count(self, assignment: Assignment) -> dict[int, int]:
        """Return how many documents each partition holds."""
        numbers = [number for number, _ in assignment.partitions]
        return dict(zip(numbers, self.each(assignment, len), strict=True))
