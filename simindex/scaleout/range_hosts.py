"""Partitions that are open to be read by jobs that walk all of them: who reads which slices from where.

`TableHost` is a plain class, and an actor of Ray. A call may be repeated, by the same caller or after a
restart: it is answered the same, for a partition is opened when it is first asked for; nothing that a range
returns depends on who has walked it, or how often. What a host has itself it reads without a call; arrays
travel as they lie in memory (pickle protocol 5, through the object store of the node).
"""

from __future__ import annotations

import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from simindex.config import Config
from simindex.format.keys import Key
from simindex.imports import optional_module
from simindex.pairs.ranges import RangeEnd, walk_range
from simindex.pairs.snapshot_tables import PinnedTables
from simindex.pairs.tables import LEAST_PIECE, LocalSource, Numbering, Piece, Slice, Source, Tables, merged
from simindex.pairs.walk_plan import Earlier, Edges, WalkPlan
from simindex.queries.search import require_comparable
from simindex.scaleout.actors import answer, ray_module

_Tables = TypeVar("_Tables", bound=Tables)

_UNDER_WAY = 256
"""Bundles that are remembered; one that was forgotten is read again up to where it was."""


class Bundle(NamedTuple):
    """Slices that are asked for together.

    Attributes:
        partitions: of these.
        slices: in order.
        capacity: entries that come in one go, about.
    """

    partitions: tuple[int, ...]
    slices: tuple[Slice, ...]
    capacity: int


Pieces = list[tuple[int, np.ndarray, np.ndarray]]
"""Place of a slice in its bundle, keys and numbers of some of its entries."""


class SeesHosts(Protocol):
    """All hosts, as one of them sees them."""

    def beside(self, place: int, own: TableHost[Any]) -> Source:
        """Return them, of which one is in this process."""


@dataclass
class _UnderWay:
    pieces: Iterator[Pieces]
    nth: int = 0


class TableHost(Generic[_Tables]):
    """Partitions that are open to be read. May be called from several threads.

    Args:
        opened: number of a partition -> what is read of it.
    """

    def __init__(self, opened: Callable[[int], _Tables]) -> None:
        self._opened = opened
        self._open: dict[int, _Tables] = {}
        self._under_way: OrderedDict[tuple[bytes, Bundle], _UnderWay] = OrderedDict()
        self._lock = Lock()

    def close(self) -> None:
        """Let go of all partitions."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def ready(self) -> None:
        """Return when it is there."""

    def _tables(self, number: int) -> _Tables:
        with self._lock:
            found = self._open.get(number)
            if found is None:
                found = self._open[number] = self._opened(number)
            return found

    def totals(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return number of each partition -> its ranks."""
        return {number: self._tables(number).total for number in numbers}

    # ---- slices ----

    def bundle(self, token: bytes, numbering: Numbering, wanted: Bundle, nth: int) -> tuple[Pieces, bool]:
        """Return the nth part of a bundle, and whether there is none behind it."""
        key = token, wanted
        with self._lock:
            found = self._under_way.pop(key, None)
        if found is None or found.nth > nth:
            found = _UnderWay(self.bundles(numbering, wanted))
        pieces: Pieces | None = None
        while found.nth <= nth:
            pieces = next(found.pieces, None)
            found.nth += 1
        if pieces is None or sum(len(keys) for _, keys, _ in pieces) < wanted.capacity:
            return pieces or [], True
        with self._lock:
            self._under_way[key] = found
            while len(self._under_way) > _UNDER_WAY:
                self._under_way.popitem(last=False)
        return pieces, False

    def bundles(self, numbering: Numbering, wanted: Bundle) -> Iterator[Pieces]:
        """Yield the entries of a bundle; all parts but the last have its capacity or more."""
        source = LocalSource({number: self._tables(number) for number in wanted.partitions}, numbering)
        pieces, count = Pieces(), 0
        for place, some in enumerate(source.slices(wanted.slices, wanted.capacity)):
            for keys, numbers in some:
                pieces.append((place, keys, numbers))
                count += len(keys)
                if count >= wanted.capacity:
                    yield pieces
                    pieces, count = [], 0
        if pieces:
            yield pieces

    # ---- documents ----

    def sketches(self, ranks: Mapping[int, np.ndarray]) -> dict[int, Piece]:
        """Return number of a partition -> (words, fingerprints) of some of its documents, by rank."""
        return {number: self._tables(number).sketches(some) for number, some in ranks.items()}

    def metadata(self, ranks: Mapping[int, np.ndarray]) -> dict[int, list[tuple[Any, int]]]:
        """Return number of a partition -> what `PinnedTables.metadata` has of some of its documents."""
        return {number: self._tables(number).metadata(some.tolist()) for number, some in ranks.items()}

    def copies(self, numbers: Sequence[int]) -> dict[int, Piece]:
        """Return number of each partition -> its copies; see `PinnedTables.copies`."""
        return {number: self._tables(number).copies() for number in numbers}

    # ---- ranges ----

    def walk(
        self,
        walk: tuple[WalkPlan, Earlier | None],
        tables: Sequence[int],
        hosts: SeesHosts,
        own: int,
        place: int,
    ) -> Iterator[Edges | RangeEnd]:
        """Yield what a range of some tables has; see `sweep`."""
        yield from walk_range(walk[0], tables, hosts.beside(own, self), place, walk[1])


