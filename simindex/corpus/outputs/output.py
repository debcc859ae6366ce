"""An output file that becomes visible under its name when it is complete.

A job writes rows, cuts frames where it wants to, and asks for a mark of what is whole; given the mark back,
it goes on there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from simindex.corpus.entries import Entry
from simindex.corpus.outputs.frames import naming, sync_folder
from simindex.corpus.outputs.rows import Note

Mark = Callable[[], Any]
"""Returns what an output goes on from, as JSON has it."""


class Output:
    """Where rows go: nowhere, unless a subclass says where. Bytes `waiting` for the end of their frame."""

    waiting = 0
    num_bytes = 0

    def write(self, row: Entry, note: Note | None = None) -> None:
        """Take a row for the frame."""

    def cut(self) -> None:
        """End the frame."""

    def mark(self) -> Mark:
        """Return what returns what `begin_at` goes on from: what the frames are that are cut by now."""
        return lambda: None

    def sync(self) -> None:
        """Make the frames durable that are written."""

    def finish(self) -> None:
        """Wait for all frames, and raise what kept one from being written."""

    def begin_at(self, mark: Any) -> None:
        """Go on from a mark; ``None``: from the beginning."""

    def complete(self) -> None:
        """Make the file whole, with nothing to be added, under its temporary name; may be called again."""

    def publish(self) -> None:
        """Give the complete file its name; may be called again."""

    def close(self) -> None:
        """Close the files; a frame that is not cut is lost."""


class CallOutput(Output):
    """A callable that is given the rows. Nothing can be taken back from it."""

    def __init__(self, take: Callable[[Any], object], make: Callable[[Entry, Note | None], Any]) -> None:
        self._take, self._make = take, make

    def write(self, row: Entry, note: Note | None = None) -> None:
        """Hand a row over."""
        self._take(self._make(row, note))


def temporary(path: str) -> str:
    """Return what a file is called beside its name as long as it is not complete."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.partial")


def publish(path: str) -> None:
    """Give a complete file its name, durably, where it has not got it yet."""
    if os.path.exists(temporary(path)):
        with naming(path):
            os.replace(temporary(path), path)
        sync_folder(os.path.dirname(path))
