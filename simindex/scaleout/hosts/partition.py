"""A partition: an index, with the calls that its host needs and people do not.

Owns searches by sketches that were made elsewhere, and changes of documents that were. Must not know of other
partitions.
"""

from __future__ import annotations

from simindex.changes.ages.expiry import expire_once
from simindex.changes.documents import NewDocuments
from simindex.changes.pending import Pending
from simindex.changes.writer import Writer
from simindex.format.keys import key_hashes
from simindex.index.index import Conflict, Index
from simindex.queries.matches import Matches
from simindex.queries.search import Query
from simindex.queries.view import View
from simindex.scaleout.backups import StoreBackupReport, backup_index
from simindex.scaleout.backups.journal import Journal
from simindex.sketching.sketch import SketchBatch

LEAVING = ".leaving"
"""Behind the name of a folder whose partition is moved: it is read, and not changed."""


class Partition(Index):
    """An open partition. Safe to share between threads, as an index is."""

    leaves = False
    """Whether it is on its way to another place, and its folder called otherwise meanwhile."""

    _journal: Journal | None = None

    def keep_journal(self, uri: str) -> None:
        """Put every commit from here on into the journal of a backup, too; see `Journal`."""
        self._journal = Journal(self._session, uri)

    @property
    def home(self) -> str:
        """Its folder, as the catalog has it."""
        return self.path.removesuffix(LEAVING) if self.leaves else self.path

    def settle(self) -> None:
        """Wait until all commits are as durable as was asked for; only then they may be acknowledged.

        Raises:
            StoreError: the store does not take one.
        """
        if self._journal is not None:
            self._journal.settle()

    def back_up(self, uri: str) -> StoreBackupReport:
        """Make a backup in a store, or bring it up to date."""
        return backup_index(self.path, uri) if self._journal is None else self._journal.backup()

    def close(self) -> None:
        """Close it, and its journal."""
        if self._journal is not None:
            self._journal.close()
        super().close()

    def answers(self, query: Query, batch: SketchBatch) -> list[Matches]:
        """Return the matches of each sketch, in order, on one snapshot."""
        with self._store.reading() as txn:
            view = self._session.view(txn)
            return query.matches(view, query.find(view, batch))

    # ---- changes that may be repeated: the same call again answers the same, and does nothing ----

    def add_once(self, call: bytes, documents: NewDocuments, on_conflict: Conflict) -> list[int]:
        """Store documents that are sketched already, in one commit; [inserted, replaced, skipped].

        Args:
            call: its id, 16 bytes; see `Session.once`.
        """
        return self._session.once(
            call,
            lambda writer, pending, view, before: (
                before or list(writer.insert(pending, documents, on_conflict, view))
            ),
        )

    def remove_once(self, call: bytes, encoded_keys: list[bytes]) -> int:
        """Remove the documents of some keys, each once, in one commit; returns how many there were."""

        def remove(_: Writer, pending: Pending, view: View, before: int | None) -> int:
            if before is not None:
                return before
            committed = view.find_keys(encoded_keys, key_hashes(encoded_keys))
            return sum(pending.remove(key, committed.get(at)) for at, key in enumerate(encoded_keys))

        return self._session.once(call, remove)

    def touch_once(self, call: bytes, encoded_keys: list[bytes]) -> int:
        """Renew the age of the documents of some keys, each once; returns how many there were."""

        def touch(_: Writer, pending: Pending, view: View, before: int | None) -> int:
            if before is not None:
                return before
            committed = view.find_keys(encoded_keys, key_hashes(encoded_keys))
            pending.touch(number for number, _ in committed.values())
            return len(committed)

        return self._session.once(call, touch)

    def expire_once(self, call: bytes, limit: int, batch_size: int) -> int:
        """Remove what was seen last before a time, in microseconds since 1970-01-01 UTC; see `expire`."""
        return expire_once(self._session, call, limit, batch_size)
