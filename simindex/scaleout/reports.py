"""What is told of all partitions together: their stats, and what checks of them found.

Owns the values. Must not ask anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simindex.config import Config
from simindex.maintenance.reports import CheckReport
from simindex.queries.stats import Stats
from simindex.scaleout.catalog import Catalog


@dataclass(frozen=True)
class ScaledStats:
    """What an index over many machines holds and costs.

    Attributes:
        uri: of its catalog.
        documents, copies, file_bytes, used_bytes: as in `Stats`, of all partitions together.
        bytes_per_document: used bytes a document, ``None`` for an empty index.
        config: the settings.
        places: place -> numbers of its partitions.
        partitions: number -> its own `Stats`.
    """

    uri: str
    documents: int
    copies: int
    file_bytes: int
    used_bytes: int
    bytes_per_document: float | None
    config: Config
    places: Mapping[str, tuple[int, ...]]
    partitions: Mapping[int, Stats]

    @classmethod
    def of(cls, uri: str, catalog: Catalog, partitions: Mapping[int, Stats]) -> ScaledStats:
        """Return the sums of partitions."""
        found = partitions.values()
        documents, used = sum(one.documents for one in found), sum(one.used_bytes for one in found)
        return cls(
            uri,
            documents,
            sum(one.copies for one in found),
            sum(one.file_bytes for one in found),
            used,
            used / documents if documents else None,
            catalog.config,
            catalog.places,
            partitions,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has."""
        return {
            "uri": self.uri,
            "documents": self.documents,
            "copies": self.copies,
            "file_bytes": self.file_bytes,
            "used_bytes": self.used_bytes,
            "bytes_per_document": self.bytes_per_document,
            "config": self.config.to_dict(),
            "places": {place: list(numbers) for place, numbers in self.places.items()},
            "partitions": {str(number): stats.to_dict() for number, stats in self.partitions.items()},
        }


@dataclass(frozen=True)
class ScaledCheckReport:
    """What checks of all partitions found.

    Attributes:
        partitions: number -> its own `CheckReport`.
    """

    partitions: Mapping[int, CheckReport]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong with any partition."""
        return all(report.ok for report in self.partitions.values())

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "\n".join(f"partition {number}: {report}" for number, report in self.partitions.items())
