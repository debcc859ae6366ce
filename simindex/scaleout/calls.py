"""Call the hosts of all places at once, within a deadline.

A place that is missing in the answers is named, with the reason as far as it is known. Ray repeats a call
when its actor is started again, and what Ray has given up is made anew, of the catalog, and called again
here; so only what may be repeated is called. Around the death of a node a call can stay without any answer,
and without an error: questions that take long are sent again beside the first call.

A call that was sent is never taken back. Ray numbers the calls of a driver to an actor, for each concurrency
group, and the actor does them in that order. One that is cancelled before it was sent leaves its number out:
the actor waits for it, and all later calls of the group with it, until it has been sent nothing for 30
seconds, not in other groups either (`OrderedActorTaskExecutionQueue` in Ray's sources, and its issue "Actor
reorder timer is re-armed on every task arrival, so a missing seq_no is never skipped"). Under load that is
for ever. So what was given up stays with the actor, which does it once it is there, and the answer is
dropped. That those are few, however long it is away, is what a `Lane` is for: while a place has as many
unanswered calls as threads, further calls are held back here, in their order.
"""

from __future__ import annotations

import math
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

from simindex.scaleout.actors import (
    INLINE_BYTES,
    SHARE,
    THREADS,
    Group,
    host_of,
    probe,
    ray_module,
    sent_as,
    why_unfit,
)
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import CatalogChangedError, PlaceMissingError
from simindex.scaleout.host import Assignment
from simindex.scaleout.wire import packed

_MOST_OWED = 64
"""Answers that may be owed before a question that is held back waits for one of them, whatever it takes."""


@dataclass(eq=False, slots=True)
class Sent:
    """A call that is under way.

    Attributes:
        reference: Ray's, of its answer; ``None`` while it is held back.
        group, method: what is called.
        arguments: as they travel (`packed`), to send them again.
    """

    reference: Any
    group: Group
    method: str
    arguments: tuple[Any, ...]


class Lane:
    """The calls of one group at one place. Safe to share between threads.

    Args:
        group: says how many answers may be owed before calls are held back.
        send: sends a call; returns Ray's reference of its answer.
        answered: says which of some references are answered, with anything.
    """

    def __init__(
        self, group: Group, send: Callable[[Sent], Any], answered: Callable[[list[Any]], list[Any]]
    ) -> None:
        self._most, self._send, self._answered = THREADS[group], send, answered
        self._lock = threading.Lock()
        self._held = deque[Sent]()
        self._owed: list[Any] = []

    def take(self, call: Sent) -> Sent:
        """Send a call, or hold it back until the place has answered others; returns it."""
        if not (self._held or self._owed):
            call.reference = self._send(call)
            return call
        with self._lock:
            self._held.append(call)
        self.flush()
        return call

    def flush(self) -> list[Any]:
        """Send what was held back, in its order, if it need not be any more; returns what is owed."""
        with self._lock:
            if self._owed:
                answered = set(self._answered(self._owed))
                self._owed = [one for one in self._owed if one not in answered]
            while self._held and len(self._owed) < self._most:
                self._held[0].reference = self._send(self._held[0])
                self._held.popleft()  # not before: who finds nothing held back sends at once
            return self._owed

    def may_repeat(self) -> bool:
        """Whether a question may be sent once more although answers are owed."""
        return len(self._owed) < _MOST_OWED

    def release(self, call: Sent) -> bool:
        """Let a call go, if it is held back; returns whether it was."""
        with self._lock:
            is_held = call in self._held
            if is_held:
                self._held.remove(call)
            return is_held

    def give_up(self, references: Iterable[Any]) -> None:
        """Wait for some answers no more."""
        with self._lock:
            self._owed = [*self._owed, *references]


OnMissing = Literal["partial", "wait", "raise"]

_AGAIN_SECONDS = 0.2

_LOOK_SECONDS = 2.0
"""So often the catalog is looked at while no place answers."""

_REPEAT_SECONDS = 5.0
"""After so long a question is sent again, and then after twice as long each time: a host that is slow has
little more to do, and one call that got lost costs seconds."""


