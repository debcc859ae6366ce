"""ScaledIndex: the face of an index over many machines. It checks arguments and delegates.

Owns the public methods and what they promise. Must not know how a host does what it is asked.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from simindex.arrow import Table, documents_of, keyed_documents
from simindex.changes.ingest import DEFAULT_BATCH_SIZE, InsertReport
from simindex.checks import require_callable, require_int, require_many
from simindex.config import Config
from simindex.format.keys import encode_keys, key_hashes
from simindex.format.records import NIL, pack_metadata
from simindex.index.index import Conflict
from simindex.parts import bytes_of_item, in_parts
from simindex.queries.answers import Answers
from simindex.queries.search import DEFAULT_MAX_CANDIDATES, Questions, sketched
from simindex.scaleout.answers import merged
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.hosts.actors import ray_module
from simindex.scaleout.hosts.calls import Calls
from simindex.scaleout.hosts.host import Routed
from simindex.sketching.document import Document
from simindex.sketching.sketch import HAS_FINGERPRINT
from simindex.sketching.sketcher import Sketcher
from simindex.tuning.curve import DEFAULT_THRESHOLD

CHANGE_SECONDS, QUERY_SECONDS = 300.0, 30.0


class ScaledIndex:
    """An index over many machines. Open one with `simindex.scaleout.open`.

    Attributes:
        uri: of the catalog.
        catalog: as it was loaded.
    """

    def __init__(self, uri: str | os.PathLike[str], catalog: Catalog, has_started_ray: bool) -> None:
        self.uri = os.fspath(uri)
        self.catalog = catalog
        self._calls = Calls(catalog)
        self._sketcher = Sketcher(catalog.config)
        self._questions = Questions(catalog.config, DEFAULT_MAX_CANDIDATES)
        self._has_started_ray = has_started_ray

    @property
    def config(self) -> Config:
        """The configuration of all partitions."""
        return self.catalog.config

    def make_partitions(self) -> None:
        """Make the partitions that are not there, empty."""
        self._calls.every("jobs", "create", seconds=CHANGE_SECONDS)

    def close(self) -> None:
        """Close the handle; hosts go on, unless this handle has started Ray, which then ends."""
        if self._has_started_ray:
            self._has_started_ray = False
            ray_module().shutdown()

    def __enter__(self) -> ScaledIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

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
        """Store many documents, a durable commit for each batch in each of its partitions."""
        rows = keyed_documents(items, id, text, metadata)
        require_many("insert_many", "items", rows, "insert(key, document)")
        require_callable("progress", progress)
        require_int("batch_size", batch_size, 1)
        totals = [0, 0, 0]
        for part in in_parts(rows, batch_size, bytes_of_item):
            routed = self._routed(part.values)
            found = self._calls.all(
                "changes",
                "insert",
                on_conflict,
                seconds=CHANGE_SECONDS,
                places={place: (secrets.token_bytes(16), *of_place) for place, of_place in routed.items()},
            )
            if found.missing:
                raise self._calls.missing("insert_many", found.missing)
            for counts in found.answers.values():
                totals = [total + count for total, count in zip(totals, counts, strict=True)]
            if progress is not None:
                progress(sum(totals))
        return InsertReport(*totals)

    def _routed(self, items: list[tuple[Any, ...]]) -> dict[str, tuple[Routed]]:
        """Return place -> its documents of a batch."""
        encoded = encode_keys([item[0] for item in items])
        packed = [pack_metadata(item[2]) if len(item) == 3 else NIL for item in items]
        numbers = (key_hashes(encoded) % np.uint64(len(self.catalog.partitions))).astype(np.uint32)
        routed = {}
        for place, own in self.catalog.places.items():
            chosen = np.flatnonzero(np.isin(numbers, own)).tolist()
            if chosen:
                routed[place] = (
                    Routed(
                        [encoded[at] for at in chosen],
                        [packed[at] for at in chosen],
                        numbers[chosen],
                        [items[at][1] for at in chosen],
                    ),
                )
        return routed

    def query_many(
        self,
        documents: Iterable[Document] | Table,
        threshold: float = DEFAULT_THRESHOLD,
        limit: int | None = None,
        *,
        recall: float | None = None,
        exact: bool = False,
        text: str | None = None,
    ) -> Answers:
        """Return the matches of each document, in order."""
        asked = documents_of(documents, text)
        require_many("query_many", "documents", asked, "query(document)")
        query = self._questions.band_query("query_many", threshold, limit, recall, exact)
        batch = sketched("query_many", query, self._sketcher, list(asked))
        answers = self._calls.every("asks", "query", query, batch, seconds=QUERY_SECONDS)
        return Answers(merged(list(answers.values()), limit, query.compares == HAS_FINGERPRINT))

    def __len__(self) -> int:
        counts = self._calls.every("asks", "count", seconds=QUERY_SECONDS)
        return sum(count for of_place in counts.values() for count in of_place.values())
