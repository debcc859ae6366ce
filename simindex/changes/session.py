"""Session: the writer's lock of one handle, its open transaction, and its commits.

`change` gathers a change and commits it, or adds it to the open transaction. A commit is prepared as plain
values (`Prepared`) and then stored in one write transaction; `Prepared.store` is a pure function of that
transaction, so that it can run again after the map has grown. `DoneCalls` is the idempotency log: replies of
the last calls, so that a retry returns the first reply. A reply is stored by the commit that did the call, so
there is never the one without the other.

Locking rule: the lock is held for every change and for the whole of a transaction; queries take no lock,
and see pending documents only where the transaction is their own.

A transaction belongs to a thread, and to a task of asyncio where one has opened it: the tasks of a loop share
their thread, so the lock lets them in, and a thread that a task waits for would wait for the lock for ever.
Both are errors at once; see `_Block`.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any, TypeVar

from simindex.changes.documents import NewDocuments
from simindex.changes.merges import Merged, Merges, step_budget
from simindex.changes.pending import Pending, change_of_ages, current_time, fold_copies, removal_marks
from simindex.changes.write_behind import WriteBehind
from simindex.errors import (
    CorruptIndexError,
    IndexFullError,
    KeyExistsError,
    RemovalLimitError,
    SimIndexError,
    TransactionOpenError,
)
from simindex.events import Counts, event
from simindex.format.keys import doc_id_key, key_hashes, numbered, segment_of, segment_prefix
from simindex.format.meta import (
    MANIFEST_KEY,
    TURNS,
    Manifest,
    Note,
    call_of,
    decode_done,
    decode_manifest,
    done_key,
    encode_done,
    turn_end,
    turn_of,
)
from simindex.format.packed import Pairs
from simindex.format.records import (
    REMOVED_SKETCH,
    Run,
    encode_group_size,
    encode_run,
    flags_unverified,
    run_key,
)
from simindex.queries.scheme import Scheme
from simindex.queries.view import Expected, PendingView, Reader, View, stored_manifest, stored_notes
from simindex.segments.build import Puts, num_bytes, segment_puts
from simindex.segments.directory import COPIED_BYTES
from simindex.storage.environment import ReadTransaction, WriteTransaction
from simindex.storage.folder import remove_unfinished
from simindex.storage.lmdb_file import MAIN, closed, read_only
from simindex.storage.store import MOVED_KEY, Store

_LONG_SECONDS = 1.0
"""Merging that keeps a commit for so long is logged."""

Result = TypeVar("Result")


def require_at_most(found: int, view: View, at_most: float) -> None:
    """Raise RemovalLimitError where more than this share of a view's documents would be removed."""
    # A quotient, for the product 0.29 * 100 is below 29.
    if found / max(view.num_documents, 1) > at_most:
        raise RemovalLimitError(found, view.num_documents, at_most)


