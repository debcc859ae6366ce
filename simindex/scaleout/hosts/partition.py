"""A partition: an index, with the calls that its host needs and people do not.

Owns searches by sketches that were made elsewhere, and changes of documents that were. Must not know of other
partitions.
"""

from __future__ import annotations

from simindex.changes.documents import NewDocuments
from simindex.index.index import Conflict, Index
from simindex.queries.matches import Matches
from simindex.queries.search import Query
from simindex.sketching.sketch import SketchBatch


class Partition(Index):
    """An open partition. Safe to share between threads, as an index is."""

    def answers(self, query: Query, batch: SketchBatch) -> list[Matches]:
        """Return the matches of each sketch, in order, on one snapshot."""
        with self._store.reading() as txn:
            view = self._session.view(txn)
            return query.matches(view, query.find(view, batch))

    def add(self, documents: NewDocuments, on_conflict: Conflict) -> tuple[int, int, int]:
        """Store documents that are sketched already, in one durable commit; (inserted, replaced, skipped)."""
        return self._session.change(
            lambda writer, pending, view: writer.insert(pending, documents, on_conflict, view)
        )
