"""An index whose changes have ids: the same id again changes nothing, and gets the first answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from simindex.changes.documents import Conflict, NewDocuments
from simindex.changes.pending import Pending
from simindex.changes.session import Writer
from simindex.index import Index
from simindex.queries.view import View

_T = TypeVar("_T")


class OnceIndex(Index):
    """An index with changes that may be repeated by their id, 16 bytes, among the last 256 such changes."""

    def _once(self, call: bytes, change: Callable[[Writer, Pending, View], _T]) -> _T:
        def changed(writer: Writer, pending: Pending, view: View, before: _T | None) -> _T:
            return change(writer, pending, view) if before is None else before

        return self._session.once(call, changed)

    def add_once(self, call: bytes, documents: NewDocuments, on_conflict: Conflict) -> list[int]:
        """Store documents that are sketched already, in one commit; [inserted, replaced, skipped]."""
        return self._once(
            call, lambda writer, pending, view: list(writer.insert(pending, view, documents, on_conflict))
        )

    def remove_once(self, call: bytes, encoded_keys: list[bytes]) -> int:
        """Remove the documents of some keys, each given once, in one commit; returns how many there were."""
        return self._once(call, lambda writer, pending, view: writer.remove(pending, view, encoded_keys))
