"""Threads for work that releases Python's global lock: how many, and results in order.

Owns the meaning of `workers`. Must not know what the work is.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from simindex.checks import require_int

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
    function: Callable[[Part], Result], parts: Iterable[Part], workers: int, ready: int
) -> Iterator[Result]:
    """Yield function(part) of each part in order, made by `workers` threads.

    At most workers + ready parts are taken ahead of the consumer. Where `parts` or a call raises, the
    results before it are yielded first.
    """
    following = iter(parts)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="simindex")
    ahead: deque[Future[Result]] = deque()
    failure: Exception | None = None
    try:
        while True:
            try:
                while failure is None and len(ahead) < workers + ready:
                    ahead.append(pool.submit(function, next(following)))
            except StopIteration:
                if not ahead:
                    return
            except Exception as exc:
                failure = exc
            if not ahead and failure is not None:
                raise failure
            yield ahead.popleft().result()
    finally:
        _end(pool)


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
