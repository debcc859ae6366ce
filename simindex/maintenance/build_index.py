"""A new index from the stored documents and sketches of others, with the times and the order that they had.

`opened` reads an index by one snapshot, `making` builds the new one in a folder beside its place, which gets
its name when all of it is there: wherever a process is killed, at the place there is nothing or the whole
index. All tables are made anew, by the writer that makes those of every index.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np

from simindex.batching import in_parts
from simindex.changes.documents import NewDocuments
from simindex.changes.pending import Pending, side_by_side
from simindex.changes.session import Session
from simindex.changes.writer import Writer
from simindex.config import Config
from simindex.errors import CorruptIndexError, SimIndexError
from simindex.format.bulk import NO_LEADER, Records, decode_records
from simindex.format.keys import NUMBER_KEY_BYTES, numbers_of
from simindex.format.layout import Layout
from simindex.format.manifest import Manifest
from simindex.format.records import NIL, decode_kept
from simindex.format.seals import pack
from simindex.maintenance.stored_tables import StoredSamples
from simindex.maintenance.work_folder import work_folder
from simindex.queries.scheme import Scheme, scheme_of
from simindex.queries.view import View
from simindex.sketching.sample import Samples
from simindex.sketching.sketch import SketchBatch
from simindex.storage.store import Store
from simindex.storage.transactions import ReadTransaction

BATCH = 20_000
"""Documents of a commit."""


def saved_documents(
    records: Records,
    scheme: Scheme,
    sources: int,
    has: np.ndarray,
    words: np.ndarray,
    prints: np.ndarray,
    samples: Samples | None,
) -> NewDocuments:
    """Return stored documents to be stored again, with the times that they had.

    Args:
        sources: what their sketches are of, as in the manifest.
        has: whether the sketch of each is there (bool).
        words, prints: of these.
        samples: of all, where the index has them.
    """
    config = scheme.config
    sketches = SketchBatch(len(records.keys), config.num_perm, config.keep_shingles > 0, None)
    sketches.samples = samples
    sketches.words[has], sketches.fingerprints[has], sketches.present[has] = (
        words,
        prints,
        records.present[has],
    )
    sketches.sources = sources
    if sketches.kept is not None:
        is_kept = has | (records.present == 0)
        sketches.kept = [
            decode_kept(kept) if kept is not None and keeps else None
            for kept, keeps in zip(records.kept, is_kept.tolist(), strict=True)
        ]
    return NewDocuments(
        records.keys,
        records.encoded_keys,
        records.key_hashes,
        [NIL if metadata is None else pack(metadata) for metadata in records.metadata],
        sketches,
        times=list(zip(records.inserted_at.tolist(), records.seen_at, strict=True)),
    )


class Builder:
    """Writes a new index. Made by `building`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, documents: NewDocuments, on_conflict: str = "replace") -> tuple[int, int, int]:
        """Store documents in one commit, with their times; returns (inserted, replaced, skipped)."""
        times = documents.times
        if not times:
            return 0, 0, 0
        began_at = min(first if last is None else last for first, last in times)

        def gather(writer: Writer, pending: Pending, view: View) -> tuple[int, int, int]:
            pending.inserted_at = began_at
            counts = writer.insert(pending, view, documents, on_conflict)
            pending.runs.update(_runs_of_touches(*pending.documents()))
            return counts

        return self._session.change(gather)


def _runs_of_touches(documents: NewDocuments, numbers: np.ndarray) -> dict[tuple[int, int], int]:
    """Return the runs that touched documents lie in beside those of their commit, as `Pending.runs`."""
    touched: dict[int, list[int]] = {}
    for number, (_, last) in zip(numbers.tolist(), documents.times or (), strict=True):
        if last is not None:
            touched.setdefault(last, []).append(number)
    return {(time, first): behind for time, some in touched.items() for first, behind in side_by_side(some)}


@contextmanager
def building(path: str, config: Config, layout: Layout) -> Iterator[Builder]:
    """Make a new index for a ``with`` block."""
    store = Store(path, "x")
    try:
        yield Builder(Session(store, scheme_of(store, config, layout)))
    finally:
        store.close()


