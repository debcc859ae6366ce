"""Threads for work that releases the global lock: how many, and results in order."""

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor

import pytest

from simindex.parallel import in_order


def test_threads_end_before_what_they_work_on_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    running = []
    shutdown = ThreadPoolExecutor.shutdown

    def work(part: int) -> None:
        running.append(part)
        time.sleep(0.02)
        running.remove(part)

    def interrupted(*_: object, **__: object) -> None:
        monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
        raise KeyboardInterrupt

    parts = in_order(work, range(50), 3, 3)
    assert isinstance(parts, Generator)
    next(parts)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parts.close()
    assert running == []
