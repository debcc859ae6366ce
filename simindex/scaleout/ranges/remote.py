"""Hosts as actors of Ray, and a range as a task: who reads which slices from where.

Owns the calls. Must not know what a job is for. Invariant: nothing that a task returns depends on who has run
it, or how often.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from simindex.optional import optional_module
from simindex.scaleout.hosts.actors import ray_module
from simindex.scaleout.ranges.host import RangeHost, Slice
from simindex.scaleout.ranges.source import LEAST_PIECE, Numbering, Piece, merged
from simindex.scaleout.ranges.walk import Asked, Found, RangeWalk

HANDED_ON = 1 << 16
"""Pairs that a task hands on in one go, about."""


def on_node(node: str, *, soft: bool = False) -> Any:
    """Return the strategy that keeps something on a node of Ray."""
    ray_module()
    strategies = optional_module("ray.util.scheduling_strategies", "simindex.scaleout", "simindex[scaleout]")
    return strategies.NodeAffinitySchedulingStrategy(node, soft=soft)


class Hosts:
    """The actors that have partitions, and the numbering of the documents. Can be handed to other processes.

    Args:
        actors: handles of `RangeHost` actors.
        host_of: number of a partition -> place of its actor among them.
    """

    def __init__(self, actors: list[Any], host_of: Mapping[int, int]) -> None:
        self.actors, self._host_of = actors, dict(host_of)
        self.numbering = Numbering([])

    def number(self) -> dict[int, int]:
        """Number the documents of all partitions; returns the snapshot of each."""
        ray = ray_module()
        found: dict[int, tuple[int, int]] = {}
        for totals in ray.get([actor.totals.remote() for actor in self.actors]):
            found |= totals
        self.numbering = Numbering([found[number][0] for number in sorted(found)])
        return {number: snapshot for number, (_, snapshot) in found.items()}

    def slices(self, table: int, first: int, behind: int, capacity: int) -> Iterator[Piece]:
        """Yield entries in order; see `Source`."""
        wanted = Slice(table, first, behind, max(capacity // max(len(self.actors), 1) // 2, LEAST_PIECE))
        return merged([self._pieces(actor, wanted) for actor in self.actors])

    def _pieces(self, actor: Any, wanted: Slice) -> Iterator[Piece]:
        """Yield the pieces of a host, the next one under way."""
        get, token, nth = ray_module().get, secrets.token_bytes(8), 0
        coming = actor.piece.remote(token, self.numbering, wanted, nth)
        while (piece := get(coming)) is not None:
            nth += 1
            coming = actor.piece.remote(token, self.numbering, wanted, nth)
            yield piece

    def sketches(self, numbers: np.ndarray) -> Piece:
        """Return (words, fingerprints); see `Source`."""
        parts = list(self.numbering.parts(numbers))
        found = self._ask(parts, lambda actor, ranks: actor.sketches.remote(ranks))
        answers = [found[partition] for partition, _, _ in parts]
        return np.concatenate([words for words, _ in answers]), np.concatenate([bits for _, bits in answers])

    def documents(self, numbers: np.ndarray, limit: int) -> list[Any]:
        """Return the live documents of sketches by ascending numbers; see `PinnedTables.documents`."""
        parts = list(self.numbering.parts(numbers))
        found = self._ask(parts, lambda actor, ranks: actor.documents.remote(ranks, limit))
        return [documents for partition, _, _ in parts for documents in found[partition]]

    def metadata(self, numbers: np.ndarray) -> list[tuple[Any, int]]:
        """Return the metadata of documents by ascending numbers; see `PinnedTables.metadata`."""
        parts = list(self.numbering.parts(numbers))
        found = self._ask(parts, lambda actor, ranks: actor.metadata.remote(ranks))
        return [each for partition, _, _ in parts for each in found[partition]]

    def copies(self) -> Piece:
        """Return (leaders, copies) by number, of all partitions."""
        leaders, copies = [np.empty(0, dtype=np.uint32)], [np.empty(0, dtype=np.uint32)]
        for answer in ray_module().get([actor.copies.remote() for actor in self.actors]):
            for partition, some in answer.items():
                offset = self.numbering.offsets[partition].astype(np.uint32)
                leaders.append(some[0] + offset)
                copies.append(some[1] + offset)
        return np.concatenate(leaders), np.concatenate(copies)

    def _ask(
        self, parts: list[tuple[int, slice, np.ndarray]], ask: Callable[[Any, dict[int, np.ndarray]], Any]
    ) -> dict[int, Any]:
        """Ask each host once for what its partitions have."""
        wanted: dict[int, dict[int, np.ndarray]] = {}
        for partition, _, ranks in parts:
            wanted.setdefault(self._host_of[partition], {})[partition] = ranks
        answers = [ask(self.actors[host], ranks) for host, ranks in wanted.items()]
        found: dict[int, Any] = {}
        for answer in ray_module().get(answers):
            found |= answer
        return found


def host_on(node: str, partitions: Mapping[int, str], config: Any) -> Any:
    """Return an actor that has partitions of a node; Ray starts it again there as long as the node lives."""
    actor = ray_module().remote(num_cpus=0)(RangeHost)
    options = {"max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": on_node(node)}
    return actor.options(**options).remote(dict(partitions), config)


def walk_range(asked: Asked, hosts: Hosts, place: int) -> Iterator[Found]:
    """Yield what a range of each table has, table by table: a task of Ray."""
    for table in asked.tables:
        pairs: list[np.ndarray] = []
        count = 0
        for found in RangeWalk(asked, table, hosts).found(place):
            if len(found.waiting):
                yield found
                continue
            pairs.append(found.pairs)
            count += len(found.pairs)
            if count >= HANDED_ON:
                yield found._replace(pairs=np.concatenate(pairs))
                pairs, count = [], 0
        if count:
            yield Found.of_pairs(np.concatenate(pairs))
