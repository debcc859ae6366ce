"""Lost places, restored by themselves: somebody looks whether nodes are there, and waits before it acts.

Owns how long a place may be away. Must not know how it is seen that one is there, nor how it is restored.
Invariant: a place that was seen within the grace time is not restored; partitions are restored only where an
old host that comes back can acknowledge nothing any more, that is with `durability="store"`.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from simindex.checks import require_seconds
from simindex.errors import SimIndexError
from simindex.scaleout.catalog import Catalog

_LOOKS = 4
"""So often it is looked within the grace time, or more."""

_SLOWEST = 5.0


class Watch:
    """Looks after the places of one index.

    Args:
        uri: of the catalog.
        after: seconds that a place may be away.
        onto: place -> folder on its disk, for what is restored; those that are lost themselves are passed
            over.
        is_there: whether a node has a place.
        restore: makes the partitions of a lost place elsewhere: ``restore(uri, place, onto)``.
        clock: seconds that only grow.

    Attributes:
        restored: places whose partitions were restored, in order.
    """

    def __init__(
        self,
        uri: str,
        after: float,
        onto: Mapping[str, str],
        is_there: Callable[[str], bool],
        restore: Callable[[str, str, Mapping[str, str]], Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uri, self._after, self._onto = uri, after, dict(onto)
        self._is_there, self._restore, self._clock = is_there, restore, clock
        self._away: dict[str, float] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simindex-watch", daemon=True)
        self.restored: list[str] = []

    def look(self) -> None:
        """Look once, and restore what has been away for too long.

        Raises:
            SimIndexError, OSError: one cannot be restored; the next look tries again.
        """
        now = self._clock()
        held = Catalog.load(self._uri).places
        self._away = {place: self._away.get(place, now) for place in held if not self._is_there(place)}
        for place, since in self._away.items():
            if now - since < self._after or self._ends.is_set():
                continue
            onto = {one: folder for one, folder in self._onto.items() if self._is_there(one)}
            if not onto:
                raise SimIndexError(
                    f"{self._uri}: {place} is away for {now - since:.0f} seconds, and so are all places that "
                    f"its partitions could be restored to: {', '.join(self._onto)}"
                )
            self._restore(self._uri, place, onto)
            self.restored.append(place)

    def start(self) -> None:
        """Look again and again, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; returns when a restoring under way has ended."""
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(min(self._after / _LOOKS, _SLOWEST)):
            try:
                self.look()
            except Exception as exc:
                if not self._ends.is_set():
                    warnings.warn(f"{self._uri}: not restored, and tried again: {exc}", RuntimeWarning, 1)


def require_watchable(catalog: Catalog, after: float | None, onto: Mapping[str, str] | None) -> None:
    """Refuse options by which lost places cannot be restored by themselves.

    Raises:
        ValueError: one option without the other; or the catalog does not have every commit in a store.
    """
    require_seconds("restore_after", after)
    if (after is None) != (not onto):
        raise ValueError(
            "restore_after, restore_onto: expected both or neither: after how many seconds, and to which "
            f"places; found {after!r} and {onto!r}"
        )
    if after is not None and catalog.durability != "store":
        raise ValueError(
            'restore_after: expected a catalog with durability="store", found "node": a node that comes back '
            "would have documents that its backup does not; call restore yourself"
        )
