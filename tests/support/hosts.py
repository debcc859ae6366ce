"""Hosts and workers of an index over many machines, in this process and without Ray."""

import io
import json
import pickle
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from simindex import Config, Sketcher
from simindex.scaleout import CatalogChangedError, PartitionError, ScaledIndex, actors
from simindex.scaleout.actors import RayCalls
from simindex.scaleout.calls import LocalCalls, Replied, replied
from simindex.scaleout.catalog import Catalog, Partition
from simindex.scaleout.connections import Connection, Group, Server
from simindex.scaleout.host import Assignment, Host
from simindex.scaleout.moving import move_partition, restore_place
from simindex.scaleout.stages import compare_range, read_found
from simindex.scaleout.wire import Routing
from simindex.scaleout.wire import partition_of as partition_of

# ---- local ----


class PickledCalls(LocalCalls):
    """Calls of hosts in this process, with arguments and answers that were pickled as on the way.

    Attributes:
        away: places that do not answer.
        repeats: how often a call is done, as if its answers had been lost.
    """

    def __init__(self, catalog: Catalog, away: dict[str, str] | None = None) -> None:
        self.away, self.repeats = {} if away is None else away, 1
        super().__init__(catalog)

    @property
    def hosts(self) -> dict[str, Host]:
        return {place: self._host(place) for place in self.places}

    def send_all(
        self, group: Group, method: str, *arguments: Any, to: Mapping[str, tuple[Any, ...]] | None = None
    ) -> dict[str, Any]:
        own = dict.fromkeys(self.places, ()) if to is None else to
        there = {place: those for place, those in own.items() if place not in self.away}
        sent = super().send_all(group, method, *arguments, to=there)
        return {place: sent[place] if place in sent else self.away[place] for place in own}

    def _call(self, place: str, method: str, *arguments: Any) -> Any:
        carried = pickle.dumps((Assignment.of(self.catalog, place), *arguments))
        try:
            for _ in range(self.repeats):
                answer = getattr(self._host(place), method)(*pickle.loads(carried))
        except Exception as exc:
            raise pickle.loads(pickle.dumps(exc)) from exc
        return pickle.loads(pickle.dumps(answer))

    def _reply(self, sent: Replied | str, seconds: float) -> Replied | str:
        return sent if isinstance(sent, str) else super()._reply(sent, seconds)


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
        super().__init__(folder / "catalog", catalog, PickledCalls)
        self.make_partitions()
        catalog.replace(self.uri, None)

    @property
    def local(self) -> PickledCalls:
        assert isinstance(self._calls, PickledCalls)
        return self._calls


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

    def __init__(self, folder: Path, places: str = "ab", partitions: int = 4, **options: Any) -> None:
        self.folder, self.uri = folder, str(folder / "catalog")
        self.hosts = {place: Host() for place in places}
        rows = [
            Partition(place, str(folder / place / f"{number:05}.simindex"))
            for number, place in zip(range(partitions), places * partitions, strict=False)
        ]
        catalog = Catalog(CONFIG, tuple(rows), **options).replace(self.uri, None)
        for place in catalog.places:
            self.call(catalog, place, "create")

    def call(self, catalog: Catalog, place: str, method: str, *arguments: Any) -> Any:
        return getattr(self.hosts[place], method)(Assignment.of(catalog, place), *arguments)

    def handle(self, away: dict[str, str] | None = None) -> ScaledIndex:
        return ScaledIndex(self.uri, self.catalog, lambda catalog: _OfCluster(catalog, self, away))

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
        self.hosts[place] = Host()

    def close(self) -> None:
        for host in self.hosts.values():
            host.close()

    # ---- a driver ----

    def insert(self, first: int, count: int) -> None:
        """Store texts; returns when they are acknowledged."""
        call = secrets.token_bytes(16)
        until = time.monotonic() + 30
        while True:
            try:
                self._insert(self.catalog, call, range(first, first + count))
            except CatalogChangedError:
                assert time.monotonic() < until
                time.sleep(0.002)
            else:
                return

    def _insert(self, catalog: Catalog, call: bytes, numbers: range) -> None:
        items = [(number, f"a text of the number {number}") for number in numbers]
        for place, (_, routed) in Routing(catalog, Sketcher(CONFIG)).items(items).items():
            self.call(catalog, place, "insert", call, routed, "error")

    def counts(self) -> dict[int, int]:
        """Number of a partition -> its documents."""
        until = time.monotonic() + 30
        while True:
            try:
                catalog = self.catalog
                found = dict[int, int]()
                for place, numbers in catalog.places.items():
                    found |= self.call(catalog, place, "each", dict.fromkeys(numbers, ()), "count")
                return found
            except (CatalogChangedError, PartitionError):
                assert time.monotonic() < until
                time.sleep(0.002)

    def keys(self) -> set[int]:
        """The keys of all partitions."""
        catalog = self.catalog
        found = set[int]()
        for number, partition in enumerate(catalog.partitions):
            arguments = {number: (0, 10_000)}
            found |= set(self.call(catalog, partition.place, "each", arguments, "keys_from")[number][0])
        return found


class _OfCluster(PickledCalls):
    """Calls of the hosts of a cluster."""

    def __init__(self, catalog: Catalog, cluster: Cluster, away: dict[str, str] | None) -> None:
        self._cluster = cluster
        super().__init__(catalog, away)

    def _host(self, place: str) -> Host:
        return self._cluster.hosts[place]


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
            self.servers[place] = Server("127.0.0.1", lambda frame: self._answer(place, frame))
        return Connection.to(self.servers[place].address)

    def _answer(self, place: str, frame: bytes) -> bytes:
        file = io.BytesIO(frame)
        (_, assignment, method, own), others = pickle.load(file), pickle.load(file)
        self.frames.append((place, method))
        time.sleep(self.pause)
        arguments = pickle.loads(assignment), *own, *others
        found = replied(lambda: getattr(self.cluster.hosts[place], method)(*arguments))
        if self.lost.get(place, 0):
            self.lost[place] -= 1
            raise ConnectionError("this reply is lost")
        return pickle.dumps(found)

    def close(self) -> None:
        super().close()
        for server in self.servers.values():
            server.close()
