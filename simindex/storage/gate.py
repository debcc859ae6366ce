"""Who is inside a transaction, and how everybody is kept out for a while.

Owns the count and the waiting. Must not know what lies behind the gate. Invariant: whoever is inside keeps
the map where it is; growing, closing, changing files and fork wait until nobody is.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator

_LOOK_AGAIN_SECONDS = 0.5


class _Visitor:
    """Somebody inside."""


class Gate:
    """Counts visitors; anybody may keep them out. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
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
                self._changed.wait()
            self._inside[id(visitor)] = weakref.ref(visitor)

    def leave(self, visitor: object) -> None:
        """Go out again; without effect for somebody who is not inside."""
        with self._lock:
            self._inside.pop(id(visitor), None)
            if self._stopped_by is not None and not self._inside:
                self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether nobody is inside."""
        return all(visitor() is None for visitor in list(self._inside.values()))

    @property
    def is_stopped_here(self) -> bool:
        """Whether this thread keeps everybody out."""
        return self._stopped_by == threading.get_ident()

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Be inside for the block."""
        visitor = _Visitor()
        try:
            self.enter(visitor)
            yield
        finally:
            self.leave(visitor)

    def stop(self, timeout: float | None = None) -> bool:
        """Keep everybody out once nobody is inside; False after a timeout."""
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
        self._changed.wait(left)
        return True

    def _go_on(self) -> None:
        self._stopped_by = None
        self._changed.notify_all()

    def go_on(self) -> None:
        """Let everybody in again."""
        with self._lock:
            self._go_on()
