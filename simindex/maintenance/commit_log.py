"""Commit log: every commit since the last backup is put into the backup's store, an object (batch) each.

A change that is acknowledged after `CommitLog.settle` is not lost with its disk. Invariants: a batch is put
behind its commit, so that it says what really came of it; when `settle` returns, all batches so far are in
the store; a batch behind a gap was not acknowledged, and is not replayed.

A batch holds the state that its commit has left (the seal of the index's manifest). So the next process that
opens the index sees whether the store has all of it: where the last commit before a kill is missing, or the
index was changed without a log, a backup is made before anything is acknowledged.

Batches are created and never replaced, and a log begins with a batch of its own. So where an index was
restored elsewhere while its old host was thought to be dead, the old host finds its next number taken: it
acknowledges nothing any more.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count

import numpy as np

from simindex.changes.documents import NewDocuments
from simindex.changes.pending import Pending
from simindex.changes.session import Prepared, Session, Writer
from simindex.errors import BackupTargetError, ClosedError
from simindex.format.backup_objects import StoredBackup
from simindex.format.batch_objects import Batch, batch_name, decode_batch, encode_batch, state_of
from simindex.format.keys import decode_keys, encode_keys, key_hashes, number_of
from simindex.format.meta import decode_done, decode_manifest, encode_done
from simindex.format.records import decode_record
from simindex.maintenance.backup import backup_index
from simindex.maintenance.backup_store import LOG, batch_names, read_manifest
from simindex.maintenance.object_store import Objects, StoreError, open_store, prove
from simindex.maintenance.reports import StoreBackupReport
from simindex.queries.scheme import scheme_of
from simindex.queries.view import View, stored_manifest
from simindex.sketching.sketch import SketchBatch
from simindex.storage.store import Store

_THREADS = 4


class CommitLog:
    """The commit log of one index that is open for writing. Safe to share between threads.

    Args:
        uri: of its backup, which is made where the store does not have all of the index."""

    def __init__(self, session: Session, uri: str | os.PathLike[str]) -> None:
        self._session, self._objects = session, open_store(uri)
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="simindex-journal")
        self._under_way = deque[tuple[str, bytes, Future[None]]]()
        self._last, self._is_closed = 0, False
        self._writer = secrets.token_hex(8)
        prove(self._objects)
        with session.alone("journal"):
            self._begin()
            session.watch = self._note

    def _begin(self) -> None:
        """Go on behind what the store has, and see that it has everything."""
        while True:
            backup, names = read_manifest(self._objects), batch_names(self._objects)
            self._last = max([*names, backup.journal if backup else 0])
            with self._session.store.reading() as txn:
                state = state_of(bytes(stored_manifest(txn)))
            if backup is None or self._states(backup, names)[-1:] != [state]:
                self._require_newest(backup, names, state)
                self.backup()
            opening = Batch(state, self._writer, 0, [], [], [], [], [], [], SketchBatch(0, 0, False, None))
            self._last += 1
            if self._objects.create(f"{LOG}/{batch_name(self._last)}", encode_batch(opening)):
                return

    def _states(self, backup: StoredBackup, names: dict[int, str]) -> list[str]:
        """Return the states that the store knows, the newest last; none where some are missing between."""
        batches = [*_without_gaps(names, backup.journal)]
        if len(batches) < sum(number > backup.journal for number in names):
            return []
        states = [decode_batch(self._objects.get(name), self._objects.uri_of(name)).state for name in batches]
        return [state_of(backup.manifest), *states]

    def _require_newest(self, backup: StoredBackup | None, names: dict[int, str], state: str) -> None:
        """Refuse an index that is older than what the store has: it was restored elsewhere, and went on."""
        if backup is not None and state in self._states(backup, names):
            raise BackupTargetError(
                f"{self._objects.uri}: expected a commit log that ends with the state of "
                f"{self._session.store.path}, found later batches: the index was restored elsewhere and went "
                "on. Restore it from there, or choose another place for its backup"
            )

    def _note(self, pending: Pending, prepared: Prepared) -> None:
        """Take a commit, just behind it, while nothing else may change the index."""
        self._last += 1
        name = f"{LOG}/{batch_name(self._last)}"
        content = encode_batch(_batch_of(pending, prepared, self._writer))
        with self._lock:
            self._under_way.append((name, content, self._pool.submit(self._put, name, content)))

    def _put(self, name: str, content: bytes) -> None:
        if self._is_closed:
            raise ClosedError(
                f"{self._session.store.path}: expected an open commit log, found one that was closed while "
                "changes were under way; those are not acknowledged, make them again"
            )
        if not self._objects.create(name, content):
            raise StoreError(
                self._objects.uri_of(name),
                f"expected to be the only writer of {self._session.store.path}, found a batch of another "
                "process: the index was restored elsewhere, and goes on there. Nothing is acknowledged here "
                "any more; open the catalog again",
            )

    def settle(self) -> None:
        """Wait until every commit so far is in the store; only then (no error) may it be acknowledged."""
        with self._lock:
            waiting = list(self._under_way)
        for batch in waiting:
            name, content, put = batch
            try:
                put.result()
            except Exception:
                self._put(name, content)  # once more
            with self._lock:
                if self._under_way and self._under_way[0] is batch:
                    self._under_way.popleft()

    def settled(self) -> int:
        """Return the number of the last batch, once all up to it are in the store: a read from now on sees
        them."""
        last = self._last
        self.settle()
        return last

    def backup(self, progress: Callable[[int], object] | None = None) -> StoreBackupReport:
        """Make a backup, which takes up the batches that are in the store; see `backup_index`."""
        path = self._session.store.path
        return backup_index(path, self._objects.uri, progress=progress, position=self.settled)

    def close(self) -> None:
        """Let go of the index, which is closed. What is not settled was not acknowledged."""
        self._is_closed = True
        self._pool.shutdown(cancel_futures=True)


def _batch_of(pending: Pending, prepared: Prepared, writer: str) -> Batch:
    """Return what a commit has changed."""
    documents, _ = pending.documents()
    touched = [decode_record(number_of(key), value).key for key, value in prepared.touched]
    removed = [record.key for record in pending.removed.values()]
    return Batch(
        state_of(prepared.encoded_manifest),
        writer,
        pending.inserted_at,
        encode_keys(removed) if removed else [],
        encode_keys(touched) if touched else [],
        documents.encoded_keys,
        documents.packed_metadata,
        [] if prepared.done is None else [encode_done(prepared.done)],
        [] if documents.times is None else documents.times.tolist(),
        documents.sketches,
    )


def _without_gaps(names: dict[int, str], covered: int) -> Iterable[str]:
    """Yield the batches behind a backup, up to the first one that is missing."""
    for number in count(covered + 1):
        if number not in names:
            return
        yield names[number]


def replay(path: str | os.PathLike[str], objects: Objects, covered: int) -> tuple[int, int]:
    """Do the batches behind a backup again; returns the last one, and how many documents there are."""
    store = Store(path, "r+")
    try:
        session = Session(store, scheme_of(store, None, None))
        last = covered
        for name in _without_gaps(batch_names(objects), covered):
            batch = decode_batch(objects.get(name), objects.uri_of(name))
            session.change(partial(_apply, batch))
            last += 1
        with store.reading() as txn:
            return last, decode_manifest(stored_manifest(txn)).num_documents
    finally:
        store.close()


def _apply(batch: Batch, writer: Writer, pending: Pending, view: View) -> None:
    pending.inserted_at = batch.time
    if batch.removed:
        writer.remove(pending, view, batch.removed)
    if batch.touched:
        known = view.find_keys(batch.touched, key_hashes(batch.touched))
        pending.touch(number for number, _ in known.values())
    if batch.keys:
        writer.insert(pending, view, _documents(batch), "replace")
    for key, value in batch.notes:
        pending.done = decode_done(key, value)


def _documents(batch: Batch) -> NewDocuments:
    times = np.array(batch.times, dtype=np.int64) if batch.times else None
    keys, hashes = decode_keys(batch.keys), key_hashes(batch.keys)
    return NewDocuments(keys, batch.keys, hashes, batch.metadata, batch.sketches, times)
