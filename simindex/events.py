"""The events of an index in the log "simindex", each with its figures as fields of the log record; and counts
of what a handle does.

Silent until the program configures its logging. No event lies on the way of a query that goes well.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

_LOG = logging.getLogger("simindex")
_LOG.addHandler(logging.NullHandler())  # or Python would print warnings of its own accord

EVENTS = {
    "opened": logging.DEBUG,
    "recovered": logging.WARNING,
    "compacted": logging.INFO,
    "merged": logging.INFO,
    "readers freed": logging.WARNING,
    "waited for the writer": logging.INFO,
    "snapshot held": logging.WARNING,
    "damage met": logging.ERROR,
    "answer truncated": logging.WARNING,
    "disk nearly full": logging.WARNING,
    "backup done": logging.INFO,
}
"""Name -> level."""


def event(name: str, path: str, **figures: Any) -> None:
    """Log an event of the index at a path, at its level in `EVENTS`: `record.event`, `record.index`, and a
    field for each figure."""
    level = EVENTS[name]
    if _LOG.isEnabledFor(level):
        shown = ", ".join(
            f"{field} {value:.3f}" if type(value) is float else f"{field} {value}"
            for field, value in figures.items()
        )
        _LOG.log(level, "%s: %s: %s", path, name, shown, extra={"event": name, "index": path, **figures})


_QUIET_SECONDS = 60.0
"""Between two events of truncated answers, which can come by the thousand."""


@dataclass(slots=True)
class Counts:
    """What a handle has done since it was opened; CPython switches threads at calls and jumps, not within a
    `+=`."""

    queries: int = 0
    truncated: int = 0
    commits: int = 0
    inserted: int = 0
    removed: int = 0
    written_bytes: int = 0
    _logged: int = 0  # of those truncated
    _logged_at: float = -_QUIET_SECONDS

    def note_truncated(self, path: str, answers: int) -> None:
        """Count answers that may lack matches, and log, once a minute at most, how many there were since the
        last event."""
        self.truncated += answers
        now = time.monotonic()
        if now - self._logged_at >= _QUIET_SECONDS:
            self._logged_at, new, self._logged = now, self.truncated - self._logged, self.truncated
            event("answer truncated", path, answers=new)
