"""Hosts as Ray actors, and their calls: one a place, named, pinned to the machine that has the files.

A place is the name of a resource of Ray: ``node:10.0.0.1``, which every node has, or one of ``ray start
--resources='{"simindex:a": 1}'``. The actor asks for a thousandth of it, so that Ray itself starts it again
when a node with that resource is there (Ray, fault tolerance of actors and nodes, docs.ray.io). Nothing is
kept in Ray that the catalog does not say.

Ray repeats a call when its actor is started again, and what Ray has given up is made anew, of the catalog,
and called again here; so only what may be repeated is called. Around the death of a node a call can stay
without any answer, and without an error: questions that take long are sent again beside the first call. A
call that was sent is never taken back: Ray numbers the calls of a driver to an actor, and the actor waits for
the number of one that was cancelled before it was sent (`OrderedActorTaskExecutionQueue` in Ray's sources).
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from simindex.errors import optional_module
from simindex.scaleout.calls import Calls, Gathered, Group, LocalCalls, To, is_local
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.connections import Address, Connection, Connections, HostError, Server
from simindex.scaleout.errors import PlaceMissingError
from simindex.scaleout.head import require_head
from simindex.scaleout.host import Assignment, Host

NAMESPACE = "simindex"

HERE = "node:__internal_head__"
"""The resource of the head node: the place of an index on one machine."""

SHARE = 0.001
"""Of the resource of a place, which says where an actor runs."""

_INLINE_BYTES = 100_000
"""Arguments of more bytes than this go to Ray's object store in any case."""

_STOP_SECONDS = 30.0

THREADS: dict[Group, int] = {"changes": 1, "asks": 4, "jobs": 1}
"""Of an actor, by the group of calls. Changes come one after the other, as their driver sent them; a
compaction or a check keeps neither them nor queries waiting."""


def ray_module() -> Any:
    """Return Ray. Raises MissingPackageError where it is not installed."""
    return optional_module("ray", "simindex.scaleout", "'simindex[scaleout]'")


def answer(reference: Any, seconds: float | None = None) -> Any:
    """Return what a call has returned, or raise what it has raised."""
    ray = ray_module()
    try:
        return ray.get(reference, timeout=seconds)
    except ray.exceptions.RayTaskError as exc:
        raise (exc.cause if isinstance(exc.cause, Exception) else exc) from None


def start(address: str | None, options: Mapping[str, Any] | None, places: Iterable[str] = ()) -> bool:
    """Connect to Ray, or start it on this machine where there is none; returns whether this did it.

    Args:
        places: of which those that a new node of its own cannot have are looked for before one is started.

    Raises:
        ScaleOutError: nothing answers at the address.
        PlaceMissingError: no Ray runs, and a new one would not have one of the places.
    """
    ray, given = ray_module(), dict(options or {})
    if ray.is_initialized():
        return False
    found = address or os.environ.get("RAY_ADDRESS", "")
    require_head(found)
    quiet = {"namespace": NAMESPACE, "log_to_driver": False, "include_dashboard": False, "logging_level": 40}
    # Ray gives what it starts the lowest priority; an index is no background work.
    os.environ.setdefault("RAY_worker_niceness", "0")
    others = [one for one in places if not one.startswith("node:") and one not in given.get("resources", {})]
    if others and found in ("", "local"):
        try:
            if found:
                raise ConnectionError("a Ray of its own was asked for")
            ray.init(address="auto", **(quiet | given))
        except ConnectionError as exc:
            raise PlaceMissingError(
                f"places: expected a Ray cluster that has the resources {', '.join(others)}, found none "
                "that runs; start it with ray start --resources, or give its address",
                reasons=dict.fromkeys(others, "no Ray cluster runs"),
            ) from exc
        return True
    ray.init(address=address, **(quiet | given))
    return True


class HostActor:
    """A host as Ray calls it.

    Arguments and answers travel as pickles made here and there: what Ray makes of many small objects takes
    ten times as long, and of three arguments 0.1 ms more than of one.
    """

    def __init__(self) -> None:
        self._host, self._lock = Host(), threading.Lock()
        self._assignment: tuple[bytes, Assignment] | None = None
        self._server: Server | None = None

    def call(self, head: bytes, stored: bytes = b"") -> bytes:
        """Call a method of the host, with what `travelling` has packed."""
        assignment, method, arguments = pickle.loads(head)
        given = pickle.loads(arguments or stored)
        return pickle.dumps(getattr(self._host, method)(self._assigned(assignment), *given), protocol=5)

    def _assigned(self, assignment: bytes) -> Assignment:
        """Return the assignment, which is the same for many calls and is read once."""
        known = self._assignment
        if known is None or known[0] != assignment:
            known = self._assignment = assignment, pickle.loads(assignment)
        return known[1]

    def address(self) -> Address:
        """Return where questions are answered that do not come by Ray."""
        with self._lock:
            if self._server is None:
                self._server = Server(ray_module().util.get_node_ip_address(), self.call)
            return self._server.address

    def close(self) -> None:
        """Close all partitions."""
        self._host.close()


