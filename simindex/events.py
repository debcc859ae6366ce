"""The events of an index in the log "simindex", each with its figures as fields of the log record.

Silent until the program configures its logging. No event lies on the way of a query that goes well.
"""

from __future__ import annotations

import logging
from typing import Any

_LOG = logging.getLogger("simindex")
_LOG.addHandler(logging.NullHandler())  # or Python would print warnings of its own accord

EVENTS = {
    "opened": logging.DEBUG,
    "recovered": logging.WARNING,
    "compacted": logging.INFO,
    "merged": logging.INFO,
    "map grown": logging.INFO,
    "readers freed": logging.WARNING,
    "waited for the writer": logging.INFO,
    "snapshot held": logging.WARNING,
    "damage met": logging.ERROR,
    "disk nearly full": logging.WARNING,
    "ballast used": logging.WARNING,
    "backup done": logging.INFO,
}
"""Name -> level."""


def event(name: str, path: str, **figures: Any) -> None:
    """Log an event of the index at a path: `record.event`, `record.index`, and a field for each figure."""
    level = EVENTS[name]
    if _LOG.isEnabledFor(level):
        shown = ", ".join(
            f"{field} {value:.3f}" if type(value) is float else f"{field} {value}"
            for field, value in figures.items()
        )
        _LOG.log(level, "%s: %s: %s", path, name, shown, extra={"event": name, "index": path, **figures})
