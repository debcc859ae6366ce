"""Calls that nobody waits for any more, and those that they hold back.

Owns when a call is sent to a place. Must not know what is asked, nor wait. Invariant: a call that was sent is
never taken back.

Ray numbers the calls of a driver to an actor, for each concurrency group, and the actor does them in that
order. One that is cancelled before it was sent leaves its number out: the actor waits for it, and all later
calls of the group with it, until it has been sent nothing for 30 seconds, not in other groups either
(`OrderedActorTaskExecutionQueue` in Ray's sources, and its issue "Actor reorder timer is re-armed on every
task arrival, so a missing seq_no is never skipped"). Under load that is for ever. So what was given up stays
with the actor, which does it for nobody once it is there. That those are few, however long it is away, is
what a lane is for: while a place owes as many answers as it has threads for, further calls are held back
here, in their order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from simindex.scaleout.hosts.actors import THREADS, Group

_MOST_OWED = 64
"""Answers that may be owed before a question that is held back waits for one of them, whatever it takes."""


@dataclass(eq=False, slots=True)
class Sent:
    """A call that is under way.

    Attributes:
        reference: Ray's, of its answer; ``None`` while it is held back.
        group, method: what is called.
        arguments: as they travel (`packed`), to send them again.
    """

    reference: Any
    group: Group
    method: str
    arguments: tuple[Any, ...]


class Lane:
    """The calls of one group at one place. Safe to share between threads.

    Args:
        group: says how many answers may be owed before calls are held back.
        send: sends a call; returns Ray's reference of its answer.
        answered: says which of some references are answered, with anything.
    """

    def __init__(
        self, group: Group, send: Callable[[Sent], Any], answered: Callable[[list[Any]], list[Any]]
    ) -> None:
        self._most, self._send, self._answered = THREADS[group], send, answered
        self._lock = threading.Lock()
        self._held = deque[Sent]()
        self._owed: list[Any] = []

    def take(self, call: Sent) -> Sent:
        """Send a call, or hold it back until the place has answered others; returns it."""
        if not (self._held or self._owed):
            call.reference = self._send(call)
            return call
        with self._lock:
            self._held.append(call)
        self.flush()
        return call

    def flush(self) -> list[Any]:
        """Send what was held back, in its order, if it need not be any more; returns what is owed."""
        with self._lock:
            if self._owed:
                answered = set(self._answered(self._owed))
                self._owed = [one for one in self._owed if one not in answered]
            while self._held and len(self._owed) < self._most:
                self._held[0].reference = self._send(self._held[0])
                self._held.popleft()  # not before: who finds nothing held back sends at once
            return self._owed

    def may_repeat(self) -> bool:
        """Whether a question may be sent once more although answers are owed."""
        return len(self._owed) < _MOST_OWED

    def release(self, call: Sent) -> bool:
        """Let a call go, if it is held back; returns whether it was."""
        with self._lock:
            is_held = call in self._held
            if is_held:
                self._held.remove(call)
            return is_held

    def give_up(self, references: Iterable[Any]) -> None:
        """Wait for some answers no more."""
        with self._lock:
            self._owed = [*self._owed, *references]
