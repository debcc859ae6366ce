"""What a host does to keep its partitions: backups, restoring, and letting one go to another place.

Owns the steps of one host; who moves a partition, and when the catalog says so, is `moving`. Invariant: a
partition that is leaving answers queries and takes no changes; where nobody comes for it, it stays.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from simindex.config import require_equal
from simindex.index.index import Index
from simindex.scaleout.backups import RestoreReport, StoreBackupReport, restore_index
from simindex.scaleout.backups.journal import replay
from simindex.scaleout.errors import CatalogChangedError
from simindex.scaleout.hosts.host import OPEN_SECONDS, Assignment, Host, naming
from simindex.scaleout.hosts.partition import LEAVING, Partition
from simindex.scaleout.hosts.way import WAY
from simindex.scaleout.stores import Objects, open_store
from simindex.scaleout.stores.folder import FolderObjects
from simindex.storage.folder import sync_folder

T = TypeVar("T")

MOVE_SECONDS = 120.0
"""So long a partition takes no changes while it is moved; where the mover has died, it goes on after that."""


class KeepingHost(Host):
    """A host, as an actor of Ray is made of."""

    def __init__(self) -> None:
        super().__init__()
        self._moved = set[str]()
        """Folders of partitions that another place has now."""

    def opened(self, assignment: Assignment, number: int, path: str) -> Partition:
        """Open a partition: one that is leaving to be read, and with its journal where there is one."""
        folder = _whereabouts(path)
        if folder == path and os.path.exists(path):
            self._moved.discard(path)  # nobody has come for it
        elif path in self._moved:
            raise CatalogChangedError(
                f"partition {number} was moved away from {assignment.place}; load the catalog and try again",
                place=assignment.place,
                partition=number,
            )
        if folder != path:
            partition = Partition(folder, "r", assignment.config)
            partition.leaves = True
            return partition
        partition = Partition(path, "r+", assignment.config, timeout=OPEN_SECONDS)
        try:
            if number in dict(assignment.journals):
                partition.keep_journal(dict(assignment.journals)[number])
        except BaseException:
            partition.close()
            raise
        return partition

    # ---- changes are acknowledged when they are as durable as the catalog says ----

    def change_some(
        self, assignment: Assignment, numbers: np.ndarray, change: Callable[[Partition, list[int]], T]
    ) -> list[T]:
        """Change partitions; return when these changes are in the store, where they are to be."""
        changed = list[Partition]()

        def noted(partition: Partition, places: list[int]) -> T:
            changed.append(partition)
            return change(partition, places)

        answers = super().change_some(assignment, numbers, noted)
        number_of = {path: number for number, path in assignment.partitions}
        for partition in changed:  # these, though the host may have let one go by now
            with naming(assignment, number_of[partition.home]):
                partition.settle()
        return answers

    # ---- backups and moves ----

    def backup(self, assignment: Assignment, uris: dict[int, str]) -> dict[int, StoreBackupReport]:
        """Back up partitions; returns number -> what was done."""
        partitions, reports = self.partitions(assignment), {}
        for number, uri in uris.items():
            with naming(assignment, number):
                reports[number] = partitions[number].back_up(uri)
        return reports

    def restore(self, assignment: Assignment, number: int, uri: str | Objects, path: str) -> RestoreReport:
        """Make a partition of its backup, in a folder that nobody has."""
        with naming(assignment, number):
            report = restore_index(uri, path)
            with Index(path, "r") as index:
                require_equal(index.config, assignment.config)
            return report

    def send_journal(self, assignment: Assignment, number: int, uri: str) -> None:
        """Have a backup of a partition, and every commit behind it, in a store."""
        partitions = self.partitions(assignment)
        with naming(assignment, number):
            if number in dict(assignment.journals):
                partitions[number].back_up(uri)
            else:
                partitions[number].keep_journal(uri)

    def catch_up(self, assignment: Assignment, number: int, uri: str | Objects, path: str, last: int) -> int:
        """Do what a partition's journal has behind a batch, in its copy; returns the last one's number."""
        with naming(assignment, number):
            return replay(path, open_store(uri), last)[0]

    def let_go(self, assignment: Assignment, number: int) -> None:
        """Take no changes to a partition any more; its journal has all of it when this returns."""
        self.partitions(assignment)
        with naming(assignment, number), self._lock:
            partition = self._open.pop(number)
            partition.finish()
            home = Path(partition.home)
            os.utime(home)  # from here on it is waited for the mover
            os.rename(home, partition.home + LEAVING)
            sync_folder(home.parent)

    def keep(self, assignment: Assignment, number: int, path: str) -> None:
        """Take changes to a partition again that was to leave."""
        with naming(assignment, number), self._lock:
            if number in self._open:
                self._open.pop(number).close()
            shutil.rmtree(path + WAY, ignore_errors=True)
            self._moved.discard(path)
            if os.path.exists(path + LEAVING) and not os.path.exists(path):
                os.rename(path + LEAVING, path)
                sync_folder(Path(path).parent)

    def forget(self, assignment: Assignment, number: int, path: str) -> None:
        """Answer for a partition no more: before another place may change it, this one must not be read."""
        with naming(assignment, number), self._lock:
            self._moved.add(path)
            if number in self._open and self._open[number].home == path:
                self._open.pop(number).close()

    def remove_left(self, assignment: Assignment, number: int, path: str) -> None:
        """Remove the folder of a partition that another place has now."""
        with naming(assignment, number):
            shutil.rmtree(path + LEAVING, ignore_errors=True)
            shutil.rmtree(path + WAY, ignore_errors=True)

    def way_sizes(self, _: Assignment, path: str, folder: str) -> dict[str, int]:
        """Return names and bytes of the objects on a partition's way; see `WayObjects`."""
        return FolderObjects(path + WAY).sizes(folder)

    def way_object(self, _: Assignment, path: str, name: str) -> bytes:
        """Return an object on a partition's way; see `WayObjects`."""
        return FolderObjects(path + WAY).get(name)


def _whereabouts(path: str) -> str:
    """Return where a partition's folder is: its path, or that of one that is leaving.

    A folder that was to leave and did not for too long comes back: its mover has died, or has given up.
    """
    away = path + LEAVING
    if not os.path.exists(path) and os.path.exists(away):
        if time.time() - os.stat(away).st_mtime < MOVE_SECONDS:
            return away
        os.rename(away, path)
        sync_folder(Path(path).parent)
    return path
