"""A question that the engine never answers is asked again; a change is not, and a deadline holds."""

import pickle
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from plain_hosts import Cluster

from simindex.scaleout.catalog import Catalog
from simindex.scaleout.hosts import calls as calls_module
from simindex.scaleout.hosts.calls import Calls, Group, Sent, assignment


class Engine:
    """What Ray is asked, with some calls that nobody ever answers, nor refuses."""

    exceptions = SimpleNamespace(RayTaskError=KeyError, RayActorError=OSError, ObjectLostError=EOFError)

    def __init__(self) -> None:
        self.answers = dict[int, bytes]()
        self.cancelled = list[int]()

    def wait(
        self, references: Sequence[int], num_returns: int, timeout: float
    ) -> tuple[list[int], list[int]]:
        done = [one for one in references if one in self.answers][:num_returns]
        if len(done) < num_returns:
            time.sleep(timeout)
        return done, [one for one in references if one not in done]

    def get(self, reference: int) -> bytes:
        return self.answers[reference]

    def cancel(self, reference: int) -> None:
        self.cancelled.append(reference)

    def cluster_resources(self) -> list[str]:
        return ["a", "b"]


class Losing(Calls):
    """Calls of plain hosts whose first ones at a place get lost.

    Attributes:
        lost: place -> how many.
        sent: places, as they were called.
    """

    def __init__(self, cluster: Cluster, **lost: int) -> None:
        self.catalog = Catalog.load(cluster.uri)
        self.places, self._ray = self.catalog.places, Engine()
        self._bound, self._cluster, self.lost = {}, cluster, lost
        self.sent = list[str]()

    @property
    def engine(self) -> Engine:
        assert isinstance(self._ray, Engine)
        return self._ray

    def _send(self, place: str, group: Group, method: str, packed: Any) -> Sent:
        number = len(self.sent)
        self.sent.append(place)
        if self.sent.count(place) > self.lost.get(place, 0):
            host, own = self._cluster.hosts[place], assignment(self.catalog, place)
            self.engine.answers[number] = pickle.dumps(getattr(host, method)(own, *pickle.loads(packed)))
        return Sent(number, group, method, packed)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(calls_module, "_REPEAT_SECONDS", 0.01)
    made = Cluster(tmp_path)
    made.insert(0, 50)
    return made


@pytest.mark.parametrize("lost", [1, 3])
def test_a_question_that_got_lost_is_asked_again(cluster: Cluster, lost: int) -> None:
    calls = Losing(cluster, b=lost)
    found = calls.ask("asks", "count", seconds=30, on_missing="wait")
    assert (set(found.answers), found.missing) == ({"a", "b"}, {})
    assert sum(sum(of.values()) for of in found.answers.values()) == 50
    assert (calls.sent.count("a"), calls.sent.count("b")) == (1, lost + 1)
    assert len(calls.engine.cancelled) == lost  # nobody waits for those any more
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


def test_what_nobody_answers_is_missing_at_the_deadline(cluster: Cluster) -> None:
    calls = Losing(cluster, b=1_000)
    found = calls.ask("asks", "count", seconds=0.1, on_missing="partial")
    assert (set(found.answers), found.missing) == ({"a"}, {"b": "no answer within the deadline"})
    assert len(calls.engine.cancelled) == len(calls.sent) - 1
    assert calls.sent.count("b") < 8  # each time after twice as long
    cluster.close()


def test_a_change_that_got_lost_is_not_sent_out_of_its_order(cluster: Cluster) -> None:
    calls = Losing(cluster, b=1)
    found = calls.gather(calls.send_all("changes", "count"), 0.1)
    assert set(found.missing) == {"b"}
    assert calls.sent.count("b") == 1
    cluster.close()
