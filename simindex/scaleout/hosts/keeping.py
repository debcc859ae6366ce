"""What a host does to keep its partitions: backups, restoring, and letting one go to another place.

Owns the steps of one host; who moves a partition, and when the catalog says so, is `moving`. Invariant: a
partition that was closed for writing is read alone, whatever is killed, until a later version of the catalog
than the one that closed it has it open. No clock opens it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numpy as np

from simindex.config import require_equal
from simindex.index.index import Index
from simindex.maintenance.backup import backup_index
from simindex.maintenance.reports import RestoreReport, StoreBackupReport
from simindex.maintenance.restore import restore_index
from simindex.maintenance.stores import FolderObjects, Objects, open_store, prove
from simindex.scaleout.errors import PartitionError
from simindex.scaleout.hosts.host import OPEN_SECONDS, Assignment, Host, naming
from simindex.scaleout.hosts.partition import Partition
from simindex.scaleout.hosts.way import WAY
from simindex.storage.folder import sync_folder

T = TypeVar("T")

CLOSED = ".closed"
"""Behind the name of a partition's folder: a file with the version of the catalog that closed it for writing.
"""


class KeepingHost(Host):
    """A host, as an actor of Ray is made of."""

    def opened(self, assignment: Assignment, number: int, path: str) -> Partition:
        """Open a partition: one that is closed for writing to be read, another with its journal, if any."""
        version = _closed_by(path)
        if number in assignment.closed or version >= assignment.version:
            partition = Partition(path, "r", assignment.config)
            partition.is_closed_for_writing = True
            return partition
        if version:
            _open_again(path)
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
            with naming(assignment, number_of[partition.path]):
                partition.settle()
        return answers

    # ---- backups and moves ----

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

    def restore(self, assignment: Assignment, number: int, uri: str | Objects, path: str) -> RestoreReport:
        """Make a partition of its backup, in a folder that nobody has."""
        with naming(assignment, number):
            report = restore_index(uri, path)
            with Index(path, "r") as index:
                require_equal(index.config, assignment.config)
            return report

    def let_go(self, assignment: Assignment, number: int, uri: str) -> str:
        """Close a partition for writing, make a backup of it, and return its state.

        Args:
            uri: of the backup.
        """
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

    def take(self, assignment: Assignment, number: int, uri: str | Objects, path: str, state: str) -> None:
        """Make a partition of the backup of one that was closed for writing.

        Args:
            path: a folder that nothing else has; where a call is repeated, the copy may be there.
            state: that it has to have.
        """
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
        self.remove_way(assignment, number, path)

    def remove_way(self, assignment: Assignment, number: int, path: str) -> None:
        """Remove the backup by which a partition was to go from host to host."""
        with naming(assignment, number):
            shutil.rmtree(path + WAY, ignore_errors=True)

    def way_sizes(self, _: Assignment, path: str, folder: str) -> dict[str, int]:
        """Return names and bytes of the objects on a partition's way; see `WayObjects`."""
        return FolderObjects(path + WAY).sizes(folder)

    def way_object(self, _: Assignment, path: str, name: str) -> bytes:
        """Return an object on a partition's way; see `WayObjects`."""
        return FolderObjects(path + WAY).get(name)


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
