"""Session: the writer's lock of one handle, and its open transaction.

`change` gathers a change and commits it, or adds it to the open transaction.

Locking rule: the lock is held for every change and for the whole of a transaction; queries take no lock,
and see pending documents only where the transaction is their own.

A transaction belongs to a thread, and to a task of asyncio where one has opened it: the tasks of a loop share
their thread, so the lock lets them in, and a thread that a task waits for would wait for the lock for ever.
Both are errors at once; see `_Block`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from simindex.changes.pending import Pending
from simindex.changes.writer import Prepared, Writer
from simindex.errors import IndexFullError, SimIndexError, TransactionOpenError
from simindex.queries.scheme import Scheme
from simindex.queries.view import Expected, PendingView, Reader, View
from simindex.storage.lmdb_file import closed, read_only
from simindex.storage.store import Store

Result = TypeVar("Result")


class _Block:
    """An open transaction: its changes, and the thread and task that it belongs to; its context variable is
    inherited."""

    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        self.is_open = True
        self._thread = threading.get_ident()
        self._task = _current_task()

    def begin(self) -> None:
        """Enter it with this context."""
        _BLOCKS.set((*(block for block in _BLOCKS.get() if block.is_open), self))

    def end(self) -> None:
        """End it, in every context that has inherited it, too."""
        self.is_open = False
        # Contexts that have inherited it live on.
        self._task = None
        _BLOCKS.set(tuple(block for block in _BLOCKS.get() if block.is_open))

    @property
    def is_on_this_thread(self) -> bool:
        """Whether this thread will end it, so that waiting for the end here would last for ever."""
        return self._thread == threading.get_ident()

    @property
    def is_own(self) -> bool:
        """Whether this code is inside of it. What was opened outside of any task is the whole thread's."""
        return self.is_on_this_thread and (self._task is None or self._task is _current_task())

    def changes_here(self) -> PendingView | None:
        """Return its changes as queries see them; ``None`` where this code is not inside of it."""
        return self.pending.view() if self.is_own else None

    @property
    def is_inherited(self) -> bool:
        """Whether this is another thread, with a context that was copied inside of the block."""
        return not self.is_on_this_thread and any(block is self for block in _BLOCKS.get())


_BLOCKS: ContextVar[tuple[_Block, ...]] = ContextVar("simindex_transactions", default=())
"""The transactions that this context was inside of when it was copied, or is."""


def _current_task() -> object | None:
    """Return the asyncio task that runs on this thread, if any. A thread with one has imported asyncio."""
    current_task = getattr(sys.modules.get("asyncio"), "current_task", None)
    if current_task is None:
        return None
    try:
        task: object | None = current_task()
    except RuntimeError:  # no loop runs here
        return None
    return task


