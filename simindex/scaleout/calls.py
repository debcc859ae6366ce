"""Call the hosts of all places at once, within a deadline.

`Calls` is what `ScaledIndex` works with; `LocalCalls` calls hosts in this process, `RayCalls` in `actors.py`
calls Ray's actors. A place that is missing in the answers is named, with the reason as far as it is known.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

from simindex.scaleout.catalog import Catalog
from simindex.scaleout.connections import Group
from simindex.scaleout.errors import PlaceMissingError
from simindex.scaleout.host import Assignment, Host

OnMissing = Literal["partial", "wait", "raise"]

To = Mapping[str, tuple[Any, ...]]
"""Place -> arguments of its own."""

LOCAL = "local"
"""The place whose host is the calling process; so are places that begin with ``local:``."""


def is_local(places: Iterable[str]) -> bool:
    """Return whether the calling process is the host of all places."""
    return all(place.partition(":")[0] == LOCAL for place in places)


class Gathered(NamedTuple):
    """What the places have answered: place -> its answer, or why there is none."""

    answers: dict[str, Any]
    missing: dict[str, str]


class Replied(NamedTuple):
    """What a method of a host has returned, or raised."""

    answer: Any
    error: Exception | None


def replied(method: Callable[..., Any], *arguments: Any) -> Replied:
    """Call a method."""
    try:
        return Replied(method(*arguments), None)
    except Exception as exc:
        return Replied(None, exc)


class Calls(ABC):
    """The hosts of one version of a catalog. Safe to share between threads."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog, self.places = catalog, catalog.places

    @abstractmethod
    def send_all(self, group: Group, method: str, *arguments: Any, to: To | None = None) -> dict[str, Any]:
        """Call a method at every place, or at some with arguments of their own before the others."""

    @abstractmethod
    def _reply(self, sent: Any, seconds: float) -> Replied | str:
        """Return what a place answers within so many seconds, or why it does not."""

    def gather(self, sent: Mapping[str, Any], seconds: float) -> Gathered:
        """Return what places answer within so many seconds; an error of one is raised when all are done."""
        until, found, failures = time.monotonic() + seconds, Gathered({}, {}), list[Exception]()
        for place, one in sent.items():
            reply = self._reply(one, until - time.monotonic())
            if isinstance(reply, str):
                found.missing[place] = reply
            elif reply.error is None:
                found.answers[place] = reply.answer
            else:
                failures.append(reply.error)
        if failures:
            raise failures[0]
        return found

    def require_fit(self, seconds: float) -> None:  # noqa: B027 - a host in this process fits
        """Refuse places where no host can run, before one is made there."""

    def close(self) -> None:  # noqa: B027 - hosts of other processes go on
        """Let go of the hosts."""

    def stop(self) -> None:
        """End the hosts of all places."""
        self.close()

    def every(
        self, group: Group, method: str, *arguments: Any, seconds: float, to: To | None = None
    ) -> dict[str, Any]:
        """Return what all places answer, or some. Raises PlaceMissingError where one of them does not."""
        return self.whole(method, self.gather(self.send_all(group, method, *arguments, to=to), seconds))

    def whole(self, call: str, found: Gathered) -> dict[str, Any]:
        """Return the answers. Raises PlaceMissingError where one is missing."""
        if found.missing:
            raise self.missing(call, found.missing)
        return found.answers

    def partitions_of(self, missing: Mapping[str, str]) -> tuple[int, ...]:
        """Return the numbers of the partitions of places, ascending."""
        return tuple(sorted(number for place in missing for number in self.places[place]))

    def missing(self, call: str, missing: Mapping[str, str]) -> PlaceMissingError:
        """Return the error that names places without an answer."""
        numbers = self.partitions_of(missing)
        reasons = "; ".join(f"{place}: {why}" for place, why in missing.items())
        return PlaceMissingError(
            f"{call}: expected an answer of every place, found none of partitions "
            f"{', '.join(map(str, numbers))} ({reasons}); start the nodes again, or move their partitions. "
            "A change may have been done in part: repeat it with on_conflict=",
            partitions=numbers,
            reasons=missing,
        )


_hosts: dict[tuple[str, str], tuple[Host, int]] = {}
"""(catalog, place) -> host in this process, and how many handles use it."""

_hosts_lock = threading.Lock()


class LocalCalls(Calls):
    """Calls of hosts in this process, a thread a place; a call is done when it has been sent."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self._threads = ThreadPoolExecutor(len(self.places), thread_name_prefix="simindex")
        self._used: dict[str, Host] = {}
        for place in self.places:
            self._host(place)

    def send_all(self, _: Group, method: str, *arguments: Any, to: To | None = None) -> dict[str, Any]:
        """Call a method; see `Calls.send_all`."""
        own = dict.fromkeys(self.places, ()) if to is None else to

        def call(place: str) -> Replied:
            return replied(self._call, place, method, *own[place], *arguments)

        return dict(zip(own, (self._threads.map if len(own) > 1 else map)(call, own), strict=True))

    def _call(self, place: str, method: str, *arguments: Any) -> Any:
        return getattr(self._host(place), method)(Assignment.of(self.catalog, place), *arguments)

    def _host(self, place: str) -> Host:
        with _hosts_lock:
            if place not in self._used:
                self._used[place], count = _hosts.get((self.catalog.id, place)) or (Host(), 0)
                _hosts[self.catalog.id, place] = self._used[place], count + 1
            return self._used[place]

    def _reply(self, sent: Replied, _: float) -> Replied | str:
        return sent  # it is there

    def close(self) -> None:
        """Close the partitions that no other handle of this process uses."""
        self._threads.shutdown()
        with _hosts_lock:
            while self._used:
                place, host = self._used.popitem()
                _, count = _hosts.pop((self.catalog.id, place))
                if count > 1:
                    _hosts[self.catalog.id, place] = host, count - 1
                else:
                    host.close()
