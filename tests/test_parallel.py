"""Threads for work that releases the global lock: how many, and results in order."""

import itertools
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from simindex.batching import ahead, in_order, num_workers


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


def test_parts_run_in_several_threads_at_once() -> None:
    together = threading.Barrier(3)

    def work(part: int) -> int:
        together.wait(20)  # for ever, if they ran one after the other
        return part

    assert list(in_order(work, range(3), 3, 0)) == [0, 1, 2]


@pytest.mark.parametrize(("workers", "ready"), [(1, 0), (2, 3), (3, 1)])
def test_parts_are_taken_no_further_ahead_than_said(workers: int, ready: int) -> None:
    taken = itertools.count()
    results = in_order(lambda part: part, (next(taken) for _ in range(50)), workers, ready)
    for place in range(10):
        assert next(results) == place
    assert next(taken) <= 10 + workers + ready
    assert isinstance(results, Generator)
    results.close()


def test_number_of_workers_is_what_is_asked_for_or_the_cores() -> None:
    assert num_workers(7) == 7
    assert num_workers(None) == len(os.sched_getaffinity(0))
    wrong: Any
    for wrong, error in ((0, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError)):
        with pytest.raises(error, match="workers: expected"):
            num_workers(wrong)


def test_values_of_another_thread_come_in_order_and_its_error_behind_them() -> None:
    def values() -> Iterator[int]:
        yield from range(100)
        raise ValueError("the end")

    found: list[int] = []
    with pytest.raises(ValueError, match="the end"):
        found += ahead(values(), 3)
    assert found == list(range(100))


def test_next_value_is_made_while_its_consumer_works_on_the_one_before() -> None:
    begun = [threading.Event() for _ in range(3)]

    def values() -> Iterator[int]:
        for number, event in enumerate(begun):
            event.set()
            yield number

    for number in ahead(values(), 1):
        assert begun[min(number + 1, 2)].wait(timeout=10)


def test_thread_ahead_takes_no_more_than_said_and_ends_with_who_takes_its_values() -> None:
    taken: list[int] = []

    def values() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            yield number

    following = cast("Generator[int, None, None]", ahead(values(), 2))
    for number in range(10):
        assert next(following) == number
        assert len(taken) <= number + 1 + 2 + 1
    before = threading.active_count()
    following.close()
    assert threading.active_count() == before - 1
    assert len(taken) <= 13


def test_program_ends_although_an_error_holds_what_is_read_ahead(tmp_path: Path) -> None:
    program = """
        import sys
        from simindex.batching import ahead

        def fail():
            values = ahead(range(100), 2)
            for value in values:
                raise ValueError(value)

        try:
            fail()
        except ValueError as exc:
            sys.last_value = exc  # what Python's prompt does
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    subprocess.run(command, check=True, timeout=30, cwd=tmp_path)