class DoneCalls:
    """The notes that are stored, by the ids of their calls: 200 bytes each. Not thread-safe by itself; read
    when the first call asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns: dict[bytes, int] | None = None  # ascending
        self._next_turn = 0

    def answer(self, call: bytes) -> Any:
        """Return what a call answered; ``None`` where it was not done, or too long ago. Raises
        CorruptIndexError where its note is not stored."""
        turn = self._read().get(call)
        if turn is None:
            return None
        with self._store.reading() as txn:
            value = txn.get("meta", key := done_key(turn))
            if value is None:
                raise CorruptIndexError(f"note {turn}: expected one, found none", key=key)
            return decode_done(key, value)[1]

    def note(self, call: bytes, answer: Any) -> Note:
        """Return the next note, for a commit to store; it names older ones that have to go for it. Raises
        AnswerTooLargeError."""
        turns, turn = self._read().values(), self._next_turn
        value = encode_done(turn, call, answer)
        first = turn_end(turn, value) - TURNS
        return Note(turn, call, value, list(takewhile(lambda turn: turn < first, turns)))

    def stored(self, note: Note) -> None:
        """Take note that a commit has stored this note, and removed those that it ends."""
        turns = self._read()
        for call in list(islice(turns, len(note.ends))):
            del turns[call]
        turns[note.call] = note.turn
        self._next_turn = turn_end(note.turn, note.value)

    def forget(self) -> None:
        """Drop what is known of the notes: the next question reads them again."""
        self._turns = None

    def _read(self) -> dict[bytes, int]:
        if self._turns is None:
            turns, self._next_turn = dict[bytes, int](), 0
            with self._store.reading() as txn:
                for key, value in stored_notes(txn):
                    turn = turn_of(key)
                    turns[call_of(key, value)[0]], self._next_turn = turn, turn_end(turn, value)
            self._turns = turns
        return self._turns


@dataclass(slots=True)
class Prepared:
    """Everything that a commit stores; `newest` is a short new last segment, `before` the manifest with all
    others.

    Attributes:
        changes: records and marks.
        others: (database, key, value) of all else; ``None`` removes the key.
        only_removes: whether it stores no document, new or anew.
    """

    merged: Merged
    encoded_manifest: bytes
    changes: WriteBehind
    others: list[tuple[str, bytes, Any]]
    only_removes: bool
    done: Note | None
    newest: bytes
    before: Manifest | None

    @property
    def num_bytes(self) -> int:
        """Bytes of all values."""
        others = sum(len(value) for _, _, value in self.others if value is not None)
        records = sum(map(len, self.changes.appended.values)) + num_bytes(self.changes.touched)
        return others + records + num_bytes(self.merged.puts) + len(self.encoded_manifest)

    def store(self, txn: WriteTransaction) -> None:
        """Put everything into a write transaction; the manifest comes last and makes it visible."""
        if self.changes.appended:
            txn.append("documents", self.changes.appended)
        for key, value in self.changes.touched:
            txn.put("documents", key, value)
        for database, key, value in self.others:
            if value is None:
                txn.delete(database, key)
            else:
                txn.put(database, key, value)
        self.merged.store(txn)
        txn.put(MAIN, MANIFEST_KEY, self.encoded_manifest)


class Writer:
    """The counters, the merges and the commits of an index. Not thread-safe by itself."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._scheme = reader.scheme
        self.done = DoneCalls(store)
        with store.reading() as txn:
            manifest = reader.current(txn).manifest
            removed = _removed_sketches(txn, manifest)
            leftovers = _leftovers(txn, manifest)
        _clear(store, *leftovers)
        self._go_on(manifest, removed)

    def _go_on(self, manifest: Manifest, removed: list[int], unnamed: Collection[int] = ()) -> None:
        """Go on from what is stored, with no merge under way; no doubt of an earlier commit is left.
        `removed`: doc ids of removed documents whose sketches are stored still. The next commit removes
        segments `unnamed`, and no new one gets such an id."""
        # No segment may get an id whose chunks are about to be removed.
        next_segment = max([manifest.next_segment, *(segment + 1 for segment in unnamed)])
        self.manifest = manifest._replace(next_segment=next_segment)
        self.merges = Merges(self._scheme, manifest, removed, unnamed)
        self._packed: list[bytes] = []
        """The segments of the manifest that is stored, as far as commits have packed them."""
        self._is_unsure = False
        """True from the first step of a preparation until its commit is known to have succeeded."""

    # ---- gathering ----

    def begin(self, max_bytes: int | None = None) -> Pending:
        """Return an empty change, whose documents may take so many bytes of memory; ``None``: any number."""
        self.read_again_if_unsure()
        manifest, now = self.manifest, current_time()
        return Pending(self._scheme, manifest.next_doc_id, now, max_bytes=max_bytes, sources=manifest.sources)

    def read_again_if_unsure(self) -> None:
        """Go on from what is stored, after a change that was broken off: its commit may be durable, for
        Ctrl-C comes out late. Does nothing otherwise."""
        if self._is_unsure:
            self.done.forget()
            with self._store.reading() as txn:
                manifest = decode_manifest(stored_manifest(txn))
                self._go_on(manifest, _removed_sketches(txn, manifest), unnamed_segments(txn, manifest))

    def insert(
        self, pending: Pending, view: View, documents: NewDocuments, on_conflict: str
    ) -> tuple[int, int, int]:
        """Add documents to a change; return (inserted, replaced, skipped).

        A key that is stored, or comes twice, raises KeyExistsError where `on_conflict` is "error". With
        "skip" the first of its documents stays, with "replace" the last.
        """
        encoded_keys = documents.encoded_keys
        committed = view.find_keys(encoded_keys, documents.key_hashes)
        all_new = not committed and (not pending.count or pending.by_key.keys().isdisjoint(encoded_keys))
        if all_new and documents.has_distinct_keys:
            pending.add(documents)
            return len(documents), 0, 0
        indices: list[int] = []
        new: dict[bytes, int] = {}
        replaced: list[int] = []
        skipped = 0
        for index, encoded in enumerate(encoded_keys):
            if encoded in new or pending.holds(encoded, committed.get(index)):
                if on_conflict == "error":
                    raise KeyExistsError(documents.key(index))
                if on_conflict == "skip":
                    skipped += 1
                    continue
                replaced.append(index)
            new[encoded] = index
            indices.append(index)
        # Of a key that comes twice in one call the last one stays.
        kept = set(new.values())
        pending.require_fit(documents)
        for index in replaced:
            pending.remove(encoded_keys[index], committed.get(index))
        pending.add(documents, [index for index in indices if index in kept])
        return len(indices) - len(replaced), len(replaced), skipped

    def remove(
        self, pending: Pending, view: View, encoded_keys: list[bytes], at_most: float | None = None
    ) -> int:
        """Remove the documents of some keys, each given once, in a change; return how many there were. Raises
        RemovalLimitError where they are more than a share `at_most` of all, with nothing removed."""
        committed = view.find_keys(encoded_keys, key_hashes(encoded_keys))
        if at_most is not None:
            found = sum(pending.holds(key, committed.get(at)) for at, key in enumerate(encoded_keys))
            require_at_most(found, view.with_pending(pending.view()), at_most)
        return sum(pending.remove(key, committed.get(at)) for at, key in enumerate(encoded_keys))

    # ---- committing ----

    def prepare(self, pending: Pending, view: View, *, merging: bool = True) -> Prepared:
        """Return everything that a commit of a change stores; where `merging`, with merges advanced in
        proportion. Nothing is written."""
        self._is_unsure = True
        committed, scheme = self.manifest, self._scheme
        segments, next_segment = committed.segments, committed.next_segment
        records = Pairs([], [])
        puts: Puts = []
        leaders: dict[int, int] = {}
        groups: dict[int, int] = {}
        newest = b""
        changes = WriteBehind(committed.recent)
        if pending.num_live:
            documents, doc_ids = pending.documents()
            leaders, groups = fold_copies(doc_ids, documents.sketches, view)
            records = documents.records(doc_ids, leaders, pending.inserted_at)
            changes.insert(records)
            data = documents.segment_data(scheme, doc_ids, leaders)
            entry, puts = segment_puts(scheme.tables, data.entry(next_segment), data)
            segments, next_segment = (*segments, entry), next_segment + 1
            if not entry.chunked and len(puts[0][1]) < COPIED_BYTES:
                newest = puts[0][1]
        flags, lost_copies = removal_marks(pending.removed, groups, view) if pending.removed else ({}, 0)
        touched, runs, tail = change_of_ages(pending, committed.tail, view)
        changes.touch(touched)
        changes.remove(pending.removed, flags)
        manifest = Manifest(
            next_doc_id=committed.next_doc_id + pending.count,
            next_segment=next_segment,
            num_documents=committed.num_documents + pending.num_live - len(pending.removed),
            # A damaged group may count too many; `check` names it, and a count below 0 nobody could read.
            num_copies=max(0, committed.num_copies + len(leaders) - lost_copies),
            tail_first=tail.first,
            tail_time=tail.time,
            sources=pending.sources,
            segments=segments,
        )
        if not manifest.num_documents:
            manifest = manifest._replace(sources=0)

        def budget() -> int:
            written = num_bytes([*puts, *touched]) + sum(map(len, records.values))
            return step_budget(scheme.tables.layout.tier_factor, manifest, pending.size, written)

        started = time.monotonic()
        merged = self.merges.advance(manifest, committed.segments, budget if merging else None, view)
        if (seconds := time.monotonic() - started) > _LONG_SECONDS:
            event("merged", self._store.path, seconds=seconds, segments=len(merged.manifest.segments))
        if flags:
            merged.count_dead(doc_id for doc_id, flag in flags.items() if flag & REMOVED_SKETCH)
        # What a merge has put among the segments is read anew.
        before = committed if newest and merged.manifest is manifest else None
        self._packed = [] if merged.gone else self._packed
        changes.forget(merged.unmarked)
        merged.manifest, encoded = changes.settle(merged.manifest, self._packed)
        others = [*_small_puts(groups, runs, pending.done), *changes.others]
        others += [("segments", *put) for put in puts]
        only_removes = not records and not touched
        return Prepared(merged, encoded, changes, others, only_removes, pending.done, newest, before)

    def commit(self, prepared: Prepared) -> None:
        """Make a prepared change durable. No read transaction of this thread may be open."""
        # What stores no document makes space free, now or when merges end.
        self._store.commit(prepared.store, prepared.only_removes)
        self.manifest = prepared.merged.manifest
        self.merges.note_stored(prepared.merged)
        if prepared.done is not None:
            self.done.stored(prepared.done)
        self._is_unsure = False
        if prepared.merged.passing:
            with self._store.reading() as txn:
                txn.let_go("segments", prepared.merged.passing)

    # ---- compaction ----

    def expect_another_file(self) -> None:
        """Have the next change first read what is stored, for another file may take the place of this one;
        `take_over` says that it did."""
        self._is_unsure = True

    def take_over(self, manifest: Manifest) -> None:
        """Go on with a file of this manifest, which holds no chunks of merges under way."""
        with self._store.reading() as txn:
            self._go_on(manifest, _removed_sketches(txn, manifest))


