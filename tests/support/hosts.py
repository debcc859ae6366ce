"""Hosts and workers of an index over many machines, in this process and without Ray."""

import json
import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Self
from unittest import mock

from simindex import Config, Sketcher
from simindex.scaleout import CatalogChangedError, ScaledIndex, actors
from simindex.scaleout.actors import RayCalls
from simindex.scaleout.calls import Calls, NoAnswer
from simindex.scaleout.catalog import Catalog, Partition
from simindex.scaleout.connections import Connection, Group, Server
from simindex.scaleout.host import Host
from simindex.scaleout.moving import move_partition, restore_place
from simindex.scaleout.stages import compare_range, read_found
from simindex.scaleout.wire import Routing
from simindex.scaleout.wire import partition_of as partition_of

# ---- stages ----


class LocalTasks:
    """Stages that run in this process, one job after the other.

    Args:
        before: is given the name of each stage's function, and its common value, which it may replace.

    Attributes:
        num_jobs: of each stage, by the name of its function.
        waiting: documents of long runs that ranges put off.
        num_copies: rows that parts hold as copies.
        num_edges: pairs that ranges hand on.
    """

    parallel = 2

    def __init__(self, before: Callable[[str, Any], Any] = lambda _, common: common) -> None:
        self._before = before
        self.num_jobs, self.waiting, self.num_copies, self.num_edges = Counter[str](), 0, 0, 0

    def run(self, function: Callable[[Any, Any], Any], common: Any, jobs: Iterable[Any]) -> Iterator[Any]:
        name = function.__name__
        known = pickle.dumps(self._before(name, common))
        for job in jobs:
            self.num_jobs[name] += 1
            own = pickle.loads(known)
            answer = function(own, pickle.loads(pickle.dumps(job)))
            if function is compare_range:
                with own.opened() as tables:
                    path = own.range_file(job, own.num_ranges(tables))
                    self.num_copies += sum(len(of.copies()[1]) for of in tables if not job)
                for found in read_found(path):
                    self.waiting += len(found.waiting)
                    self.num_edges += len(found.pairs)
            yield answer


# ---- plain hosts ----

CONFIG = Config(seed=1)


def catalog_at(uri: Path, folders: Mapping[str, Path], config: Config = CONFIG) -> str:
    """A new catalog of a partition at each place, in its folder; returns its name."""
    Catalog(config, tuple(Partition(place, str(path)) for place, path in folders.items())).replace(uri, None)
    return str(uri)