class Session:
    """Makes the changes of one handle, one at a time. Safe to share between threads."""

    def __init__(self, store: Store, scheme: Scheme, is_copy: bool = False) -> None:
        """Begin. `is_copy`: whether the handle reads a copy of its own."""
        self.store = store
        self._is_copy = is_copy
        self.scheme = scheme
        self.reader = Reader(scheme)
        self._lock = threading.RLock()
        self._open: _Block | None = None
        self._writer = Writer(store, self.reader) if store.writable else None
        if self._writer is None:
            with store.reading() as txn:
                self.reader.current(txn)  # what is damaged is refused now
        self.watch: Callable[[Pending, Prepared], object] | None = None
        """Called with each change behind its commit, before the lock is released."""

    def writer(self) -> Writer:
        """Return the writer. Raises ReadOnlyError when the handle only reads."""
        self.store.environment()
        if self._writer is None:
            raise read_only(self.store.path, self._is_copy).located(self.store.path)
        return self._writer

    @contextmanager
    def _locked(self) -> Iterator[Writer]:
        """Hold the lock, a writer's; a forked child, which may have inherited it locked, learns before that
        it has none."""
        writer = self._require_turn()
        with self._lock:
            try:
                yield writer
            except SimIndexError as exc:
                exc.located(self.store.path)
                raise

    def _require_turn(self) -> Writer:
        """Refuse what could wait for ever; see `_locked`."""
        self.store.environment()
        writer, block = self._writer or self.writer(), self._open
        if block is not None and (block.is_inherited or (block.is_on_this_thread and not block.is_own)):
            raise self._not_its_own()
        return writer

    def _not_its_own(self) -> TransactionOpenError:
        return TransactionOpenError(
            f"{self.store.path}: expected a change of the task that has a transaction open, found one of "
            "another task, or of a thread that was started inside the block; nothing of it is stored. Make "
            "it before or after the block, or let an asyncio.Lock keep the two apart"
        ).located(self.store.path)

    @property
    def is_in_transaction(self) -> bool:
        """Whether a change, which holds the lock, is a part of an open transaction."""
        return self._open is not None

    def change(self, gather: Callable[[Writer, Pending, View], Result]) -> Result:
        """Gather a change of the committed state, as a part of the open transaction, or make it durable by
        itself."""
        writer = self._require_turn()
        with self._lock:  # and not `_locked`: a generator would take a twelfth of a single insert
            try:
                prepared = None
                with self.store.reading() as txn:
                    view = self.reader.committed_view(txn)
                    pending = writer.begin() if self._open is None else self._open.pending
                    result = gather(writer, pending, view)
                    if self._open is None and pending.size:
                        prepared = writer.prepare(pending, view)
                if prepared is not None:
                    self.commit(writer, prepared, pending)
                return result
            except SimIndexError as exc:
                exc.located(self.store.path)
                raise

    def once(self, call: bytes, gather: Callable[[Writer, Pending, View, Any], Result]) -> Result:
        """Gather a change and make it durable with a note of its answer under an id; `gather` is given the
        answer from before, and nothing is stored where it returns just that."""
        with self.alone("a call that may be repeated") as writer:
            writer.read_again_if_unsure()
            before = writer.done.answer(call)

            def noting(writer: Writer, pending: Pending, view: View) -> Result:
                answer = gather(writer, pending, view, before)
                if answer is not before:
                    pending.done = writer.done.note(call, answer)
                return answer

            return self.change(noting)

    @contextmanager
    def transaction(self, max_bytes: int | None) -> Iterator[None]:
        """Gather the changes of the block and commit them together; see `Index.transaction`."""
        with self._locked() as writer:
            if self._open is not None:
                raise TransactionOpenError("a transaction is open already; transactions do not nest")
            block = _Block(writer.begin(max_bytes))
            try:
                block.begin()
                self._open, self.reader.open_changes = block, block.changes_here
                yield
                if self._open is not block:
                    why = "the index was closed inside a transaction, whose changes are not stored"
                    raise closed(self.store.path, why)
                if block.pending.size:
                    self.commit(writer, self._prepared(writer, block.pending), block.pending)
            finally:
                self._open = self.reader.open_changes = None
                block.end()

    def require_committed(self, call: str) -> None:
        """Raise TransactionOpenError inside a transaction, whose documents the call would not see."""
        block = self._open
        if block is not None and block.is_own:
            raise TransactionOpenError(f"{call}: expected no open transaction, found one; end it first")

    @contextmanager
    def alone(self, call: str) -> Iterator[Writer]:
        """Give the writer for many commits of a call's own; no transaction may be open."""
        with self._locked() as writer:
            self.require_committed(call)
            yield writer

    def _prepared(self, writer: Writer, pending: Pending, *, merging: bool = True) -> Prepared:
        with self.store.reading() as txn:
            return writer.prepare(pending, self.reader.committed_view(txn), merging=merging)

    def commit(self, writer: Writer, prepared: Prepared, pending: Pending | None = None) -> None:
        """Make a prepared change durable; `pending` is what it was prepared from, if anything."""
        try:
            writer.commit(prepared)
        except IndexFullError:
            if pending is None or pending.by_key or pending.touched:
                raise
            # A removal is let through on a full disk; merging can wait.
            writer.read_again_if_unsure()
            prepared = self._prepared(writer, pending, merging=False)
            writer.commit(prepared)
        manifest, number = prepared.merged.manifest, self.store.last_commit
        own = prepared.encoded_manifest, manifest, number, prepared.newest, prepared.before
        self.reader.expected = Expected(*own)
        if self.watch is not None and pending is not None:
            self.watch(pending, prepared)

    def close(self) -> None:
        """Roll back an open transaction, another task's, too, which learns of it; and close the store."""
        if self._open is not None and self._open.is_inherited:
            raise self._not_its_own()
        if not self.store.writable:
            self.store.close()  # no lock: a forked child may have inherited it locked
            return
        with self._lock:
            # The store first: interrupted anywhere, the handle is open, or says that it is closed.
            try:
                self.store.close()
            finally:
                self._open = self.reader.open_changes = None
                self._writer = None
