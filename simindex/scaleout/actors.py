"""Actors of Ray: where they run, and their calls, which Ray sends.

A place is the name of a resource of Ray: ``node:10.0.0.1``, which every node has, or one of ``ray start
--resources='{"simindex:a": 1}'``. An actor asks for a thousandth of it, so that Ray starts it again where the
files are (Ray, fault tolerance of actors, docs.ray.io).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from simindex.scaleout.cluster import answer, answer_while, ray_module
from simindex.scaleout.errors import PlaceMissingError

HERE = "node:__internal_head__"
"""The resource of the head node: the machine of a Ray that a program starts itself."""

SHARE = 0.001

_PATIENCE_SECONDS = 30.0
"""How long no node may have a place before a call gives up."""

_STOP_SECONDS = 30.0


def require_place(place: str) -> None:
    """Raise PlaceMissingError unless a node of the Ray cluster offers `place` as a resource."""
    if place not in ray_module().cluster_resources():
        raise PlaceMissingError(
            f"place: expected the resource of a node, found {place!r}, which no node has; start the node "
            "with ray start --resources, or look at ray.cluster_resources()"
        )


def answer_at(place: str, reference: Any) -> Any:
    """Return what a call of an actor returns, or raise what it raises. PlaceMissingError: for half a minute
    no node has had the resource `place`."""
    gone = PlaceMissingError(
        f"expected a node with the resource {place!r}, found none for {_PATIENCE_SECONDS:g} s; start it "
        "again, and make a change once more with the same call=, for it may be done by then"
    )
    nodes = ray_module().cluster_resources
    return answer_while(lambda: place in nodes(), reference, _PATIENCE_SECONDS, gone)


def end_actor(actor: Any) -> None:
    """Call an actor's `close`, wait for its answer, half a minute at most, and kill the actor, even where it
    was dead or has not answered. Another error of `close` is raised, and the actor not killed."""
    ray = ray_module()
    with suppress(ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        answer(actor.close.options(max_task_retries=0).remote(), _STOP_SECONDS)  # done once, or not at all
    ray.kill(actor)