def travelling(assignment: bytes, method: str, arguments: Any) -> tuple[Any, ...]:
    """Return the arguments of `HostActor.call`; those of the method are a pickle, or a reference to one."""
    if isinstance(arguments, bytes) and len(arguments) < _INLINE_BYTES:
        return (pickle.dumps((assignment, method, arguments), protocol=5),)
    return pickle.dumps((assignment, method, b""), protocol=5), arguments


def host_of(catalog: str, place: str) -> Any:
    """Return the handle of a place's actor, which is made where Ray has none of its name."""
    actor = ray_module().remote(num_cpus=0, concurrency_groups=THREADS)(HostActor)
    return actor.options(
        name=_name_of(catalog, place),
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        resources={place: SHARE},
        max_restarts=-1,
        max_task_retries=-1,
    ).remote()


def _name_of(catalog: str, place: str) -> str:
    return f"{catalog}/{place}"


def can_import() -> bool:
    """Return True: Ray finds this function where simindex can be imported."""
    return True


@dataclass
class Sent:
    """A call that is under way.

    Attributes:
        references: Ray's, of its answers: one each time that Ray was given it; any of them will do.
        arguments: as they travel, to send them again.
        connection: by which it was sent, where it was not by Ray.
    """

    references: list[Any]
    group: Group
    method: str
    arguments: Any
    connection: Connection | None = None


_REPEAT_SECONDS = 5.0
"""After so long a question is sent again, and then after twice as long each time: a host that is slow has
little more to do, and one call that got lost costs seconds."""

_ADDRESS_SECONDS = 1.0

_LATE = "no answer within the deadline"

_LOST_SECONDS = 0.2
"""After so long a call is sent again whose actor Ray has given up."""