class _Waiting:
    """A call that is waited for, each time that it was sent; any answer will do.

    Attributes:
        probe: Ray's reference of a task at its place, sent once the call is long in coming, which fails where
            no host can run; ``None`` before.
    """

    def __init__(self, call: Sent) -> None:
        self.call = call
        self.probe: Any = None
        self._further: list[Any] = []
        self._pause = _REPEAT_SECONDS
        self._repeat_at = self._long_at = time.monotonic() + self._pause

    @property
    def references(self) -> list[Any]:
        """Ray's, of its answers; none while it is held back."""
        first = self.call.reference
        return self._further if first is None else [first, *self._further]

    @property
    def is_late(self) -> bool:
        """Whether it is to be sent again. Changes keep the order in which they were sent, and are not."""
        return self.call.group == "asks" and time.monotonic() >= self._repeat_at

    @property
    def is_long(self) -> bool:
        """Whether it takes so long that its place may be unfit."""
        return time.monotonic() >= self._long_at

    def repeated(self, call: Sent) -> None:
        """Wait for a further sending of it, too."""
        self._further.append(call.reference)
        self._pause *= 2
        self._repeat_at = time.monotonic() + self._pause


class Gathered(NamedTuple):
    """What the places have answered.

    Attributes:
        answers: place -> its answer, of those that gave one.
        missing: place -> why there is none.
    """

    answers: dict[str, Any]
    missing: dict[str, str]


