"""Follow the catalog: an open handle reloads it when partitions have moved.

Invariant: places, calls and routes that are used together are of one version. A call that met another version
is made again whole, with the id that it had: a partition that has done its part answers what it answered.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from simindex.errors import ClosedError, SimIndexError
from simindex.scaleout.actors import Group
from simindex.scaleout.calls import Calls, Gathered, assignment
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import CatalogChangedError, PartitionError
from simindex.scaleout.wire import Routing
from simindex.sketching.sketcher import Sketcher

T = TypeVar("T")

_AGAIN_SECONDS = 0.1
"""After so long a partition that is on its way is asked again."""


MOVED = CatalogChangedError, PartitionError
"""What a call meets whose partition is elsewhere by now: a host that knows, or one that misses its folder."""


class Way(NamedTuple):
    """A version of the catalog, with what is made of it."""

    catalog: Catalog
    calls: Calls
    routing: Routing


class Following:
    """What goes by the newest catalog.

    Args:
        uri: of the catalog.
        catalog: as it was loaded.
        carrier: makes what carries the calls.
    """

    def __init__(self, uri: str, catalog: Catalog, carrier: Callable[[Catalog], Calls]) -> None:
        self.uri = uri
        self._carrier, self._sketcher = carrier, Sketcher(catalog.config)
        self._is_closed = False
        self._changing_ways = threading.Lock()
        self._newest = self._way(catalog)

    @property
    def catalog(self) -> Catalog:
        """The catalog that this handle goes by."""
        return self._newest.catalog

    def _way_now(self) -> Way:
        if self._is_closed:
            raise ClosedError(f"{self.uri}: the handle is closed")
        return self._newest

    @property
    def _calls(self) -> Calls:
        return self._way_now().calls

    def _way(self, catalog: Catalog) -> Way:
        calls = self._carrier(catalog)
        calls.have_moved = lambda places: self._have_moved(catalog, places)
        return Way(catalog, calls, Routing(catalog, self._sketcher))

    def _followed(self, call: Callable[[Way], T], seconds: float) -> T:
        """Return what a call returns, done again where partitions changed their places meanwhile."""
        deadline = time.monotonic() + seconds
        while True:
            way = self._way_now()
            try:
                return call(way)
            except MOVED as exc:
                if self._has_followed(way):
                    continue
                if isinstance(exc, PartitionError):
                    raise  # it is where the newest catalog has it
                if time.monotonic() + _AGAIN_SECONDS >= deadline:
                    raise
                time.sleep(_AGAIN_SECONDS)

    def _every(self, group: Group, method: str, *arguments: Any, seconds: float) -> dict[str, Any]:
        """Return what a method returns at each place; see `Calls.every`."""

        def ask(way: Way) -> dict[str, Any]:
            return way.calls.every(group, method, *arguments, seconds=seconds)

        return self._followed(ask, seconds)

    def _some(
        self,
        name: str,
        group: Group,
        method: str,
        to: Callable[[Way], Mapping[str, tuple[Any, ...]]],
        *arguments: Any,
        seconds: float,
    ) -> list[Any]:
        """Call some places; returns what each answers."""

        def ask(way: Way) -> list[Any]:
            sent = way.calls.send_all(group, method, *arguments, to=to(way))
            return whole(name, way, way.calls.gather(sent, seconds))

        return self._followed(ask, seconds)

    def _has_followed(self, way: Way) -> bool:
        """Go on by the newest catalog; returns whether it is another one than a call went by."""
        with self._changing_ways:
            if self._newest is way:
                catalog = Catalog.load(self.uri)
                if catalog.id != way.catalog.id:
                    raise CatalogChangedError(
                        f"{self.uri}: expected the catalog {way.catalog.id}, found {catalog.id}, of another "
                        "index; open it"
                    )
                if catalog.version != way.catalog.version:
                    self._newest = self._way(catalog)
            return self._newest is not way

    def _follow(self, catalog: Catalog) -> None:
        """Go on by another version of the catalog."""
        with self._changing_ways:
            self._newest = self._way(catalog)

    def _have_moved(self, catalog: Catalog, places: Iterable[str]) -> bool:
        """Whether places that do not answer have other partitions by now, as after a restore elsewhere."""
        with suppress(SimIndexError, OSError):  # a catalog that cannot be read now says nothing
            newest = Catalog.load(self.uri)
            return newest.id == catalog.id and any(
                assignment(newest, place).partitions != assignment(catalog, place).partitions
                for place in places
            )
        return False


def whole(call: str, way: Way, found: Gathered) -> list[Any]:
    """Return what places answer, all of them. Raises PlaceMissingError."""
    if found.missing:
        raise way.calls.missing(call, found.missing)
    return list(found.answers.values())
