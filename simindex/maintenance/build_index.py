"""A new index from the stored documents and sketches of others, with the times and the order that they had.

`opened` reads an index by one snapshot, `making` builds the new one in a folder beside its place, which gets
its name when all of it is there: wherever a process is killed, at the place there is nothing or the whole
index. All tables are made anew, by the writer that makes those of every index.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from simindex.changes.documents import NewDocuments
from simindex.changes.pending import side_by_side
from simindex.changes.session import Session
from simindex.config import Config
from simindex.errors import CorruptIndexError, SimIndexError
from simindex.format.keys import encode_keys, key_hashes, number_of
from simindex.format.layout import Layout
from simindex.format.manifest import Manifest, decode_manifest
from simindex.format.records import (
    StoredRecord,
    decode_kept,
    decode_record,
    encode_records,
    encode_rest,
    encode_touched,
)
from simindex.format.seals import pack
from simindex.maintenance.work_folder import work_folder
from simindex.queries.container import Walk
from simindex.queries.scheme import Scheme, scheme_of
from simindex.queries.view import View, stored_manifest
from simindex.segments.build import Puts
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, SketchBatch
from simindex.storage.store import Store
from simindex.storage.transactions import Reading, ReadTransaction

BATCH = 20_000
"""Documents of a commit."""


class Saved(NamedTuple):
    """A document that was saved.

    Attributes:
        words, fingerprint: its sketch; ``None`` where it is lost.
    """

    record: StoredRecord
    words: np.ndarray | None
    fingerprint: int


class Builder:
    """Writes a new index. Made by `building`."""

    def __init__(self, session: Session, scheme: Scheme, sources: int) -> None:
        self.session, self._scheme, self._sources = session, scheme, sources

    def add(self, batch: list[Saved], on_conflict: str = "replace") -> tuple[int, int, int]:
        """Store documents in one commit; returns (inserted, replaced, skipped)."""
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
                view = self.session.reader.committed_view(txn)
                counts = writer.insert(pending, view, documents, on_conflict)
            if not pending.size:
                return counts
            with store.reading() as txn:
                prepared = writer.prepare(pending, self.session.reader.committed_view(txn))
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
    """Make a new index for a ``with`` block."""
    store = Store(path, "x")
    try:
        new = scheme_of(store, config, layout)
        session = Session(store, new)
        yield Builder(session, new, sources)
    finally:
        store.close()


def making(
    folder: Path, work: str, config: Config, layout: Layout, sources: int
) -> AbstractContextManager[Builder]:
    """Make a new index for a ``with`` block; see `work_folder`."""
    return work_folder(folder, work, lambda begun: building(str(begun), config, layout, sources))


_PART = 256
"""Documents that are read in one transaction."""

_BATCH_BYTES = 16 << 20
"""Of metadata and kept shingles in a batch; with documents of many more a batch has one part."""


class Source:
    """An index that is read; made by `opened`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.path = session.store.path
        self.scheme = session.scheme
        self.config: Config = session.scheme.config
        self.layout: Layout = session.scheme.tables.layout
        self.manifest = self._newest()

    def _newest(self) -> Manifest:
        with self._session.store.reading() as txn:
            view = self._session.reader.committed_view(txn)
        return view.manifest

    def batches(self) -> Iterator[list[Saved]]:
        """Yield all documents in order of insertion, in batches for `Builder.add`."""
        walk, batch, num_bytes = Walk(), list[Saved](), 0
        while part := self._part(walk):
            batch += part
            num_bytes += sum(len(pack(one.record.metadata)) + len(one.record.kept or b"") for one in part)
            if len(batch) >= BATCH or num_bytes >= _BATCH_BYTES:
                yield batch
                batch, num_bytes = [], 0
        if batch:
            yield batch

    def _part(self, walk: Walk) -> list[Saved]:
        try:
            with self._session.store.reading() as txn:
                view = self._session.reader.committed_view(txn)
                self._require_unchanged(view.manifest)
                part = [_saved(view, number, record) for number, record in walk.part(view, _PART)]
        except SimIndexError as exc:
            exc.located(self.path)
            raise
        return part

    def reading(self) -> Reading:
        """Begin a read transaction; see `Store.reading`."""
        return self._session.store.reading()

    def view(self, txn: ReadTransaction) -> View:
        """Return what a transaction sees; its segments are those of `manifest`."""
        self.require_same_segments(txn)
        return self._session.reader.committed_view(txn)

    def require_same_segments(self, txn: ReadTransaction) -> None:
        """Refuse a transaction of another state, be it of the same documents in other segments."""
        if decode_manifest(stored_manifest(txn)) != self.manifest:
            raise self._later()

    def _require_unchanged(self, manifest: Manifest) -> None:
        """Numbers are never given twice, so the same documents are there where both figures are the same."""
        known = self.manifest
        if (manifest.next_number, manifest.num_documents) != (known.next_number, known.num_documents):
            raise self._later()

    def _later(self) -> SimIndexError:
        return SimIndexError(
            f"{self.path}: expected the state that was there at the beginning, found a later one: it was "
            "changed, and what ends a snapshot came as well (a compaction, a fork); do it again, or of a "
            "backup"
        )


def _saved(view: View, number: int, record: StoredRecord) -> Saved:
    if not record.present:
        return Saved(record, None, 0)
    found = view.directory.read_sketch(number if record.leader is None else record.leader)
    if found is None:
        raise CorruptIndexError(
            f"document {number}: expected a stored sketch, found none; restore a backup, or repair the index"
        )
    return Saved(record, *found)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Source]:
    """Open an index for a ``with`` block, to read one snapshot of it."""
    store = Store(path, "r", pinned=True)
    try:
        try:
            source = Source(Session(store, scheme_of(store, None, None)))
        except SimIndexError as exc:
            exc.located(store.path)
            raise
        yield source
    finally:
        store.close()