def _small_puts(
    groups: dict[int, int], runs: dict[tuple[int, int], int], done: Note | None
) -> Iterator[tuple[str, bytes, bytes | None]]:
    """Yield (database, key, value) to store, ``None`` to remove the key: of `groups` (leader -> its size) and
    `runs` of ages ((time, first doc id) -> exclusive end), where 0 removes; and of a note and those it ends,
    which are removed."""
    for leader, size in groups.items():  # 0: none of its documents is left
        yield "groups", doc_id_key(leader), encode_group_size(leader, size) if size else None
    for run, end in runs.items():
        yield "ages", run_key(*run), encode_run(Run(*run, end)) if end else None
    if done is not None:
        yield "meta", done_key(done.turn), done.value
        yield from (("meta", done_key(turn), None) for turn in done.ends)


def _removed_sketches(txn: ReadTransaction, manifest: Manifest) -> list[int]:
    """Return the doc ids that are marked as having no sketch any more. Seals of the marks are not checked: a
    wrong count rewrites a segment too early or late."""
    marks = ((doc_id, flags_unverified(value)) for doc_id, value in numbered(txn.items("removed"), "removed"))
    return [n for n, flags in (*marks, *manifest.recent.marks.items()) if flags & REMOVED_SKETCH]


def clear_unnamed(store: Store, manifest: Manifest) -> None:
    """Delete what a merge, a compaction or a backup that was killed has left: unfinished files, the mark of a
    compaction, and chunks of segments that the manifest does not name."""
    with store.reading() as txn:
        leftovers = _leftovers(txn, manifest)
    _clear(store, *leftovers)


