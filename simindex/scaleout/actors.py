"""Hosts as Ray actors: one a place, named, pinned to the machine that has the files.

A place is the name of a resource of Ray: ``node:10.0.0.1``, which every node has, or one of ``ray start
--resources='{"simindex:a": 1}'``. The actor asks for a thousandth of it, so that Ray itself starts it again
when a node with that resource is there, whatever its id (Ray, fault tolerance of actors and nodes,
docs.ray.io). Nothing is kept in Ray that the catalog does not say.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from simindex.imports import optional_module
from simindex.scaleout.errors import ScaleOutError
from simindex.scaleout.host import Assignment, Host
from simindex.scaleout.wire import unpacked

NAMESPACE = "simindex"

HERE = "node:__internal_head__"
"""The resource of the head node: the place of an index on one machine."""

INLINE_BYTES = 100_000
"""Arguments of more bytes than this go to Ray's object store in any case."""

SHARE = 0.001
"""Of the resource of a place, which says where an actor runs."""

_HEAD_SECONDS = 5.0

Group = Literal["changes", "asks", "jobs"]

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


def start(address: str | None, options: Mapping[str, Any] | None) -> bool:
    """Connect to Ray, or start it on this machine where there is none; returns whether this did it."""
    ray = ray_module()
    if ray.is_initialized():
        return False
    _require_head(address or os.environ.get("RAY_ADDRESS", ""))
    quiet = {"namespace": NAMESPACE, "log_to_driver": False, "include_dashboard": False, "logging_level": 40}
    # Ray gives what it starts the lowest priority; an index is no background work.
    os.environ.setdefault("RAY_worker_niceness", "0")
    ray.init(address=address, **(quiet | dict(options or {})))
    return True


def _require_head(address: str) -> None:
    """Refuse an address where nothing listens: Ray tries it for minutes, and writes its own log to stderr."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdigit()):
        return  # "auto", "local" and the like
    try:
        socket.create_connection((host.strip("[]"), int(port)), _HEAD_SECONDS).close()
    except OSError as exc:
        raise ScaleOutError(
            f"address: expected the head of a Ray cluster at {address}, found nothing that answers ({exc}); "
            "start it with ray start --head, or give another address"
        ) from exc


class HostActor:
    """A host as Ray calls it.

    Arguments and answers travel as pickles made here and there: what Ray makes of many small objects takes
    ten times as long, and of three arguments 0.1 ms more than of one. The assignment, the same for many
    calls, is read once.
    """

    def __init__(self) -> None:
        self._host = Host()
        self._assignment: tuple[bytes, Assignment] | None = None

    def call(self, head: bytes, *beside: Any) -> bytes:
        """Call a method of the host, with what `sent_as` has made."""
        assignment, method, arguments = pickle.loads(head)
        if arguments is None:
            arguments, beside = beside[0], beside[1:]
        known = self._assignment
        if known is None or known[0] != assignment:
            known = self._assignment = assignment, pickle.loads(assignment)
        answer = getattr(self._host, method)(known[1], *unpacked(arguments, beside))
        return pickle.dumps(answer, protocol=5)

    def close(self) -> None:
        """Close all partitions."""
        self._host.close()


def sent_as(assignment: bytes, method: str, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return what `HostActor.call` is given, as one value where it is little.

    Args:
        assignment: pickled.
        arguments: as `packed` returns them, or Ray's references of these.
    """
    first, *beside = arguments
    is_little = isinstance(first, bytes) and len(first) < INLINE_BYTES
    head = pickle.dumps((assignment, method, first if is_little else None), protocol=5)
    return (head, *(beside if is_little else arguments))


def host_of(catalog: str, place: str) -> Any:
    """Return the handle of a place's actor, which is made where Ray has none of its name."""
    actor = ray_module().remote(num_cpus=0, concurrency_groups=THREADS)(HostActor)
    return actor.options(
        name=name_of(catalog, place),
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        resources={place: SHARE},
        max_restarts=-1,
        max_task_retries=-1,
    ).remote()


def probe(**where: Any) -> Any:
    """Return the reference of a task for `why_unfit`."""
    return ray_module().remote(num_cpus=0, max_retries=0, **where)(stands).remote()


def why_unfit(probed: Any) -> str | None:
    """Return why simindex cannot run where a task was sent; ``None``: it can, or that is not known."""
    ray = ray_module()
    try:
        ray.get(probed)
    except ray.exceptions.RayTaskError as exc:
        return f"{str(exc).strip().splitlines()[-1]}; install simindex on that node"
    except ray.exceptions.RayError:
        return None  # it died with its node, say
    return None


def stands() -> bool:
    """Tell that simindex can be imported where this runs: Ray looks for this function there."""
    return True


def stop_hosts(catalog: str, places: list[str]) -> None:
    """End the actors of some places, as far as there are any, and wait until their partitions are closed."""
    ray = ray_module()
    for place in places:
        try:
            actor = ray.get_actor(name_of(catalog, place), namespace=NAMESPACE)
        except ValueError:
            continue  # there is none of that name
        if place not in ray.cluster_resources():
            ray.kill(actor)  # it runs nowhere
            continue
        # One that is dead or away has nothing open.
        with suppress(ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
            ray.get(actor.close.options(concurrency_group="jobs").remote(), timeout=_STOP_SECONDS)
        ray.kill(actor)


_STOP_SECONDS = 30


def name_of(catalog: str, place: str) -> str:
    """Return the name of a place's actor in the namespace of simindex."""
    return f"{catalog}/{place}"
