"""An index over hosts in this very process: all that Ray would carry, but for Ray."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simindex import Config
from simindex.scaleout.catalog import Catalog, Partition
from simindex.scaleout.errors import CatalogChangedError
from simindex.scaleout.hosts.actors import Group
from simindex.scaleout.hosts.calls import Calls, Gathered, assignment
from simindex.scaleout.hosts.carried import packed, unpacked
from simindex.scaleout.hosts.host import Host
from simindex.scaleout.hosts.owed import Sent
from simindex.scaleout.index import ScaledIndex


class LocalCalls(Calls):
    """Calls that are done at once, with arguments and answers that were pickled as on the way.

    Attributes:
        hosts: by their places.
        away: places that do not answer.
        repeats: how often a call is done, as if its answers had been lost.
    """

    def __init__(self, catalog: Catalog, hosts: Mapping[str, Host] | None = None) -> None:
        self.catalog, self.places = catalog, catalog.places
        self.assignments = {place: assignment(catalog, place) for place in self.places}
        self.hosts = {place: Host() for place in self.places} if hosts is None else hosts
        self.away: dict[str, str] = {}
        self.repeats = 1

    def send_all(
        self, group: Group, method: str, *arguments: Any, to: Mapping[str, tuple[Any, ...]] | None = None
    ) -> dict[str, Sent]:
        to = dict.fromkeys(self.places, ()) if to is None else to
        return {place: self._done(place, group, method, *own, *arguments) for place, own in to.items()}

    def _done(self, place: str, group: Group, method: str, *arguments: Any) -> Sent:
        if place in self.away:
            return Sent(None, group, method, arguments)
        carried, *beside = packed((self.assignments[place], *arguments))
        for array in beside:
            array.flags.writeable = False  # as it lies in Ray's store
        try:
            for _ in range(self.repeats):
                answer = getattr(self.hosts[place], method)(*unpacked(carried, beside))
        except Exception as exc:
            return Sent(pickle.loads(pickle.dumps(exc)), group, method, arguments)
        return Sent((pickle.loads(pickle.dumps(answer)),), group, method, arguments)

    def require_fit(self, seconds: float) -> None:
        """They run in this process."""

    def gather(self, sent: Mapping[str, Sent], seconds: float) -> Gathered:
        assert seconds >= 0
        found = Gathered({}, {})
        for place, call in sent.items():
            if isinstance(call.reference, Exception):
                raise call.reference
            if call.reference is None and self.have_moved([place]):
                raise CatalogChangedError(f"{place}: its partitions are elsewhere")
            if call.reference is None:
                found.missing[place] = self.away[place]
            else:
                found.answers[place] = call.reference[0]
        return found


class LocalIndex(ScaledIndex):
    """The index over such hosts."""

    def __init__(self, folder: Path, config: Config, partitions: int, places: int) -> None:
        catalog = Catalog(
            config,
            tuple(
                Partition(f"place {number % places}", str(folder / f"{number:05}"))
                for number in range(partitions)
            ),
        )
        super().__init__(folder / "catalog", catalog, False, LocalCalls)
        self.make_partitions()
        catalog.replace(self.uri, None)

    @property
    def local(self) -> LocalCalls:
        assert isinstance(self._calls, LocalCalls)
        return self._calls

    def close(self) -> None:
        if not self._is_closed:
            for host in self.local.hosts.values():
                host.close()
        super().close()