def _leftovers(txn: ReadTransaction, manifest: Manifest) -> tuple[bool, list[int]]:
    """Return whether a compaction has left its mark, and the ids of stored segments that the manifest does
    not name."""
    return txn.get("meta", MOVED_KEY) is not None, unnamed_segments(txn, manifest)


def _clear(store: Store, is_marked: bool, unnamed: list[int]) -> None:
    remove_unfinished(store.path)

    def change(txn: WriteTransaction) -> None:
        txn.delete("meta", MOVED_KEY)
        for segment in unnamed:
            txn.delete_prefix("segments", segment_prefix(segment))

    if is_marked or unnamed:
        store.commit(change, True)


def unnamed_segments(txn: ReadTransaction, manifest: Manifest) -> list[int]:
    """Return the ids that values of segments are stored under and the manifest does not name, ascending.
    Raises CorruptIndexError where keys do not ascend."""
    found, last, first = set[int](), -1, b""
    while True:
        for key, _ in txn.items("segments", first):
            segment = segment_of(key)
            if segment < last or key < first:
                raise CorruptIndexError("segments: expected ascending keys; restore a backup", key=key)
            if segment == last:
                break  # it has many values: go on behind the last of them
            found.add(segment)
            last = segment
        else:
            return sorted(found - {entry.id for entry in manifest.segments})
        first = segment_prefix(last + 1)


class _Block:
    """An open transaction: its changes, and the thread and task that it belongs to; its context variable is
    inherited."""

    def __init__(self, pending: Pending) -> None:
        self.pending = pending
        self.is_open = True
        self._thread = threading.get_ident()
        self._task = _current_task()

    def begin(self) -> None:
        """Add this transaction to those that the current context is inside of."""
        _BLOCKS.set((*(block for block in _BLOCKS.get() if block.is_open), self))

    def end(self) -> None:
        """Mark this transaction as ended, also in every context that has inherited it."""
        self.is_open = False
        # Contexts that have inherited it live on.
        self._task = None
        _BLOCKS.set(tuple(block for block in _BLOCKS.get() if block.is_open))

    @property
    def is_on_this_thread(self) -> bool:
        """Whether this thread has opened the transaction, so that a wait for its end here would last for
        ever."""
        return self._thread == threading.get_ident()

    @property
    def is_own(self) -> bool:
        """Whether this code is inside of the transaction: on its thread, and in the task of asyncio that has
        opened it. One that was opened outside of any task is the whole thread's."""
        return self.is_on_this_thread and (self._task is None or self._task is _current_task())

    def changes_here(self) -> PendingView | None:
        """Return the transaction's changes as queries see them; ``None`` where this code is not inside of
        it."""
        return self.pending.view() if self.is_own else None

    @property
    def is_inherited(self) -> bool:
        """Whether this code runs on another thread, with a context that was copied inside of the
        transaction's block."""
        return not self.is_on_this_thread and any(block is self for block in _BLOCKS.get())