class Calls:
    """The hosts of a catalog, as their driver calls them. Safe to share between threads.

    Args:
        catalog: which places there are.

    Attributes:
        have_moved: says whether places that do not answer have other partitions by now.
    """

    have_moved: Callable[[Iterable[str]], bool] = staticmethod(lambda _: False)

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.places = catalog.places
        self._ray = ray_module()
        self._bound: dict[tuple[str, Group], Any] = {}
        self._lanes: dict[tuple[str, Group], Lane] = {}
        self._assignments = {
            place: pickle.dumps(assignment(catalog, place), protocol=5) for place in self.places
        }

    def send_all(
        self, group: Group, method: str, *arguments: Any, to: Mapping[str, tuple[Any, ...]] | None = None
    ) -> dict[str, Sent]:
        """Call a method at every place, or at some with arguments of their own before the others."""
        if to is None:
            travels = packed(arguments)
            if len(self.places) > 1:  # once, whatever the number of places
                travels = tuple(self._ray.put(one) if len(one) > INLINE_BYTES else one for one in travels)
            return {place: self._send(place, group, method, travels) for place in self.places}
        return {
            place: self._send(place, group, method, packed((*own, *arguments))) for place, own in to.items()
        }

    def _send(self, place: str, group: Group, method: str, arguments: tuple[Any, ...]) -> Sent:
        return self._lane(place, group).take(Sent(None, group, method, arguments))

    def _lane(self, place: str, group: Group) -> Lane:
        lane = self._lanes.get((place, group))
        if lane is None:
            made = Lane(group, partial(self._remote, place), self._answered)
            lane = self._lanes.setdefault((place, group), made)
        return lane

    def _remote(self, place: str, call: Sent) -> Any:
        """Send a call; returns the reference of its answer."""
        bound = self._bound.get((place, call.group))
        if bound is None:
            bound = host_of(self.catalog.id, place).call.options(concurrency_group=call.group)
            self._bound[place, call.group] = bound
        return bound.remote(*sent_as(self._assignments[place], call.method, call.arguments))

    def _answered(self, references: list[Any]) -> list[Any]:
        """Return which of some calls have an answer, or an error."""
        done, _ = self._ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)
        return list(done)

    def gather(self, sent: Mapping[str, Sent], seconds: float) -> Gathered:
        """Return what places answer within so many seconds; an error of a host is raised, when all are done.

        Raises:
            CatalogChangedError: places that do not answer have other partitions by now.
            what a host raised.
        """
        deadline = time.monotonic() + seconds
        answers = self._at_once(sent, seconds)
        if answers is not None:
            return Gathered(answers, {})
        under_way, found = {place: _Waiting(call) for place, call in sent.items()}, Gathered({}, {})
        failure: Exception | None = None
        while under_way:
            done = self._wait(under_way, max(0.0, deadline - time.monotonic()))
            if not done and self.have_moved(under_way):
                self._give_up(under_way)
                raise CatalogChangedError(
                    f"{', '.join(under_way)}: partitions were restored elsewhere, or moved"
                )
            for place, reference in done.items():
                waiting = under_way.pop(place)
                try:
                    found.answers[place] = pickle.loads(self._ray.get(reference))
                except self._ray.exceptions.RayTaskError as exc:
                    failure = failure or (exc.cause if isinstance(exc.cause, Exception) else exc)
                except (
                    self._ray.exceptions.RayActorError,
                    self._ray.exceptions.ObjectLostError,
                ) as exc:
                    # Ray has given this actor up, or its answer got lost: once more, by another actor if
                    # there is none of its name.
                    if time.monotonic() + _AGAIN_SECONDS >= deadline:
                        found.missing[place] = str(exc).splitlines()[0]
                    else:
                        time.sleep(_AGAIN_SECONDS)
                        under_way[place] = _Waiting(self._again(place, waiting.call))
                if waiting.references != [reference]:
                    self._give_up({place: waiting}, but=reference)
            if time.monotonic() >= deadline:
                self._give_up(under_way)
                found.missing.update((place, self._why_late(place)) for place in under_way)
                break
            if deadline < math.inf:
                for place, why in self._unfit(under_way).items():
                    self._give_up({place: under_way.pop(place)})
                    found.missing[place] = why
            self._repeat_late(under_way)
        if failure is not None:
            raise failure
        return found

    def _at_once(self, sent: Mapping[str, Sent], seconds: float) -> dict[str, Any] | None:
        """Return what all places answer, where none of them takes long nor fails: by one call of Ray."""
        references = [call.reference for call in sent.values()]
        if any(reference is None for reference in references):
            return None  # held back
        try:
            answers = self._ray.get(references, timeout=min(seconds, _LOOK_SECONDS))
        except self._ray.exceptions.RayError:
            return None  # the answers stay there
        return dict(zip(sent, map(pickle.loads, answers), strict=True))

    def _wait(self, under_way: Mapping[str, _Waiting], seconds: float) -> dict[str, Any]:
        """Return place -> a reference that is there, of those that are within so many seconds, or fewer."""
        places, held, is_once = dict[Any, str](), list[Any](), True
        for place, waiting in under_way.items():
            if not waiting.references:
                held += self._lane(place, waiting.call.group).flush()
            references = waiting.references
            places.update(dict.fromkeys(references, place))
            is_once = is_once and len(references) == 1
        done, _ = self._ray.wait(
            [*places, *held],
            # Of one that was sent again some may never come; what is held back is sent after any answer.
            num_returns=1 if held or not is_once else len(places),
            timeout=min(seconds, _LOOK_SECONDS, _REPEAT_SECONDS),
        )
        return {places[reference]: reference for reference in done if reference in places}

    def _repeat_late(self, under_way: Mapping[str, _Waiting]) -> None:
        for place, waiting in under_way.items():
            lane = self._lane(place, waiting.call.group)
            if waiting.is_late and lane.may_repeat():
                lane.release(waiting.call)
                waiting.repeated(self._again(place, waiting.call))

    def _unfit(self, under_way: Mapping[str, _Waiting]) -> dict[str, str]:
        """Return why no host can run at places that are long in answering, of those where none can: Ray
        starts one that cannot be imported again and again, and its callers hear nothing."""
        found = {}
        for place, waiting in under_way.items():
            if waiting.probe is None:
                if waiting.is_long and place in self._ray.cluster_resources():
                    waiting.probe = self._probe(place)
            elif self._answered([waiting.probe]):
                why = why_unfit(waiting.probe)
                if why is not None:
                    found[place] = f"no host can run there; {why}"
        return found

    def require_fit(self, seconds: float) -> None:
        """Refuse places where no host can run, before one is made there; those that no node has are not
        looked at."""
        there = self._ray.cluster_resources()
        probed = {self._probe(place): place for place in self.places if place in there}
        done = self._ray.wait([*probed], num_returns=len(probed), timeout=seconds)[0] if probed else []
        reasons = {probed[one]: why_unfit(one) for one in done}
        unfit = {place: f"no host can run there; {why}" for place, why in reasons.items() if why is not None}
        if unfit:
            raise self.missing("create", unfit)

    def _probe(self, place: str) -> Any:
        return probe(resources={place: SHARE})

    def _again(self, place: str, call: Sent) -> Sent:
        """Send a call once more, whatever is held back."""
        self.forget(place)
        again = Sent(None, call.group, call.method, call.arguments)
        again.reference = self._remote(place, again)
        return again

    def _give_up(self, calls: Mapping[str, _Waiting], but: Any = None) -> None:
        """Wait for some calls no more. What was sent is not taken back; see `owed`."""
        for place, waiting in calls.items():
            lane = self._lane(place, waiting.call.group)
            lane.release(waiting.call)
            lane.give_up(reference for reference in waiting.references if reference is not but)

    def forget(self, place: str) -> None:
        """Look for the actor of a place anew, at the next call."""
        for key in [key for key in self._bound if key[0] == place]:
            self._bound.pop(key, None)

    def _why_late(self, place: str) -> str:
        if place not in self._ray.cluster_resources():
            return f"no node of the Ray cluster has the resource {place!r}"
        return "no answer within the deadline"

    def ask(
        self, group: Group, method: str, *arguments: Any, seconds: float, on_missing: OnMissing
    ) -> Gathered:
        """Return what all places answer, as far as the caller wants to do without some."""
        sent = self.send_all(group, method, *arguments)
        found = self.gather(sent, math.inf if on_missing == "wait" else seconds)
        if found.missing and on_missing == "raise":
            raise self.missing(method, found.missing)
        return found

    def every(
        self,
        group: Group,
        method: str,
        *arguments: Any,
        seconds: float,
        to: Mapping[str, tuple[Any, ...]] | None = None,
    ) -> dict[str, Any]:
        """Return what all places answer, or some. Raises PlaceMissingError where one of them does not."""
        found = self.gather(self.send_all(group, method, *arguments, to=to), seconds)
        if found.missing:
            raise self.missing(method, found.missing)
        return found.answers

    def partitions_of(self, missing: Mapping[str, str]) -> tuple[int, ...]:
        """Return the numbers of the partitions of places, ascending."""
        return tuple(sorted(number for place in missing for number in self.places[place]))

    def missing(self, call: str, missing: Mapping[str, str]) -> PlaceMissingError:
        """Return the error that names places without an answer."""
        numbers = self.partitions_of(missing)
        reasons = "; ".join(f"{place}: {why}" for place, why in missing.items())
        return PlaceMissingError(
            f"{call}: expected an answer of every place, found none of partitions "
            f"{', '.join(map(str, numbers))} ({reasons}); start the nodes again, or move their partitions. "
            "A change may have been done in part: repeat it with on_conflict=",
            partitions=numbers,
            reasons=missing,
        )


def assignment(catalog: Catalog, place: str) -> Assignment:
    """Return what a place's host is to have open."""
    numbers = catalog.places.get(place, ())
    folders = tuple((number, catalog.partitions[number].path) for number in numbers)
    commit_logs: tuple[tuple[int, str], ...] = ()
    if catalog.durability == "store":
        uris = ((number, catalog.backup_uri(number)) for number in numbers)
        commit_logs = tuple((number, uri) for number, uri in uris if uri is not None)
    closed = tuple(number for number in numbers if catalog.partitions[number].closed is not None)
    return Assignment(catalog.id, catalog.version, place, folders, catalog.config, commit_logs, closed)
