"""The open LMDB environments of this process, and what fork() does to them.

Owns the gate that counts who is inside a transaction, pinned snapshots, and the registry: one environment
a file, however many handles, for a second one would break LMDB's locks. Must not open or commit anything;
`store` does. A forked child forgets every environment without closing it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, Protocol, cast

from simindex.storage.pages import PageMap

_LOOK_AGAIN_SECONDS = 0.5


class _Visitor:
    """Somebody inside the gate."""


class Environment:
    """One open LMDB environment of this process, shared by all handles on the same file."""

    def __init__(self, env: Any, folder: str, identity: tuple[int, int], writable: bool) -> None:
        self.env = env
        self.folder = folder
        self.identity = identity
        self.writable = writable
        self.handles = 1
        self.databases: dict[str, Any] = {}
        self.pins: set[Pin] = set()
        self.map_generation = 0
        """Raised when the map moves: addresses from before are void."""
        self.checked_id = -1
        """Newest transaction id that was seen not to be moved away from."""
        self._pages: tuple[int, PageMap | None] = -1, None
        self._lock = threading.Lock()
        self._gate = threading.Condition(self._lock)
        self._inside: dict[int, weakref.ref[object]] = {}
        self._stopped_by: int | None = None

    def enter(self, visitor: object) -> None:
        """Come inside; waits while everybody is kept out.

        Args:
            visitor: who lives until `leave`. Ctrl-C can come between any two steps, so somebody may be gone
                without having left: only visitors that are alive count.
        """
        with self._lock:
            while self._stopped_by is not None:
                self._gate.wait()
            self._inside[id(visitor)] = weakref.ref(visitor)

    def leave(self, visitor: object) -> None:
        """Go out again; without effect for somebody who is not inside."""
        with self._lock:
            self._inside.pop(id(visitor), None)
            if self._stopped_by is not None and not self._inside:
                self._gate.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether nobody is inside."""
        return all(visitor() is None for visitor in list(self._inside.values()))

    @contextlib.contextmanager
    def inside(self) -> Iterator[Any]:
        """Keep the environment open and its map in place for the block."""
        visitor = _Visitor()
        try:
            self.enter(visitor)
            yield self.env
        finally:
            self.leave(visitor)

    def stop(self, timeout: float | None = None) -> bool:
        """Keep everybody out once nobody is inside, and end pinned snapshots; False after a timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while self._stopped_by is not None:
                if not self._wait(deadline):
                    return False
            try:
                self._stopped_by = threading.get_ident()
                while not self.is_empty:
                    if not self._wait(deadline):
                        self._go_on()
                        return False
                self._inside.clear()
                for pin in list(self.pins):
                    pin.drop()
            except BaseException:
                self._go_on()
                raise
        return True

    def _wait(self, deadline: float | None) -> bool:
        """Wait for a change, or a little; False behind the deadline. The lock is held."""
        left = (
            _LOOK_AGAIN_SECONDS if deadline is None else min(_LOOK_AGAIN_SECONDS, deadline - time.monotonic())
        )
        if left <= 0:
            return False
        self._gate.wait(left)
        return True

    def _go_on(self) -> None:
        self._stopped_by = None
        self._gate.notify_all()

    def go_on(self) -> None:
        """Let everybody in again."""
        with self._lock:
            self._go_on()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every transaction of this process out for the block; addresses are void behind it."""
        try:
            self.stop()
            yield
        finally:
            if self._stopped_by == threading.get_ident():
                self.map_generation += 1
                self.go_on()

    def pages_of(self, txn: Any) -> tuple[PageMap | None, int]:
        """Return the map, as far as a short value shows where it lies, and the number of its pages."""
        num_pages: int = self.env.info()["last_pgno"] + 1
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
        self.txn: Any = environment.env.begin(buffers=True)
        environment.pins.add(self)

    def drop(self) -> None:
        """End the snapshot; the handle takes a new one at its next call."""
        self._environment.pins.discard(self)
        if self.txn is not None:
            self.txn.abort()
            self.txn = None


class Handle(Protocol):
    """What the registry knows of a store."""

    def abandon(self) -> None:
        """Let go of everything, in a forked child."""


_FORK_WAIT_SECONDS = 10.0


class Registry:
    """The environments and handles of this process.

    Attributes:
        lock: held for every change of the dictionaries.
        environments: (device, inode) of a data file -> its environment.
        handles: the open stores.
        inherited: in a forked child: the parent's environments, kept from the garbage collector, and
            whether they were quiet, so that closing one takes nothing from the parent.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.environments: dict[tuple[int, int], Environment] = {}
        self.handles: set[Handle] = set()
        self.inherited: dict[tuple[int, int], tuple[Environment, bool]] = {}
        self._has_hooks = False
        self._is_held = False
        self._paused: list[Environment] = []  # between the hooks of one fork

    def install_hooks(self) -> None:
        """Follow every fork() from now on."""
        with self.lock:
            if not self._has_hooks:
                self._has_hooks = True
                os.register_at_fork(
                    before=self._pause, after_in_parent=self._go_on, after_in_child=self._abandon
                )

    def _pause(self) -> None:
        """Let running transactions end, so that the child inherits none.

        The wait has a limit: a signal handler may fork in the middle of one on its own thread.
        """
        self._is_held = self.lock.acquire(timeout=_FORK_WAIT_SECONDS)
        for environment in list(self.environments.values()):
            if environment.stop(_FORK_WAIT_SECONDS):
                self._paused.append(environment)

    def _go_on(self) -> None:
        for environment in self._paused:
            environment.go_on()
        self._paused.clear()
        if self._is_held:
            self.lock.release()

    def _abandon(self) -> None:
        """In the child: forget every environment without closing it, and let go of the writer lock."""
        self.lock = threading.Lock()
        for identity, environment in self.environments.items():
            self.inherited[identity] = environment, environment in self._paused
        self._paused.clear()
        self.environments.clear()
        for handle in list(self.handles):
            handle.abandon()
        self.handles.clear()


registry = Registry()
