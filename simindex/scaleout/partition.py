"""A partition: an index with the calls that its host needs: searches by ready sketches, changes done once by
id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, NamedTuple, TypeVar

import numpy as np

from simindex.changes.documents import Conflict, NewDocuments
from simindex.changes.expiry import expire
from simindex.changes.if_new import Batch, Decisions, asked_if_new
from simindex.changes.pending import Pending
from simindex.changes.session import Writer
from simindex.format.batch_objects import state_of
from simindex.format.keys import Key, encode_keys, key_hashes
from simindex.format.records import pack_metadata
from simindex.format.rows import MATCHES
from simindex.index import Index
from simindex.maintenance.backup import backup_index
from simindex.maintenance.commit_log import CommitLog
from simindex.maintenance.reports import StoreBackupReport
from simindex.queries.matches import Matches
from simindex.queries.search import BandQuery, FingerprintQuery, Found, Method, Query
from simindex.queries.view import View, stored_manifest
from simindex.scaleout.answers import Answered
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE, SketchBatch

_T = TypeVar("_T")


class Nearest(NamedTuple):
    """A question for the k most similar documents; see `Index.nearest`."""

    k: int
    by: Method | None
    threshold: float | None
    recall: float | None


FEW = 16
"""Questions up to which sorting out those without matches costs more than it saves."""


def is_by_distance(query: Query | Nearest) -> bool:
    """Whether matches come in the order of their distances."""
    if isinstance(query, Nearest):
        return query.by == "simhash"
    return query.compares == HAS_FINGERPRINT


def _with_matches(everything: Found) -> tuple[list[int], Found]:
    """Return the places of questions with matches, and what was found for these alone: most have none, and
    each would cost a list in each partition."""
    rows = np.frombuffer(everything.matches, dtype=MATCHES).copy()
    asked, rows["query"] = np.unique(rows["query"], return_inverse=True)
    batch, places = everything.batch, asked.tolist()
    if batch.kept is not None:
        batch = copy(batch)
        batch.kept = [everything.batch.kept[place] for place in places] if everything.batch.kept else None
    truncated = bytearray(everything.truncated[place] for place in places)
    scanned = None if everything.scanned is None else everything.scanned[asked]
    return places, Found(batch, rows.tobytes(), truncated, scanned)


class Partition(Index):
    """An open partition. Safe to share between threads, as an index is."""

    is_closed_for_writing = False
    """Whether it is being moved, and was opened to be read alone."""

    _commit_log: CommitLog | None = None

    def keep_commit_log(self, uri: str) -> None:
        """Put every commit from here on into the commit log of a backup, too; see `CommitLog`."""
        self._commit_log = CommitLog(self._session, uri)

    def state(self) -> str:
        """Return the seal of the manifest, which identifies the newest commit."""
        with self._store.reading() as txn:
            return state_of(bytes(stored_manifest(txn)))

    def settle(self) -> None:
        """Wait until all commits are as durable as was asked for; only then they may be acknowledged.

        Raises:
            StoreError: the store does not take one.
            ClosedError: it was closed meanwhile, and the store does not have one.
        """
        if self._commit_log is not None:
            self._commit_log.settle()

    def back_up(self, uri: str) -> StoreBackupReport:
        """Make a backup in a store, or bring it up to date."""
        return backup_index(self.path, uri) if self._commit_log is None else self._commit_log.backup()

    def settled(self) -> int | None:
        """Return the number of the last batch of the commit log, once all up to it are in the store."""
        return None if self._commit_log is None else self._commit_log.settled()

    def finish(self) -> None:
        """Close it when its commit log has every commit. None can come between, for it is closed first."""
        super().close()
        try:
            self.settle()
        finally:
            self.close()

    def close(self) -> None:
        """Close it, and its commit log: behind it, so that no commit comes past the log."""
        try:
            super().close()
        finally:
            if self._commit_log is not None:
                self._commit_log.close()

    def answers(
        self, query: Query | Nearest, batch: SketchBatch, looking_up: AbstractContextManager[Any]
    ) -> Answered:
        """Return the matches of many sketches, on one snapshot."""
        if isinstance(query, Nearest):
            nearest = [self.nearest(sketch, **query._asdict()) for sketch in batch]
            flags = bytes([matches.truncated for matches in nearest])
            return Answered.of(dict(enumerate(nearest)), flags)
        with self._store.reading() as txn:
            view = self._reader.view(txn)
            if query.compares == HAS_SIGNATURE and not view.sources:
                return Answered.of({}, bytes(len(batch)), None, view.num_documents > 0)
            everything = query.find(view, batch)
            found: dict[int, Matches] = {}
            if everything.matches and len(batch) <= FEW:
                found = dict(enumerate(query.matches(view, everything)))
            elif everything.matches:
                with looking_up:
                    asked, those = _with_matches(everything)
                    found = dict(zip(asked, query.matches(view, those), strict=True))
            return Answered.of(found, bytes(everything.truncated), everything.scanned)

    def documents(self, encoded_keys: list[bytes]) -> NewDocuments | None:
        """Return the documents of some keys, of those that are stored; ``None`` where none is."""
        with self._store.reading() as txn:
            view = self._reader.view(txn)
            found = list(view.find_keys(encoded_keys, key_hashes(encoded_keys)).values())
            if not found:
                return None
            sketches = SketchBatch.joined([view.sketch_batch(*one) for one in found])
        keys = [record.key for _, record in found]
        encoded, metadata = encode_keys(keys), [pack_metadata(record.metadata) for _, record in found]
        return NewDocuments(keys, encoded, key_hashes(encoded), metadata, sketches)

    def decisions(
        self,
        query: BandQuery | FingerprintQuery,
        stored: Sequence[NewDocuments],
        documents: NewDocuments,
        on_conflict: Conflict,
    ) -> Decisions:
        """Return what becomes of documents that are stored if they are new, as if this empty partition held
        some others; it stores nothing."""

        def gather(writer: Writer, _: Pending, view: View) -> Decisions:
            pending = writer.begin()
            for others in stored:
                pending.add(others, list(range(len(others))))
            view = view.with_pending(pending.view())
            return Batch(view, pending, asked_if_new(query), documents, on_conflict).settled()

        return self._session.change(gather)

    def count(self) -> int:
        """Return how many documents it holds."""
        return len(self)

    def keys_from(self, first: int, limit: int) -> tuple[list[Key], int | None, tuple[int, int]]:
        """Return some keys from a number on, in order of insertion; the number behind them, ``None`` at the
        end; and (next number, number of documents), by which one state is known from another."""
        with self._store.reading() as txn:
            view = self._reader.view(txn)
            found = view.numbers_from(first, limit)
            state = view.manifest.next_number, view.num_documents
            return [record.key for _, record in found], found[-1][0] + 1 if found else None, state

    # ---- changes that may be repeated: the same call again answers the same, and does nothing ----

    def _once(self, call: bytes, change: Callable[[Writer, Pending, View], _T]) -> _T:
        def changed(writer: Writer, pending: Pending, view: View, before: _T | None) -> _T:
            return change(writer, pending, view) if before is None else before

        return self._session.once(call, changed)

    def add_once(self, call: bytes, documents: NewDocuments, on_conflict: Conflict) -> list[int]:
        """Store documents that are sketched already, in one commit; [inserted, replaced, skipped]."""

        def add(writer: Writer, pending: Pending, view: View) -> list[int]:
            if documents.times is not None:  # ages go by the clocks of drivers
                pending.inserted_at = int(documents.times.min())
            return list(writer.insert(pending, view, documents, on_conflict))

        return self._once(call, add)

    def remove_once(self, call: bytes, encoded_keys: list[bytes]) -> int:
        """Remove the documents of some keys, each once, in one commit; returns how many there were."""
        return self._once(call, lambda writer, pending, view: writer.remove(pending, view, encoded_keys))

    def touch_once(self, call: bytes, encoded_keys: list[bytes]) -> int:
        """Renew the age of the documents of some keys, each once; returns how many there were."""

        def touch(_: Writer, pending: Pending, view: View) -> int:
            committed = view.find_keys(encoded_keys, key_hashes(encoded_keys))
            pending.touch(number for number, _ in committed.values())
            return len(committed)

        return self._once(call, touch)

    def expire_once(self, call: bytes, limit: int, batch_size: int) -> int:
        """Remove what was seen last before a time, in microseconds since 1970-01-01 UTC; see `expire`."""
        return expire(self._session, limit, batch_size, call)