class Cluster:
    """Places of one machine, a folder each."""

    def __init__(
        self, folder: Path, places: str = "ab", partitions: int = 4, config: Config = CONFIG, **options: Any
    ) -> None:
        self.folder, self.uri = folder, str(folder / "catalog")
        self.hosts = {place: Host(place) for place in places}
        rows = [
            Partition(place, str(folder / place / f"{number:05}.simindex"))
            for number, place in zip(range(partitions), places * partitions, strict=False)
        ]
        catalog = Catalog(config, tuple(rows), **options).replace(self.uri, None)
        for place in catalog.places:
            self.call(catalog, place, "create")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for host in self.hosts.values():
            host.close()

    def call(self, catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
        return getattr(self.hosts[place], method)(catalog, *arguments)

    def handle(self, away: Mapping[str, str] | None = None) -> ScaledIndex:
        """A new handle; places that are `away` do not answer, for the reason given."""
        known = {} if away is None else away
        return ScaledIndex(self.uri, self.catalog, lambda catalog: _Pickled(catalog, self, known))

    @property
    def catalog(self) -> Catalog:
        """The newest version."""
        return Catalog.load(self.uri)

    def move(self, number: int, place: str) -> Catalog:
        """Move a partition, by the store of the catalog."""
        return move_partition(self.uri, number, place, str(self.folder / place), self.call, None)

    def restore(self, place: str, onto: str) -> None:
        """Make the partitions of a lost place anew at another one, from the store."""
        restore_place(self.uri, place, {onto: str(self.folder / onto)}, self.call)

    def end(self, place: str) -> None:
        """What is left of a host that was killed: nothing but its folders."""
        self.hosts[place].close()
        self.hosts[place] = Host(place)

    # ---- a driver ----

    def insert(self, first: int, count: int) -> None:
        """Store texts; returns when they are acknowledged."""
        self._repeated(
            lambda: self.handle().insert_many(_items(range(first, first + count)), on_conflict="skip")
        )

    def insert_by(self, catalog: Catalog, call: bytes, numbers: range) -> None:
        """Store texts by a version of the catalog, in a call with this id."""
        for place, (_, routed) in Routing(catalog, Sketcher(catalog.config)).items(_items(numbers)).items():
            self.call(catalog, place, "insert", call, routed, "error")

    def counts(self) -> dict[int, int]:
        """Number of a partition -> its documents."""
        found = self._repeated(lambda: self.handle().stats().partitions)
        return {number: stats.documents for number, stats in found.items()}

    @staticmethod
    def _repeated(call: Callable[[], Any]) -> Any:
        until = time.monotonic() + 30
        while True:
            try:
                return call()
            except CatalogChangedError:
                assert time.monotonic() < until
                time.sleep(0.002)


def _items(numbers: range) -> list[tuple[int, str]]:
    return [(number, f"a text of the number {number}") for number in numbers]


class _Pickled(Calls):
    """Calls of the hosts of a cluster, with arguments and answers that are pickled as on their way."""

    def __init__(self, catalog: Catalog, cluster: Cluster, away: Mapping[str, str]) -> None:
        super().__init__(catalog)
        self._cluster, self._away = cluster, away

    def send(
        self, group: Group, method: str, *arguments: Any, to: Mapping[str, tuple[Any, ...]] | None = None
    ) -> dict[str, Any]:
        every = dict.fromkeys(self.places, ()) if to is None else to
        catalog, sent = pickle.dumps(self.catalog), dict[str, Any]()
        for place, own in every.items():
            frame = pickle.dumps((group, method, own)) + pickle.dumps(arguments)
            sent[place] = place if place in self._away else self._cluster.hosts[place].call(catalog, frame)
        return sent

    def _reply(self, sent: Any, _: float) -> Any:
        if isinstance(sent, str):
            raise NoAnswer(self._away[sent])
        return pickle.loads(sent)


# ---- scaled rows ----


def rows_of(seed: int, count: int, newest: int = 20) -> list[dict[str, Any]]:
    """Rows of which some are equal, many alike, and some alike in a chain."""
    random = Random(seed)
    words = [f"w{number}" for number in range(400)]
    texts: list[list[str]] = []
    for _ in range(count):
        kind = random.random()
        if texts and kind < 0.15:
            text = list(random.choice(texts))
        elif texts and kind < 0.6:
            text = list(random.choice(texts[-newest:] if newest else texts[:4]))
            for _ in range(random.randint(1, 5)):
                text[random.randrange(len(text))] = random.choice(words)
        else:
            text = random.choices(words, k=random.randint(1, 60))
        texts.append(text)
    return [
        {"id": f"d{number % (count - 3)}", "text": " ".join(text), "rank": random.choice([None, 1, 2, 3.5])}
        for number, text in enumerate(texts)
    ]


def written(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return str(path)


# ---- connections ----


class Connected(RayCalls):
    """Calls of plain hosts by connections, without Ray.

    Attributes:
        servers: of places, as they were started.
        frames: (place, method) of the calls that came.
        lost: place -> how many calls end without a reply, done or not.
        pause: seconds before a call is answered.
    """

    def __init__(self, cluster: Cluster) -> None:
        engine = SimpleNamespace(cluster_resources=lambda: ["a", "b"])
        with mock.patch.object(actors, "ray_module", return_value=engine):
            super().__init__(Catalog.load(cluster.uri))
        self.cluster, self.servers, self.frames = cluster, dict[str, Server](), list[tuple[str, str]]()
        self.lost, self.pause = dict[str, int](), 0.0

    def _connected(self, place: str) -> Connection:
        if place not in self.servers:
            self.servers[place] = Server("127.0.0.1", lambda *given: self._answer(place, *given))
        return Connection.to(self.servers[place].address, self._pickled)

    def _answer(self, place: str, catalog: bytes, frame: bytes) -> bytes:
        self.frames.append((place, pickle.loads(frame)[1]))
        time.sleep(self.pause)
        found = self.cluster.hosts[place].call(catalog, frame)
        if self.lost.get(place, 0):
            self.lost[place] -= 1
            raise ConnectionError("this reply is lost")
        return found

    def close(self) -> None:
        super().close()
        for server in self.servers.values():
            server.close()