def making(folder: Path, work: str, config: Config, layout: Layout) -> AbstractContextManager[Builder]:
    """Make a new index for a ``with`` block; see `work_folder`."""
    return work_folder(folder, work, lambda begun: building(str(begun), config, layout))


class Source:
    """An index that is read; made by `opened`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.path = session.store.path
        self.scheme = session.scheme
        self.config: Config = session.scheme.config
        self.layout: Layout = session.scheme.tables.layout
        has_shingles = self.scheme.tables.has_shingles
        self._samples = StoredSamples(self.scheme.tables, self.config.containment) if has_shingles else None
        with session.store.reading() as txn:
            self.manifest = session.reader.committed_view(txn).manifest

    def batches(self) -> Iterator[NewDocuments]:
        """Yield all documents in order of insertion, in batches for `Builder.add`."""
        count, first = 0, b""
        while True:
            try:
                with self._session.store.reading() as txn:
                    view = self._session.reader.committed_view(txn)
                    self._require_unchanged(view.manifest)
                    keys, values = _next_records(txn, first)
                    batch = self._documents(txn, view, self._numbers(keys, first), values) if keys else None
            except SimIndexError as exc:
                exc.located(self.path)
                raise
            if batch is None:
                break
            count += len(keys)
            first = keys[-1] + b"\0"
            yield batch
        if count != self.manifest.num_documents:
            raise CorruptIndexError(
                f"{self.path}: expected {self.manifest.num_documents} documents, found {count}; "
                "restore a backup or rebuild the index"
            )

    def _numbers(self, keys: list[bytes], first: bytes) -> np.ndarray:
        """Return the numbers of records, uint64, from their database keys; the first is `first` or more.

        Raises:
            CorruptIndexError: they are no numbers, do not ascend, or are ahead of the manifest.
        """
        are_numbers = keys[0] >= first and set(map(len, keys)) == {NUMBER_KEY_BYTES}
        octets = np.frombuffer(b"".join(keys), dtype=np.uint8)
        numbers = numbers_of(octets.reshape(len(keys), -1)) if are_numbers else octets
        ascend = are_numbers and bool((numbers[1:] > numbers[:-1]).all())
        if not ascend or numbers[-1] >= self.manifest.next_number:
            raise CorruptIndexError(
                f"documents: expected ascending numbers below {self.manifest.next_number}, found others; "
                "restore a backup or rebuild the index"
            )
        return numbers

    def _documents(
        self, txn: ReadTransaction, view: View, numbers: np.ndarray, values: list[bytes]
    ) -> NewDocuments:
        records = decode_records(numbers, values, self.config.keep_shingles)
        for _, error in records.errors:
            raise error
        has = records.present > 0
        owners = np.where(records.leaders == NO_LEADER, numbers.astype(np.int64), records.leaders)[has]
        words, prints = view.directory.read_sketches(owners.astype(np.uint64))
        samples = None
        if self._samples is not None:
            samples = self._samples.of(txn, view, numbers, (records.num_shingles, records.num_sampled))
        return saved_documents(records, self.scheme, self.manifest.sources, has, words, prints, samples)

    def _require_unchanged(self, manifest: Manifest) -> None:
        """Numbers are never given twice, so the same documents are there where both figures are the same."""
        known = self.manifest
        if (manifest.next_number, manifest.num_documents) != (known.next_number, known.num_documents):
            raise SimIndexError(
                f"{self.path}: expected the state that was there at the beginning, found a later one: it was "
                "changed, and what ends a snapshot came as well (a compaction, a fork); do it again, or of a "
                "backup"
            )


def _next_records(txn: ReadTransaction, first: bytes) -> tuple[list[bytes], list[bytes]]:
    """Return keys and values of the next records, a batch of them or fewer."""
    records = txn.items("documents", first)
    part = next(in_parts(records, BATCH, lambda record: len(record[1])), None)
    found = [] if part is None else part.values
    return [key for key, _ in found], [bytes(value) for _, value in found]


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
