"""The documents of an index that others are made of, as they are stored.

Owns a reading handle, pinned to one snapshot, and the parts in which documents are read. Must not write.
Invariant: all parts are of one state, or an error says that they cannot be.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from simindex.changes.session import Session
from simindex.config import Config
from simindex.errors import CorruptIndexError, SimIndexError
from simindex.format.layout import Layout
from simindex.format.manifest import Manifest, decode_manifest
from simindex.format.records import StoredRecord
from simindex.format.seals import pack
from simindex.maintenance.build_index import BATCH, Saved
from simindex.queries.scheme import scheme_of
from simindex.queries.snapshot import stored_manifest
from simindex.queries.view import View
from simindex.queries.walk import Walk
from simindex.storage.store import Store
from simindex.storage.transactions import Reading, ReadTransaction

_PART = 256
"""Documents that are read in one transaction."""

_BATCH_BYTES = 16 << 20
"""Of metadata and kept shingles in a batch; with documents of many more a batch has one part."""


class Source:
    """An index that is read; made by `opened`.

    Attributes:
        path: of it.
        scheme, config, layout: as stored.
        manifest: of the snapshot.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.path = session.store.path
        self.scheme = session.scheme
        self.config: Config = session.scheme.config
        self.layout: Layout = session.scheme.tables.layout
        self.manifest = self._newest()

    def _newest(self) -> Manifest:
        with self._session.store.reading() as txn:
            view = self._session.committed_view(txn)
        return view.manifest

    def batches(self) -> Iterator[list[Saved]]:
        """Yield all documents in order of insertion, in batches for `Builder.add`.

        Raises:
            SimIndexError: the pin has ended, and the index was changed since.
        """
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
                view = self._session.committed_view(txn)
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
        return self._session.committed_view(txn)

    def require_same_segments(self, txn: ReadTransaction) -> None:
        """Refuse a transaction of another state, be it of the same documents in other segments.

        Raises:
            SimIndexError: the pin has ended, and the index was compacted or changed since.
        """
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
    """Open an index for a ``with`` block, to read one snapshot of it.

    Raises:
        FileNotFoundError, FormatError, CorruptIndexError: as `simindex.open`.
    """
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
