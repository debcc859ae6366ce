"""The questions of an index over many machines. Partitions that do not answer are named in the result."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from simindex.arrow import Table, documents_of
from simindex.batching import bytes_of, in_parts
from simindex.checks import require_int, require_many, require_seconds
from simindex.errors import ClosedError, SimIndexError
from simindex.parallel import in_order, num_workers
from simindex.queries.matches import Matches
from simindex.queries.search import (
    DEFAULT_MAX_CANDIDATES,
    BandQuery,
    FingerprintQuery,
    Method,
    Query,
    QueryFactory,
    method_of,
    sketched,
)
from simindex.scaleout.answers import ScaledAnswers, ScaledMatches, answers_of
from simindex.scaleout.calls import Calls, Gathered, OnMissing
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.errors import CatalogChangedError, PartitionError, PlaceMissingError
from simindex.scaleout.partition import FEW, Nearest, is_by_distance
from simindex.scaleout.wire import Few
from simindex.sketching.document import Document
from simindex.sketching.sketch import SketchBatch
from simindex.sketching.sketcher import Sketcher
from simindex.tuning.curve import DEFAULT_RECALL, DEFAULT_THRESHOLD, prefix_bits_for

T = TypeVar("T")

QUERY_SECONDS = 30.0
"""Default deadline of a question."""

UNDER_WAY = 4
"""Batches that are sent ahead of the answer to the oldest."""

_FIRST_BATCH, _QUERY_BATCH = 1_000, 8_000
"""Questions sent at a time: few at first, so that hosts begin early. Each batch has its cost in each
partition, and in Ray: of 20,000 questions without matches a host with eight partitions answered 72,000 a
second by two thousand, 91,000 by four, 97,000 by eight."""

_SKETCHED_AT_ONCE = 256


MOVED = CatalogChangedError, PartitionError, PlaceMissingError
"""What a call meets whose partition is elsewhere by now: a host that knows, one that misses its folder, or
none."""


class Asking:
    """The questions that `ScaledIndex` answers.

    A call that meets a later version of the catalog than the handle's is made again by that, with the id
    that it had: a partition that has done its part answers what it answered.

    Args:
        uri: of the catalog.
        catalog: as it was loaded.
        carrier: makes what carries the calls.

    Attributes:
        uri: of the catalog.
        seconds: deadline of a question; that of changes is ten times as long.
    """

    def __init__(self, uri: str, catalog: Catalog, carrier: Callable[[Catalog], Calls]) -> None:
        self.uri, self.seconds = uri, QUERY_SECONDS
        self._sketcher = Sketcher(catalog.config)
        self._questions = QueryFactory(catalog.config, DEFAULT_MAX_CANDIDATES)
        self._carrier = carrier
        self._newest = self._made(catalog)
        self._reloading, self._is_closed = threading.Lock(), False

    @property
    def catalog(self) -> Catalog:
        """The catalog that this handle goes by."""
        return self._newest.catalog

    @property
    def _calls(self) -> Calls:
        if self._is_closed:
            raise ClosedError(f"{self.uri}: the handle is closed")
        return self._newest

    def _go_by(self, catalog: Catalog) -> None:
        """Go on by another version of the catalog."""
        older, self._newest = self._newest, self._made(catalog)
        older.close()

    def _made(self, catalog: Catalog) -> Calls:
        calls = self._carrier(catalog)
        calls.newest = partial(Catalog.load, self.uri)
        return calls

    def _has_reloaded(self, calls: Calls) -> bool:
        """Load the catalog again; returns whether it is of another version than a call went by."""
        with self._reloading:
            if self._newest is calls:
                try:
                    catalog = Catalog.load(self.uri)
                except (SimIndexError, OSError):  # says nothing of what a call met
                    return False
                if catalog.id != calls.catalog.id:
                    raise CatalogChangedError(
                        f"{self.uri}: expected the catalog {calls.catalog.id}, found {catalog.id}, of "
                        "another index; open it"
                    )
                if catalog.version != calls.catalog.version:
                    self._go_by(catalog)
            return self._newest is not calls

    def _once_more(self, calls: Calls, call: Callable[[Calls], T], again: Callable[[], T]) -> T:
        """Return what a call returns, or, where the catalog is another one by now, what `again` does."""
        try:
            return call(calls)
        except MOVED:
            if not self._has_reloaded(calls):
                raise
        return again()

    def _call(self, call: Callable[[Calls], T]) -> T:
        """Return what a call returns, made again as often as the catalog has changed meanwhile."""
        return self._once_more(self._calls, call, lambda: self._call(call))

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
        query = self._questions.band_query("query", threshold, limit, recall, exact)
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
        query = self._questions.band_query("query", threshold, limit, recall, exact)
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
        query = self._questions.fingerprint_query(max_distance, limit)
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
        query = self._questions.fingerprint_query(max_distance, limit)
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
        method = method_of("nearest", self.catalog.config, by, None, None, recall)
        require_int("k", k, 1)
        if method == "simhash" and threshold is not None:
            raise ValueError("nearest: threshold is MinHash's, and this compares by SimHash; expected none")
        if method == "minhash":
            floor = 1.0 if threshold is None else threshold
            prefix_bits_for(floor, self.catalog.config.bands, DEFAULT_RECALL if recall is None else recall)
        query = BandQuery(1.0) if method == "minhash" else FingerprintQuery(0)
        batch = sketched("nearest", query, self._sketcher, [document])
        question = Nearest(k, method, threshold, recall)
        return self._matches(question, batch, seconds, on_missing)

    def _ask_once(
        self, call: str, query: Query, document: Document, seconds: float | None, on_missing: OnMissing
    ) -> ScaledMatches:
        batch = sketched(call, query, self._sketcher, [document])
        return self._matches(query, batch, seconds, on_missing)

    def _matches(
        self, query: Query | Nearest, batch: SketchBatch, seconds: float | None, on_missing: OnMissing
    ) -> ScaledMatches:
        found = self._ask(query, batch, on_missing, seconds)
        (matches,) = found
        candidates = matches.candidates
        return ScaledMatches(matches, matches.truncated, candidates, found.partial, found.missing)

    def _ask_many(
        self,
        call: str,
        query: Query,
        documents: Iterable[Document],
        seconds: float | None,
        on_missing: OnMissing,
    ) -> ScaledAnswers:
        """Ask in batches; while one is searched, the next is sketched."""
        require_many(call, "documents", documents, f"{call.removesuffix('_many')}(document)")
        results, missing, partial = ScaledAnswers(), dict[str, str](), set[int]()
        under_way: deque[tuple[Calls, dict[str, Any], SketchBatch]] = deque()
        deadline = self._seconds(seconds, on_missing)

        def take_oldest() -> None:
            calls, sent, batch = under_way.popleft()

            def take(calls: Calls) -> ScaledAnswers:
                return self._merged(query, calls, calls.gather(sent, deadline), len(batch), on_missing)

            answers = self._once_more(calls, take, lambda: self._ask(query, batch, on_missing, seconds))
            partial.update(answers.partial)
            missing.update(answers.missing)
            results.extend(answers)

        rest = iter(documents)
        first = in_parts(islice(rest, _FIRST_BATCH), _FIRST_BATCH, bytes_of)
        for part in chain(first, in_parts(rest, _QUERY_BATCH, bytes_of)):
            batch = self._sketched(call, query, part.values)
            if len(under_way) == UNDER_WAY:
                take_oldest()
            calls = self._calls
            under_way.append((calls, calls.send_all("asks", "query", query, batch), batch))
        while under_way:
            take_oldest()
        results.partial, results.missing = tuple(sorted(partial)), missing
        return results

    def _sketched(self, call: str, query: Query, documents: list[Document]) -> SketchBatch:
        """Return sketches to search by; of many texts made by several threads."""
        threads = num_workers(None)
        if threads == 1 or len(documents) <= _SKETCHED_AT_ONCE or set(map(type, documents)) != {str}:
            return sketched(call, query, self._sketcher, documents)
        step = max(_SKETCHED_AT_ONCE, -(-len(documents) // threads))
        parts = [documents[first : first + step] for first in range(0, len(documents), step)]
        return SketchBatch.joined(list(in_order(self._sketcher.sketch_many, parts, len(parts), 0)))

    def _seconds(self, seconds: float | None, on_missing: OnMissing) -> float:
        require_seconds("seconds", seconds)
        if on_missing not in ("partial", "wait", "raise"):
            raise ValueError(f'on_missing: expected "partial", "wait" or "raise", found {on_missing!r}')
        if on_missing == "wait":
            return math.inf
        return self.seconds if seconds is None else seconds

    def _ask(
        self, query: Query | Nearest, batch: SketchBatch, on_missing: OnMissing, seconds: float | None
    ) -> ScaledAnswers:
        deadline = self._seconds(seconds, on_missing)
        asked = Few.of(batch) if len(batch) <= FEW else batch

        def ask(calls: Calls) -> ScaledAnswers:
            found = calls.gather(calls.send_all("asks", "query", query, asked), deadline)
            return self._merged(query, calls, found, len(batch), on_missing)

        return self._call(ask)

    def _merged(
        self, query: Query | Nearest, calls: Calls, found: Gathered, count: int, on_missing: OnMissing
    ) -> ScaledAnswers:
        """Return the answers of all places to so many questions; of those that none answers, none."""
        if found.missing and (on_missing == "raise" or self._has_reloaded(calls)):
            raise calls.missing("query", found.missing)
        columns = list(found.answers.values())
        if columns and any(one.is_bare for one in columns) and not any(one.counts for one in columns):
            raise ValueError(
                "expected stored documents with MinHash rows, but this index holds bare fingerprints alone; "
                'ask by SimHash: query_simhash(), or by="simhash"'
            )
        limit = query.k if isinstance(query, Nearest) else query.limit
        answers = answers_of(columns, limit, is_by_distance(query)) if columns else []
        partial = calls.partitions_of(found.missing)
        return ScaledAnswers(answers or [Matches() for _ in range(count)], partial, found.missing)
