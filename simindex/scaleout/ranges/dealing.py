"""Ranges dealt out to hosts, each to one that is free, and what they find as it comes.

Owns which range is under way where, and that one whose host was lost is walked again. Must not know what is
done about a lost host.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from simindex.pairs.ranges import RangeEnd
from simindex.pairs.walk_plan import Earlier, Edges, WalkPlan
from simindex.scaleout.hosts.actors import ray_module
from simindex.scaleout.ranges.remote import Hosts, answer, lost

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
        recover: is told of a host that was lost, and returns when there is another one, or raises.
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