_BLOCKS: ContextVar[tuple[_Block, ...]] = ContextVar("simindex_transactions", default=())
"""The transactions that this context was inside of when it was copied, or is."""


def _current_task() -> object | None:
    """Return the asyncio task that runs on this thread, ``None`` if there is none. A thread with a task has
    imported asyncio."""
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
        self.counts = Counts()
        self.reader = Reader(scheme)
        self._lock = threading.RLock()
        self._open: _Block | None = None
        self._writer = Writer(store, self.reader) if store.writable else None
        if self._writer is None:
            with store.reading() as txn:
                self.reader.current(txn)  # what is damaged is refused now

    def writer(self) -> Writer:
        """Return the writer. Raises ReadOnlyError when the handle only reads, ClosedError when it is
        closed."""
        self.store.environment()
        if self._writer is None:
            raise read_only(self.store.path, self._is_copy).located(self.store.path)
        return self._writer

    @contextmanager
    def _locked(self) -> Iterator[Writer]:
        """Hold the writer's lock, and locate errors of the block at the index. Raises as
        `_require_turn`, before it waits: a forked child, whose copy of the lock may never be released, gets
        ClosedError."""
        writer = self._require_turn()
        with self._lock:
            try:
                yield writer
            except SimIndexError as exc:
                exc.located(self.store.path)
                raise

    def _require_turn(self) -> Writer:
        """Return the writer. Raises as `writer`, and TransactionOpenError for another task, or a thread
        started inside the block of a transaction: the wait for its lock could last for ever."""
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
        """Whether a transaction is open; the caller holds the lock, so it is the caller's own."""
        return self._open is not None

    def change(self, gather: Callable[[Writer, Pending, View], Result]) -> Result:
        """Call `gather` with a view of the committed state, to fill a change, and return what it returns. The
        change is the one of the open transaction; where none is open, a new one, which is durable at the
        return. Raises TransactionOpenError for another task or thread while one is open. Where `gather`
        raises, nothing is committed, but what it put into an open transaction stays there."""
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
        """Make a change as `change`, with its answer noted under the id `call`, and return the answer.
        `gather` is given the answer from before, or ``None``; where it returns just that, it must not have
        changed anything. Raises TransactionOpenError inside a transaction."""
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
        """Gather the changes of the block and commit them together at its end; after an exception none is
        stored. Raises TransactionOpenError where one is open already; see `Index.transaction`."""
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
        """Hold the lock and give the writer, for many commits of a call's own. Raises TransactionOpenError
        where a transaction is open."""
        with self._locked() as writer:
            self.require_committed(call)
            yield writer

    def _prepared(self, writer: Writer, pending: Pending, *, merging: bool = True) -> Prepared:
        with self.store.reading() as txn:
            return writer.prepare(pending, self.reader.committed_view(txn), merging=merging)

    def commit(self, writer: Writer, prepared: Prepared, pending: Pending | None = None) -> None:
        """Make a prepared change durable; `pending` is what it was prepared from, if anything. On a full
        disk, one that only removes is prepared again, without merging."""
        try:
            writer.commit(prepared)
        except IndexFullError:
            if pending is None or pending.num_live or pending.touched:
                raise
            # A removal is let through on a full disk; merging can wait.
            writer.read_again_if_unsure()
            prepared = self._prepared(writer, pending, merging=False)
            writer.commit(prepared)
        counts = self.counts
        counts.commits += 1
        counts.written_bytes += prepared.num_bytes
        if pending is not None:
            counts.inserted += pending.num_live
            counts.removed += len(pending.removed)
        manifest, number = prepared.merged.manifest, self.store.last_commit
        own = prepared.encoded_manifest, manifest, number, prepared.newest, prepared.before
        self.reader.expected = Expected(*own)

    def close(self) -> None:
        """Roll back an open transaction, another task's, too, which learns of it; and close the store. Raises
        TransactionOpenError in a thread that was started inside the block. Closing twice is allowed."""
        if self._open is not None and self._open.is_inherited:
            raise self._not_its_own()
        if not self.store.writable:
            self.store.close()  # no lock: a forked child may have inherited it locked
            self.reader.forget()
            return
        with self._lock:
            # The store first: interrupted anywhere, the handle is open, or says that it is closed.
            try:
                self.store.close()
            finally:
                self._open = self.reader.open_changes = None
                self._writer = None
                self.reader.forget()
