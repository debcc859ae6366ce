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
from simindex.changes.documents import NewDocuments
from simindex.changes.if_new import asked_if_new
from simindex.changes.if_new_many import insert_batch_if_new
from simindex.changes.ingest import prepare_documents, prepared_batches
from simindex.changes.session import Session
from simindex.checks import require_int
from simindex.config import Config, SimHashConfig
from simindex.corpus.dedup.results import Decided, Verdict
from simindex.corpus.dedup.rows import Entered, Rows, with_failure
from simindex.queries.query_factory import method_of
from simindex.queries.scheme import scheme_of
from simindex.queries.search import DEFAULT_MAX_CANDIDATES, BandQuery, FingerprintQuery, Method
from simindex.sketching.sketch import SketchBatch
from simindex.sketching.sketcher import Sketcher
from simindex.storage.folder import Mode
from simindex.storage.lmdb_file import DEFAULT_MAP_BYTES
from simindex.storage.store import Store
from simindex.tuning.match_odds import band_plan

T = TypeVar("T", bound="Rows | Entered")

_ROWS_TOGETHER = 32_000
_BYTES_TOGETHER = 64 << 20
"""Rows that the other indexes are asked for at once, and what these take in memory meanwhile."""

_FORGOTTEN_AT_ONCE = 1_000
"""Numbers of rows that are removed in one call."""


class Opened:
    """An index as the jobs need it: its session, below the public face."""

    def __init__(self, path: str, mode: Mode, config: Config | None = None, *, pinned: bool = False) -> None:
        self.path = path
        self.store = Store(path, mode, DEFAULT_MAP_BYTES, None, pinned=pinned)
        try:
            scheme = scheme_of(self.store, config, None)
            self.config = scheme.config
            self.session = Session(self.store, scheme)
        except BaseException:
            self.store.close()
            raise

    def close(self) -> None:
        """Let go of it."""
        self.session.close()


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
        self._opened = [Opened(path, "a", config)]
        try:
            for other in others:
                self._opened.append(Opened(other, "r", config, pinned=True))
        except BaseException:
            self.close()
            raise
        self._sketcher = Sketcher(config)

    def close(self) -> None:
        """Let go of all indexes."""
        for opened in self._opened:
            opened.close()

    def forget(self, numbers: Iterable[int], num_kept: int) -> None:
        """Remove the rows of these numbers, as far as they are there, until `num_kept` are left."""
        path = self._opened[0].path
        self._opened[0].close()
        with face.open(path, "r+") as index:
            rest = iter(numbers)
            while len(index) > num_kept and (part := list(islice(rest, _FORGOTTEN_AT_ONCE))):
                index.remove_many(part)
        self._opened[0] = Opened(path, "r+", self._opened[0].config)

    def decide(
        self, items: Iterable[tuple[int, Any, Any]], batch_size: int, workers: int | None
    ) -> Iterator[Decided]:
        """Yield what becomes of the rows, batch by batch.

        Args:
            items: (number, document, what is to be known of it when another one is like it).
            batch_size, workers: as in `Index.insert_many`.
        """
        for documents in prepared_batches(items, self._sketcher, batch_size, workers, self._query.compares):
            yield self._decided(documents, self._compared([documents])[0])

    def prepared(self, rows: Rows | Entered) -> tuple[Rows | Entered, NewDocuments]:
        """Return rows with their sketches; may be called by several threads."""
        return rows, prepare_documents(rows.items(), self._sketcher, self._query.compares)

    def decide_each(
        self, prepared: Iterable[tuple[T, NewDocuments]], *, together: bool
    ) -> Iterator[tuple[T, Decided]]:
        """Yield batches of rows with what becomes of them, in order.

        Args:
            prepared: rows with their sketches, as `prepared` returns them.
            together: whether the other indexes are asked for many batches at once: a large one takes half of
                the time for each of 30,000 rows that it takes for each of 4,000. Nobody may wait for the
                first of them meanwhile.
        """
        for some in _together(prepared, together=together and len(self._opened) > 1):
            compared = self._compared([documents for _, documents in some])
            for (rows, documents), found in zip(some, compared, strict=True):
                yield rows, self._decided(documents, found)

    def _decided(self, documents: NewDocuments, compared: Decided) -> Decided:
        """Return what becomes of each row of a batch, of which the others know already."""
        verdicts, bounded = compared
        places = [place for place, verdict in enumerate(verdicts) if verdict is None]
        if places:
            rest = documents if len(places) == len(documents) else documents.taken(places)
            decisions = insert_batch_if_new(self._opened[0].session, self._query, rest)
            bounded.update(places[place] for place in decisions.bounded)
            for place, matches in decisions.matched:
                verdicts[places[place]] = Verdict(matches[0], None)
        return Decided(verdicts, {place for place in bounded if verdicts[place] is None})

    def _compared(self, batches: list[NewDocuments]) -> list[Decided]:
        """Return what the other indexes say of the rows of some batches."""
        if len(self._opened) == 1:
            return [Decided([None] * len(documents), set()) for documents in batches]
        sketches = SketchBatch.joined([documents.sketches for documents in batches])
        verdicts: list[Verdict | None] = [None] * len(sketches)
        bounded: set[int] = set()
        for other in self._opened[1:]:
            self._compare(other, sketches, verdicts, bounded)
        found, first = [], 0
        for count in map(len, batches):
            of_batch = {place - first for place in bounded if first <= place < first + count}
            found.append(Decided(verdicts[first : first + count], of_batch))
            first += count
        return found

    def _compare(
        self, other: Opened, sketches: SketchBatch, verdicts: list[Verdict | None], bounded: set[int]
    ) -> None:
        with other.store.reading() as txn:
            view = other.session.view(txn)
            found = self._query.find(view, sketches)
            for place, matches in enumerate(self._query.matches(view, found)):
                if matches and verdicts[place] is None:
                    verdicts[place] = Verdict(matches[0], other.path)
                elif matches.truncated:
                    bounded.add(place)


def _together(
    prepared: Iterable[tuple[T, NewDocuments]], *, together: bool
) -> Iterator[list[tuple[T, NewDocuments]]]:
    """Yield some batches at a time; where there is no further one, those before that, too."""
    some: list[tuple[T, NewDocuments]] = []
    for found in with_failure(prepared):
        if isinstance(found, Exception):
            if some:
                yield some
            raise found
        some.append(found)
        count = sum(len(documents) for _, documents in some)
        num_bytes = sum(rows.num_bytes for rows, _ in some)
        if not together or count >= _ROWS_TOGETHER or num_bytes >= _BYTES_TOGETHER:
            yield some
            some = []
    if some:
        yield some


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
