"""A new index from saved records and sketches, with the times and the order that the documents had.

Owns how a batch is written. Must not read what they come from. Invariant: all tables are made anew, by the
writer that makes those of every index.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from simindex.changes.age_runs import side_by_side
from simindex.changes.documents import NewDocuments
from simindex.changes.session import Session
from simindex.config import Config
from simindex.format.keys import encode_keys, key_hashes, number_of
from simindex.format.layout import Layout
from simindex.format.records import (
    StoredRecord,
    decode_kept,
    decode_record,
    encode_records,
    encode_rest,
    encode_touched,
)
from simindex.format.seals import pack
from simindex.queries.scheme import Scheme, scheme_of
from simindex.segments.build import Puts
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, SketchBatch
from simindex.storage.store import Store

BATCH = 20_000
"""Documents of a commit."""


class Saved(NamedTuple):
    """A document that was saved.

    Attributes:
        record: as it was stored.
        words, fingerprint: its sketch; ``None`` where it is lost.
    """

    record: StoredRecord
    words: np.ndarray | None
    fingerprint: int


class Builder:
    """Writes a new index. Made by `building`.

    Attributes:
        session: of it.
    """

    def __init__(self, session: Session, scheme: Scheme, sources: int) -> None:
        self.session, self._scheme, self._sources = session, scheme, sources

    def add(self, batch: list[Saved], on_conflict: str = "replace") -> tuple[int, int, int]:
        """Store documents in one commit; returns (inserted, replaced, skipped).

        Args:
            batch: with keys that differ, unless `on_conflict` is "replace".
            on_conflict: what to do with a key that is stored already, as for an insert.

        Raises:
            KeyExistsError: a key is stored already and `on_conflict` is "error"; nothing was added.
        """
        if not batch:
            return 0, 0, 0
        records = [saved.record for saved in batch]
        keys = [record.key for record in records]
        encoded = encode_keys(keys)
        packed = [pack(record.metadata) for record in records]
        documents = NewDocuments(keys, encoded, key_hashes(encoded), packed, self._sketches(batch))
        store = self.session.store
        with self.session.alone("repair") as writer:
            pending = writer.begin()
            pending.inserted_at = min(record.age_from for record in records)
            with store.reading() as txn:
                view = self.session.committed_view(txn)
                counts = writer.insert(pending, documents, on_conflict, view)
            if not pending.size:
                return counts
            with store.reading() as txn:
                prepared = writer.prepare(pending, self.session.committed_view(txn))
            by_key = dict(zip(encoded, records, strict=True))
            times = _with_times(prepared.records, by_key)
            timed = replace(prepared, records=times, runs={**prepared.runs, **_runs_of_touches(times)})
            self.session.commit(writer, timed)
        return counts

    def _sketches(self, batch: list[Saved]) -> SketchBatch:
        config = self._scheme.config
        # What is of documents was made with these settings; what is not says so in the manifest.
        origin = self._scheme.origin if self._sources != _OF_ROWS or not config.num_perm else None
        sketches = SketchBatch(len(batch), config.num_perm, config.keep_shingles > 0, origin)
        for at, saved in enumerate(batch):
            present = saved.record.present
            if present and saved.words is None:
                continue
            sketches.present[at] = present
            if present & HAS_SIGNATURE and saved.words is not None:
                sketches.words[at] = saved.words
            if present & HAS_FINGERPRINT:
                sketches.fingerprints[at] = saved.fingerprint
            if sketches.kept is not None and saved.record.kept is not None:
                sketches.kept[at] = decode_kept(saved.record.kept)
        sketches.sources = self._sources
        return sketches


_OF_ROWS = 2


def _with_times(puts: Puts, by_key: dict[bytes, StoredRecord]) -> Puts:
    """Return stored records with the times that they had."""
    timed: Puts = []
    for database_key, value in puts:
        number = number_of(database_key)
        made = decode_record(number, value)
        (form,) = encode_keys([made.key])
        had = by_key[form]
        rest = encode_rest(had.inserted_at, made.present, made.leader, made.kept)
        numbers = np.array([number], dtype=np.uint64)
        ((key, record),) = encode_records(numbers, [form], [pack(made.metadata)], [rest])
        if had.seen_at is not None:
            record = encode_touched(number, record, had.seen_at)
        timed.append((key, record))
    return timed


def _runs_of_touches(records: Puts) -> dict[tuple[int, int], int]:
    """Return the runs that touched documents lie in beside those of their commit, as `Prepared.runs`."""
    touched: dict[int, list[int]] = {}
    for database_key, value in records:
        number = number_of(database_key)
        seen_at = decode_record(number, value).seen_at
        if seen_at is not None:
            touched.setdefault(seen_at, []).append(number)
    return {
        (time, first): behind for time, numbers in touched.items() for first, behind in side_by_side(numbers)
    }


@contextmanager
def building(path: str, config: Config, layout: Layout, sources: int) -> Iterator[Builder]:
    """Make a new index for a ``with`` block.

    Args:
        config: with its seed drawn.
        sources: what its sketches are of, as in the manifest.
    """
    store = Store(path, "x")
    try:
        new = scheme_of(store, config, layout)
        session = Session(store, new)
        yield Builder(session, new, sources)
    finally:
        store.close()
