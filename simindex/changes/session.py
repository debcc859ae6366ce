"""Session: whose turn it is to change the index, the open transaction, and what a thread sees of both.

Owns the lock between threads of one handle and the change that is being gathered. Must not know documents or
bytes.

Locking rule: the lock is held for every change and for the whole of a transaction; queries take no lock,
and see pending documents only on the transaction's own thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from simindex.changes.pending import Pending
from simindex.changes.prepared import Prepared
from simindex.changes.writer import Writer
from simindex.errors import IndexFullError, SimIndexError
from simindex.queries.scheme import Scheme
from simindex.queries.snapshot import SnapshotCache
from simindex.queries.view import View
from simindex.storage.store import Store
from simindex.storage.transactions import ReadTransaction
from simindex.storage.translation import read_only


class Session:
    """The changes and the views of one handle. Safe to share between threads."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self.store = store
        self.scheme = scheme
        self._snapshots = SnapshotCache(scheme)
        self._lock = threading.RLock()
        self._pending: Pending | None = None
        self._owner: int | None = None
        with store.reading() as txn:
            manifest = self._snapshots.current(txn).manifest
        self._writer = Writer(store, scheme, manifest) if store.writable else None

    # ---- what a thread sees ----

    def committed_view(self, txn: ReadTransaction) -> View:
        """Return the committed state of a transaction."""
        return View(txn, self._snapshots.current(txn), self.scheme)

    def view(self, txn: ReadTransaction) -> View:
        """Return the state that this thread's queries see."""
        pending = self._pending
        is_own = pending is not None and self._owner == threading.get_ident()
        return View(
            txn, self._snapshots.current(txn), self.scheme, pending.view() if pending and is_own else None
        )

    def load_newest(self) -> None:
        """Load the newest committed state, ahead of the next query."""
        with self.store.reading() as txn:
            self._snapshots.current(txn)

    # ---- changes ----

    def writer(self) -> Writer:
        """Return the writer. Raises ReadOnlyError when the handle only reads."""
        self.store.require_open()
        if self._writer is None:
            raise read_only(self.store.path).located(self.store.path)
        return self._writer

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock. A forked child may have inherited it locked by a thread that it has not."""
        self.store.require_open()
        with self._lock:
            try:
                yield
            except SimIndexError as exc:
                exc.located(self.store.path)
                raise

    @contextmanager
    def changing(self) -> Iterator[tuple[Writer, Pending]]:
        """Give a change: the open transaction's, or one that is committed at the end of the block."""
        with self.locked():
            writer = self.writer()
            if self._pending is not None:
                yield writer, self._pending
                return
            pending = writer.begin()
            yield writer, pending
            self._commit(writer, pending)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Gather the changes of the block and commit them together; see `Index.transaction`."""
        with self.locked():
            writer = self.writer()
            if self._pending is not None:
                raise SimIndexError("a transaction is open already; transactions do not nest")
            self._pending = pending = writer.begin()
            self._owner = threading.get_ident()
            try:
                yield
                if self._pending is pending:
                    self._commit(self.writer(), pending)
            finally:
                self._pending = self._owner = None

    @contextmanager
    def alone(self, call: str) -> Iterator[Writer]:
        """Give the writer for many commits of a call's own; no transaction may be open."""
        with self.locked():
            writer = self.writer()
            if self._pending is not None:
                raise SimIndexError(f"{call}: expected no open transaction, found one; end it first")
            yield writer

    def _commit(self, writer: Writer, pending: Pending) -> None:
        if not pending.size:
            return
        try:
            self._prepare_and_commit(writer, pending, merging=True)
        except IndexFullError:
            if pending.by_key:
                raise
            # A removal is let through on a full disk; merging can wait.
            writer.read_again_if_unsure()
            self._prepare_and_commit(writer, pending, merging=False)

    def _prepare_and_commit(self, writer: Writer, pending: Pending, *, merging: bool) -> None:
        with self.store.reading() as txn:
            prepared = writer.prepare(pending, self.committed_view(txn), merging=merging)
        self.commit(writer, prepared)

    def commit(self, writer: Writer, prepared: Prepared) -> None:
        """Make a prepared change durable."""
        writer.commit(prepared)
        self._snapshots.expect(prepared.encoded_manifest, prepared.manifest)

    def close(self) -> None:
        """Roll back an open transaction, and close the store."""
        with self._lock:
            # The store first: interrupted anywhere, the handle is open, or says that it is closed.
            try:
                self.store.close()
            finally:
                self._pending = None
                self._writer = None
