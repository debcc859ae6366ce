"""The partitions of an index, walked by actors of Ray beside them.

Owns how many actors a place has. Must not compare anything. An actor opens its partitions to read them; the
hosts that write to them go on. Invariant: an actor that dies is not started again, for its snapshots are gone
with it: then the job ends with an error, and is begun anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from simindex.format.keys import Key
from simindex.pairs.ranges import RangeEnd
from simindex.pairs.tables import Numbering
from simindex.pairs.walk_plan import Earlier, Edges, WalkPlan
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import PlaceMissingError, ScaleOutError
from simindex.scaleout.hosts.actors import SHARE, ray_module
from simindex.scaleout.pairs.job import Live
from simindex.scaleout.ranges.dealing import swept
from simindex.scaleout.ranges.host import RangeHost
from simindex.scaleout.ranges.remote import Hosts, answer, host_as_actor, lost


class Partitions:
    """The partitions of a catalog, as `Walkers`.

    Args:
        half: of a sketch, that is compared.
        seconds: how long a place has to answer at first.

    Raises:
        PlaceMissingError: one does not.
        ValueError: the documents of a partition cannot be compared.
    """

    def __init__(self, catalog: Catalog, half: int, seconds: float) -> None:
        self._ray = ray_module()
        self._actors: list[Any] = []
        host_of: dict[int, int] = {}
        places = list[str]()
        for place, numbers in catalog.places.items():
            count = min(len(numbers), self._cores(place))
            for nth in range(count):
                own = {number: catalog.partitions[number].path for number in numbers[nth::count]}
                options = {"num_cpus": 0, "resources": {place: SHARE}}
                host_of |= dict.fromkeys(own, len(self._actors))
                arguments = own.__getitem__, catalog.config
                self._actors.append(host_as_actor(RangeHost, arguments, options, restarts=False))
                places.append(place)
        try:
            self._wait(catalog, places, seconds)
            self._hosts = Hosts(self._actors, host_of)
            self._hosts.number()
            for at, actor in enumerate(self._actors):
                answer(actor.require.remote(self._hosts.partitions(at), half))
        except BaseException:
            self.close()
            raise

    def _cores(self, place: str) -> int:
        """Return how many cores the nodes of a place have."""
        nodes = (node["Resources"] for node in self._ray.nodes() if node["Alive"])
        return max(1, int(sum(node.get("CPU", 0) for node in nodes if place in node)))

    def _wait(self, catalog: Catalog, places: list[str], seconds: float) -> None:
        coming = [actor.ready.remote() for actor in self._actors]
        done, _ = self._ray.wait(coming, num_returns=len(coming), timeout=seconds)
        late = sorted({place for place, one in zip(places, coming, strict=True) if one not in set(done)})
        if late:
            numbers = tuple(sorted(number for place in late for number in catalog.places[place]))
            raise PlaceMissingError(
                f"expected all places to answer within {seconds:g} s, found none of {', '.join(late)}, of "
                f"partitions {', '.join(map(str, numbers))}; start the nodes again, or restore them",
                partitions=numbers,
                reasons=dict.fromkeys(late, "no answer within the deadline"),
            )

    @property
    def numbering(self) -> Numbering:
        """Of the documents of all partitions."""
        return self._hosts.numbering

    @property
    def parallel(self) -> int:
        """How many walk at a time."""
        return len(self._actors)

    def swept(
        self, walk_plan: WalkPlan, table: int, earlier: Earlier, step: Callable[[int], object]
    ) -> Iterator[Edges | RangeEnd]:
        """Yield what all ranges of a table have."""
        return swept(walk_plan, [table], lambda: self._hosts, self._recover, step, earlier)

    def _recover(self, reason: Exception) -> None:
        raise _gone(reason) from reason

    def live(self, numbers: np.ndarray, limit: int) -> list[list[Live]]:
        """Return the live documents of sketches by ascending numbers, oldest first."""
        return [[Live(*one) for one in some] for some in self._ask(self._hosts.documents, numbers, limit)]

    def keys(self, numbers: np.ndarray) -> list[Key | None]:
        """Return the keys of documents by ascending numbers; ``None`` for one that is removed."""
        keys: list[Key | None] = self._ask(self._hosts.keys, numbers)
        return keys

    def copies(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (leaders, copies): documents that are stored as copies, by number."""
        copies: tuple[np.ndarray, np.ndarray] = self._ask(self._hosts.copies)
        return copies

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return question(*arguments)
        except lost() as exc:
            raise _gone(exc) from exc

    def close(self) -> None:
        """End the actors. Twice is allowed."""
        while self._actors:
            self._ray.kill(self._actors.pop())


def _gone(reason: Exception) -> ScaleOutError:
    return ScaleOutError(
        "expected the snapshots of all partitions until the end, found that of one gone with its process or "
        f"node ({str(reason).splitlines()[0]}); begin again"
    )
