"""Errors of an index over many machines.

    SimIndexError
    └── ScaleOutError                          names place and partition where it knows them
        ├── CatalogChangedError                another process replaced the catalog
        ├── PartitionError                     a partition cannot be opened, read or written
        ├── PlaceMissingError  (TimeoutError)  a place did not answer within the deadline
        └── UnsupportedError   (TypeError)     a call of `Index` that many machines cannot keep

Damage and another format of the catalog are the index's own errors: `CorruptIndexError`, `FormatError`,
`ConfigMismatchError`. Invariant: all of them survive a pickle, for they come from other processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simindex.errors import SimIndexError


class ScaleOutError(SimIndexError):
    """Base of the errors of many machines.

    Attributes:
        place: that it is about, a resource of Ray; ``None`` where there is none.
        partition: its number; ``None`` where it is not about one.
        node: name of the machine.
    """

    def __init__(
        self,
        message: str,
        *,
        place: str | None = None,
        partition: int | None = None,
        node: str | None = None,
    ) -> None:
        super().__init__(message)
        self.place = place
        self.partition = partition
        self.node = node


class CatalogChangedError(ScaleOutError):
    """The catalog is of another version than expected: another process replaced it. Nothing was changed."""


class PartitionError(ScaleOutError):
    """A partition cannot be opened, read or written. What was acknowledged before is as safe as in an index.

    Attributes:
        reason: the error of the index itself: `IndexLockedError`, `IndexFullError`, `CorruptIndexError`, ...
    """

    def __init__(self, message: str, *, reason: Exception | None = None, **where: Any) -> None:
        super().__init__(message, **where)
        self.reason = reason


class PlaceMissingError(ScaleOutError, TimeoutError):
    """Places did not answer within the deadline.

    Attributes:
        partitions: numbers of the partitions that are missing in the answer.
        reasons: place -> why, as far as it is known.
    """

    def __init__(
        self, message: str, *, partitions: tuple[int, ...] = (), reasons: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, place=next(iter(reasons), None) if reasons else None)
        self.partitions = partitions
        self.reasons = dict(reasons or {})


class UnsupportedError(ScaleOutError, TypeError):
    """A call of `Index` that cannot be kept over many machines."""
