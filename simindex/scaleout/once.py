"""An index whose changes have ids: the same id again changes nothing, and gets the first answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from simindex.changes.documents import Conflict, NewDocuments
from simindex.changes.if_new import add_batch_if_new
from simindex.changes.pending import Pending
from simindex.changes.session import Writer
from simindex.format.seals import pack, unpack
from simindex.index import Index
from simindex.queries.matches import Answers, Match, Matches
from simindex.queries.search import BandQuery, FingerprintQuery, Query, require_comparable
from simindex.queries.view import View
from simindex.sketching.sketch import SketchBatch

_T = TypeVar("_T")

Done = tuple[list[int], list[tuple[int, Matches]]]
"""[inserted, replaced, skipped]; and the index of each document that was not stored, with its matches."""


class OnceIndex(Index):
    """An index with changes that may be repeated by their id, 16 bytes, among the last 65,536 of them."""

    def answers(self, query: Query, batch: SketchBatch) -> Answers:
        """Return the matches of each sketch, in order, on one snapshot. ArgumentValueError: MinHash rows are
        asked for, and the index has bare fingerprints alone."""
        with self._store.reading() as txn:
            view = self._reader.view(txn)
            require_comparable(view, query.compares)
            return Answers(query.matches(view, query.find(view, batch)))

    def _once(self, call: bytes, change: Callable[[Writer, Pending, View], _T]) -> _T:
        def changed(writer: Writer, pending: Pending, view: View, before: _T | None) -> _T:
            return change(writer, pending, view) if before is None else before

        return self._session.once(call, changed)

    def add_once(self, call: bytes, documents: NewDocuments, on_conflict: Conflict) -> Done:
        """Store documents that are sketched already, in one commit; returns their counts and no matches.
        Repeated with the same `call` it stores nothing, and returns the first answer."""
        counts = self._once(call, lambda writer, *state: list(writer.insert(*state, documents, on_conflict)))
        return counts, []

    def add_if_new_once(
        self,
        call: bytes,
        documents: NewDocuments,
        on_conflict: Conflict,
        query: BandQuery | FingerprintQuery,
        touch: bool,
        tells: bool,
    ) -> Done:
        """Store those documents that nothing is like, in one commit; repeated with the same `call` store
        nothing, and return the first answer. `tells`: return, and keep with the answer, the matches of the
        others. `touch`: as of `Index.insert_many_if_new`."""

        def add(_: Writer, pending: Pending, view: View) -> list[Any]:
            decided = add_batch_if_new(pending, view, query, documents, on_conflict, touch)
            matched = [[index, _packed(matches)] for index, matches in decided.matched] if tells else []
            return [[decided.inserted, decided.replaced, decided.skipped], matched]

        counts, matched = self._once(call, add)
        return counts, [(index, _unpacked(matches)) for index, matches in matched]

    def remove_once(self, call: bytes, encoded_keys: list[bytes]) -> Done:
        """Remove the documents of some keys, each given once, in one commit; those that were there count as
        replaced. Repeated with the same `call` it removes nothing, and returns the first answer."""
        removed = self._once(call, lambda writer, *state: writer.remove(*state, encoded_keys))
        return [0, removed, 0], []


def _packed(matches: Matches) -> list[Any]:
    """Return [rows, truncated, candidates] of the matches, msgpack values that `_unpacked` takes; the
    metadata of each is packed to bytes, for it may be nested as deeply as msgpack allows."""
    rows = [
        [match.key, match.similarity, match.distance, pack(match.metadata), match.exact, match.standard_error]
        for match in matches
    ]
    return [rows, matches.truncated, matches.candidates]


def _unpacked(packed: list[Any]) -> Matches:
    rows, *others = packed
    matches = [
        Match(key, similarity, distance, unpack(metadata), exact, error)
        for key, similarity, distance, metadata, exact, error in rows
    ]
    return Matches(matches, *others)
