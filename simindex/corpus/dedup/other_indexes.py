"""Other indexes of a deduplication: `against=` removes rows like theirs, `into=` takes the kept ones.

Invariant: rows are inserted under their ids and replace nothing; that may be broken off at any time and done
again, for what is there already is known by its place and its sketch, and passed over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain, count
from operator import itemgetter
from typing import Any

from simindex.all_pairs.tables import PinnedTables
from simindex.batching import in_parts
from simindex.changes.documents import DEFAULT_BATCH_SIZE
from simindex.changes.if_new import asked_if_new
from simindex.config import Config
from simindex.corpus.dedup.keep_per import source_of
from simindex.corpus.dedup.results import NumberedVerdict, Verdict
from simindex.corpus.dedup.sketches import SketchedRows
from simindex.corpus.entries import Place
from simindex.format.keys import Key
from simindex.index import Index
from simindex.queries.matches import Match, Matches
from simindex.queries.search import BandQuery, FingerprintQuery
from simindex.queries.view import View
from simindex.sketching.sketch import Sketch, SketchBatch

_ROWS_TOGETHER = 32_000
_BYTES_TOGETHER = 64 << 20
"""Rows that other indexes are asked for at once, and what these take in memory meanwhile: for each
of 30,000 rows it takes half of the time that it takes for each of 4,000."""

_ROWS_WITH_ALL = 256
"""Rows that they are asked for at once where all matches are wanted."""


def decided_by_others(
    paths: Iterable[str],
    config: Config,
    query: BandQuery | FingerprintQuery,
    fields: Sequence[str],
    batches: Iterable[SketchedRows],
    batch_size: int,
    first: int,
) -> Generator[tuple[SketchedRows, list[NumberedVerdict]], None, None]:
    """Yield each batch with the verdicts of the indexes at `paths` on its rows: (number, verdict), ascending,
    ``None`` for a row without a match for which a limit was hit; others without one are left out. `first` is
    the number of the first row. Indexes are asked about many batches at once; where `batches` fails, those
    before are yielded first. With `fields` a row goes only for a document that has the same values in its
    metadata."""
    query = query._replace(limit=None) if fields else asked_if_new(query._replace(limit=1))  # one is enough
    size = -(-_ROWS_TOGETHER // batch_size)
    with ExitStack() as opened:
        others = [opened.enter_context(closing(PinnedTables(path, config))) for path in paths]
        for part in in_parts(batches, size, lambda b: b[0].num_bytes, _BYTES_TOGETHER, keeps_rest=True):
            sketches = SketchBatch.joined([each[1] for each in part.values])
            sources = [source for each in part.values for source in each[2] or ()]
            found = _verdicts(others, query, sketches, fields, sources)
            end = 0
            for each in part.values:
                begin, end = end, end + len(each[0])
                here = slice(*(bisect_left(found, index, key=itemgetter(0)) for index in (begin, end)))
                yield each, [(first + index, verdict) for index, verdict in found[here]]
            first += end


def _verdicts(
    others: list[PinnedTables],
    query: BandQuery | FingerprintQuery,
    sketches: SketchBatch,
    fields: Sequence[str],
    sources: Sequence[bytes],
) -> list[NumberedVerdict]:
    """Return (index among the rows, verdict), ascending: on a row with matches the best one in the first
    index that has one; ``None`` on a row without any for which a limit on candidates was hit. Other rows are
    left out. With `fields` only documents of the row's source, of `sources`, are matches."""
    verdicts: dict[int, Verdict | None] = {}
    for other in others:
        for index, matches in enumerate(_found_in(other, query, sketches, len(fields) > 0)):
            m: Match | None = next(iter(matches), None)
            if fields:
                own = (match for match in matches if source_of(fields, match.metadata) == sources[index])
                m = next(own, None)
            if m is not None and verdicts.get(index) is None:
                kept = Place(other.path, 0)
                verdicts[index] = Verdict(
                    m.key, kept, m.similarity, m.distance, m.exact, m.standard_error, None
                )
            elif matches.truncated:
                verdicts.setdefault(index, None)
    return sorted(verdicts.items(), key=itemgetter(0))


def _found_in(
    other: PinnedTables, query: BandQuery | FingerprintQuery, sketches: SketchBatch, finds_all: bool
) -> Iterator[Matches]:
    """Yield the matches of each row in an index, in order. With `finds_all` the index is asked about a few
    rows at a time, since each may have thousands."""
    size = _ROWS_WITH_ALL if finds_all else max(len(sketches), 1)
    for first in range(0, len(sketches), size):
        some = sketches.taken(range(first, min(first + size, len(sketches)))) if finds_all else sketches
        yield from other.read(partial(_matches, query, some))


def _matches(query: BandQuery | FingerprintQuery, sketches: SketchBatch, view: View) -> list[Matches]:
    return query.matches(view, query.find(view, sketches))


def store_kept(kept: Iterable[tuple[Key, Place, Sketch, dict[str, Any]]], into: Index) -> None:
    """Insert the rows that stay into an index, with source, input, row and paragraph, if it is one, as
    metadata: each under its key; where another document has that, under ``input:row``, of a paragraph
    ``input:row#paragraph``, then ``input:row~2`` and on. A row that is there with the same metadata and
    sketch is passed over; nothing is replaced."""

    def items() -> Iterator[tuple[Key, Any, Any]]:
        taken, before = set[Key](), set[Key]()  # of the batch that is not stored yet, at least
        for key, place, sketch, source in kept:
            metadata = source | {"input": place.input, "row": place.row}
            named = f"{place.input}:{place.row}"
            if place.paragraph is not None:
                metadata["paragraph"] = place.paragraph
                named += f"#{place.paragraph}"
            for name in chain((key, named), (f"{named}~{number}" for number in count(2))):
                there = into.get(name)
                if there is not None and (there.metadata, there.sketch) == (metadata, sketch):
                    break
                if there is None and name not in taken and name not in before:
                    taken.add(name)
                    if len(taken) > DEFAULT_BATCH_SIZE:
                        taken, before = set(), taken
                    yield name, sketch, metadata
                    break

    into.insert_many(items(), on_conflict="skip", workers=1)
