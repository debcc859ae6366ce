"""One query for each of many documents: sketched, searched by threads, answered in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

from simindex.batching import Part, bytes_of, in_parts
from simindex.parallel import in_order, num_workers
from simindex.queries.matches import Matches
from simindex.queries.search import Found, Query, require_comparable, sketched
from simindex.queries.view import View
from simindex.sketching.document import Document
from simindex.sketching.sketch import Sketch, SketchBatch
from simindex.sketching.sketcher import Sketcher

_QUERY_PART = 512
"""Documents that a thread sketches and searches in one go."""


class BatchQuery(NamedTuple):
    """One query by many documents, sketched as far as that must be done before a transaction begins.

    Attributes:
        call: the public name, for messages.
        query: the same for each document.
        parts: the sketches, or documents that threads sketch and search.
    """

    call: str
    query: Query
    sketcher: Sketcher
    parts: Sequence[SketchBatch | list[Document]]
    threads: int

    @classmethod
    def of(
        cls, call: str, query: Query, documents: Iterable[Document], sketcher: Sketcher, workers: int | None
    ) -> BatchQuery:
        """Take the documents.

        Args:
            documents: a list is in memory already; of others only so much is at a time as `in_parts` says.
            workers: threads; ``None``: as many as there are cores where there are enough documents for it.
        """
        if not isinstance(documents, list):
            return cls._of_stream(call, query, documents, sketcher, workers)
        is_large = len(documents) >= 2 * _QUERY_PART
        threads = num_workers(workers) if is_large or workers is not None else 1
        # Other documents may be iterables of the caller's, whose code must not run inside a transaction.
        if threads == 1 or not is_large or not set(map(type, documents)) <= {str, Sketch}:
            return cls(call, query, sketcher, [sketched(call, query, sketcher, documents)], 1)
        parts = [documents[first : first + _QUERY_PART] for first in range(0, len(documents), _QUERY_PART)]
        return cls(call, query, sketcher, parts, threads)

    @classmethod
    def _of_stream(
        cls, call: str, query: Query, documents: Iterable[Document], sketcher: Sketcher, workers: int | None
    ) -> BatchQuery:
        """Sketch documents as they are read, so that a few parts of them are in memory at a time."""
        parts = in_parts(documents, _QUERY_PART, bytes_of)
        begin = list(islice(parts, 2))
        threads = num_workers(workers) if len(begin) == 2 or workers is not None else 1
        parts, begin = chain(begin, parts), []

        def sketch(part: Part[Document]) -> SketchBatch:
            return sketched(call, query, sketcher, part.values)

        if threads == 1:
            return cls(call, query, sketcher, list(map(sketch, parts)), 1)
        batches = in_order(sketch, parts, threads, threads, attrgetter("num_bytes"))
        return cls(call, query, sketcher, list(batches), threads)

    def matches(self, view: View) -> list[Matches]:
        """Return the matches of each document, in order."""
        require_comparable(view, self.query.compares)
        results: list[Matches] = []
        if self.threads == 1 or len(self.parts) == 1:
            for part in self.parts:
                results += self.query.matches(view, self._find(view, part))
            return results
        for found in in_order(lambda part: self._find(view, part), self.parts, self.threads, self.threads):
            results += self.query.matches(view, found)
        return results

    def _find(self, view: View, part: SketchBatch | list[Document]) -> Found:
        if isinstance(part, SketchBatch):
            return self.query.find(view, part)
        return self.query.find(view, sketched(self.call, self.query, self.sketcher, part))
