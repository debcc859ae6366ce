"""Who does the work of a job that many machines do, and what each of them is asked.

Owns the questions. Must not know Ray: `scaleout/dedup/nodes.py` lets Ray's nodes answer them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from simindex.corpus.dedup.sorting.second_pass import InputPart
from simindex.corpus.dedup.writer_loop import Lines
from simindex.pairs.tables import Numbering
from simindex.pairs.walk_plan import Edges, WalkPlan
from simindex.scaleout.dedup.building import Making
from simindex.scaleout.dedup.writing import Wanted, Writing

Step = Callable[[str, int, int], object]
"""Is called as step(name, done, total)."""


class Workers(Protocol):
    """What a job asks. All answers are the same whoever gives them, and however often he died over it."""

    @property
    def parallel(self) -> int:
        """How many work at a time."""

    def count_lines(self, making: Making, parts: Sequence[InputPart]) -> list[int]:
        """Return how many lines each part has."""

    def make(self, making: Making, parts: Sequence[InputPart], step: Step) -> Numbering:
        """Make the partitions of all parts, and number their rows."""

    def ranks(self) -> Iterator[list[Any]]:
        """Yield what the rows are ordered by, a partition after the other."""

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies): rows that are stored as copies, by number; see `PinnedTables.copies`."""

    def walk(self, walk_plan: WalkPlan, step: Step) -> Iterator[Edges]:
        """Yield what all ranges of all tables have; some of it twice where a worker died."""

    def sketches(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return (words, fingerprints) of ascending numbers."""

    def labels(self, numbers: np.ndarray) -> list[tuple[str, int]]:
        """Return what the partitions know of rows by ascending numbers (`corpus.dedup.entries.label_of`), and
        which halves of a sketch these have."""

    def drop(self) -> None:
        """Remove the partitions."""

    def can_write(self, making: Making, writing: Writing) -> bool:
        """Return whether everybody sees the output."""

    def lines(self, making: Making, writing: Writing, at: int, wanted: Iterator[Wanted]) -> Iterator[Lines]:
        """Write the lines of parts, and yield what is to be known of them, in order. Needs no partitions.

        Args:
            at: where those of the first part begin in the output.
        """

    def release(self) -> None:
        """Let those go who work."""


def told_nobody(name: str, done: int, total: int) -> None:
    """Tell nobody how far it is."""
