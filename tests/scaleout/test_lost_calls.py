"""A question that the engine never answers is asked again; a change is not, and a deadline holds. What nobody
waits for any more is never taken back, and holds others back, which go in their order."""

import pickle
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.hosts import Cluster

from simindex.format.keys import encode_key
from simindex.scaleout import calls as calls_module
from simindex.scaleout.actors import Group
from simindex.scaleout.building import _Build
from simindex.scaleout.calls import Calls, Sent, assignment
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.wire import unpacked


class Engine:
    """What Ray is asked, with some calls that nobody ever answers, nor refuses. It takes no call back: Ray's
    actors wait for the number of one that was taken back before it was sent."""

    exceptions = SimpleNamespace(
        RayTaskError=KeyError, RayActorError=OSError, ObjectLostError=EOFError, RayError=Exception
    )

    def __init__(self) -> None:
        self.answers = dict[int, bytes]()

    def wait(
        self,
        references: Sequence[int],
        num_returns: int = 1,
        timeout: float = 0.0,
        *,
        fetch_local: bool = True,
    ) -> tuple[list[int], list[int]]:
        assert references
        assert fetch_local or timeout == 0
        done = [one for one in references if one in self.answers][:num_returns]
        if len(done) < num_returns:
            time.sleep(timeout)
        return done, [one for one in references if one not in done]

    def get(self, asked: int | list[int], timeout: float = 0.0) -> Any:
        if isinstance(asked, int):
            return self.answers[asked]
        if not all(one in self.answers for one in asked):
            time.sleep(min(timeout, 0.05))
            raise TimeoutError
        return [self.answers[one] for one in asked]

    def cluster_resources(self) -> list[str]:
        return ["a", "b"]


class Losing(Calls):
    """Calls of plain hosts whose first ones at a place get lost.

    Attributes:
        lost: place -> how many.
        sent: places, as they were called.
        arguments: of all that was sent, in its order.
    """

    def __init__(self, cluster: Cluster, **lost: int) -> None:
        self.catalog = Catalog.load(cluster.uri)
        self.places, self._ray = self.catalog.places, Engine()
        self._bound, self._lanes, self._cluster, self.lost = {}, {}, cluster, lost
        self.sent, self.arguments = list[str](), list[Any]()

    @property
    def engine(self) -> Engine:
        assert isinstance(self._ray, Engine)
        return self._ray

    def _probe(self, _: str) -> int:
        return -1  # it never ends

    def _remote(self, place: str, call: Sent) -> int:
        number = len(self.sent)
        self.sent.append(place)
        self.arguments.append(unpacked(call.arguments[0], call.arguments[1:]))
        if self.sent.count(place) > self.lost.get(place, 0):
            host, own = self._cluster.hosts[place], assignment(self.catalog, place)
            self.engine.answers[number] = pickle.dumps(getattr(host, call.method)(own, *self.arguments[-1]))
        return number


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(calls_module, "_REPEAT_SECONDS", 0.01)
    made = Cluster(tmp_path, partitions=2)
    made.insert(0, 50)
    return made


@pytest.mark.parametrize("lost", [1, 3])
def test_a_question_that_got_lost_is_asked_again(cluster: Cluster, lost: int) -> None:
    calls = Losing(cluster, b=lost)
    found = calls.ask("asks", "count", seconds=30, on_missing="wait")
    assert (set(found.answers), found.missing) == ({"a", "b"}, {})
    assert sum(sum(of.values()) for of in found.answers.values()) == 50
    assert (calls.sent.count("a"), calls.sent.count("b")) == (1, lost + 1)
    cluster.close()


def test_an_answer_to_the_first_asking_does_as_well(cluster: Cluster) -> None:
    calls = Losing(cluster, b=9)
    sent = calls.send_all("asks", "count")

    def answer_late(_: object) -> bool:
        calls.engine.answers[sent["b"].reference] = pickle.dumps("late")
        return False

    calls.have_moved = answer_late  # called while nobody answers
    assert calls.gather(sent, 30).answers["b"] == "late"
    cluster.close()


