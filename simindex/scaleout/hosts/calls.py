"""Calls of hosts: one a place, all at once, within a deadline.

Owns what becomes of a place that does not answer. Must not know what is asked. Invariant: a place that is
missing in the answers is named, with the reason as far as it is known. Ray repeats a call when its actor is
started again; so only what may be repeated is called here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import PlaceMissingError
from simindex.scaleout.hosts.actors import host_of, ray_module
from simindex.scaleout.hosts.host import Assignment


class Gathered(NamedTuple):
    """What the places have answered.

    Attributes:
        answers: place -> its answer, of those that gave one.
        missing: place -> why there is none.
    """

    answers: dict[str, Any]
    missing: dict[str, str]


class Calls:
    """The hosts of a catalog, as their driver calls them.

    Args:
        catalog: which places there are.
    """

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._ray = ray_module()
        self._hosts: dict[str, Any] = {}
        self.assignments = {place: assignment(catalog, place) for place in catalog.places}

    def send(self, place: str, group: str, method: str, *arguments: Any) -> Any:
        """Call a method of a place's host; returns the reference of what it will answer."""
        host = self._hosts.get(place)
        if host is None:
            host = self._hosts[place] = host_of(self.catalog.id, place)
        bound = getattr(host, method).options(concurrency_group=group)
        return bound.remote(self.assignments[place], *arguments)

    def gather(self, references: Mapping[str, Any], deadline: float) -> Gathered:
        """Return what places answer until a time of `time.monotonic`; errors of a host are raised."""
        places = {reference: place for place, reference in references.items()}
        left = max(0.0, deadline - time.monotonic())
        done, late = self._ray.wait(list(places), num_returns=len(places), timeout=left)
        found = Gathered({}, {})
        for reference in done:
            try:
                found.answers[places[reference]] = self.answer(reference)
            except self._ray.exceptions.RayActorError as exc:
                # Ray has given this actor up: the next call makes another one, of the catalog.
                self._hosts.pop(places[reference], None)
                found.missing[places[reference]] = str(exc).splitlines()[0]
        for reference in late:
            self._ray.cancel(reference)
            found.missing[places[reference]] = self._why_late(places[reference])
        return found

    def answer(self, reference: Any) -> Any:
        """Return the answer of a reference, or raise the error that the host itself raised."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as exc:
            raise (exc.cause if isinstance(exc.cause, Exception) else exc) from None

    def _why_late(self, place: str) -> str:
        if place not in self._ray.cluster_resources():
            return f"no node of the Ray cluster has the resource {place!r}"
        return "no answer within the deadline"

    def all(
        self,
        group: str,
        method: str,
        *arguments: Any,
        seconds: float,
        places: Mapping[str, Any] | None = None,
    ) -> Gathered:
        """Call a method at every place, or with more arguments for each at some; see `gather`."""
        deadline = time.monotonic() + seconds
        if places is None:
            sent = {place: self.send(place, group, method, *arguments) for place in self.assignments}
        else:
            sent = {
                place: self.send(place, group, method, *more, *arguments) for place, more in places.items()
            }
        return self.gather(sent, deadline)

    def every(self, group: str, method: str, *arguments: Any, seconds: float) -> dict[str, Any]:
        """Return what all places answer. Raises PlaceMissingError where one does not."""
        found = self.all(group, method, *arguments, seconds=seconds)
        if found.missing:
            raise self.missing(method, found.missing)
        return found.answers

    def partitions_of(self, missing: Mapping[str, str]) -> tuple[int, ...]:
        """Return the numbers of the partitions of places, ascending."""
        return tuple(sorted(number for place in missing for number in self.catalog.places[place]))

    def missing(self, call: str, missing: Mapping[str, str]) -> PlaceMissingError:
        """Return the error that names places without an answer."""
        numbers = self.partitions_of(missing)
        reasons = "; ".join(f"{place}: {why}" for place, why in missing.items())
        return PlaceMissingError(
            f"{call}: expected an answer of every place, found none of {len(numbers)} partitions ({reasons})",
            partitions=numbers,
            reasons=missing,
        )


def assignment(catalog: Catalog, place: str) -> Assignment:
    """Return what a place's host is to have open."""
    numbers = catalog.places.get(place, ())
    folders = tuple((number, catalog.partitions[number].path) for number in numbers)
    journals: tuple[tuple[int, str], ...] = ()
    if catalog.durability == "store":
        uris = ((number, catalog.backup_uri(number)) for number in numbers)
        journals = tuple((number, uri) for number, uri in uris if uri is not None)
    return Assignment(catalog.id, catalog.version, place, folders, catalog.config, journals)


Progress = Callable[[int], object]
