"""Hosts as actors of Ray: who reads which slices from where.

Owns the calls. Must not know what a job is for. Invariant: nothing that a range returns depends on who has
walked it, or how often. What a host has itself it reads without a call; arrays travel as they lie in memory
(pickle protocol 5, through the object store of the node).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from simindex.imports import optional_module
from simindex.pairs.tables import LEAST_PIECE, Numbering, Piece, Slice, merged
from simindex.scaleout.hosts.actors import ray_module
from simindex.scaleout.ranges.host import Bundle, Pieces, TableHost

GROUPS = {"walks": 1, "asks": 2}
"""Threads of an actor: one walks ranges, while the others answer those who walk elsewhere."""


def on_node(node: str, *, soft: bool = False) -> Any:
    """Return the strategy that keeps something on a node of Ray."""
    strategies = optional_module(
        "ray.util.scheduling_strategies", "simindex.scaleout", "'simindex[scaleout]'"
    )
    return strategies.NodeAffinitySchedulingStrategy(node, soft=soft)


def answer(reference: Any) -> Any:
    """Return what a call has returned, or raise what it has raised."""
    ray = ray_module()
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as exc:
        raise (exc.cause if isinstance(exc.cause, Exception) else exc) from None


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

    def number(self) -> dict[int, int]:
        """Number the documents of all partitions; returns the snapshot of each."""
        found: dict[int, tuple[int, int]] = {}
        asked = [actor.totals.remote(self.partitions(place)) for place, actor in enumerate(self.actors)]
        for totals in map(answer, asked):
            found |= totals
        self.numbering = Numbering([found[number][0] for number in sorted(found)])
        return {number: snapshot for number, (_, snapshot) in found.items()}

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
