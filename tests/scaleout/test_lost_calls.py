"""A question that the engine never answers is asked again; a change is not, and a deadline holds. What no
caller waits for any more is never taken back."""

import pickle
from contextlib import closing
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.hosts import Cluster, Engine, Losing

from simindex.scaleout import actors, tasks


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(actors, "_REPEAT_SECONDS", 0.01)
    monkeypatch.setattr(actors, "ray_module", cache(Engine))
    made = Cluster(tmp_path, partitions=2)
    made.insert(0, 50)
    return made


@pytest.mark.parametrize("lost", [1, 3])
def test_a_question_that_got_lost_is_asked_again(cluster: Cluster, lost: int) -> None:
    calls = Losing(cluster, b=lost)
    found = calls.gather(calls.send_all("asks", "status"), 30)
    assert (set(found.answers), found.missing) == ({"a", "b"}, {})
    assert sum(sum(of["documents"].values()) for of in found.answers.values()) == 50
    assert (calls.sent.count("a"), calls.sent.count("b")) == (1, lost + 1)
    cluster.close()


def test_an_answer_to_the_first_asking_does_as_well(cluster: Cluster) -> None:
    calls = Losing(cluster, b=9)
    sent = calls.send_all("asks", "status")
    calls.late = sent["b"].references[0]
    assert calls.gather(sent, 30).answers["b"] == "late"
    cluster.close()


def test_what_nobody_answers_is_missing_at_the_deadline(cluster: Cluster) -> None:
    calls = Losing(cluster, b=1_000)
    found = calls.gather(calls.send_all("asks", "status"), 0.1)
    assert (set(found.answers), found.missing) == ({"a"}, {"b": "no answer within the deadline"})
    assert calls.sent.count("b") < 8  # each time after twice as long
    cluster.close()


def test_a_change_that_got_lost_is_not_sent_out_of_its_order(cluster: Cluster) -> None:
    calls = Losing(cluster, b=1)
    found = calls.gather(calls.send_all("changes", "status"), 0.1)
    assert set(found.missing) == {"b"}
    assert calls.sent.count("b") == 1
    cluster.close()


def test_a_job_that_is_broken_off_cancels_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tasks(Engine):
        def cancel(self, *_: object, **__: object) -> None:
            raise AssertionError("Ray may end this process where a task is cancelled while it is sent")

        def put(self, value: object) -> object:
            return value

        def nodes(self) -> list[Any]:
            return []

        def remote(self, **_: object) -> Any:
            return lambda _: SimpleNamespace(remote=lambda _function, _known, job: job)

    engine = Tasks()
    engine.answers |= {0: pickle.dumps("done")}
    monkeypatch.setattr(tasks, "ray_module", lambda: engine)
    monkeypatch.setattr(tasks, "answer", lambda reference: engine.answers[reference])
    with closing(tasks.RayTasks().run(lambda _common, job: job, None, iter(range(10)))) as running:  # type: ignore[type-var]
        assert next(running) == pickle.dumps("done")
    assert engine.waited[-1] == ([0, 1], 2)
