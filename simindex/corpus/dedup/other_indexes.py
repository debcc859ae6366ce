"""Other indexes of a deduplication: `against=` removes rows like theirs, `into=` takes the kept ones.

Invariant: rows are inserted under their ids and replace nothing; that may be broken off at any time and done
again, for what is there already is known by its place and its sketch, and passed over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator
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
from simindex.corpus.dedup.results import NumberedVerdict, Verdict
from simindex.corpus.dedup.rows import Rows
from simindex.corpus.dedup.sketches import SketchedRows
from simindex.corpus.entries import Place
from simindex.format.keys import Key
from simindex.index import Index
from simindex.queries.matches import Matches
from simindex.queries.search import BandQuery, FingerprintQuery
from simindex.queries.view import View
from simindex.sketching.sketch import Sketch, SketchBatch

_ROWS_TOGETHER = 32_000
_BYTES_TOGETHER = 64 << 20
"""Rows that other indexes are asked for at once, and what these take in memory meanwhile: for each
of 30,000 rows it takes half of the time that it takes for each of 4,000."""


def decided_by_others(
    paths: Iterable[str],
    config: Config,
    query: BandQuery | FingerprintQuery,
    batches: Iterable[SketchedRows],
    batch_size: int,
    first: int,
) -> Generator[tuple[Rows, SketchBatch, list[NumberedVerdict]], None, None]:
    """Yield batches with the verdicts of indexes on their rows, numbered from `first` on. Indexes are asked
    about many at once; where `batches` fails, those before are yielded first."""
    query, size = asked_if_new(query._replace(limit=1)), -(-_ROWS_TOGETHER // batch_size)  # one is enough
    with ExitStack() as opened:
        others = [opened.enter_context(closing(PinnedTables(path, config))) for path in paths]
        for part in in_parts(batches, size, lambda b: b[0].num_bytes, _BYTES_TOGETHER, keeps_rest=True):
            found = _verdicts(others, query, SketchBatch.joined([some for _, some in part.values]))
            behind = 0
            for rows, sketches in part.values:
                begin, behind = behind, behind + len(rows)
                here = slice(*(bisect_left(found, place, key=itemgetter(0)) for place in (begin, behind)))
                yield rows, sketches, [(first + place, verdict) for place, verdict in found[here]]
            first += behind


def _verdicts(
    others: list[PinnedTables], query: BandQuery | FingerprintQuery, sketches: SketchBatch
) -> list[NumberedVerdict]:
    """Return the verdicts on rows, by their places."""
    verdicts: dict[int, Verdict | None] = {}
    for other in others:
        for place, matches in enumerate(other.read(partial(_matches, query, sketches))):
            if matches and verdicts.get(place) is None:
                m, kept = matches[0], Place(other.path, 0)
                verdicts[place] = Verdict(
                    m.key, kept, m.similarity, m.distance, m.exact, m.standard_error, None
                )
            elif matches.truncated:
                verdicts.setdefault(place, None)
    return sorted(verdicts.items(), key=itemgetter(0))


def _matches(query: BandQuery | FingerprintQuery, sketches: SketchBatch, view: View) -> list[Matches]:
    return query.matches(view, query.find(view, sketches))


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