class RayCalls(Calls):
    """Calls of the actors of a catalog's places."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self._ray = ray_module()
        self._bound: dict[tuple[str, Group], Any] = {}
        self._assignments: dict[str, bytes] = {}
        self._connections = Connections(self._address_of)

    def _address_of(self, place: str) -> Address:
        found: Address = answer(host_of(self.catalog.id, place).address.remote(), _ADDRESS_SECONDS)
        return found

    def send_all(self, group: Group, method: str, *arguments: Any, to: To | None = None) -> dict[str, Sent]:
        """Call a method; see `Calls.send_all`."""
        if to is None:
            packed: Any = pickle.dumps(arguments, protocol=5)
            if len(self.places) > 1 and len(packed) > _INLINE_BYTES:  # once, whatever the number of places
                packed = self._ray.put(packed)
            sent = {place: Sent([], group, method, packed) for place in self.places}
        else:
            of_places = {place: pickle.dumps((*own, *arguments), protocol=5) for place, own in to.items()}
            sent = {place: Sent([], group, method, own) for place, own in of_places.items()}
        for place, call in sent.items():
            self._send(place, call)
        return sent

    def _send(self, place: str, call: Sent) -> None:
        """Send a call: a question by a connection, where one is free, else by Ray."""
        is_small = isinstance(call.arguments, bytes) and len(call.arguments) < _INLINE_BYTES
        connection = self._connections.taken(place) if call.group == "asks" and is_small else None
        if connection is None:
            self._send_by_ray(place, call)
            return
        try:
            connection.send(self._travelling(place, call)[0])
            call.connection = connection
        except OSError:
            self._connections.drop(place, connection)
            self._send_by_ray(place, call)

    def _send_by_ray(self, place: str, call: Sent) -> None:
        bound = self._bound.get((place, call.group))
        if bound is None:
            bound = host_of(self.catalog.id, place).call.options(concurrency_group=call.group)
            self._bound[place, call.group] = bound
        call.references.append(bound.remote(*self._travelling(place, call)))

    def _travelling(self, place: str, call: Sent) -> tuple[Any, ...]:
        if place not in self._assignments:
            self._assignments[place] = pickle.dumps(Assignment.of(self.catalog, place), protocol=5)
        return travelling(self._assignments[place], call.method, call.arguments)

    def gather(self, sent: Mapping[str, Sent], seconds: float) -> Gathered:
        """Return what places answer; see `Calls.gather`."""
        began = time.monotonic()
        deadline, until = began + seconds, began + min(seconds, _REPEAT_SECONDS)
        found, failures = Gathered({}, {}), list[Exception]()
        for place, call in sent.items():
            with _noted(failures):
                if call.connection is not None and (reply := self._replied(place, call, until)):
                    found.answers[place] = pickle.loads(reply)
                elif not call.references:
                    if time.monotonic() < deadline:
                        self._send_by_ray(place, call)
                    else:
                        found.missing[place] = _LATE
        left = {place: call for place, call in sent.items() if call.references}
        try:  # where none takes long nor fails: by one call of Ray
            references = [call.references[0] for call in left.values()]
            wait = min(max(deadline - time.monotonic(), 0.0), _REPEAT_SECONDS)
            answers = self._ray.get(references, timeout=wait) if left else []
            found.answers.update(zip(left, map(pickle.loads, answers), strict=True))
        except self._ray.exceptions.RayError:  # the answers stay there
            for place, call in left.items():
                with _noted(failures):
                    self._answer(place, call, deadline, found)
        if failures:
            raise failures[0]
        for place in found.answers.keys() & left.keys():
            if left[place].group == "asks":
                self._connections.more(place)
        return found

    def _replied(self, place: str, call: Sent, until: float) -> bytes | None:
        """Return the reply of a connection; ``None`` where it fails, or none comes until a time."""
        connection, call.connection = call.connection, None
        assert connection is not None
        try:
            reply = connection.reply(until - time.monotonic())
        except HostError as exc:
            self._connections.put_back(place, connection)
            raise exc.error from None
        except BaseException as exc:
            self._connections.drop(place, connection)
            if not isinstance(exc, OSError):
                raise
            return None
        self._connections.put_back(place, connection)
        return reply

    def _answer(self, place: str, call: Sent, deadline: float, found: Gathered) -> None:
        """Take note of what one place answers, or why it does not."""
        answered = self._answered(place, call, deadline)
        if answered is not None:
            found.answers[place] = pickle.loads(answered)
        elif place in self._ray.cluster_resources():
            found.missing[place] = _LATE
        else:
            found.missing[place] = f"no node of the Ray cluster has the resource {place!r}"

    def _answered(self, place: str, call: Sent, deadline: float) -> bytes | None:
        """Return the pickled answer of one place; ``None``: there is none at the deadline."""
        pause, lost = _REPEAT_SECONDS, self._ray.exceptions
        while True:
            left = max(0.0, deadline - time.monotonic())
            for reference in self._ray.wait(call.references, timeout=min(left, pause))[0]:
                try:
                    found: bytes = answer(reference)
                    return found
                except (lost.RayActorError, lost.ObjectLostError):
                    # Ray has given this actor up, or its answer got lost: once more, by another actor if
                    # there is none of its name.
                    call.references.remove(reference)
                    time.sleep(min(_LOST_SECONDS, left))
            if time.monotonic() >= deadline:
                return None
            # Changes keep the order in which they were sent.
            if call.group == "asks" or not call.references:
                self._bound.pop((place, call.group), None)
                self._send_by_ray(place, call)
                pause *= 2

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
        if unfit:
            raise self.missing("create", unfit)

    def close(self) -> None:
        """Close the connections; hosts go on."""
        self._connections.close()

    def stop(self) -> None:
        """End the actors of all places that have one, once their partitions are closed."""
        for place in self.places:
            with suppress(ValueError):  # there is none of that name
                actor = self._ray.get_actor(_name_of(self.catalog.id, place), namespace=NAMESPACE)
                end_actor(actor, runs=place in self._ray.cluster_resources())


@contextmanager
def _noted(failures: list[Exception]) -> Iterator[None]:
    """Let the others be looked at, too, before an error is raised."""
    try:
        yield
    except Exception as exc:
        failures.append(exc)


def calls_of(catalog: Catalog) -> Calls:
    """Return what calls the hosts of a catalog: in this process, or actors of Ray."""
    return LocalCalls(catalog) if is_local(catalog.places) else RayCalls(catalog)


def end_actor(actor: Any, *, runs: bool = True) -> None:
    """Close what an actor has open, and end it; one that is dead or away has nothing open."""
    ray = ray_module()
    if runs:
        with suppress(ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
            answer(actor.close.options(concurrency_group="jobs").remote(), _STOP_SECONDS)
    ray.kill(actor)