def test_place_where_no_host_can_run_is_missing_before_the_deadline(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Losing(cluster, b=1_000)
    calls.engine.answers[-1] = b""  # what was sent to look has ended
    monkeypatch.setattr(calls_module, "why_unfit", {-1: "ImportError: none"}.__getitem__)
    found = calls.ask("asks", "count", seconds=30, on_missing="partial")
    assert (set(found.answers), found.missing) == ({"a"}, {"b": "no host can run there; ImportError: none"})
    cluster.close()


def test_what_nobody_answers_is_missing_at_the_deadline(cluster: Cluster) -> None:
    calls = Losing(cluster, b=1_000)
    found = calls.ask("asks", "count", seconds=0.1, on_missing="partial")
    assert (set(found.answers), found.missing) == ({"a"}, {"b": "no answer within the deadline"})
    assert calls.sent.count("b") < 8  # each time after twice as long
    cluster.close()


def test_a_change_that_got_lost_is_not_sent_out_of_its_order(cluster: Cluster) -> None:
    calls = Losing(cluster, b=1)
    found = calls.gather(calls.send_all("changes", "count"), 0.1)
    assert set(found.missing) == {"b"}
    assert calls.sent.count("b") == 1
    cluster.close()


@pytest.mark.parametrize(("group", "most"), [("asks", 4), ("changes", 1), ("jobs", 1)])
def test_few_calls_stay_with_a_place_that_is_away(cluster: Cluster, group: Group, most: int) -> None:
    calls = Losing(cluster, b=1_000)
    for _ in range(50):
        assert set(calls.gather(calls.send_all(group, "count"), 0.0).missing) == {"b"}
    assert (calls.sent.count("a"), calls.sent.count("b")) == (50, most)
    calls.lost.clear()
    calls.engine.answers |= {number: pickle.dumps("late") for number in range(len(calls.sent))}
    found = calls.gather(calls.send_all(group, "count"), 30)  # those that were given up are done, first
    assert sum(sum(of.values()) for of in found.answers.values()) == 50
    assert calls.sent.count("b") == most + 1
    cluster.close()


def test_changes_that_are_held_back_go_in_their_order(cluster: Cluster) -> None:
    calls = Losing(cluster, b=1)

    def change(number: int) -> dict[str, Sent]:
        nobody = [encode_key("nobody")], np.array([1], np.uint32)
        return calls.send_all("changes", "touch", *nobody, to={"b": (bytes([number]) * 16,)})

    assert calls.gather(change(0), 0.0).missing
    held = [change(1), change(2)]
    assert len(calls.sent) == 1
    calls.engine.answers[0] = pickle.dumps("late")
    held.append(change(3))  # does not overtake the others
    assert [arguments[0][0] for arguments in calls.arguments] == [0, 1, 2, 3]
    assert [calls.gather(sent, 30).answers for sent in held] == [{"b": 0}] * 3
    cluster.close()


def test_a_change_that_is_held_back_and_given_up_is_never_sent(cluster: Cluster) -> None:
    calls = Losing(cluster, b=1)
    for _ in range(2):
        assert set(calls.gather(calls.send_all("changes", "count"), 0.0).missing) == {"b"}
    calls.engine.answers[calls.sent.index("b")] = pickle.dumps("late")
    assert set(calls.gather(calls.send_all("changes", "count"), 30).answers) == {"a", "b"}
    assert calls.sent.count("b") == 2
    cluster.close()


def test_a_question_that_is_held_back_is_asked_when_it_is_late(cluster: Cluster) -> None:
    calls = Losing(cluster, b=4)
    for _ in range(4):
        calls.gather(calls.send_all("asks", "count"), 0.0)
    found = calls.ask("asks", "count", seconds=30, on_missing="wait")  # those four are never answered
    assert (set(found.answers), calls.sent.count("b")) == ({"a", "b"}, 5)
    cluster.close()


def test_a_build_that_is_broken_off_takes_no_call_of_a_host_back() -> None:
    cancelled = list[tuple[int, bool]]()

    class Tasks(Engine):
        def cancel(self, reference: int, recursive: bool = True) -> None:  # as Ray has it
            cancelled.append((reference, recursive))

    build = _Build.__new__(_Build)
    build._ray, build._most = Tasks(), 3
    build._ray.answers |= dict.fromkeys(range(10), b"")
    with closing(build._dealt(deque(range(10)), lambda number: number)) as dealt:
        assert next(dealt) == (0, 0)
    assert cancelled == [(1, False), (2, False)]
