"""`ScaledIndex`: the calls of `Index` over many machines.

Each call routes what it has to places, calls their hosts, and merges what they answer. A handle keeps to the
version of the catalog that it was opened by: where partitions have moved since, a call says so.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, islice
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, overload

from simindex.arrow import Table, documents_of, keyed_documents, keys_of
from simindex.batching import Part, bytes_of, bytes_of_item, in_order, in_parts
from simindex.changes.documents import (
    DEFAULT_BATCH_SIZE,
    Conflict,
    InsertReport,
    NewDocuments,
    prepared_batches,
)
from simindex.changes.expiry import limit_of
from simindex.changes.if_new import Decisions, OnMatch
from simindex.checks import require_callable, require_conflict, require_int, require_many, require_seconds
from simindex.config import Config
from simindex.errors import ClosedError, CorruptIndexError, SimIndexError
from simindex.format.keys import Key, encode_key
from simindex.formulas.curve import DEFAULT_THRESHOLD
from simindex.maintenance.check import Level
from simindex.maintenance.reports import StoreBackupReport
from simindex.queries.container import Record
from simindex.queries.matches import Matches
from simindex.queries.search import (
    DEFAULT_MAX_CANDIDATES,
    BandQuery,
    FingerprintQuery,
    Method,
    Query,
    nearest_query,
    query_by,
    sketched,
)
from simindex.scaleout.answers import (
    Answered,
    ScaledAnswers,
    ScaledCheckReport,
    ScaledMatches,
    ScaledStats,
)
from simindex.scaleout.calls import Calls, Gathered, OnMissing, To
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.connections import Group
from simindex.scaleout.errors import CatalogChangedError, PartitionError, UnsupportedError
from simindex.scaleout.moving import require_store
from simindex.scaleout.partition import Nearest, Partition, is_by_distance
from simindex.scaleout.wire import Routing, new_call, partition_of
from simindex.sketching.document import Document
from simindex.sketching.sketch import SketchBatch
from simindex.sketching.sketcher import Sketcher

_T = TypeVar("_T")

QUERY_SECONDS = 30.0
"""Default deadline of a question."""

UNDER_WAY = 4
"""Batches that are sent ahead of the answer to the oldest."""

_FIRST_BATCH, _QUERY_BATCH = 1_000, 8_000
"""Questions sent at a time: few at first, so that hosts begin early. Each batch has its cost in each
partition, and in Ray: of 20,000 questions without matches a host with eight partitions answered 72,000 a
second by two thousand, 91,000 by four, 97,000 by eight."""

_WALKED = 1_000


class ScaledIndex:
    """An index over many machines, with the calls of `Index`. Open one with `simindex.scaleout.open`.

    What differs from one index: there is no `transaction`, for there is no commit over several machines; a
    batch is one commit in each of its partitions. A call has a deadline: a query says in `partial` which
    partitions did not answer (or waits, or raises), every other call raises `PlaceMissingError`. A call that
    meets partitions which have moved since the handle was opened raises `CatalogChangedError`: open the index
    again. Matches of equal figures come in the order of their keys, not of their ages. Iteration goes
    partition by partition.

    Thread safety: all methods may be called from several threads, and from several drivers. Durable:
    everything a returned call has changed, on the disks of the nodes.

    Args:
        uri: of the catalog.
        catalog: as it was loaded.
        calls: makes what calls the hosts of a catalog.
        at_end: called when the handle is closed.

    Attributes:
        uri, catalog: as they were given.
        seconds: deadline of questions; that of changes is ten times as long.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        catalog: Catalog,
        calls: Callable[[Catalog], Calls],
        at_end: Callable[[], object] | None = None,
    ) -> None:
        self.uri, self.catalog, self.seconds = os.fspath(uri), catalog, QUERY_SECONDS
        self._sketcher = Sketcher(catalog.config)
        self._query_by = partial(query_by, catalog.config, DEFAULT_MAX_CANDIDATES)
        self._routing = Routing(catalog, self._sketcher)
        self._hosts, self._at_end, self._is_closed = calls(catalog), at_end, False

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
            self._call("jobs", "prove_store", self.catalog.store, seconds=self.seconds)
        self._call("jobs", "create", seconds=self._change_seconds)

    def close(self) -> None:
        """Close the handle. Hosts of Ray go on, unless this handle has started Ray, which then ends. Twice is
        allowed."""
        if not self._is_closed:
            self._is_closed = True
            self._hosts.close()
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

    # ---- calls of hosts ----

    @property
    def _calls(self) -> Calls:
        if self._is_closed:
            raise ClosedError(f"{self.uri}: the handle is closed")
        return self._hosts

    def _gather(self, sent: Mapping[str, Any], seconds: float) -> Gathered:
        """Return what places answer; where one does not, the catalog may have changed, which is raised."""
        try:
            found = self._calls.gather(sent, seconds)
        except PartitionError as exc:
            self._require_newest(exc)
            raise
        if found.missing:
            self._require_newest()
        return found

    def _call(
        self, group: Group, method: str, *arguments: Any, to: To | None = None, seconds: float
    ) -> dict[str, Any]:
        """Return what all places answer, or some; see `Calls.every`."""
        return self._gather(self._calls.send(group, method, *arguments, to=to), seconds).whole(method)

    def _require_newest(self, cause: Exception | None = None) -> None:
        try:
            newest = Catalog.load(self.uri)
        except (SimIndexError, OSError):  # one that cannot be read now says nothing
            return
        if (newest.id, newest.version) != (self.catalog.id, self.catalog.version):
            raise CatalogChangedError(
                f"{self.uri}: expected version {self.catalog.version} of the catalog {self.catalog.id}, "
                f"found version {newest.version} of {newest.id}: partitions have moved; open the index again"
            ) from cause

    def _each(
        self,
        method: str,
        arguments: Mapping[int, tuple[Any, ...]] | None = None,
        *own: Any,
        group: Group = "asks",
        seconds: float | None = None,
    ) -> dict[int, Any]:
        """Call a method of some partitions, or of all with `own`; returns number -> what it answers."""
        every = dict.fromkeys(range(len(self.catalog.partitions)), own) if arguments is None else arguments
        rows, to = self.catalog.partitions, dict[str, tuple[dict[int, Any]]]()
        for number, given in every.items():
            to.setdefault(rows[number].place, ({},))[0][number] = given
        call, wait = ("change", self._change_seconds) if group == "changes" else ("each", self.seconds)
        found = self._call(group, call, method, to=to, seconds=wait if seconds is None else seconds)
        return dict(sorted(item for of_place in found.values() for item in of_place.items()))

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
        size = batch_size * len(self.catalog.partitions)
        parts = in_parts(rows, size, bytes_of_item)
        return self._insert((self._routing.items(part.values) for part in parts), on_conflict, progress)

    def insert_prepared(self, batches: Iterable[NewDocuments], on_conflict: Conflict) -> InsertReport:
        """Store batches of documents that are sketched already; as `insert_many`."""
        return self._insert(map(self._routing.documents, batches), on_conflict, None)

    def _insert(
        self,
        batches: Iterable[To],
        on_conflict: Conflict,
        progress: Callable[[int], object] | None,
    ) -> InsertReport:
        totals, calls, under_way = [0, 0, 0], self._calls, deque[dict[str, Any]]()

        def answered() -> None:
            found = self._gather(under_way.popleft(), self._change_seconds).whole("insert_many")
            counts = [one for of_place in found.values() for one in of_place.values()]
            totals[:] = [sum(column) for column in zip(totals, *counts, strict=True)]
            if progress is not None:
                progress(sum(totals))

        try:
            for to in batches:
                if len(under_way) == UNDER_WAY:
                    answered()
                under_way.append(calls.send("changes", "insert", on_conflict, to=to))
            while under_way:
                answered()
        finally:
            # What was sent is done or refused when the call ends, whatever ended it.
            for sent in under_way:
                with suppress(Exception):
                    calls.gather(sent, self._change_seconds)
        return InsertReport(*totals)

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
            PlaceMissingError: a place did not answer: some of the partitions do not show what is new.
            KeyExistsError, TypeError, ValueError: as `Index.insert_many_if_new`.
        """
        query = self._query_by("insert_many_if_new", by, threshold, max_distance)
        require_conflict(on_conflict)
        require_callable("on_match", on_match)
        require_callable("progress", progress)
        require_int("batch_size", batch_size, 1)
        rows = keyed_documents(items, id, text, metadata)
        require_many("insert_many_if_new", "items", rows, "insert_if_new(key, document)")
        totals = [0, 0, 0]
        with (
            TemporaryDirectory(prefix="simindex-") as folder,
            Partition(f"{folder}/i", "x", self.config) as own,
        ):
            for documents in prepared_batches(rows, self._sketcher, batch_size, workers, query.compares):
                decisions = self._store_new(query, documents, own, on_conflict)
                counts = decisions.inserted, decisions.replaced, decisions.skipped
                totals = [total + count for total, count in zip(totals, counts, strict=True)]
                if touch and decisions.matched:
                    self.touch(*decisions.keys_of_matches())
                for place, matches in decisions.matched if on_match is not None else ():
                    on_match(documents.keys[place], matches)  # type: ignore[misc] # it is not None
                if progress is not None:
                    progress(sum(totals))
        return InsertReport(*totals)

    def _store_new(
        self,
        query: BandQuery | FingerprintQuery,
        documents: NewDocuments,
        own: Partition,
        on_conflict: Conflict,
    ) -> Decisions:
        """Store what is new of a batch: all partitions say what is like its documents, which is put into an
        empty partition of this process, and there they are settled as one index settles them."""
        outside = self._ask(query, documents.sketches, self.seconds, "raise")
        keys = [*documents.encoded_keys, *(encode_key(match.key) for found in outside for match in found)]
        by_key = self._by_key(list(dict.fromkeys(keys)))
        stored = [one for one in self._each("documents", by_key).values() if one is not None]
        decisions = own.decisions(query, stored, documents, on_conflict)
        matched = dict(decisions.matched)
        flags = bytes(outside[place].truncated for place in matched)
        found = Answered.of(dict(enumerate(matched.values())), flags)
        ordered = Answered.merged([found], None, is_by_distance(query)).matches()
        decisions.matched = list(zip(matched, ordered, strict=True))
        if decisions.places:
            to = self._routing.documents(documents.taken(decisions.places))
            self._call("changes", "insert", on_conflict, to=to, seconds=self._change_seconds)
        return decisions

    def _by_key(self, encoded: Sequence[bytes], *first: Any) -> dict[int, tuple[Any, ...]]:
        """Return number of a partition -> arguments of a call about some keys."""
        return {number: (*first, keys) for number, keys in self._routing.keys(encoded).items()}

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
        return sum(self._each("remove_once", self._by_key(encoded, new_call()), group="changes").values())

    def touch(self, *keys: Key) -> int:
        """Renew the age that `expire` goes by; returns how many of the keys are stored."""
        encoded = list(dict.fromkeys(encode_key(key) for key in keys))
        return sum(self._each("touch_once", self._by_key(encoded, new_call()), group="changes").values())

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
        counts = self._each("expire_once", None, new_call(), limit, batch_size, group="changes")
        return sum(counts.values())

    # ---- questions ----

    def query(
        self,
        document: Document,
        threshold: float = DEFAULT_THRESHOLD,
        limit: int | None = None,
        *,
        recall: float | None = None,
        exact: bool = False,
        seconds: float | None = None,
        on_missing: OnMissing = "partial",
    ) -> ScaledMatches:
        """Return the stored documents whose estimated similarity is at least that, most similar first.

        Args:
            document, threshold, limit, recall, exact: as in `Index.query`. Each partition compares as many
                candidates as one index does.
            seconds: deadline; ``None``: that of the handle, 30.
            on_missing: what becomes of places that do not answer until then: "partial" names them in the
                result, "raise" raises `PlaceMissingError`, "wait" waits for them for ever.

        Returns:
            ScaledMatches; equal figures in the order of the keys.
        """
        query = self._query_by("query", "minhash", threshold, None, limit, recall, exact)
        return self._ask_once("query", query, document, seconds, on_missing)

    def query_many(
        self,
        documents: Iterable[Document] | Table,
        threshold: float = DEFAULT_THRESHOLD,
        limit: int | None = None,
        *,
        recall: float | None = None,
        exact: bool = False,
        seconds: float | None = None,
        on_missing: OnMissing = "partial",
        text: str | None = None,
    ) -> ScaledAnswers:
        """Return `query` for each document, in order; some thousands at a time on one snapshot a partition.

        Args:
            documents, text: as in `Index.query_many`.
            seconds, on_missing: as in `query`; a deadline of each 8,000 documents.
        """
        query = self._query_by("query", "minhash", threshold, None, limit, recall, exact)
        return self._ask_many("query_many", query, documents_of(documents, text), seconds, on_missing)

    def query_simhash(
        self,
        document: Document,
        max_distance: int | None = None,
        *,
        limit: int | None = None,
        seconds: float | None = None,
        on_missing: OnMissing = "partial",
    ) -> ScaledMatches:
        """Return every stored document within that Hamming distance, nearest first; as
        `Index.query_simhash`. `seconds` and `on_missing` are those of `query`."""
        query = self._query_by("query_simhash", "simhash", None, max_distance, limit)
        return self._ask_once("query_simhash", query, document, seconds, on_missing)

    def query_simhash_many(
        self,
        documents: Iterable[Document] | Table,
        max_distance: int | None = None,
        *,
        limit: int | None = None,
        seconds: float | None = None,
        on_missing: OnMissing = "partial",
        text: str | None = None,
    ) -> ScaledAnswers:
        """Return `query_simhash` for each document, in order; arguments as of `query_many`."""
        query = self._query_by("query_simhash", "simhash", None, max_distance, limit)
        asked = documents_of(documents, text)
        return self._ask_many("query_simhash_many", query, asked, seconds, on_missing)

    def nearest(
        self,
        document: Document,
        k: int = 10,
        *,
        by: Method | None = None,
        threshold: float | None = None,
        recall: float | None = None,
        seconds: float | None = None,
        on_missing: OnMissing = "partial",
    ) -> ScaledMatches:
        """Return the k most similar documents that can be found; as `Index.nearest`.

        Each partition looks for its own k, so that what is found is at least as similar as in one index.
        """
        query = nearest_query(self.catalog.config, DEFAULT_MAX_CANDIDATES, k, by, threshold, recall)
        method: Method = "minhash" if isinstance(query, BandQuery) else "simhash"
        batch = sketched("nearest", query, self._sketcher, [document])
        return self._ask(Nearest(k, method, threshold, recall), batch, seconds, on_missing).only()

    def _ask_once(
        self, call: str, query: Query, document: Document, seconds: float | None, on_missing: OnMissing
    ) -> ScaledMatches:
        batch = sketched(call, query, self._sketcher, [document])
        return self._ask(query, batch, seconds, on_missing).only()

    def _ask(
        self,
        query: Query | Nearest,
        documents: list[str] | SketchBatch,
        seconds: float | None,
        on_missing: OnMissing,
    ) -> ScaledAnswers:
        sent = self._calls.send("asks", "query", query, documents)
        found = self._gather(sent, self._deadline(seconds, on_missing))
        if on_missing == "raise":
            found.whole("query")
        if not found.answers:
            return ScaledAnswers([Matches() for _ in documents], found.partitions, found.missing)
        answered, *others = found.answers.values()
        if others:  # a host has put its own in order
            limit = query.k if isinstance(query, Nearest) else query.limit
            answered = Answered.merged([answered, *others], limit, is_by_distance(query))
        if answered.is_bare and not answered.queries:
            raise ValueError(
                "expected stored documents with MinHash rows, but this index holds bare fingerprints alone; "
                'ask by SimHash: query_simhash(), or by="simhash"'
            )
        return ScaledAnswers(answered.matches(), found.partitions, found.missing)

    def _ask_many(
        self,
        call: str,
        query: Query,
        documents: Iterable[Document],
        seconds: float | None,
        on_missing: OnMissing,
    ) -> ScaledAnswers:
        """Ask in batches; while some are searched, others are sketched. Texts for one place are sketched
        there: else the driver of many replicas would be their limit."""
        require_many(call, "documents", documents, f"{call.removesuffix('_many')}(document)")
        self._deadline(seconds, on_missing)
        results, rest = ScaledAnswers(), iter(documents)
        first = in_parts(islice(rest, _FIRST_BATCH), _FIRST_BATCH, bytes_of)
        parts = chain(first, in_parts(rest, _QUERY_BATCH, bytes_of))

        is_one = len(self._calls.places) == 1

        def ask(part: Part[Document]) -> ScaledAnswers:
            documents: list[Any] | SketchBatch = part.values
            if not (is_one and set(map(type, part.values)) <= {str}):
                documents = sketched(call, query, self._sketcher, part.values)
            return self._ask(query, documents, seconds, on_missing)

        for answers in in_order(ask, parts, UNDER_WAY, 0):
            results.add(answers)
        return results

    def _deadline(self, seconds: float | None, on_missing: OnMissing) -> float:
        require_seconds("seconds", seconds)
        if on_missing not in ("partial", "wait", "raise"):
            raise ValueError(f'on_missing: expected "partial", "wait" or "raise", found {on_missing!r}')
        if on_missing == "wait":
            return math.inf
        return self.seconds if seconds is None else seconds

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
        found = self._each("get", {number: (key,)})[number]
        return default if found is None else found

    def __len__(self) -> int:
        return sum(self._each("count").values())

    def __iter__(self) -> Iterator[Key]:
        """Yield the stored keys, partition by partition, in order of insertion in each; documents stored
        meanwhile may come, too."""
        for number in range(len(self.catalog.partitions)):
            yield from self._walk(number)

    keys = __iter__

    def _walk(self, number: int) -> Iterator[Key]:
        first, count, states = 0, 0, set[tuple[int, int]]()
        while True:
            keys, behind, state = self._each("keys_from", {number: (first, _WALKED)})[number]
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
        self._each("compact", group="jobs", seconds=math.inf)

    def backup(self) -> dict[int, StoreBackupReport]:
        """Back up all partitions to the catalog's store; as `simindex.scaleout.backup`, which has no handle.

        What the store has already is not uploaded again. It has no deadline, and queries and changes go on.

        Returns:
            Number of a partition -> what was done.

        Raises:
            ValueError: the catalog has no store.
            PartitionError: one cannot be backed up; it names place, node and partition. The others may be.
        """
        require_store(self.catalog, self.uri)
        uris = {n: (self.catalog.backup_uri(n),) for n in range(len(self.catalog.partitions))}
        return self._each("back_up", uris, group="jobs", seconds=math.inf)

    def stats(self) -> ScaledStats:
        """Return counts and sizes, of all and of each partition."""
        return ScaledStats.of(self._each("stats"))

    def check(self, level: Level = "full") -> ScaledCheckReport:
        """Check every partition, one after the other on each node; as `Index.check`. It has no deadline."""
        if level not in ("full", "quick"):
            raise ValueError(f'level: expected "full" or "quick", found {level!r}')
        return ScaledCheckReport(self._each("check", None, level, group="jobs", seconds=math.inf))

    def status(self) -> dict[str, dict[str, Any]]:
        """Return place -> the node and process of its host, documents by partition, and bytes; of a place
        that does not answer, why."""
        found = self._gather(self._calls.send("asks", "status"), self.seconds)
        missing = {place: {"missing": why} for place, why in found.missing.items()}
        return {place: (found.answers | missing)[place] for place in self.catalog.places}
