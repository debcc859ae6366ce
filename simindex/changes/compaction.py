"""Compact an index: write a new data file with one segment and no free pages, and replace the old one by it.

Invariant: the old file is not changed before the new one is whole, and gives place only where the
index was not changed meanwhile.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from functools import partial

from simindex.changes.merges import runs_to_compact
from simindex.changes.session import Session, Writer
from simindex.errors import damaged
from simindex.events import event
from simindex.format.keys import doc_id_key, segment_prefix
from simindex.format.layout import SegmentEntry
from simindex.format.meta import MANIFEST_KEY, encode_manifest
from simindex.format.recent import NO_CHANGES
from simindex.format.records import encode_flags
from simindex.queries.view import View
from simindex.segments.merge import Merge
from simindex.storage.environment import ReadTransaction, WriteTransaction
from simindex.storage.lmdb_file import MAIN
from simindex.storage.replacement import NewFile, replace_file, some_values
from simindex.storage.store import MOVED_KEY

_MARGIN_BYTES = 1 << 17
"""For what no estimate sees: meta pages, the pages that a commit touches on its way."""

_STEP_BYTES = 8 << 20
"""Of merging, in one commit of the new file."""

_COPIED_DATABASES = "groups", "ages"

Progress = Callable[[int, int], object]


class _Changed(Exception):  # noqa: N818 # it is no error
    """The progress function has changed the index: what was built is of an older one."""


def compact(session: Session, progress: Progress | None) -> None:
    """Write the live documents to a new data file, in as few segments as can be, and replace the old file by
    it.

    Where `progress`, called with (bytes merged, bytes to merge), has changed the index, it begins anew.
    Raises TransactionOpenError inside a transaction; see `Index.compact`.
    """
    with session.alone("compact") as writer:
        done, started = 0, time.monotonic()
        session.store.require_in_place()
        before = os.stat(session.store.data).st_size
        while True:
            compaction = _Compaction(session, writer, progress, done)
            needed = compaction.needed_bytes()
            session.store.require_room(needed)
            is_placed = replace_file(session.store, compaction.build)
            done = compaction.done
            if is_placed:
                writer.take_over(compaction.manifest)
                if not compaction.leaves_more:
                    break
        event(
            "compacted",
            session.store.path,
            bytes_before=before,
            bytes_after=os.stat(session.store.data).st_size,
            seconds=time.monotonic() - started,
        )
        # What was written last has pushed them out of a small memory.
        with session.store.reading() as txn:
            session.reader.current(txn).directory.warm()
        if progress is not None:
            progress(compaction.total, compaction.total)


class _Compaction:
    """One new file, filled from one state of the index; `done` and `total` are bytes of merging."""

    def __init__(self, session: Session, writer: Writer, progress: Progress | None, done: int) -> None:
        writer.read_again_if_unsure()
        self._session, self._writer, self._progress = session, writer, progress
        self._tables = session.scheme.tables
        with session.store.reading() as txn:
            view = session.reader.committed_view(txn)
            self._begun, self._figures = txn.id, session.store.figures(txn)
            # Behind every id that may have been given to a merge under way.
            self._old = view.manifest._replace(next_segment=writer.manifest.next_segment)
            runs = runs_to_compact(list(view.manifest.segments), self._tables.max_span)
            # Of one segment of which nothing is removed there is nothing to be merged.
            self._runs = [(run, len(run) == 1 and not _removed_in(run, view)) for run in runs]
        self.manifest = self._old
        self._dropped: set[bytes] = set()
        """Keys of removal marks whose entries are gone."""
        self.done = done
        self.total = done + sum(self._bytes_of(run) for run, is_whole in self._runs if not is_whole)

    def _bytes_of(self, run: list[SegmentEntry]) -> int:
        return sum(map(self._tables.segment_bytes, run))

    @property
    def leaves_more(self) -> bool:
        """Whether compacting the new file again would leave fewer segments than this compaction did."""
        segments = list(self.manifest.segments)
        return len(runs_to_compact(segments, self._tables.max_span)) < len(segments)

    def needed_bytes(self) -> int:
        """Return about the bytes of the new file: of the segments as large a share as documents are alive, or
        all where none needs merging; and a margin."""
        segments, used = self._figures["segments"], self._figures["used_bytes"]
        if all(is_whole for _, is_whole in self._runs):
            return used + _MARGIN_BYTES
        entered = sum(entry.num_keys for entry in self._old.segments)
        alive = self._old.num_documents / max(entered, 1)
        return used - segments + self._tables.paged_bytes(self._old.segments, alive) + _MARGIN_BYTES

    def build(self, new: NewFile) -> bool:
        """Fill the new file, its manifest last, and set `manifest` to that; False where the progress function
        has changed the index, so that the file has no manifest."""
        segments: list[SegmentEntry] = []
        try:
            for run, is_whole in self._runs:
                if is_whole:
                    self._copy(new, "segments", segment_prefix(run[0].id), segment_prefix(run[0].id + 1))
                segments += run if is_whole else self._merged(new, run)
            self.manifest = self.manifest._replace(recent=NO_CHANGES, segments=tuple(segments))
            for database in _COPIED_DATABASES:
                self._copy(new, database)
            self._copy_documents(new)
            self._copy(new, "meta", without={MOVED_KEY})
            # The manifest makes the new file an index.
            manifest = encode_manifest(self.manifest)
            with self._reading():
                pass
            new.commit(lambda txn: txn.put(MAIN, MANIFEST_KEY, manifest))
        except _Changed:
            return False
        # From here on the writer does not know which file it will find.
        self._writer.expect_another_file()
        return True

    def _merged(self, new: NewFile, run: list[SegmentEntry]) -> list[SegmentEntry]:
        """Write neighbouring segments into the new file as one, without removed documents, calling the
        progress function between steps; return a list of its entry, or an empty list where no document is
        left. Raises _Changed where the index has changed since."""
        segment, end = self.manifest.next_segment, self.done + self._bytes_of(run)
        with self._reading() as txn:
            removed = _removed_in(run, self._session.reader.committed_view(txn))
        merge = Merge(self._tables, run, segment, removed)
        self._dropped.update(map(doc_id_key, merge.dead))
        self.manifest = self.manifest._replace(next_segment=segment + 1)
        while not merge.done:
            with self._reading() as txn:
                view = self._session.reader.committed_view(txn)
                puts, num_bytes = merge.advance(_STEP_BYTES, view.segment, view.directory.mapped)
            new.commit(lambda txn, puts=puts: [txn.put("segments", *put) for put in puts])  # type: ignore[misc]
            self.done = min(self.done + num_bytes, end)
            if self._progress is not None:  # between two transactions, for it may use the index
                self._progress(self.done, self.total)
        self.done = end
        return [merge.entry] if merge.entry.num_keys or merge.entry.num_sketches else []

    def _copy_documents(self, new: NewFile) -> None:
        """Copy records and the removal marks of documents that are left in segments; those that wait in the
        manifest go to their databases, too. Raises CorruptIndexError where there are not as many records as
        the manifest says, _Changed where the index has changed since."""
        recent = self._old.recent
        marks = {doc_id_key(n): encode_flags(n, flags) for n, flags in recent.marks.items()}
        found = self._copy(new, "documents", without=marks)
        records = [*recent.live_records()]
        found += len(records)
        if found != self._old.num_documents:
            raise damaged(f"documents: expected {self._old.num_documents} of them, found {found}")
        self._copy(new, "removed", without=self._dropped)
        kept = [item for item in marks.items() if item[0] not in self._dropped]
        if records:
            new.commit(lambda txn: txn.append("documents", records))
        if kept:
            new.commit(lambda txn: txn.put_all("removed", kept))

    def _copy(
        self,
        new: NewFile,
        database: str,
        first: bytes = b"",
        end: bytes | None = None,
        without: Container[bytes] = (),
    ) -> int:
        """Copy the entries of a database from the key `first` to the exclusive `end` (``None``: all that
        follow) to the new file, but those whose keys are in `without`; return how many were copied. In any
        database but "segments" their keys must follow all that the new file has there. Raises _Changed where
        the index has changed since."""
        count = 0
        following: bytes | None = first
        while following is not None:
            with self._reading(buffers=False) as txn:
                items, following = some_values(txn, database, following, end, without)
            if items and database == "segments":
                new.commit(partial(WriteTransaction.put_all, database=database, items=items))
            elif items:
                new.commit(partial(WriteTransaction.append, database=database, items=items))
            count += len(items)
        return count

    @contextmanager
    def _reading(self, *, buffers: bool = True) -> Iterator[ReadTransaction]:
        """Read the state that it began with, its values views of the map or, without `buffers`, bytes; where
        the index was changed since, raise _Changed."""
        with self._session.store.reading(buffers=buffers) as txn:
            if txn.id != self._begun:
                raise _Changed
            yield txn


def _removed_in(run: list[SegmentEntry], view: View) -> dict[int, int]:
    """Return doc id -> REMOVED flags, ascending, of the removed documents among those of neighbouring
    segments."""
    return view.removed_between(run[0].base, run[-1].base + run[-1].span)
