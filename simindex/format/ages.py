"""Encode the age index: runs of documents in order of age.

Invariant: every live document lies in a run whose time is not behind its own (the time of its last touch, or
of its insert). So all documents older than a limit lie in runs whose times are older than it.

A run costs an entry, so documents that are inserted one by one share one: the youngest run, the tail, stands
in the manifest, which every commit writes anyway, and is stored once it is long enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from simindex.errors import CorruptIndexError
from simindex.format.records import MAX_INSERTED_AT
from simindex.format.seals import seal, unseal

RUN_DOCUMENTS = 1_024
"""Documents of several commits that share a run. Those of one commit are one run, whatever their number."""

_TIME_BYTES, _NUMBER_BYTES = 8, 8


class Run(NamedTuple):
    """Documents with numbers side by side, none of which is older than a time.

    Attributes:
        time: microseconds since 1970-01-01 UTC.
    """

    time: int
    first: int
    behind: int

    def grown(self, count: int, time: int) -> tuple[Run, Run | None]:
        """Return this run with `count` documents of a commit at a time behind it. Returns (the tail from then
        on, the run that is to be stored, if it has become long enough)."""
        behind = self.behind + count
        if not count:
            return self, None
        if self.first == self.behind:
            return Run(time, self.first, behind), None
        if behind - self.first <= RUN_DOCUMENTS:
            return Run(min(time, self.time), self.first, behind), None
        return Run(time, self.behind, behind), self


def run_key(time: int, first: int) -> bytes:
    """Return the database key of a run: time u64, first number u64, big-endian."""
    return time.to_bytes(_TIME_BYTES, "big") + first.to_bytes(_NUMBER_BYTES, "big")


def encode_run(run: Run) -> bytes:
    """Return the sealed value of a run: the number behind its last one."""
    return seal("ages", run_key(run.time, run.first), run.behind.to_bytes(_NUMBER_BYTES, "little"))


def decode_run(key: bytes, value: bytes | memoryview, next_number: int) -> Run:
    """Return the run under a database key."""
    content = unseal("ages", key, value, f"run of ages {key.hex():.80}")
    time, first = int.from_bytes(key[:_TIME_BYTES], "big"), int.from_bytes(key[_TIME_BYTES:], "big")
    run = Run(time, first, int.from_bytes(content, "little"))
    if (len(key), len(content)) != (_TIME_BYTES + _NUMBER_BYTES, _NUMBER_BYTES) or (
        not time <= MAX_INSERTED_AT or not first < run.behind <= next_number
    ):
        raise CorruptIndexError(
            f"run of ages {key.hex():.80}: expected a time and numbers below {next_number}, found {run}; "
            "restore a backup or rebuild the index",
            key=key,
        )
    return run


def decode_runs(items: Iterable[tuple[bytes, memoryview]], next_number: int) -> Iterator[Run]:
    """Yield the runs of database entries as they are walked, oldest first; ends, whatever the walk meets."""
    last: Run | None = None
    for key, value in items:
        run = decode_run(key, value, next_number)
        if last is not None and run[:2] <= last[:2]:
            raise CorruptIndexError(
                f"ages: expected ascending runs, found {run} behind {last}; "
                "restore a backup or rebuild the index",
                key=key,
            )
        yield run
        last = run
