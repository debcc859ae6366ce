"""`touch` sets the time of documents to now; `expire` removes those that are older than a time.

Invariant: a run is given up only when each of its documents was removed, or lies in another run whose time is
not behind its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.changes.pending import Pending, current_time, side_by_side
from simindex.changes.session import Session, Writer, require_at_most
from simindex.errors import Argument, ArgumentTypeError, ArgumentValueError
from simindex.format.keys import Key, encode_key, key_hashes
from simindex.format.records import Run, StoredRecord
from simindex.queries.view import EVERY, View

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def touch(session: Session, keys: Iterable[Key]) -> int:
    """Set the time of the documents of these keys to now; return how many of the keys, each counted once, are
    stored. Others are passed by. Raises TypeError for a list of keys in the place of a key; see
    `Index.touch`."""
    keys = list(keys)
    if len(keys) == 1 and not isinstance(keys[0], str | bytes) and isinstance(keys[0], Iterable):
        found = type(keys[0]).__name__
        raise TypeError(f"touch: expected keys, found a {found}; many are handed over as touch(*keys)")
    encoded = list(dict.fromkeys(encode_key(key) for key in keys))

    def gather(_: Writer, pending: Pending, view: View) -> int:
        committed = view.find_keys(encoded, key_hashes(encoded))
        held = [index for index, key in enumerate(encoded) if pending.holds(key, committed.get(index))]
        own = pending.by_key.keys()
        pending.touch(committed[index][0] for index in held if encoded[index] not in own)
        return len(held)

    return session.change(gather)


def limit_of(before: datetime | None, older_than: timedelta | None) -> int:
    """Return the time before which documents expire, in microseconds since 1970-01-01 UTC, of the one of both
    that is given. Raises ArgumentTypeError or ArgumentValueError for both, neither, another type, a datetime
    without time zone or a negative duration."""
    if (before is None) == (older_than is None):
        found = "neither" if before is None else "both"
        either = ("either ", Argument("before"), " or ", Argument("older_than"))
        raise ArgumentTypeError(None, either, found)
    if older_than is None:
        if isinstance(before, timedelta):
            remedy = ("give a duration as ", Argument("older_than"))
            raise ArgumentTypeError("before", "a datetime", "a timedelta", remedy)
        if not isinstance(before, datetime):
            raise ArgumentTypeError("before", "a datetime", type(before).__name__)
        if before.tzinfo is None:
            raise ArgumentValueError("before", "a datetime with a time zone", repr(before))
        return (before - _EPOCH) // _MICROSECOND
    if not isinstance(older_than, timedelta):
        raise ArgumentTypeError("older_than", "a timedelta", type(older_than).__name__)
    if older_than < timedelta(0):
        raise ArgumentValueError("older_than", "a duration of 0 or more", repr(older_than))
    return current_time() - older_than // _MICROSECOND


def expire(session: Session, limit: int, batch_size: int, at_most: float | None = None) -> int:
    """Remove the documents seen last before `limit`, in microseconds since 1970; return how many. A commit
    looks at up to `batch_size` records; inside a transaction there is one batch of all.

    Raises RemovalLimitError, with nothing removed, where they are more than a share `at_most` of all; see
    `Index.expire`.
    """
    removed, is_done = 0, False

    if at_most is not None:
        session.change(partial(_require_at_most, limit=limit, at_most=at_most))

    def sweep(_: Writer, pending: Pending, view: View) -> tuple[int, bool]:
        # Inside a transaction there is one commit, so there is one batch.
        room = EVERY if session.is_in_transaction else batch_size
        sweep = _Sweep(view.with_pending(pending.view()), pending, limit, room)
        is_done = sweep.run()
        return sweep.removed, is_done

    while not is_done:
        some, is_done = session.change(sweep)
        removed += some
    return removed


def _require_at_most(_: Writer, pending: Pending, view: View, *, limit: int, at_most: float) -> None:
    seen = view.with_pending(pending.view())
    old = set[int]()  # one that was touched several times lies in several runs
    for some in _Sweep(seen, pending, limit, EVERY).old():
        old.update(some)
        require_at_most(len(old), seen, at_most)


class _Sweep:
    """One batch of an expiry: what it removes, and the runs that it gives up for it, as part of a change.

    Attributes:
        room: records that may still be looked at.
    """

    def __init__(self, view: View, pending: Pending, limit: int, room: int) -> None:
        self._view, self._pending, self._limit = view, pending, limit
        self._tail = pending.tail or view.manifest.tail
        self.room = room
        self.removed = 0

    def old(self) -> Iterator[Iterable[int]]:
        """Yield the doc ids of what it would remove, some at a time and some of them twice. Each document
        that this change inserts has a number below 0 in place of its doc id. Removes nothing."""
        if self._pending.inserted_at < self._limit:
            yield range(-len(self._pending.by_key), 0)
        for run in self._due():
            first = run.first
            while found := self._view.records_from(first, DEFAULT_BATCH_SIZE, run.end):
                yield (doc_id for doc_id, record in found if record.age_from < self._limit)
                first = found[-1][0] + 1

    def run(self) -> bool:
        """Remove what is old, run by run, oldest first, until `room` records were looked at. Return False
        then, for there may be more. Where all runs were gone through, remove what this change has inserted,
        if that is old, and return True."""
        for run in self._due():
            self._go_through(run)
            if not self.room:
                return False
        if self._pending.inserted_at < self._limit:
            self.removed += sum(self._pending.remove(key, None) for key in list(self._pending.by_key))
        return True

    def _due(self) -> Iterator[Run]:
        """Yield the runs whose time is before the limit, oldest first: stored ones as this change leaves
        them, those of what it has touched, and the tail."""
        changed = self._pending.runs
        own = [Run(*key, end) for key, end in changed.items() if end]
        # What this very change has touched gets its runs at the end of it.
        own += [Run(self._pending.inserted_at, *ends) for ends in side_by_side(sorted(self._pending.touched))]
        stored = (run for run in self._view.runs() if run[:2] not in changed)
        tail = [self._tail] if self._tail.first < self._tail.end else []
        return takewhile(lambda run: run.time < self._limit, heapq.merge(stored, sorted(own), tail))

    def _go_through(self, run: Run) -> None:
        """Remove what is old of a run, as far as the room reaches. In the change, the run is replaced by one
        of what stays, with a later time, and one of what was not looked at; each only where there is any."""
        found = self._view.records_from(run.first, self.room, run.end)
        stop = run.end if len(found) < self.room else found[-1][0] + 1
        self.room -= len(found)
        kept = self._remove_old(found)
        rest = Run(run.time, stop, run.end)
        is_tail = run == self._tail
        if is_tail and stop == run.end:
            self._pending.tail = kept._replace(end=stop) if kept else Run(0, stop, stop)
            return
        runs = self._pending.runs
        if is_tail:
            self._pending.tail = rest
        else:
            runs[run.time, run.first] = 0
            if stop < run.end:
                runs[rest.time, rest.first] = rest.end
        if kept:
            runs[kept.time, kept.first] = kept.end

    def _remove_old(self, found: list[tuple[int, StoredRecord]]) -> Run | None:
        """Remove the old ones of these documents, ascending by doc id, and count them in `removed`. Return
        a run of those that stay and were never touched, with their earliest time, for touched ones lie in a
        run of their touch; ``None`` where there are none."""
        pending, kept = self._pending, list[tuple[int, int]]()
        for doc_id, record in found:
            if record.age_from < self._limit:
                pending.remove_doc_id(doc_id, record)
                self.removed += 1
            elif record.seen_at is None:
                kept.append((doc_id, record.inserted_at))
        if not kept:
            return None
        return Run(min(seen for _, seen in kept), kept[0][0], kept[-1][0] + 1)
