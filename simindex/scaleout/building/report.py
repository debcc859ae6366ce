"""What a build has done, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Counts(NamedTuple):
    """What became of the rows of a range.

    Attributes:
        inserted, replaced, skipped: documents; see `InsertReport`.
        bad: rows that are no documents, passed over.
    """

    inserted: int = 0
    replaced: int = 0
    skipped: int = 0
    bad: int = 0

    def plus(self, other: Counts) -> Counts:
        """Return the sum."""
        return Counts(*(one + another for one, another in zip(self, other, strict=True)))

    @property
    def documents(self) -> int:
        """Documents that were read: stored now, or stored already."""
        return self.inserted + self.replaced + self.skipped


@dataclass(frozen=True)
class BuildReport:
    """What `simindex.scaleout.build` did, with what it did before it was broken off.

    Attributes:
        inserted, replaced, skipped: documents. Those that a range had stored before it was broken off count
            as skipped where their batch is too old for its answer to be known.
        bad: rows that are no documents, passed over.
        ranges: parts of the sources.
        resumed: of these, how many were done by earlier calls.
        seconds: of this call.
    """

    inserted: int
    replaced: int
    skipped: int
    bad: int
    ranges: int
    resumed: int
    seconds: float
