"""Hosts as Ray actors, and their calls: one a place, named, pinned to the machine that has the files.

A place is the name of a resource of Ray: ``node:10.0.0.1``, which every node has, or one of ``ray start
--resources='{"simindex:a": 1}'``. The actor asks for a thousandth of it, so that Ray itself starts it again
when a node with that resource is there (Ray, fault tolerance of actors and nodes, docs.ray.io). Nothing is
kept in Ray that the catalog does not say: what Ray has given up is made anew, of the catalog.

Ray starts hosts and says where they are; calls go by connections, or by Ray where the driver cannot reach a
host.
"""

from __future__ import annotations

import math
import pickle
import time
from contextlib import suppress
from typing import Any

from simindex.scaleout.calls import Calls, LocalCalls, NoAnswer, To, is_local
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.cluster import NAMESPACE, answer, ray_module
from simindex.scaleout.connections import Address, Connection, Connections, Group, Server
from simindex.scaleout.host import Host

HERE = "node:__internal_head__"
"""The resource of the head node: the place of an index on one machine."""

SHARE = 0.001
"""Of the resource of a place, which says where an actor runs."""

_STOP_SECONDS = 30.0

_LOOK_SECONDS = 1.0

_AGAIN_SECONDS = 30.0
"""After so long an actor is tried again to which no connection could be made."""

THREADS = 16
"""Of an actor, for calls that come by Ray."""


def _of_actor(reference: Any, seconds: float) -> Any:
    """Return what an actor has returned. Raises OSError where it is gone or late."""
    ray = ray_module()
    try:
        return ray.get(reference, timeout=seconds)
    except ray.exceptions.GetTimeoutError:
        raise
    except ray.exceptions.RayError as exc:
        raise ConnectionError(str(exc).strip().splitlines()[0]) from exc


class HostActor(Host):
    """A host as Ray starts it."""

    _server: Server | None = None

    def address(self) -> Address:
        """Return where calls are answered that do not come by Ray."""
        with self._lock:
            if self._server is None:
                self._server = Server(ray_module().util.get_node_ip_address(), self.call)
            return self._server.address


class ByRay(Connection):
    """Carries frames by Ray to an actor that the driver cannot reach."""

    def __init__(self, actor: Any, catalog: bytes) -> None:
        self._actor, self._catalog = actor, catalog
        self._is_ended, self._made_at = False, time.monotonic()

    def send(self, *frame: bytes, seconds: float | None = None) -> None:  # noqa: ARG002 - it does not wait
        """Send a frame; Ray keeps it."""
        if time.monotonic() > self._made_at + _AGAIN_SECONDS:
            raise ConnectionError("it may be that the actor can be reached by now")
        self._reference = self._actor.call.remote(self._catalog, b"".join(frame))

    def reply(self, seconds: float = math.inf) -> bytes:
        """Return what comes back."""
        until = time.monotonic() + seconds
        while not self._is_ended:
            left = max(0.0, until - time.monotonic())
            try:
                found: bytes = _of_actor(self._reference, min(left, _LOOK_SECONDS))
                return found
            except TimeoutError:
                if left <= _LOOK_SECONDS:
                    raise
        raise ConnectionError("it was given up")

    def end(self) -> None:
        """Let who waits for a reply wait no more. Ray is not asked to take a call back: it numbers those of a
        driver to an actor, and the actor waits for the number of one that was cancelled before it was sent
        (`OrderedActorTaskExecutionQueue` in Ray's sources)."""
        self._is_ended = True


def connected(actor: Any, catalog: bytes) -> Connection:
    """Return a connection to an actor, for calls by a catalog. Raises OSError where there is none now."""
    address = _of_actor(actor.address.remote(), _LOOK_SECONDS)
    try:
        return Connection.to(address, catalog)
    except OSError:
        return ByRay(actor, catalog)


def host_of(catalog: str, place: str) -> Any:
    """Return the handle of a place's actor, which is made where Ray has none of its name."""
    actor = ray_module().remote(num_cpus=0, max_concurrency=THREADS)(HostActor)
    return actor.options(
        name=_name_of(catalog, place),
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        resources={place: SHARE},
        max_restarts=-1,
        max_task_retries=-1,
    ).remote(place)


def _name_of(catalog: str, place: str) -> str:
    return f"{catalog}/{place}"


def can_import() -> bool:
    """Return True: Ray finds this function where simindex can be imported."""
    return True


class RayCalls(Calls):
    """Calls of the actors of a catalog's places."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self._ray, self._connections = ray_module(), Connections(self._connected)
        self._pickled = pickle.dumps(catalog, protocol=5)

    def _connected(self, place: str) -> Connection:
        return connected(host_of(self.catalog.id, place), self._pickled)

    def send(self, group: Group, method: str, *arguments: Any, to: To | None = None) -> dict[str, Any]:
        """Call a method; see `Calls.send`."""
        others, send = pickle.dumps(arguments, protocol=5), self._connections.send
        every = dict.fromkeys(self.places, ()) if to is None else to
        firsts = {place: pickle.dumps((group, method, own), protocol=5) for place, own in every.items()}
        return {place: send(place, group, first, others) for place, first in firsts.items()}

    def _reply(self, sent: Any, seconds: float) -> Any:
        found = self._connections.reply(sent, seconds)
        if found is not None:
            return pickle.loads(found)
        if sent.name in self._ray.cluster_resources():
            raise NoAnswer("no answer within the deadline")
        raise NoAnswer(f"no node of the Ray cluster has the resource {sent.name!r}")

    def require_fit(self, seconds: float) -> None:
        """Refuse places where no host can run; those that no node has are not looked at."""
        task = ray_module().remote(num_cpus=0, max_retries=0)(can_import)
        there = [place for place in self.places if place in self._ray.cluster_resources()]
        probed = {task.options(resources={place: SHARE}).remote(): place for place in there}
        unfit = dict[str, str]()
        for one in self._ray.wait([*probed], num_returns=len(probed), timeout=seconds)[0] if probed else []:
            try:
                self._ray.get(one)
            except self._ray.exceptions.RayTaskError as exc:
                why = str(exc).strip().splitlines()[-1]
                unfit[probed[one]] = f"no host can run there; {why}; install simindex on that node"
            except self._ray.exceptions.RayError:
                pass  # it died with its node, say
        self.gathered({}, unfit).whole("create")

    def close(self) -> None:
        """Close the connections; hosts go on."""
        self._connections.close()

    def stop(self) -> None:
        """End the actors of all places that have one, once their partitions are closed."""
        for place in self.places:
            with suppress(ValueError):  # there is none of that name
                actor = self._ray.get_actor(_name_of(self.catalog.id, place), namespace=NAMESPACE)
                end_actor(actor, runs=place in self._ray.cluster_resources())


def calls_of(catalog: Catalog) -> Calls:
    """Return what calls the hosts of a catalog: in this process, or actors of Ray."""
    return LocalCalls(catalog) if is_local(catalog.places) else RayCalls(catalog)


def end_actor(actor: Any, *, runs: bool = True) -> None:
    """Close what an actor has open, and end it; one that is dead or away has nothing open."""
    ray = ray_module()
    if runs:
        with suppress(ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
            answer(actor.close.remote(), _STOP_SECONDS)
    ray.kill(actor)
