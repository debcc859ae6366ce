"""Call the hosts of all places at once, within a deadline.

`Calls` is what `ScaledIndex` works with; `LocalCalls` calls hosts in this process, `RayCalls` in `actors.py`
calls Ray's actors. A place that is missing in the answers is named, with the reason as far as it is known.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple

from simindex.scaleout.catalog import Catalog
from simindex.scaleout.connections import Group
from simindex.scaleout.errors import PlaceMissingError
from simindex.scaleout.host import Host, attempted

OnMissing = Literal["partial", "wait", "raise"]

To = Mapping[str, tuple[Any, ...]]
"""Place -> arguments of its own."""

LOCAL = "local"
"""The place whose host is the calling process; so are places that begin with ``local:``."""


def is_local(places: Iterable[str]) -> bool:
    """Return whether the calling process is the host of all places."""
    return all(place.partition(":")[0] == LOCAL for place in places)


class NoAnswer(Exception):  # noqa: N818 - it is raised and caught here, and is no failure of its own
    """A place does not answer, for the reason given."""


class Gathered(NamedTuple):
    """What the places have answered.

    Attributes:
        answers: place -> its answer.
        missing: place -> why there is none.
        partitions: numbers of the partitions of missing places, ascending.
    """

    answers: dict[str, Any]
    missing: dict[str, str]
    partitions: tuple[int, ...]

    def whole(self, call: str) -> dict[str, Any]:
        """Return the answers. Raises PlaceMissingError where one is missing."""
        if self.missing:
            reasons = "; ".join(f"{place}: {why}" for place, why in self.missing.items())
            raise PlaceMissingError(
                f"{call}: expected an answer of every place, found none of partitions "
                f"{', '.join(map(str, self.partitions))} ({reasons}); start the nodes again, or move their "
                "partitions. A change may have been done in part: repeat it with on_conflict=",
                partitions=self.partitions,
                reasons=self.missing,
            )
        return self.answers


class Calls(ABC):
    """The hosts of one version of a catalog. Safe to share between threads."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog, self.places = catalog, catalog.places

    @abstractmethod
    def send(self, group: Group, method: str, *arguments: Any, to: To | None = None) -> dict[str, Any]:
        """Call a method at every place, or at some with arguments of their own before the others."""

    @abstractmethod
    def _reply(self, sent: Any, seconds: float) -> Any:
        """Return what a place answers within so many seconds, or the error. Raises NoAnswer."""

    def gather(self, sent: Mapping[str, Any], seconds: float) -> Gathered:
        """Return what places answer within so many seconds; an error of one is raised when all are done."""
        until, answers, missing = time.monotonic() + seconds, dict[str, Any](), dict[str, str]()
        for place, one in sent.items():
            try:
                answers[place] = self._reply(one, until - time.monotonic())
            except NoAnswer as exc:
                missing[place] = str(exc)
        for answer in answers.values():
            if isinstance(answer, Exception):
                raise answer
        return self.gathered(answers, missing)

    def gathered(self, answers: dict[str, Any], missing: dict[str, str]) -> Gathered:
        """Return these, with the partitions that are missing."""
        return Gathered(answers, missing, tuple(sorted(n for place in missing for n in self.places[place])))

    def every(self, group: Group, method: str, *arguments: Any, seconds: float, to: To | None = None) -> Any:
        """Return what all places answer, or some. Raises PlaceMissingError where one of them does not."""
        return self.gather(self.send(group, method, *arguments, to=to), seconds).whole(method)

    def require_fit(self, seconds: float) -> None:  # noqa: B027 - a host in this process fits
        """Refuse places where no host can run, before one is made there."""

    def close(self) -> None:  # noqa: B027 - hosts of other processes go on
        """Let go of the hosts."""

    def stop(self) -> None:
        """End the hosts of all places."""
        self.close()


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

    def send(self, _: Group, method: str, *arguments: Any, to: To | None = None) -> dict[str, Any]:
        """Call a method; see `Calls.send`."""
        own = dict.fromkeys(self.places, ()) if to is None else to

        def call(place: str) -> Any:
            return attempted(self._call, place, method, *own[place], *arguments)

        return dict(zip(own, (self._threads.map if len(own) > 1 else map)(call, own), strict=True))

    def _call(self, place: str, method: str, *arguments: Any) -> Any:
        return getattr(self._host(place), method)(self.catalog, *arguments)

    def _host(self, place: str) -> Host:
        with _hosts_lock:
            if place not in self._used:
                self._used[place], count = _hosts.get((self.catalog.id, place)) or (Host(place), 0)
                _hosts[self.catalog.id, place] = self._used[place], count + 1
            return self._used[place]

    def _reply(self, sent: Any, _: float) -> Any:
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
