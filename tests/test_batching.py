"""An input in parts, none of which holds more than it may, and the threads that work on them, in order."""

import itertools
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.faults import bound, set_bound

from simindex.batching import ahead, bytes_of, bytes_of_item, in_order, in_parts, num_workers


@given(st.lists(st.integers(0, 300)), st.integers(1, 7))
def test_parts_are_the_input_and_stay_within_both_bounds(values: list[int], size: int) -> None:
    with bound("bytes of a batch", 500):
        parts = list(in_parts(iter(values), size, lambda value: value))
    assert [value for part in parts for value in part.values] == values
    for part in parts:
        assert 1 <= len(part.values) <= size
        assert part.num_bytes == sum(part.values)
        assert sum(part.values[:-1]) < 500
        assert part.is_full == (len(part.values) == size or part.num_bytes >= 500)
    assert all(part.is_full for part in parts[:-1])


def test_part_is_read_no_further_than_the_value_that_ends_it() -> None:
    taken = itertools.count()
    long = ("x" * (1 << 20) for _ in iter(lambda: next(taken), 1_000))
    first = next(in_parts(long, 4_000, bytes_of))
    assert (len(first.values), next(taken)) == (16, 16)


@pytest.mark.parametrize("keeps_rest", [False, True])
@pytest.mark.parametrize("num_before", range(8))
def test_part_of_values_before_a_failure_is_kept_where_it_is_wanted(
    num_before: int, keeps_rest: bool
) -> None:
    def failing(error: BaseException) -> Iterator[int]:
        yield from range(num_before)
        raise error

    def taken(error: BaseException, found: list[int]) -> None:
        for part in in_parts(failing(error), 3, int, keeps_rest=keeps_rest):
            found += part.values

    found: list[int] = []
    with pytest.raises(OSError, match="of the disk"):
        taken(OSError("of the disk"), found)
    assert found == list(range(num_before if keeps_rest else num_before // 3 * 3))
    with pytest.raises(KeyboardInterrupt):
        taken(KeyboardInterrupt(), found)


TEXT = "x" * 10_000


@pytest.mark.parametrize(
    ("value", "held"),
    [
        pytest.param(TEXT, 1, id="ascii"),
        pytest.param("ü" * 10_000, 1, id="latin"),
        pytest.param("語" * 10_000, 2, id="two bytes a character"),
        pytest.param("😀" * 10_000, 4, id="four bytes a character"),
        pytest.param(TEXT.encode(), 1, id="bytes"),
        pytest.param([TEXT, "y" * 10_000], 2, id="list"),
        pytest.param({TEXT, "y" * 10_000}, 2, id="set"),
        pytest.param(frozenset([b"x" * 10_000]), 1, id="frozenset"),
        pytest.param({TEXT: 1.5, "y" * 10_000: 2}, 2, id="weights"),
        pytest.param(Counter([TEXT]), 1, id="counter"),
        pytest.param({"a": [{"b": TEXT}, (TEXT, None)], "c": 7}, 2, id="nested"),
        pytest.param(7, 0, id="number"),
        pytest.param(None, 0, id="none"),
        pytest.param((word for word in [TEXT]), 0, id="generator"),
    ],
)
def test_bytes_are_about_those_of_all_that_is_held(value: object, held: int) -> None:
    assert held * 10_000 <= bytes_of(value) < held * 10_000 + 1_200
    assert bytes_of_item(("key", value)) == bytes_of_item(["key", value]) == bytes_of(value)
    assert bytes_of_item(("key", value, {"m": TEXT})) - bytes_of_item(("key", value)) > 10_000


def test_bytes_of_what_contains_itself_or_goes_deep_are_counted_once() -> None:
    around: list[Any] = [TEXT]
    around.append(around)
    assert bytes_of(around) < 11_000
    deep: list[Any] = [TEXT]
    for _ in range(5_000):
        deep = [deep]
    assert bytes_of(deep) > 10_000


@pytest.mark.parametrize("item", [None, 7, "k", (), ("key",), {"a": 1}, object()])
def test_what_is_no_item_takes_nothing(item: object) -> None:
    assert bytes_of_item(item) == 0


def test_threads_take_only_so_many_bytes_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "bytes of batches ahead", 100)
    taken = itertools.count()

    def lengths() -> Iterator[int]:
        for _ in range(50):
            next(taken)
            yield 40

    results = in_order(lambda part: part, lengths(), 8, 8, int)
    assert next(results) == 40
    assert next(taken) == 3  # of forty bytes each: the third goes over
    assert list(results) == [40] * 49


# ---- threads ----


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
    for index in range(10):
        assert next(results) == index
    assert next(taken) <= 10 + workers + ready
    assert isinstance(results, Generator)
    results.close()


def test_number_of_workers_is_what_is_asked_for_or_the_cores() -> None:
    assert num_workers(7) == 7
    assert num_workers(None) == len(os.sched_getaffinity(0))


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
    taken = itertools.count()
    following = cast("Generator[int, None, None]", ahead((next(taken) for _ in range(100)), 2))
    assert list(itertools.islice(following, 10)) == list(range(10))
    before = threading.active_count()
    following.close()
    assert threading.active_count() == before - 1
    assert next(taken) <= 13


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
