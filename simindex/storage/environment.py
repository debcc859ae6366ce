"""Environment: one open LMDB environment of this process, shared by all handles on the same file.

Owns pinned snapshots and where LMDB's map lies. Must not open or commit anything; `lmdb_file` and `store` do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import cast

import lmdb

from simindex.storage.gate import Gate
from simindex.storage.pages import PageMap


class Environment:
    """One open LMDB environment.

    Attributes:
        env: LMDB's.
        folder: its real path.
        identity: (device, inode) of its data file.
        writable: whether it may be written to.
        gate: counts who is inside a transaction.
        handles: how many stores share it.
        databases: LMDB's handles by name; none where the file holds nothing yet.
        pins: snapshots that outlive a call.
        map_generation: raised when the map moves; addresses from before are void.
        checked_id: newest transaction id that was seen not to be moved away from.
    """

    def __init__(self, env: lmdb.Environment, folder: str, identity: tuple[int, int], writable: bool) -> None:
        self.env = env
        self.folder = folder
        self.identity = identity
        self.writable = writable
        self.gate = Gate()
        self.handles = 1
        self.databases: dict[str, lmdb._Database] = {}
        self.pins: set[Pin] = set()
        self.map_generation = 0
        self.checked_id = -1
        self._pages: tuple[int, PageMap | None] = -1, None

    @contextlib.contextmanager
    def inside(self) -> Iterator[lmdb.Environment]:
        """Keep the environment open and its map in place for the block."""
        with self.gate.inside():
            yield self.env

    def stop(self, timeout: float | None = None) -> bool:
        """Keep everybody out once nobody is inside, and end pinned snapshots; False after a timeout."""
        if not self.gate.stop(timeout):
            return False
        try:
            for pin in list(self.pins):
                pin.drop()
        except BaseException:
            self.gate.go_on()
            raise
        return True

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every transaction of this process out for the block; addresses are void behind it."""
        try:
            self.stop()
            yield
        finally:
            if self.gate.is_stopped_here:
                self.map_generation += 1
                self.gate.go_on()

    def pages_of(self, txn: lmdb.Transaction) -> tuple[PageMap | None, int]:
        """Return the map, as far as a short value shows where it lies, and the number of its pages."""
        num_pages = self.env.info()["last_pgno"] + 1
        generation, pages = self._pages
        if generation != self.map_generation:
            with txn.cursor(db=self.databases["meta"]) as cursor:
                found = cursor.first()
                value = cast("memoryview", cursor.value())
                pages = PageMap.around(value, self.env.stat()["psize"], num_pages) if found else None
            self._pages = self.map_generation, pages
        return pages, num_pages

    def move_map(self, size: int) -> None:
        """Set the map size (0: what the file says)."""
        with self.alone():
            self.env.set_mapsize(size)


class Pin:
    """A snapshot that a handle keeps between calls, until it is dropped."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self.txn: lmdb.Transaction | None = environment.env.begin(buffers=True)
        environment.pins.add(self)

    def drop(self) -> None:
        """End the snapshot; the handle takes a new one at its next call."""
        self._environment.pins.discard(self)
        if self.txn is not None:
            self.txn.abort()
            self.txn = None
