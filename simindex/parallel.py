"""Threads for work that releases Python's global lock: how many, and results in order.

Owns the meaning of `workers`. Must not know what the work is.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from simindex.checks import require_int
from simindex.parts import AHEAD_BYTES

_LOOK_SECONDS = 0.5
"""How often a thread that is ahead looks whether the program has ended."""

Part = TypeVar("Part")
Result = TypeVar("Result")


def num_workers(workers: int | None) -> int:
    """Return how many threads to use; ``None``: the cores that this process may run on.

    Raises:
        TypeError, ValueError: no int of 1 or more.
    """
    if workers is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    require_int("workers", workers, 1)
    return workers


def in_order(
    function: Callable[[Part], Result],
    parts: Iterable[Part],
    workers: int,
    ready: int,
    num_bytes: Callable[[Part], int] = lambda _: 0,
) -> Iterator[Result]:
    """Yield function(part) of each part in order, made by `workers` threads.

    At most workers + ready parts are taken ahead of the consumer, fewer where these have `AHEAD_BYTES`. Where
    `parts` or a call raises, the results before it are yielded first.
    """
    following = iter(parts)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="simindex")
    ahead: deque[tuple[Future[Result], int]] = deque()
    room = AHEAD_BYTES
    failure: Exception | None = None
    try:
        while True:
            try:
                while failure is None and len(ahead) < workers + ready and room > 0:
                    part = next(following)
                    ahead.append((pool.submit(function, part), num_bytes(part)))
                    room -= ahead[-1][1]
                    del part  # or it would be held until there is room for another one
            except StopIteration:
                if not ahead:
                    return
            except Exception as exc:
                failure = exc
            if not ahead and failure is not None:
                raise failure
            future, taken = ahead.popleft()
            room += taken
            yield future.result()
    finally:
        _end(pool)


def ahead(values: Iterable[Part], most: int) -> Iterator[Part]:
    """Yield values that a thread of their own takes from their iterator, at most so many before they are
    wanted. Where it raises, the values before it are yielded first.

    The thread ends with this iterator, so a value must not be long in coming; or with the program, where an
    error that somebody keeps holds the iterator: Python waits for its threads before it lets go of anything.
    """
    found: deque[Part] = deque()
    changed = threading.Condition()
    ends: list[BaseException | None] = []
    is_wanted = True

    def take() -> None:
        failure: BaseException | None = None
        try:
            for value in values:
                with changed:
                    found.append(value)
                    del value  # it is the consumer's now
                    changed.notify_all()
                    while len(found) >= most and is_wanted and threading.main_thread().is_alive():
                        changed.wait(_LOOK_SECONDS)
                    if len(found) >= most or not is_wanted:
                        break
        except BaseException as exc:
            failure = exc
        with changed:
            ends.append(failure)
            changed.notify_all()

    thread = threading.Thread(target=take, name="simindex-ahead")
    thread.start()
    try:
        while True:
            with changed:
                changed.wait_for(lambda: found or ends)
                if not found:
                    break
                value = found.popleft()
                changed.notify_all()
            yield value
            del value
    finally:
        with changed:
            is_wanted = False
            changed.notify_all()
        thread.join()
    if ends[0] is not None:
        raise ends[0]


def _end(pool: ThreadPoolExecutor) -> None:
    """Wait for the parts in the making, however often Ctrl-C comes: what they work on goes away behind."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            pool.shutdown(cancel_futures=True)
            break
        except KeyboardInterrupt as exc:
            interrupt = exc
    if interrupt is not None:
        raise interrupt
