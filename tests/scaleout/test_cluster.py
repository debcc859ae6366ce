"""A job that is broken off takes no task of Ray back: Ray may end the process that does."""

import time
from collections.abc import Sequence
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from simindex.scaleout import cluster


def test_a_job_that_is_broken_off_cancels_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, waited = {0: "done"}, list[tuple[list[int], int]]()

    class Engine:
        def wait(
            self, references: Sequence[int], num_returns: int = 1, timeout: float = 0.0
        ) -> tuple[list[int], list[int]]:
            waited.append((list(references), num_returns))
            done = [one for one in references if one in answers][:num_returns]
            if len(done) < num_returns:
                time.sleep(timeout)
            return done, [one for one in references if one not in done]

        def cancel(self, *_: object, **__: object) -> None:
            raise AssertionError("Ray may end this process where a task is cancelled while it is sent")

        def put(self, value: object) -> object:
            return value

        def nodes(self) -> list[Any]:
            return []

        def available_resources(self) -> dict[str, float]:
            return {}

        def remote(self, **_: object) -> Any:
            return lambda _: SimpleNamespace(remote=lambda _function, _known, job: job)

    monkeypatch.setattr(cluster, "ray_module", Engine)
    monkeypatch.setattr(cluster, "answer", lambda reference: answers[reference])
    with closing(cluster.RayTasks().run(lambda _common, job: job, None, iter(range(10)))) as running:  # type: ignore[type-var]
        assert next(running) == "done"
    assert waited[-1] == ([0, 1], 2)
