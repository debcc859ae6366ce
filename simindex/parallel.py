"""Run work on threads, with results in order."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from simindex.batching import AHEAD_BYTES
from simindex.checks import require_int

if TYPE_CHECKING:  # loaded when there is work for threads
    from concurrent.futures import Future

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


def _settle(futures: Iterable[Future[Any]]) -> None:
    """Cancel the work that has not begun, and wait for the rest, whatever comes of it."""
    from concurrent.futures import wait

    running = [future for future in futures if not future.cancel()]
    if running:
        _surely(lambda: wait(running))


def _surely(waiting: Callable[[], object]) -> None:
    """Wait for work in the making, however often Ctrl-C comes: what it works on goes away behind."""
    interrupt: KeyboardInterrupt | None = None
    while True:
        try:
            waiting()
            break
        except KeyboardInterrupt as exc:
            interrupt = exc
    if interrupt is not None:
        raise interrupt


def in_order(
    function: Callable[[Part], Result],
    parts: Iterable[Part],
    workers: int,
    ready: int,
    num_bytes: Callable[[Part], int] = lambda _: 0,
    is_python: Callable[[Part], bool] = lambda _: False,
) -> Iterator[Result]:
    """Yield function(part) of each part in order, made by `workers` threads, which end with the iterator.

    At most workers + ready parts are taken ahead of the consumer, fewer where these have `AHEAD_BYTES`. Where
    `parts` or a call raises, the results before it are yielded first.

    Args:
        is_python: whether the work on a part keeps Python's lock, so that another thread gains nothing: then
            it is done in its turn.
    """
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(workers, thread_name_prefix="simindex")
    following = iter(parts)
    ahead: deque[tuple[Future[Result] | None, Callable[[], Result], int]] = deque()
    room = AHEAD_BYTES
    failure: Exception | None = None
    try:
        while True:
            try:
                while failure is None and len(ahead) < workers + ready and room > 0:
                    part = next(following)
                    work = partial(function, part)
                    future = None if is_python(part) else pool.submit(work)
                    ahead.append((future, work if future is None else future.result, num_bytes(part)))
                    room -= ahead[-1][2]
                    del part, work, future  # or they would be held until there is room for another one
            except StopIteration:
                if not ahead:
                    return
            except Exception as exc:
                failure = exc
            if not ahead and failure is not None:
                raise failure
            _, result, taken = ahead.popleft()
            room += taken
            value = result()
            del result
            yield value
            del value
    finally:
        try:
            _settle(future for future, _, _ in ahead if future is not None)
        finally:
            _surely(lambda: pool.shutdown(cancel_futures=True))


def ahead(values: Iterable[Part], most: int) -> Iterator[Part]:
    """Yield values that a thread of their own takes from their iterator, at most so many before they are
    wanted. Where it raises, the values before it are yielded first.

    The thread ends with this iterator, so a value must not be long in coming; or with the program, where an
    error that a caller keeps holds the iterator: Python waits for its threads before it lets go of anything.
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
