"""Other indexes of a deduplication: `against=` removes rows like theirs, `into=` takes the kept ones.

Invariant: rows are inserted under their ids and replace nothing; that may be broken off at any time and done
again, for what is there already is known by its place and passed over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.changes.if_new import asked_if_new
from simindex.config import Config
from simindex.corpus.dedup.results import NumberedVerdict, Verdict
from simindex.corpus.dedup.rows import with_failure
from simindex.corpus.entries import Place
from simindex.format.keys import Key
from simindex.index import Index
from simindex.pairs.snapshot_tables import PinnedTables
from simindex.queries.matches import Matches
from simindex.queries.search import BandQuery, FingerprintQuery
from simindex.queries.view import View
from simindex.sketching.sketch import Sketch, SketchBatch

T = TypeVar("T")

_ROWS_TOGETHER = 32_000
_BYTES_TOGETHER = 64 << 20
"""Rows that other indexes are asked for at once, and what these take in memory meanwhile: for each
of 30,000 rows it takes half of the time that it takes for each of 4,000."""


class OtherIndexes:
    """Indexes that rows are compared with, as they are now."""

    def __init__(self, paths: Iterable[str], config: Config, query: BandQuery | FingerprintQuery) -> None:
        self._query = asked_if_new(query._replace(limit=1))  # that one is enough
        self._opened: list[PinnedTables] = []
        try:
            for path in paths:
                self._opened.append(PinnedTables(path, config))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of all indexes."""
        with ExitStack() as closing:
            for opened in self._opened:
                closing.callback(opened.close)

    def decided(self, batches: list[SketchBatch], first: int) -> Iterator[list[NumberedVerdict]]:
        """Yield the verdicts on the rows of each batch, numbered from `first` on."""
        sketches = SketchBatch.joined(batches)
        verdicts: dict[int, Verdict | None] = {}
        for other in self._opened:
            for place, matches in enumerate(other.read(partial(self._matches, sketches))):
                if matches and verdicts.get(place) is None:
                    m, kept = matches[0], Place(other.path, 0)
                    figures = m.similarity, m.distance, m.exact, m.standard_error
                    verdicts[place] = Verdict(m.key, kept, *figures, None)
                elif matches.truncated:
                    verdicts.setdefault(place, None)
        found, behind = sorted(verdicts.items(), key=itemgetter(0)), 0
        for count in map(len, batches):
            behind += count
            end = bisect_left(found, behind, key=itemgetter(0))
            yield [(first + place, verdict) for place, verdict in found[:end]]
            found = found[end:]

    def _matches(self, sketches: SketchBatch, view: View) -> list[Matches]:
        return self._query.matches(view, self._query.find(view, sketches))


def together(items: Iterable[T], size_of: Callable[[T], tuple[int, int]]) -> Iterator[list[T]]:
    """Yield some batches at a time, by their (rows, bytes); where one fails, those before it, too."""
    some: list[T] = []
    count = num_bytes = 0
    for found in with_failure(items):
        if isinstance(found, Exception):
            if some:
                yield some
            raise found
        some.append(found)
        rows, size = size_of(found)
        count, num_bytes = count + rows, num_bytes + size
        if count >= _ROWS_TOGETHER or num_bytes >= _BYTES_TOGETHER:
            yield some
            some, count, num_bytes = [], 0, 0
    if some:
        yield some


def store_kept(kept: Iterable[tuple[Key, Place, Sketch]], into: Index) -> None:
    """Add the rows that stay to an index."""

    def items() -> Iterator[tuple[Key, Any, Any]]:
        taken, before = set[Key](), set[Key]()  # of the batch that is not stored yet, at least
        for key, place, sketch in kept:
            metadata = {"input": place.input, "row": place.row}
            named = f"{place.input}:{place.row}"
            if place.paragraph is not None:
                metadata["paragraph"] = place.paragraph
                named += f"#{place.paragraph}"
            there = into.get(key)
            if there is not None and there.metadata == metadata:
                continue
            if there is not None or key in taken or key in before:
                key = named
                if key in into:
                    continue
            taken.add(key)
            if len(taken) > DEFAULT_BATCH_SIZE:
                taken, before = set(), taken
            yield key, sketch, metadata

    into.insert_many(items(), on_conflict="skip", workers=1)
