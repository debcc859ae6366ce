"""Hosts of several places in this process, without Ray, and a driver that asks them."""

import secrets
import time
from pathlib import Path
from typing import Any

from simindex import Config, Sketcher
from simindex.scaleout import CatalogChangedError, PartitionError
from simindex.scaleout.catalog import Catalog, Partition
from simindex.scaleout.hosts.calls import assignment
from simindex.scaleout.hosts.keeping import KeepingHost
from simindex.scaleout.routing import Routing

CONFIG = Config(seed=1)


class Cluster:
    """Places of one machine, a folder each."""

    def __init__(self, folder: Path, places: str = "ab", partitions: int = 4, **options: Any) -> None:
        self.folder, self.uri = folder, str(folder / "catalog")
        self.hosts = {place: KeepingHost() for place in places}
        rows = [
            Partition(place, str(folder / place / f"{number:05}.simindex"))
            for number, place in zip(range(partitions), places * partitions, strict=False)
        ]
        catalog = Catalog(CONFIG, tuple(rows), **options).replace(self.uri, None)
        for place in catalog.places:
            self.call(catalog, place, "create")

    def call(self, catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
        return getattr(self.hosts[place], method)(assignment(catalog, place), *arguments)

    def call_all(self, catalog: Catalog, wanted: Any) -> dict[str, Any]:
        return {place: self.call(catalog, place, "backup", uris) for place, uris in wanted.items()}

    def end(self, place: str) -> None:
        """What is left of a host that was killed: nothing but its folders."""
        self.hosts[place].close()
        self.hosts[place] = KeepingHost()

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()

    # ---- a driver ----

    def insert(self, first: int, count: int) -> None:
        """Store texts; returns when they are acknowledged."""
        call = secrets.token_bytes(16)
        until = time.monotonic() + 30
        while True:
            try:
                self._insert(Catalog.load(self.uri), call, range(first, first + count))
            except CatalogChangedError:
                assert time.monotonic() < until
                time.sleep(0.002)
            else:
                return

    def _insert(self, catalog: Catalog, call: bytes, numbers: range) -> None:
        items = [(number, f"a text of the number {number}") for number in numbers]
        for place, (_, routed) in Routing(catalog, Sketcher(CONFIG)).items(items, call).items():
            self.call(catalog, place, "insert", call, routed, "error")

    def counts(self) -> dict[int, int]:
        """Number of a partition -> its documents."""
        until = time.monotonic() + 30
        while True:
            try:
                catalog = Catalog.load(self.uri)
                found = dict[int, int]()
                for place in catalog.places:
                    found |= self.call(catalog, place, "count")
                return found
            except (CatalogChangedError, PartitionError):
                assert time.monotonic() < until
                time.sleep(0.002)

    def keys(self) -> set[int]:
        """The keys of all partitions."""
        catalog = Catalog.load(self.uri)
        found = set[int]()
        for number, partition in enumerate(catalog.partitions):
            found |= set(self.call(catalog, partition.place, "keys_from", number, 0, 10_000)[0])
        return found
