"""Looking after an index over many machines: what its partitions hold, whether they are whole, compaction.

Owns the methods that concern whole partitions. Must not know how a host does what it is asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from simindex.maintenance.check import Level
from simindex.maintenance.reports import StoreBackupReport
from simindex.scaleout.asking import Asking
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.hosts.following import Way
from simindex.scaleout.places.moving import backup as back_up
from simindex.scaleout.places.moving import change_catalog
from simindex.scaleout.places.watching import Watch
from simindex.scaleout.reports import ScaledCheckReport, ScaledStats

_T = TypeVar("_T")


class Upkeep(Asking):
    """The methods of `ScaledIndex` that concern whole partitions."""

    _watch: Watch | None = None

    def _watch_by(self, watch: Watch) -> None:
        """Have lost places restored as long as the handle is open; see `simindex.scaleout.open`."""
        self._watch = watch
        watch.start()

    def _end(self) -> None:
        self._is_closed = True
        if self._watch is not None:
            self._watch.stop()

    def compact(self) -> None:
        """Compact every partition, one after the other on each node; as `Index.compact`. It has no deadline,
        and queries and changes go on."""
        self._every("jobs", "compact", seconds=math.inf)

    def backup(self) -> dict[int, StoreBackupReport]:
        """Back up all partitions to the catalog's store; as `simindex.scaleout.backup`, which has no handle.

        What the store has already is not uploaded again; the catalog tells when each was backed up. It has no
        deadline, and queries and changes go on.

        Returns:
            Number of a partition -> what was done.

        Raises:
            ValueError: the catalog has no store.
            PartitionError: one cannot be backed up; it names place, node and partition. The others may be.
        """
        self._calls  # noqa: B018 - a closed handle says so

        def call(catalog: Catalog, wanted: Mapping[str, Any]) -> dict[str, Any]:
            to = {place: (uris,) for place, uris in wanted.items()}
            return self._carrier(catalog).every("jobs", "backup", to=to, seconds=math.inf)

        reports = back_up(self.uri, call)
        self._follow(Catalog.load(self.uri))
        return reports

    def stats(self) -> ScaledStats:
        """Return counts and sizes, of all and of each partition."""
        answers = self._every("asks", "stats", seconds=self.seconds)
        return ScaledStats.of(self.uri, self.catalog, by_partition(answers))

    def write_counts(self) -> Catalog:
        """Write down in the catalog how many documents each partition holds; return it.

        Who reads the catalog without asking hosts, as `rebalance` does for the moves that it shows, has the
        counts of the last backup, restoring or such call.

        Raises:
            PlaceMissingError: a place does not answer; nothing is written.
        """
        counts = by_partition(self._every("asks", "count", seconds=self.seconds))

        def tell(newest: Catalog) -> Catalog:
            return newest.changed(
                replace(partition, documents=counts[number])
                for number, partition in enumerate(newest.partitions)
            )

        catalog = change_catalog(self.uri, tell)
        self._follow(catalog)
        return catalog

    def check(self, level: Level = "full") -> ScaledCheckReport:
        """Check every partition, one after the other on each node; as `Index.check`. It has no deadline."""
        if level not in ("full", "quick"):
            raise ValueError(f'level: expected "full" or "quick", found {level!r}')
        answers = self._every("jobs", "check", level, seconds=math.inf)
        return ScaledCheckReport(by_partition(answers))

    def status(self) -> dict[str, dict[str, Any]]:
        """Return place -> the node and process of its host, documents by partition, and bytes; of a place
        that does not answer, why."""

        def ask(way: Way) -> dict[str, dict[str, Any]]:
            found = way.calls.ask("asks", "status", seconds=self.seconds, on_missing="partial")
            missing = {place: {"missing": why} for place, why in found.missing.items()}
            return {place: (found.answers | missing)[place] for place in way.calls.places}

        return self._followed(ask, self.seconds)


def by_partition(answers: Mapping[str, Mapping[int, _T]]) -> dict[int, _T]:
    """Return number -> answer of each partition, in order, of what the places answer."""
    return dict(sorted(item for of_place in answers.values() for item in of_place.items()))
