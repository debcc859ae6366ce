"""Parts on their way to a store: a few at once, each one once.

Owns the threads and which parts the store has. Must not know what is in a part. Invariant: when `wait`
returns, every part that was given is durable in the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from simindex.format.backup_objects import Part, part_of
from simindex.scaleout.stores import Objects

FOLDER = "parts"

_THREADS = 4

_AHEAD = 2 * _THREADS
"""Parts that are held in memory at most."""


class Uploads:
    """The parts of one backup. For a ``with`` block, and for one thread.

    Attributes:
        there: names of the parts that the store had, with their bytes.
        copied_bytes: of parts that were uploaded.
        reused_bytes: of parts that were given and were there.
    """

    def __init__(self, store: Objects, progress: Callable[[int], object]) -> None:
        self._folder = store.inside(FOLDER)
        self.there = self._folder.sizes()
        self._given = set[str]()
        self._progress = progress
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="simindex-upload")
        self._under_way: deque[tuple[Future[None], int]] = deque()
        self.copied_bytes = 0
        self.reused_bytes = 0

    def __enter__(self) -> Uploads:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def add(self, content: bytes) -> Part:
        """Have a part uploaded, unless the store has it; waits while too many are under way.

        Raises:
            StoreError: an earlier one cannot be written.
        """
        part = part_of(content)
        if self.there.get(part.name) == part.num_bytes or part.name in self._given:
            self.reused_bytes += part.num_bytes
            self._progress(part.num_bytes)
        else:
            while len(self._under_way) >= _AHEAD:
                self._take()
            self._under_way.append((self._pool.submit(self._folder.put, part.name, content), part.num_bytes))
        self._given.add(part.name)
        return part

    def keep(self, parts: tuple[Part, ...]) -> None:
        """Take note of parts that an older backup has.

        Raises:
            KeyError: the store has lost one.
        """
        for part in parts:
            if self.there[part.name] != part.num_bytes:
                raise KeyError(part.name)
        self._given |= {part.name for part in parts}
        self.reused_bytes += sum(part.num_bytes for part in parts)

    def _take(self) -> None:
        future, num_bytes = self._under_way.popleft()
        future.result()
        self.copied_bytes += num_bytes
        self._progress(num_bytes)

    def wait(self) -> None:
        """Wait for all that is under way. Raises StoreError where one cannot be written."""
        while self._under_way:
            self._take()

    def remove_others(self, parts: list[Part]) -> int:
        """Remove what is no part of a backup; returns how many objects."""
        others = sorted((self.there.keys() | self._given) - {part.name for part in parts})
        self._folder.remove(others)
        return len(others)
