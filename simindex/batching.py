"""Cut an input into batches of a bounded number of bytes, so that long documents do not fill the memory, and
work on them on threads, with results in order.

Invariant: beside the value that ends it, a part holds at most `PART_BYTES`, as far as `bytes_of` counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice, repeat
from sys import getsizeof
from typing import Any, Generic, NamedTuple, TypeVar, cast

from simindex.checks import require_int
from simindex.system import num_cores

T = TypeVar("T")

PART_BYTES = 16 << 20
"""Bytes of a part. Four thousand documents of the usual few thousand characters take less."""

AHEAD_BYTES = 4 * PART_BYTES
"""Bytes of parts that may be read ahead of who takes their results."""


class Part(NamedTuple, Generic[T]):
    """Some values of an input, in order.

    Attributes:
        values: one at least.
        is_full: whether a bound ended it, and not the input.
    """

    values: list[T]
    num_bytes: int
    is_full: bool


def in_parts(
    values: Iterable[T],
    size: int | None,
    num_bytes: Callable[[T], int],
    most_bytes: int | None = None,
    *,
    keeps_rest: bool = False,
) -> Iterator[Part[T]]:
    """Yield the values in parts of up to `size` (``None``: any number), each ended by the value that brings
    it to `most_bytes` (``None``: `PART_BYTES`); no values, no part. `num_bytes` must not raise. Where
    `values` raises, those behind the last whole part are yielded first with `keeps_rest`, else lost."""
    iterator, most_bytes = iter(values), PART_BYTES if most_bytes is None else most_bytes
    while True:
        part: list[T] = []
        room = most_bytes
        try:
            for value in islice(iterator, size):
                part.append(value)
                room -= num_bytes(value)
                if room <= 0:
                    break
        except Exception:
            if part and keeps_rest:
                yield Part(part, most_bytes - room, is_full=False)
            raise
        if not part:
            return
        yield Part(part, most_bytes - room, len(part) == size or room <= 0)


def bytes_of(value: object) -> int:
    """Return about how many bytes a value takes in memory: a text, a collection of ready shingles, metadata.

    What can be read only once, and objects of other types, count without what they hold.

    >>> 1_000 < bytes_of("x" * 1_000) < 1_200, 2_000 < bytes_of({"x" * 1_000, "y" * 1_000}) < 2_600
    (True, True)
    """
    kind = type(value)
    return getsizeof(value) if kind is str or kind is bytes else _bytes_of_all(value)


def bytes_of_item(item: Any) -> int:
    """Return about how many bytes document and metadata of (key, document[, metadata]) take, 0 for what has
    no slices."""
    try:
        return sum(map(bytes_of, item[1:3]))
    except (TypeError, LookupError):
        return 0


def _bytes_of_all(value: object) -> int:
    if not isinstance(value, _CONTAINERS):
        return getsizeof(value)
    total, held, seen = getsizeof(value), [value], set[int]()
    while held:
        container = held.pop()
        if id(container) in seen or not isinstance(container, _CONTAINERS):
            continue
        seen.add(id(container))
        for values in (container, container.values()) if isinstance(container, dict) else (container,):
            total += sum(map(getsizeof, values))
            held += [inner for inner in values if type(inner) not in _PLAIN]
    return total


_CONTAINERS = dict, list, tuple, set, frozenset
_PLAIN = {str, bytes, int, float, bool, type(None)}


Value = TypeVar("Value")
Result = TypeVar("Result")


def num_workers(workers: int | None) -> int:
    """Return how many threads to use; ``None``: the cores that this process may run on. Raises TypeError or
    ValueError for what is no number of 1 or more."""
    if workers is None:
        return num_cores()
    return require_int("workers", workers, 1)


def _surely(waiting: Callable[[], object]) -> None:
    """Call `waiting` until it returns, again after each Ctrl-C, and raise the last of these then: the caller
    closes what the threads use."""
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
    function: Callable[[Value], Result],
    parts: Iterable[Value],
    workers: int,
    ready: int,
    num_bytes: Callable[[Value], int] = lambda _: 0,
    is_python: Callable[[Value], bool] = lambda _: False,
) -> Generator[Result, None, None]:
    """Yield function(part) for each part, in the order of the parts, computed by `workers` threads, which end
    with the iterator.

    At most workers + ready parts are taken ahead of the consumer, fewer where these have `AHEAD_BYTES`. Where
    `parts` or a call raises, the results before it are yielded first. Parts that `is_python` names keep
    Python's lock, so the consumer's thread works on them.
    """
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(workers, thread_name_prefix="simindex")
    following = iter(parts)
    ahead: deque[tuple[Callable[[], Result], int]] = deque()
    room = AHEAD_BYTES
    failure: Exception | None = None
    try:
        while True:
            try:
                while failure is None and len(ahead) < workers + ready and room > 0:
                    part = next(following)
                    work = partial(function, part)
                    ahead.append((work if is_python(part) else pool.submit(work).result, num_bytes(part)))
                    room -= ahead[-1][1]
                    del part, work  # or they would be held until there is room for another one
            except StopIteration:
                if not ahead:
                    return
            except Exception as exc:
                failure = exc
            if not ahead and failure is not None:
                raise failure
            result, taken = ahead.popleft()
            room += taken
            value = result()
            del result
            yield value
            del value
    finally:
        # What has not begun is cancelled, and the rest waited for, whatever comes of it.
        _surely(lambda: pool.shutdown(cancel_futures=True))


def ahead(values: Iterable[Value], most: int) -> Iterator[Value]:
    """Yield values that a thread of their own takes from their iterator, at most so many before they are
    wanted. Where it raises, the values before it are yielded first. The thread ends with this iterator, so a
    value must not be long in coming."""
    iterator, end = iter(values), object()
    following = in_order(lambda _: next(iterator, end), repeat(None), 1, most)
    with closing(following):
        for value in following:
            if value is end:
                return
            yield cast("Value", value)
            del value
