"""Gate: counts the threads inside transactions and excludes them all for growth, close and fork.

Invariant: whoever is inside keeps the map where it is; growing, closing, changing files and fork wait until
nobody is.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from types import FrameType

from simindex.errors import SimIndexError

_LOOK_AGAIN_SECONDS = 0.5

_LOOKS = 3
"""At what runs, until nothing has changed meanwhile."""


class Visitor:
    """A user of the gate, to be bound to a local variable for as long as it is inside.

    A visitor in no running function's variables was lost to a Ctrl-C: a traceback may keep it alive for ever.
    """

    __slots__ = ("__weakref__",)


class Visit(Visitor):
    """A visitor for a ``with`` block."""

    __slots__ = ("_gate",)

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def __enter__(self) -> Visit:
        try:
            self._gate.enter(self)
            return self
        except BaseException:
            self._gate.leave(self)
            raise

    def __exit__(self, *_: object) -> None:
        self._gate.leave(self)


class Gate:
    """Counts visitors; anybody may keep them out. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._inside: dict[int, tuple[weakref.ref[Visitor], int]] = {}
        """By id: the visitor, and the thread that it came with."""
        self._stopped_by: int | None = None
        self._holder: weakref.ref[Visitor] | None = None

    def enter(self, visitor: Visitor) -> None:
        """Come inside; waits while everybody is kept out.

        Ctrl-C can come between any two steps, so a visitor may be gone without having left: only those that
        are alive, and in the variables of a running function, count.
        """
        with self._lock:
            if self._stopped_by == threading.get_ident():
                self._go_on_if_lost()  # it was broken off itself, so nobody is to be waited for
            while self._stopped_by is not None:
                if not self._changed.wait(_LOOK_AGAIN_SECONDS):
                    self._go_on_if_lost()
            self._inside[id(visitor)] = weakref.ref(visitor), threading.get_ident()

    def leave(self, visitor: Visitor) -> None:
        """Go out again; without effect for somebody who is not inside."""
        with self._lock:
            self._inside.pop(id(visitor), None)
            if self._stopped_by is not None and not self._inside:
                self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether nobody is inside."""
        return all(visitor() is None for visitor, _ in list(self._inside.values()))

    @property
    def is_stopped(self) -> bool:
        """Whether somebody keeps everybody out, or waits for it."""
        return self._stopped_by is not None

    def stop(self, timeout: float | None = None, holder: Visitor | None = None) -> bool:
        """Keep everybody out once nobody is inside; False after a timeout.

        The holder lives in a local variable until `go_on`, so that a Ctrl-C that comes before it does not
        keep everybody out for ever. Without a timeout SimIndexError where this very thread is inside: it
        would wait for itself.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            while self._stopped_by is not None:
                if not self._wait(deadline):
                    return False
                self._go_on_if_lost()
            try:
                self._holder = None if holder is None else weakref.ref(holder)
                self._stopped_by = threading.get_ident()
                while not self.is_empty:
                    if not self._wait(deadline):
                        self._go_on()
                        return False
                    self._forget_lost(may_wait=timeout is not None)
                self._inside.clear()
            except BaseException:
                self._go_on()
                raise
        return True

    def _forget_lost(self, *, may_wait: bool) -> None:
        """Forget visitors whom nobody runs with any more. The lock is held."""
        running = _running_visitors()
        for key, (visitor, thread) in list(self._inside.items()):
            alive = visitor()
            if alive is None or (running is not None and id(alive) not in running):
                del self._inside[key]
            elif thread == threading.get_ident() and not may_wait:
                raise SimIndexError(
                    "expected a call of its own, found one from inside another call of the same thread, "
                    "such as a signal handler's; close or compact when that one is done"
                )

    def _go_on_if_lost(self) -> None:
        """Let everybody in again where nobody runs any more who would. The lock is held."""
        if self._stopped_by is not None and self._holder is not None:
            running = _running_visitors()  # before `holder` is one of these variables
            holder = self._holder()
            if holder is None or (running is not None and id(holder) not in running):
                self._go_on()

    def _wait(self, deadline: float | None) -> bool:
        """Wait for a change, or a little; False behind the deadline. The lock is held."""
        left = _LOOK_AGAIN_SECONDS
        if deadline is not None:
            left = min(left, deadline - time.monotonic())
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


def _running_visitors() -> set[int] | None:
    """Return the ids of the visitors in the local variables of running functions.

    ``None`` where a thread went on while they were looked for, as it may on a busy machine: a generator in
    which it was then has no caller any more, and the caller may be inside.
    """
    for _ in range(_LOOKS):
        frames = sys._current_frames()
        before = _places(frames)
        found = _visitors_of(frames)
        if _places(sys._current_frames()) == before:
            return found
    return None


def _places(frames: dict[int, FrameType]) -> dict[int, tuple[int, int]]:
    """Return where each thread but this one is."""
    here = threading.get_ident()
    return {thread: (id(frame), frame.f_lasti) for thread, frame in frames.items() if thread != here}


def _visitors_of(frames: dict[int, FrameType]) -> set[int]:
    """Return the ids of the visitors in the local variables of running functions."""
    found = set()
    for innermost in frames.values():
        frame: FrameType | None = innermost
        while frame is not None:
            found |= {id(value) for value in list(frame.f_locals.values()) if isinstance(value, Visitor)}
            frame = frame.f_back
    return found
