"""Replicas: read-only copies of an index, made of its backup, that answer questions in turn.

A replica is an actor that restores the backup into a folder of its node; Ray starts one that died anew, which
restores it once more. A question goes to one replica, and to the next one, too, when it takes longer than
most before it (Dean and Barroso, The Tail at Scale, 2013); the first answer counts.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import count
from typing import Any

import xxhash

from simindex.checks import require_int
from simindex.config import Config
from simindex.errors import FormatError
from simindex.index import Index
from simindex.maintenance.object_store import open_store
from simindex.maintenance.restore import restore_index
from simindex.scaleout.actors import THREADS, HostActor, RayCalls, connected, end_actor
from simindex.scaleout.calls import NoAnswer, To
from simindex.scaleout.catalog import Catalog, Partition, require_absolute
from simindex.scaleout.cluster import NAMESPACE, answer, ray_module, start
from simindex.scaleout.connections import Connection, Group, Sent
from simindex.scaleout.errors import ScaleOutError, UnsupportedError
from simindex.scaleout.index import ScaledIndex
from simindex.scaleout.moving import require_store

_PLACE = "replicas"

_READS = "query", "each", "status"
"""Methods of a host that a replica answers."""

_READS_OF_PARTITIONS = "get", "documents", "count", "keys_from", "stats", "check"

_REMEMBERED, _PERCENTILE, _LEAST_KNOWN = 200, 0.95, 20
_FIRST_SECONDS = 5.0
"""How long an answer may take before another replica is called, as long as few durations are known."""


class ReplicaActor(HostActor):
    """A replica as Ray calls it.

    Args:
        uris: of the backups of all partitions.
        folder: in which it makes a folder for its copies; ``None``: that for temporary files.
    """

    def __init__(self, uris: list[str], folder: str | None) -> None:
        super().__init__(_PLACE)
        own = f"simindex-replica-{ray_module().get_runtime_context().get_actor_id()}"
        self._uris, self._made = uris, os.path.join(folder or tempfile.gettempdir(), own)
        self._making = threading.Lock()
        self._copies: Catalog | None = None

    def _given(self, _: bytes) -> Catalog:
        with self._making:
            if self._copies is None:
                self._copies = self._restored()
            return self._copies

    def _restored(self) -> Catalog:
        self._remove()  # what this actor left where it was killed
        os.makedirs(self._made)
        paths = [os.path.join(self._made, f"{n:05}.simindex") for n in range(len(self._uris))]
        try:
            for uri, path in zip(self._uris, paths, strict=True):
                restore_index(uri, path)
            with Index(paths[0], "r") as index:
                return Catalog(index.config, tuple(Partition(_PLACE, path, closed=1) for path in paths))
        except BaseException:
            self._remove()
            raise

    def _remove(self) -> None:
        shutil.rmtree(self._made, ignore_errors=True)

    def stands(self) -> None:
        """Answer as soon as there is room for this actor."""

    def config(self) -> Config:
        """Return the configuration of the index, once its copy is there."""
        return self._given(b"").config

    def close(self) -> None:
        """Close the copies and remove them."""
        super().close()
        self._remove()


class ReplicaCalls(RayCalls):
    """Calls of replicas in turn; each holds all partitions."""

    def __init__(self, catalog: Catalog, actors: list[Any]) -> None:
        super().__init__(catalog)
        self._actors, self._turn = {str(number): actor for number, actor in enumerate(actors)}, count()
        self._seconds: dict[str, deque[float]] = {}

    def _connected(self, name: str) -> Connection:
        return connected(self._actors[name], b"")

    def send(self, group: Group, method: str, *arguments: Any, to: To | None = None) -> dict[str, Any]:
        """Call a method at one replica; see `Calls.send`."""
        own = () if to is None else to[_PLACE]
        of_partition = arguments[-1] if method == "each" else None
        if method not in _READS or (of_partition is not None and of_partition not in _READS_OF_PARTITIONS):
            raise UnsupportedError(
                f"{of_partition or method}: expected a question, for replicas are read only; change the "
                "index that they are copies of, back it up, and open replicas anew"
            )
        frame = pickle.dumps((group, method, own), protocol=5), pickle.dumps(arguments, protocol=5)
        return {_PLACE: (method, self._send(group, frame))}

    def _send(self, group: Group, frame: tuple[bytes, ...]) -> Sent:
        name = str(next(self._turn) % len(self._actors))
        return self._connections.send(name, group, *frame, by_thread=True)

    def _reply(self, asked: tuple[str, Sent], seconds: float) -> Any:
        """Return the first answer; any of the frames that are sent will do."""
        method, *sent = asked
        began, done = time.monotonic(), set[Future[bytes | None]]()
        known = self._seconds.setdefault(method, deque(maxlen=_REMEMBERED))
        pause = sorted(known)[int(_PERCENTILE * len(known))] if len(known) >= _LEAST_KNOWN else _FIRST_SECONDS
        while left := max(0.0, began + seconds - time.monotonic()):
            done, _ = wait([one.answer for one in sent if one.answer], min(left, pause), FIRST_COMPLETED)
            if done:
                known.append(time.monotonic() - began)
                break
            if len(sent) < len(self._actors):
                sent.append(self._send(sent[0].group, sent[0].frame))
            pause = max(2 * pause, 0.01)
        for one in sent:
            one.give_up()
        reply = done.pop().result() if done else None
        if reply is None:
            raise NoAnswer(f"no replica has answered in time; {sent[-1].why}")
        return pickle.loads(reply)

    def stop(self) -> None:
        """End all replicas, and remove their copies."""
        for actor in self._actors.values():
            end_actor(actor)


_START_SECONDS = 30.0


def replicas(
    source: str | os.PathLike[str],
    count: int = 2,
    *,
    folder: str | None = None,
    cores: float = 1,
    address: str | None = None,
    ray: Mapping[str, Any] | None = None,
) -> ScaledIndex:
    """Open read-only copies of an index, each with a core of a Ray cluster, that answer questions in turn.

    Each copy is restored from the backup into a folder of its node, whole: so questions a second grow with
    copies, where those of partitions do not. What was stored behind the backup is not in them. All programs
    that open replicas of one source share them; ``stop()`` ends them and removes the copies, and what is
    opened then has the newest backup.

    Args:
        source: the uri of a backup (`backup_index`), or of a catalog with a store whose partitions are backed
            up (`backup`).
        count: how many there are; those of earlier calls among them.
        folder: on the disk of each node, for the copies; ``None``: that for temporary files.
        cores: of each, as Ray counts them.
        address, ray: as of `open`.

    Returns:
        A `ScaledIndex` whose questions work; a change raises `UnsupportedError`.

    Raises:
        MissingObjectError: there is no backup.
        CorruptIndexError, StoreError: it is damaged, or cannot be read.
        ValueError: a catalog without a store, or a relative folder.
        ScaleOutError: the cluster has no cores for so many.
        MissingPackageError: Ray is not installed.
    """
    require_int("count", count, 1)
    if folder is not None:
        require_absolute("folder", folder, "the disk of each node")
    source = os.fspath(source)
    version: dict[str, Any] = {}
    try:
        catalog = Catalog.load(source)
        require_store(catalog, source)
        uris = [str(catalog.backup_uri(number)) for number in range(len(catalog.partitions))]
        version = {"id": catalog.id, "version": catalog.version}
    except (FileNotFoundError, FormatError):
        uris = [open_store(source).uri]
    name = xxhash.xxh3_64_hexdigest("\n".join(uris).encode("utf-8", "surrogateescape"))
    started, module = start(address, ray), ray_module()
    actor = module.remote(num_cpus=cores, max_concurrency=THREADS)(ReplicaActor)
    actors, made = list[Any](), list[Any]()
    for number in range(count):
        named: dict[str, Any] = {"name": f"replicas/{name}/{number}", "namespace": NAMESPACE}
        try:
            actors.append(module.get_actor(**named))
        except ValueError:  # there is none of that name
            how = named | {"lifetime": "detached", "max_restarts": -1, "get_if_exists": True}
            made.append(actor.options(**how, scheduling_strategy="SPREAD").remote(uris, folder))
            actors.append(made[-1])
    try:
        standing = [actor.stands.remote() for actor in actors]
        up, waiting = module.wait(standing, num_returns=count, timeout=_START_SECONDS)
        if waiting:
            raise ScaleOutError(
                f"count: expected {cores:g} free cores of the Ray cluster for each of {count} replicas, "
                f"found them for {len(up)} within {_START_SECONDS:g} s; ask for fewer, or start nodes"
            )
        configs = [actor.config.remote() for actor in actors]
        config, *_ = [answer(reference) for reference in configs]
    except BaseException:
        for one in made:
            module.kill(one)
        if started:
            module.shutdown()
        raise
    copied = Catalog(config, tuple(Partition(_PLACE, uri) for uri in uris), **version)
    at_end = module.shutdown if started else None
    return ScaledIndex(source, copied, lambda copied: ReplicaCalls(copied, actors), at_end)
