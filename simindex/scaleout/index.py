"""`ScaledIndex`: the calls of `Index` over many machines. It checks arguments and delegates."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, overload

from simindex.arrow import Table, keyed_documents, keys_of
from simindex.batching import bytes_of_item, in_parts
from simindex.changes.documents import DEFAULT_BATCH_SIZE, Conflict, InsertReport, prepared_batches
from simindex.changes.expiry import limit_of
from simindex.changes.if_new import OnMatch
from simindex.checks import require_callable, require_conflict, require_int, require_many
from simindex.config import Config
from simindex.errors import CorruptIndexError
from simindex.format.keys import Key, encode_key
from simindex.maintenance.check import Level
from simindex.maintenance.reports import StoreBackupReport
from simindex.queries.container import Record
from simindex.queries.matches import Matches
from simindex.queries.search import Method, Query
from simindex.scaleout.answers import ScaledCheckReport, ScaledMatches, ScaledStats
from simindex.scaleout.asking import UNDER_WAY, Asking
from simindex.scaleout.calls import Calls, Group
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import UnsupportedError
from simindex.scaleout.if_new import Scratch, Settled, settle
from simindex.scaleout.moving import change_catalog, require_store, with_backups
from simindex.scaleout.partition import is_by_distance
from simindex.scaleout.wire import new_call, partition_of
from simindex.sketching.document import Document
from simindex.tuning.curve import DEFAULT_THRESHOLD

_T = TypeVar("_T")


def by_partition(answers: Mapping[str, Mapping[int, _T]]) -> dict[int, _T]:
    """Return number -> answer of each partition, in order, of what the places answer."""
    return dict(sorted(item for of_place in answers.values() for item in of_place.items()))


_WALKED = 1_000


class ScaledIndex(Asking):
    """An index over many machines, with the calls of `Index`. Open one with `simindex.scaleout.open`.

    What differs from one index: there is no `transaction`, for there is no commit over several machines; a
    batch is one commit in each of its partitions. A call has a deadline: a query says in `partial` which
    partitions did not answer (or waits, or raises), every other call raises `PlaceMissingError`. Matches of
    equal figures come in the order of their keys, not of their ages. Iteration goes partition by partition.

    Thread safety: all methods may be called from several threads, and from several drivers. Durable:
    everything a returned call has changed, on the disks of the nodes.

    Args:
        uri: of the catalog.
        catalog: as it was loaded.
        carrier: makes what carries the calls.
        at_end: called when the handle is closed.

    Attributes:
        uri, catalog: as they were given.
        seconds: deadline of questions; that of changes is ten times as long.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        catalog: Catalog,
        carrier: Callable[[Catalog], Calls],
        at_end: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(os.fspath(uri), catalog, carrier)
        self._at_end = at_end

    # ---- life ----

    @property
    def config(self) -> Config:
        """The configuration of all partitions."""
        return self.catalog.config

    @property
    def _change_seconds(self) -> float:
        return self.seconds * 10

    def make_partitions(self) -> None:
        """Make the partitions that are not there, empty, once each host reaches the store."""
        self._calls.require_fit(self.seconds)
        if self.catalog.store is not None:
            self._calls.every("jobs", "prove_store", self.catalog.store, seconds=self.seconds)
        self._calls.every("jobs", "create", seconds=self._change_seconds)

    def close(self) -> None:
        """Close the handle. Hosts of Ray go on, unless this handle has started Ray, which then ends. Twice is
        allowed."""
        if not self._is_closed:
            self._is_closed = True
            self._newest.close()
            if self._at_end is not None:
                self._at_end()

    def stop(self) -> None:
        """End the hosts of all places, and close the handle: partitions can be opened by others. The next
        `open` starts hosts anew."""
        self._calls.stop()
        self.close()

    def __enter__(self) -> Self:
        self._calls  # noqa: B018 - a closed handle says so
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        partitions, places = len(self.catalog.partitions), len(self.catalog.places)
        return f"ScaledIndex({self.uri!r}, {partitions} partitions at {places} places)"

    def transaction(self, *_: object, **__: object) -> NoReturn:
        """There is none. Raises UnsupportedError."""
        raise UnsupportedError(
            "transaction: a change over many machines is a commit in each partition, and there is none over "
            "all of them; give documents that belong together one key, or open a partition by itself"
        )

    # ---- changes ----

    def insert(
        self, key: Key, document: Document, metadata: object = None, *, on_conflict: Conflict = "error"
    ) -> None:
        """Store one document; as `Index.insert`."""
        self.insert_many([(key, document, metadata)], on_conflict=on_conflict)

    def replace(self, key: Key, document: Document, metadata: object = None) -> None:
        """Store one document in place of the one of the same key, if there is one; as `Index.replace`."""
        self.insert_many([(key, document, metadata)], on_conflict="replace")

    def insert_many(
        self,
        items: Iterable[tuple[Any, ...]] | Table,
        *,
        on_conflict: Conflict = "error",
        batch_size: int = DEFAULT_BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
        id: str | None = None,  # noqa: A002 - the column's usual name
        text: str | None = None,
        metadata: Sequence[str] | None = None,
    ) -> InsertReport:
        """Store many documents, a durable commit for each batch in each of its partitions.

        A few batches are under way at a time; texts are sketched where they are stored. A host that dies and
        comes back within the deadline has each batch once, by its id.

        Args:
            items, on_conflict, progress, id, text, metadata: as in `Index.insert_many`.
            batch_size: documents a commit of a partition, about; a batch has so many times the number of
                partitions, fewer where they take 16 MiB.

        Returns:
            InsertReport(inserted, replaced, skipped).

        Raises:
            KeyExistsError: a key is stored already (`on_conflict` "error"). The batches before are stored; of
                its own, and of those sent after it, partitions without such a key have stored their part.
            PlaceMissingError: a place did not answer within the deadline; what was reported by `progress` is
                stored, of the batches under way a part may be. Repeated with "skip" or "replace" it goes on.
            PartitionError, CatalogChangedError: a partition cannot be written, or is on its way elsewhere.
            TypeError, ValueError: as `Index.insert_many`.
        """
        rows = keyed_documents(items, id, text, metadata)
        require_many("insert_many", "items", rows, "insert(key, document)")
        require_conflict(on_conflict)
        require_callable("progress", progress)
        require_int("batch_size", batch_size, 1)
        totals = [0, 0, 0]
        under_way: deque[tuple[Calls, dict[str, Any], list[Any], bytes]] = deque()

        def take_oldest() -> None:
            calls, sent, items, call = under_way.popleft()

            def take(calls: Calls) -> list[Any]:
                found = calls.gather(sent, self._change_seconds)
                return list(calls.whole("insert_many", found).values())

            def again() -> list[Any]:
                return self._insert(lambda calls: calls.routing.items(items, call), on_conflict)

            for counts in self._once_more(calls, take, again):
                totals[:] = [total + count for total, count in zip(totals, counts, strict=True)]
            if progress is not None:
                progress(sum(totals))

        try:
            for part in in_parts(rows, batch_size * len(self.catalog.partitions), bytes_of_item):
                if len(under_way) == UNDER_WAY:
                    take_oldest()
                calls, call = self._calls, new_call()
                routed = calls.routing.items(part.values, call)
                sent = calls.send_all("changes", "insert", on_conflict, to=routed)
                under_way.append((calls, sent, part.values, call))
        finally:
            # What was sent is done or refused when the call ends, whatever ended it.
            failure = self._take_all(take_oldest, under_way)
        if failure is not None:
            raise failure
        return InsertReport(*totals)

    @staticmethod
    def _take_all(take_oldest: Callable[[], None], under_way: deque[Any]) -> Exception | None:
        failure = None
        while under_way:
            try:
                take_oldest()
            except Exception as exc:
                failure = failure or exc
        return failure

    def _insert(
        self, to: Callable[[Calls], Mapping[str, tuple[Any, ...]]], on_conflict: Conflict
    ) -> list[Any]:
        return self._some("changes", "insert", to, on_conflict, seconds=self._change_seconds)

    def _every(self, group: Group, method: str, *arguments: Any, seconds: float) -> dict[str, Any]:
        """Return place -> what a method returns there."""
        return self._call(lambda calls: calls.every(group, method, *arguments, seconds=seconds))

    def _some(
        self,
        group: Group,
        method: str,
        to: Callable[[Calls], Mapping[str, tuple[Any, ...]]],
        *arguments: Any,
        seconds: float,
    ) -> list[Any]:
        """Call some places; returns what each answers."""

        def ask(calls: Calls) -> list[Any]:
            found = calls.every(group, method, *arguments, to=to(calls), seconds=seconds)
            return list(found.values())

        return self._call(ask)

    def insert_if_new(
        self,
        key: Key,
        document: Document,
        threshold: float = DEFAULT_THRESHOLD,
        metadata: object = None,
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        on_conflict: Conflict = "error",
        touch: bool = False,
    ) -> Matches:
        """Return the matches of a document if there are any; else store it and return an empty list.

        As `Index.insert_if_new`, for one driver; see `insert_many_if_new`.
        """
        found: list[Matches] = []
        self.insert_many_if_new(
            [(key, document, metadata)],
            threshold,
            by=by,
            max_distance=max_distance,
            on_match=lambda _, matches: found.append(matches),
            on_conflict=on_conflict,
            touch=touch,
        )
        return found[0] if found else ScaledMatches()

    def insert_many_if_new(
        self,
        items: Iterable[tuple[Any, ...]] | Table,
        threshold: float = DEFAULT_THRESHOLD,
        *,
        by: Method | None = None,
        max_distance: int | None = None,
        on_match: OnMatch | None = None,
        on_conflict: Conflict = "error",
        touch: bool = False,
        batch_size: int = DEFAULT_BATCH_SIZE,
        progress: Callable[[int], object] | None = None,
        workers: int | None = None,
        id: str | None = None,  # noqa: A002 - the column's usual name
        text: str | None = None,
        metadata: Sequence[str] | None = None,
    ) -> InsertReport:
        """Store many documents, each unless another one is like it.

        For one driver just what `Index.insert_many_if_new` does. Over several drivers it cannot be promised:
        two documents that are like one another, sent at once by two drivers, may both be stored, for neither
        is there yet when the other is compared; deduplicating the whole index finds them.

        Args and Returns: as of `Index.insert_many_if_new`.

        Raises:
            PlaceMissingError: a place did not answer: what is new cannot be told by some of the partitions.
            KeyExistsError, TypeError, ValueError: as `Index.insert_many_if_new`.
        """
        query = self._questions.query_by("insert_many_if_new", by, threshold, max_distance)
        require_conflict(on_conflict)
        require_callable("on_match", on_match)
        require_callable("progress", progress)
        require_int("batch_size", batch_size, 1)
        rows = keyed_documents(items, id, text, metadata)
        require_many("insert_many_if_new", "items", rows, "insert_if_new(key, document)")
        scratch, totals = Scratch(self.config), [0, 0, 0]
        try:
            for batch in prepared_batches(rows, self._sketcher, batch_size, workers, query.compares):
                for documents, alike in scratch.chunks(query, batch):
                    settled = self._store_new(query, documents, alike, on_conflict)
                    counts = settled.inserted, settled.replaced, settled.skipped
                    totals = [total + count for total, count in zip(totals, counts, strict=True)]
                    if touch and settled.matched:
                        self.touch(*{match.key for _, found in settled.matched for match in found})
                    for place, matches in settled.matched if on_match is not None else ():
                        on_match(documents.keys[place], matches)  # type: ignore[misc] # it is not None
                if progress is not None:
                    progress(sum(totals))
        finally:
            scratch.close()
        return InsertReport(*totals)

    def _store_new(
        self, query: Query, documents: Any, within: list[Matches], on_conflict: Conflict
    ) -> Settled:
        """Ask all partitions about a batch, and store what is new of it."""
        outside = self._ask(query, documents.sketches, "raise", self.seconds)
        held = self._of_keys("asks", "holds", documents.encoded_keys)
        stored = {key for keys in held for key in keys}
        by_distance = is_by_distance(query)
        settled = settle(documents, outside, within, stored, on_conflict, by_distance, query.limit)
        if settled.places:
            new, call = documents.taken(settled.places), new_call()
            self._insert(lambda calls: calls.routing.documents(new, call), on_conflict)
        return settled

    def remove(self, key: Key) -> None:
        """Remove one document. Raises KeyError when the key is not stored."""
        if not self.remove_many([key]):
            raise KeyError(key)

    __delitem__ = remove

    def remove_many(
        self,
        keys: Iterable[Key] | Table,
        *,
        id: str | None = None,  # noqa: A002 - the column's usual name
    ) -> int:
        """Remove the documents of these keys, one commit a partition; returns how many there were."""
        keys = keys_of(keys, id)
        require_many("remove_many", "keys", keys, "remove(key)")
        encoded = list(dict.fromkeys(encode_key(key) for key in keys))
        return sum(self._of_keys("changes", "remove", encoded, new_call()))

    def touch(self, *keys: Key) -> int:
        """Renew the age that `expire` goes by; returns how many of the keys are stored."""
        encoded = list(dict.fromkeys(encode_key(key) for key in keys))
        return sum(self._of_keys("changes", "touch", encoded, new_call()))

    def _of_keys(self, group: Group, method: str, encoded: list[bytes], *own: bytes) -> list[Any]:
        """Call the places of some keys; returns what each answers."""

        def to(calls: Calls) -> dict[str, tuple[Any, ...]]:
            return {place: (*own, *arguments) for place, arguments in calls.routing.keys(encoded).items()}

        return self._some(group, method, to, seconds=self._change_seconds)

    def expire(
        self,
        before: datetime | None = None,
        *,
        older_than: timedelta | None = None,
        batch_size: int = DEFAULT_BATCH_SIZE,
    ) -> int:
        """Remove the documents that were inserted or touched last before a time; as `Index.expire`.

        The time is this driver's, and documents have the clocks of their nodes.
        """
        require_int("batch_size", batch_size, 1)
        limit = limit_of(before, older_than)
        arguments = new_call(), limit, batch_size
        return sum(self._every("changes", "expire", *arguments, seconds=self._change_seconds).values())

    # ---- the container ----

    def __contains__(self, key: object) -> bool:
        """Whether a key is stored; of what cannot be a key, False."""
        return self.get(key) is not None

    def __getitem__(self, key: Key) -> Record:
        """Return the record of a stored key. Raises KeyError when it is not stored."""
        encode_key(key)
        record = self.get(key)
        if record is None:
            raise KeyError(key)
        return record

    @overload
    def get(self, key: object) -> Record | None: ...
    @overload
    def get(self, key: object, default: _T) -> Record | _T: ...
    def get(self, key: Any, default: object = None) -> object:
        """Return the record of a key, or the default where it is not stored or cannot be a key.

        Raises:
            PlaceMissingError: the place of its partition does not answer.
        """
        try:
            number = partition_of(key, len(self.catalog.partitions))
        except (TypeError, ValueError):
            return default
        found = self._of_partition(number, "get", key)
        return default if found is None else found

    def __len__(self) -> int:
        counts = self._every("asks", "count", seconds=self.seconds)
        return sum(by_partition(counts).values())

    def __iter__(self) -> Iterator[Key]:
        """Yield the stored keys, partition by partition, in order of insertion in each; documents stored
        meanwhile may come, too."""
        for number in range(len(self.catalog.partitions)):
            yield from self._walk(number)

    keys = __iter__

    def _of_partition(self, number: int, method: str, *arguments: Any) -> Any:
        """Ask the place of one partition."""

        def to(calls: Calls) -> dict[str, tuple[Any, ...]]:
            return {calls.catalog.partitions[number].place: (number, *arguments)}

        (answer,) = self._some("asks", method, to, seconds=self.seconds)
        return answer

    def _walk(self, number: int) -> Iterator[Key]:
        first, count, states = 0, 0, set[tuple[int, int]]()
        while True:
            keys, behind, state = self._of_partition(number, "keys_from", first, _WALKED)
            states.add(state)
            count += len(keys)
            yield from keys
            if behind is None:
                break
            first = behind
        if len(states) == 1 and count != state[1]:
            raise CorruptIndexError(
                f"partition {number}: expected {state[1]} documents, found {count}; restore a backup of it"
            )

    def items(self) -> Iterator[tuple[Key, Record]]:
        """Yield (key, record) of each stored document; a call each."""
        for key in self:
            record = self.get(key)
            if record is not None:
                yield key, record

    # ---- whole partitions ----

    def compact(self) -> None:
        """Compact every partition, one after the other on each node; as `Index.compact`. It has no deadline,
        and queries and changes go on."""
        self._every("jobs", "compact", seconds=math.inf)

    def backup(self) -> dict[int, StoreBackupReport]:
        """Back up all partitions to the catalog's store; as `simindex.scaleout.backup`, which has no handle.

        What the store has already is not uploaded again; the catalog tells when each was backed up. It has no
        deadline, and queries and changes go on.

        Returns:
            Number of a partition -> what was done.

        Raises:
            ValueError: the catalog has no store.
            PartitionError: one cannot be backed up; it names place, node and partition. The others may be.
        """
        require_store(self._calls.catalog, self.uri)

        def ask(calls: Calls) -> dict[str, Any]:
            uri = calls.catalog.backup_uri
            to = {place: ({n: uri(n) for n in numbers},) for place, numbers in calls.places.items()}
            return calls.every("jobs", "backup", to=to, seconds=math.inf)

        reports = by_partition(self._call(ask))
        self._go_by(change_catalog(self.uri, lambda newest: with_backups(newest, reports)))
        return reports

    def stats(self) -> ScaledStats:
        """Return counts and sizes, of all and of each partition."""
        answers = self._every("asks", "stats", seconds=self.seconds)
        return ScaledStats.of(self.uri, self.catalog, by_partition(answers))

    def write_counts(self) -> Catalog:
        """Write down in the catalog how many documents each partition holds; return it.

        Who reads the catalog without asking hosts, as `rebalance` does for the moves that it shows, has the
        counts of the last backup, restoring or such call.

        Raises:
            PlaceMissingError: a place does not answer; nothing is written.
        """
        counts = by_partition(self._every("asks", "count", seconds=self.seconds))

        def counted(newest: Catalog) -> Catalog:
            return newest.changed(
                replace(partition, documents=counts[number])
                for number, partition in enumerate(newest.partitions)
            )

        catalog = change_catalog(self.uri, counted)
        self._go_by(catalog)
        return catalog

    def check(self, level: Level = "full") -> ScaledCheckReport:
        """Check every partition, one after the other on each node; as `Index.check`. It has no deadline."""
        if level not in ("full", "quick"):
            raise ValueError(f'level: expected "full" or "quick", found {level!r}')
        answers = self._every("jobs", "check", level, seconds=math.inf)
        return ScaledCheckReport(by_partition(answers))

    def status(self) -> dict[str, dict[str, Any]]:
        """Return place -> the node and process of its host, documents by partition, and bytes; of a place
        that does not answer, why."""

        def ask(calls: Calls) -> dict[str, dict[str, Any]]:
            found = calls.gather(calls.send_all("asks", "status"), self.seconds)
            if found.missing and self._has_reloaded(calls):
                raise calls.missing("status", found.missing)
            missing = {place: {"missing": why} for place, why in found.missing.items()}
            return {place: (found.answers | missing)[place] for place in calls.places}

        return self._call(ask)