class RangeHost(TableHost[PinnedTables]):
    """Partitions that are indexes.

    Args:
        path_of: number of a partition -> its folder.
        config: of all of them; the first call for a partition with another one raises ConfigMismatchError.
    """

    def __init__(self, path_of: Callable[[int], str], config: Config | None = None) -> None:
        super().__init__(lambda number: PinnedTables(path_of(number), config))

    def require(self, numbers: Sequence[int], half: int) -> None:
        """Raise ValueError where the documents of a partition cannot be compared by half of a sketch."""
        for number in numbers:
            self._tables(number).read(partial(require_comparable, compares=half))

    def documents(
        self, ranks: Mapping[int, np.ndarray], limit: int
    ) -> dict[int, list[list[tuple[Key, int]]]]:
        """Return number of a partition -> of some of its sketches, by rank, the live documents, oldest first:
        key, and which halves of a sketch it has."""
        return {number: self._tables(number).documents(some, limit) for number, some in ranks.items()}

    def keys(self, ranks: Mapping[int, np.ndarray]) -> dict[int, list[Key | None]]:
        """Return number of a partition -> the keys of some of its documents, by rank; ``None`` for one that
        is removed."""
        return {number: self._tables(number).keys(some) for number, some in ranks.items()}


GROUPS = {"walks": 1, "asks": 2}
"""Threads of an actor: one walks ranges, while the others answer those who walk elsewhere."""


def on_node(node: str, *, soft: bool = False) -> Any:
    """Return the strategy that keeps something on a node of Ray."""
    strategies = optional_module(
        "ray.util.scheduling_strategies", "simindex.scaleout", "'simindex[scaleout]'"
    )
    return strategies.NodeAffinitySchedulingStrategy(node, soft=soft)


def lost() -> tuple[type[Exception], ...]:
    """Return the errors that say that a host is gone."""
    errors = ray_module().exceptions
    return (
        errors.RayActorError,
        errors.ObjectLostError,
        errors.NodeDiedError,
        errors.ActorUnavailableError,
        errors.ActorUnschedulableError,
    )


