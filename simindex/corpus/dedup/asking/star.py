"""Which rows stay: batches of rows in keep order -> what becomes of each.

Owns the working index, where a kept row is stored under its number, and the indexes that rows are compared
with beside it. Invariant: nothing is removed without a kept document that it was compared with; the result is
what `insert_many_if_new` keeps.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import simindex.index as face
from simindex.changes.documents import NewDocuments, prepare_documents, prepared_batches
from simindex.changes.if_new import asked_if_new, insert_batch_if_new
from simindex.checks import require_int
from simindex.config import Config, SimHashConfig
from simindex.corpus.dedup.results import Decided, Verdict
from simindex.corpus.dedup.rows import Entered, Rows
from simindex.corpus.dedup.sorting.other_indexes import Opened, OtherIndexes
from simindex.corpus.dedup.sorting.other_indexes import together as in_large_parts
from simindex.queries.search import DEFAULT_MAX_CANDIDATES, BandQuery, FingerprintQuery, Method, method_of
from simindex.sketching.sketcher import Sketcher
from simindex.tuning.match_odds import band_plan

T = TypeVar("T", bound="Rows | Entered")

_FORGOTTEN_AT_ONCE = 1_000
"""Numbers of rows that are removed in one call."""


class Star:
    """Decides batch by batch.

    Args:
        path: of the working index; made if it is missing.
        config: of its documents, and of those it is compared with.
        query: what a match is.
        others: paths of indexes that a row must not be like either. They are read as they are now.
    """

    def __init__(
        self, path: str, config: Config, query: BandQuery | FingerprintQuery, others: Iterable[str] = ()
    ) -> None:
        self._query = asked_if_new(query._replace(limit=1))  # that one is enough
        self._working = Opened(path, "a", config)
        try:
            self._others = OtherIndexes(others, config, query)
        except BaseException:
            self._working.close()
            raise
        self._sketcher = Sketcher(config)

    def close(self) -> None:
        """Let go of all indexes."""
        self._working.close()
        self._others.close()

    def forget(self, numbers: Iterable[int], num_kept: int) -> None:
        """Remove the rows of these numbers, as far as they are there, until `num_kept` are left."""
        path = self._working.path
        self._working.close()
        with face.open(path, "r+") as index:
            rest = iter(numbers)
            while len(index) > num_kept and (part := list(islice(rest, _FORGOTTEN_AT_ONCE))):
                index.remove_many(part)
        self._working = Opened(path, "r+", self._working.config)

    def decide(
        self, items: Iterable[tuple[int, Any, Any]], batch_size: int, workers: int | None
    ) -> Iterator[Decided]:
        """Yield what becomes of the rows, batch by batch.

        Args:
            items: (number, document, what is to be known of it when another one is like it).
            batch_size, workers: as in `Index.insert_many`.
        """
        for documents in prepared_batches(items, self._sketcher, batch_size, workers, self._query.compares):
            yield self._decided(documents, self._others.decided([documents.sketches])[0])

    def prepared(self, rows: Rows | Entered) -> tuple[Rows | Entered, NewDocuments]:
        """Return rows with their sketches; may be called by several threads."""
        return rows, prepare_documents(rows.items(), self._sketcher, self._query.compares)

    def decide_each(
        self, prepared: Iterable[tuple[T, NewDocuments]], *, together: bool
    ) -> Iterator[tuple[T, Decided]]:
        """Yield batches of rows with what becomes of them, in order.

        Args:
            prepared: rows with their sketches, as `prepared` returns them.
            together: whether the other indexes are asked for many batches at once. Nobody may wait for the
                first of them meanwhile.
        """
        parts: Iterator[list[tuple[T, NewDocuments]]] = ([each] for each in prepared)
        if together and self._others:
            parts = in_large_parts(prepared, lambda each: (len(each[1]), each[0].num_bytes))
        for some in parts:
            compared = self._others.decided([documents.sketches for _, documents in some])
            for (rows, documents), found in zip(some, compared, strict=True):
                yield rows, self._decided(documents, found)

    def _decided(self, documents: NewDocuments, compared: Decided) -> Decided:
        """Return what becomes of each row of a batch, of which the others know already."""
        verdicts, bounded = compared
        places = [place for place, verdict in enumerate(verdicts) if verdict is None]
        if places:
            rest = documents if len(places) == len(documents) else documents.taken(places)
            decisions = insert_batch_if_new(self._working.session, self._query, rest)
            bounded.update(places[place] for place in decisions.bounded)
            for place, matches in decisions.matched:
                verdicts[places[place]] = Verdict(matches[0], None)
        return Decided(verdicts, {place for place in bounded if verdicts[place] is None})


def config_for(
    config: Config | None,
    others: Iterable[str],
    by: str | None,
    max_distance: int | None,
    exact: bool,
    has_into: bool,
) -> Config:
    """Return the configuration of a job.

    Args:
        config: as the caller gave it.
        others: paths of the indexes that rows are compared with; the first that is there decides.
        by, max_distance, exact: how they are compared.
        has_into: whether the kept ones go into an index, which is to have all that an index has.
    """
    for other in others:
        try:
            with face.open(other, "r") as index:
                found = index.config
        except FileNotFoundError:
            continue  # there is none, or a process was killed while it made one
        if config is not None and config != found:
            with face.open(other, "r", config):
                pass
        return found
    if config is not None and config.seed == "random":
        raise ValueError(
            'seed: expected a number, for a job that is gone on with needs the same one, found "random"; '
            "draw one and keep it (secrets.randbits(64)), or give an index that has one (against=, into=)"
        )
    if config is None:
        config = Config(keep_shingles=MOST_KEPT if exact and by != "simhash" else 0)
        if by == "simhash" and max_distance is not None and max_distance > SimHashConfig().max_distance:
            config = replace(config, simhash=SimHashConfig(max_distance))
        if not has_into:
            config = _halved(config, by)
    return config


MOST_KEPT = 1_000_000
"""All shingle hashes of nearly every document: what `keep_shingles` goes up to."""


def _halved(config: Config, by: str | None) -> Config:
    """Return it without the half of a sketch that is not compared."""
    if by == "simhash":
        return Config(num_perm=0, simhash=config.simhash, seed=config.seed)
    return Config(
        shingles=config.shingles,
        num_perm=config.num_perm,
        simhash=None,
        keep_shingles=config.keep_shingles,
        seed=config.seed,
    )


def comparison_for(
    threshold: float,
    by: Method | None,
    max_distance: int | None,
    exact: bool,
    recall: float | None,
    config: Config | None,
    others: list[str],
    into: str | None,
) -> tuple[BandQuery | FingerprintQuery, Config]:
    """Return what a match is in a job, and how its documents are sketched; see `deduplicate`.

    Args:
        others: paths of the indexes that rows are compared with, but for `into`.
    """
    others = others if into is None else [*others, into]
    config = config_for(config, others, by, max_distance, exact, into is not None)
    if method_of("deduplicate", config, by, threshold, max_distance, recall, exact) == "simhash":
        assert config.simhash is not None
        most = config.simhash.max_distance
        distance = most if max_distance is None else max_distance
        require_int("max_distance", distance, 0, most)
        return FingerprintQuery(distance, 1, DEFAULT_MAX_CANDIDATES), config
    if exact and not config.keep_shingles and not any(map(os.path.exists, others)):
        config = replace(config, keep_shingles=MOST_KEPT)
    band_plan(threshold, config.num_perm, recall)  # refuses one out of range
    return BandQuery(threshold, recall, 1, exact, DEFAULT_MAX_CANDIDATES), config
