"""Walking all documents in order of number, a part at a time.

Owns the check that none is missing: pages of LMDB have no seals, and one that is lost takes its documents
along without a trace. Must not begin transactions. Invariant: a walk ends, for it meets no number that was
given since it began; where nothing was changed meanwhile it met as many documents as there are, or it raises.
"""

from __future__ import annotations

from collections.abc import Mapping

from simindex.errors import CorruptIndexError, SimIndexError
from simindex.format.records import StoredRecord
from simindex.queries.view import View


class Walk:
    """A walk over all documents; each part may be taken from a later state than the one before."""

    def __init__(self) -> None:
        self._first = 0
        self._behind: int | None = None
        """The number after the last one of the state that it began in."""
        self._count = 0
        self._seen: tuple[int, int, int] | None = None
        self._pending: Mapping[bytes, int] | None = None
        self._is_same = True
        self._snapshot: object = None

    def require_snapshot(self, snapshot: object) -> None:
        """Take note of the pinned snapshot that the next part is taken from.

        Raises:
            SimIndexError: the parts before were taken from another one.
        """
        if self._snapshot is not None and snapshot is not self._snapshot:
            raise SimIndexError(
                "iteration: expected the pinned snapshot that it began in, found a newer one; it ended by "
                "refresh(), by a fork, or because another handle of this process has moved the map or "
                "changed over to a compacted file; begin again"
            )
        self._snapshot = snapshot

    def part(self, view: View, limit: int) -> list[tuple[int, StoredRecord]]:
        """Return up to `limit` live documents behind those of the parts before; none at the end.

        Raises:
            CorruptIndexError: documents are missing, or out of order.
        """
        self._compare(view)
        if self._behind is None:
            self._behind = max([view.manifest.next_number - 1, *view.pending.by_key.values()]) + 1
        found = view.numbers_from(self._first, limit, self._behind)
        self._count += len(found)
        if found:
            self._first = found[-1][0] + 1
        if len(found) < limit and self._is_same and self._count != view.num_documents:
            raise CorruptIndexError(
                f"documents: expected {view.num_documents} of them, found {self._count}; "
                "restore a backup or rebuild the index"
            )
        return found

    def _compare(self, view: View) -> None:
        """Take note whether the documents are those that the parts before were taken from.

        Numbers are never given twice, so committed documents are the same where both figures are. Those of
        an open transaction are known by the dictionary that it keeps for its length.
        """
        manifest, pending = view.manifest, view.pending
        seen = manifest.next_number, manifest.num_documents, len(pending.gone) + len(pending.by_key)
        if self._seen is not None and (seen != self._seen or pending.by_key is not self._pending):
            self._is_same = False
        self._seen, self._pending = seen, pending.by_key