class Hosts:
    """The actors that have partitions, and the numbering of the documents. Can be handed to other processes.

    Args:
        actors: handles of `TableHost` actors.
        host_of: number of a partition -> place of its actor among them.
    """

    def __init__(self, actors: list[Any], host_of: Mapping[int, int]) -> None:
        self.actors, self._host_of = actors, dict(host_of)
        self.numbering = Numbering([])
        self._own: tuple[int, TableHost[Any]] | None = None

    def beside(self, place: int, own: TableHost[Any]) -> Hosts:
        """Return the same, of which one is in this process."""
        hosts = Hosts(self.actors, self._host_of)
        hosts.numbering, hosts._own = self.numbering, (place, own)
        return hosts

    def partitions(self, place: int) -> tuple[int, ...]:
        """Return the partitions of an actor, ascending."""
        return tuple(sorted(number for number, host in self._host_of.items() if host == place))

    def number(self) -> None:
        """Number the documents of all partitions."""
        found: dict[int, int] = {}
        asked = [actor.totals.remote(self.partitions(place)) for place, actor in enumerate(self.actors)]
        for totals in map(answer, asked):
            found |= totals
        self.numbering = Numbering([found[number] for number in sorted(found)])

    # ---- slices ----

    def slices(self, wanted: Sequence[Slice], capacity: int) -> Iterator[Iterator[Piece]]:
        """Yield the entries of each; see `Source`."""
        each = max(capacity // max(len(self.actors), 1) // 2, LEAST_PIECE)
        streams = [
            _Stream(self._bundles(place, Bundle(partitions, tuple(wanted), each)))
            for place in range(len(self.actors))
            if (partitions := self.partitions(place))
        ]
        for place in range(len(wanted)):
            yield merged([stream.slice(place) for stream in streams])

    def _bundles(self, place: int, wanted: Bundle) -> Iterator[Pieces]:
        if self._own is not None and self._own[0] == place:
            return self._own[1].bundles(self.numbering, wanted)
        return _asked(self.actors[place], self.numbering, wanted)

    # ---- documents ----

    def sketches(self, numbers: np.ndarray) -> Piece:
        """Return (words, fingerprints); see `Source`."""
        parts = list(self.numbering.parts(numbers))
        found = self._ask(parts, "sketches")
        answers = [found[partition] for partition, _, _ in parts]
        return np.concatenate([words for words, _ in answers]), np.concatenate([bits for _, bits in answers])

    def documents(self, numbers: np.ndarray, limit: int) -> list[Any]:
        """Return the live documents of sketches by ascending numbers; see `RangeHost.documents`."""
        return self._rows("documents", numbers, limit)

    def keys(self, numbers: np.ndarray) -> list[Any]:
        """Return the keys of documents by ascending numbers; see `RangeHost.keys`."""
        return self._rows("keys", numbers)

    def metadata(self, numbers: np.ndarray) -> list[tuple[Any, int]]:
        """Return the metadata of documents by ascending numbers; see `PinnedTables.metadata`."""
        return self._rows("metadata", numbers)

    def _rows(self, method: str, numbers: np.ndarray, *arguments: Any) -> list[Any]:
        parts = list(self.numbering.parts(numbers))
        found = self._ask(parts, method, *arguments)
        return [each for partition, _, _ in parts for each in found[partition]]

    def copies(self) -> Piece:
        """Return (leaders, copies) by number, of all partitions."""
        leaders, copies = [np.empty(0, dtype=np.uint32)], [np.empty(0, dtype=np.uint32)]
        asked = [actor.copies.remote(self.partitions(place)) for place, actor in enumerate(self.actors)]
        for found in map(answer, asked):
            for partition, some in found.items():
                offset = self.numbering.offsets[partition].astype(np.uint32)
                leaders.append(some[0] + offset)
                copies.append(some[1] + offset)
        return np.concatenate(leaders), np.concatenate(copies)

    def _ask(
        self, parts: list[tuple[int, slice, np.ndarray]], method: str, *arguments: Any
    ) -> dict[int, Any]:
        """Ask each host once for what its partitions have."""
        wanted: dict[int, dict[int, np.ndarray]] = {}
        for partition, _, ranks in parts:
            wanted.setdefault(self._host_of[partition], {})[partition] = ranks
        own = None if self._own is None else wanted.pop(self._own[0], None)
        asked = [
            getattr(self.actors[host], method).options(concurrency_group="asks").remote(ranks, *arguments)
            for host, ranks in wanted.items()
        ]
        found: dict[int, Any] = {}
        if self._own is not None and own is not None:
            found |= getattr(self._own[1], method)(own, *arguments)
        for some in map(answer, asked):
            found |= some
        return found


def _asked(actor: Any, numbering: Numbering, wanted: Bundle) -> Iterator[Pieces]:
    """Ask another process for a bundle, and return its parts; the next one is always under way."""
    ask, token = actor.bundle.options(concurrency_group="asks").remote, secrets.token_bytes(8)

    def parts(coming: Any) -> Iterator[Pieces]:
        nth, is_last = 0, False
        while not is_last:
            pieces, is_last = answer(coming)
            nth += 1
            if not is_last:
                coming = ask(token, numbering, wanted, nth)
            yield pieces

    return parts(ask(token, numbering, wanted, 0))


class _Stream:
    """The parts of a bundle, slice by slice."""

    def __init__(self, parts: Iterator[Pieces]) -> None:
        self._pieces = (piece for part in parts for piece in part)
        self._next: tuple[int, np.ndarray, np.ndarray] | None = None
        self._has_begun = False

    def slice(self, place: int) -> Iterator[Piece]:
        if not self._has_begun:
            self._next, self._has_begun = next(self._pieces, None), True
        while self._next is not None and self._next[0] == place:
            _, keys, numbers = self._next
            yield keys, numbers
            self._next = next(self._pieces, None)


def host_as_actor(
    kind: Callable[..., TableHost[Any]],
    arguments: tuple[Any, ...],
    options: Mapping[str, Any],
    *,
    restarts: bool = True,
) -> Any:
    """Return an actor of a class, which Ray starts again, as long as its node lives, or never."""
    actor = ray_module().remote(concurrency_groups=GROUPS)(kind)
    times = -1 if restarts else 0
    return actor.options(max_restarts=times, max_task_retries=times, **options).remote(*arguments)


_AHEAD = 2
"""Ranges that are under way, for each host."""

_UNREAD = 4
"""Pieces of a range that wait for the driver."""


def swept(
    walk_plan: WalkPlan,
    tables: Sequence[int],
    hosts: Callable[[], Hosts],
    recover: Callable[[Exception], object],
    step: Callable[[int], object],
    earlier: Earlier | None = None,
) -> Iterator[Edges | RangeEnd]:
    """Yield what all ranges of some tables have; some of it twice where a host was lost.

    Args:
        hosts: returns those that there are.
        recover: called with the error of a host that was lost; returns when there is another one, or raises.
        step: called with the number of ranges that are done.
    """
    ray = ray_module()
    waiting, done = deque(range(walk_plan.count)), 0
    under_way: dict[Any, tuple[int, Any]] = {}
    known = ray.put((walk_plan, earlier))
    streaming = {
        "num_returns": "streaming",
        "_generator_backpressure_num_objects": _UNREAD,
        "concurrency_group": "walks",
    }

    def deal() -> None:
        now = hosts()
        for own, actor in enumerate(now.actors):
            busy = sum(other == actor for _, other in under_way.values())
            for _ in range(min(_AHEAD - busy, len(waiting))):
                place = waiting.popleft()
                coming = actor.walk.options(**streaming).remote(known, tables, now, own, place)
                under_way[coming] = place, actor

    while waiting or under_way:
        deal()
        (ready,), _ = ray.wait(list(under_way), num_returns=1)
        try:
            yield answer(next(ready))
        except StopIteration:
            del under_way[ready]
            done += 1
            step(done)
        except lost() as exc:
            waiting.append(under_way.pop(ready)[0])
            recover(exc)
