"""Many documents: batch by batch, each durable before anybody is told of it.

Owns the loop, and when a caller is called. Must not know how a batch is settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from simindex.changes.documents import NewDocuments
from simindex.changes.if_new import asked_if_new, numbers_of
from simindex.changes.if_new_batch import Batch, Decisions
from simindex.changes.ingest import InsertReport
from simindex.changes.session import Session
from simindex.format.keys import Key
from simindex.queries.matches import Matches
from simindex.queries.search import BandQuery, FingerprintQuery, require_comparable

OnMatch = Callable[[Key, Matches], object]


def insert_many_if_new(
    session: Session,
    query: BandQuery | FingerprintQuery,
    batches: Iterable[NewDocuments],
    on_conflict: str,
    touch: bool,
    on_match: OnMatch | None,
    progress: Callable[[int], object] | None,
) -> InsertReport:
    """Store the documents of batches that nothing is like; see `Index.insert_many_if_new`.

    Args:
    """
    if on_match is None and not touch:
        query = query._replace(limit=1)  # that there is one is enough
    inserted = replaced = skipped = 0
    for documents in batches:
        decisions = insert_batch_if_new(session, query, documents, on_conflict, touch)
        inserted += decisions.inserted
        replaced += decisions.replaced
        skipped += decisions.skipped
        if progress is not None:
            progress(inserted + replaced + skipped)
        if on_match is not None:
            for place, matches in decisions.matched:
                on_match(documents.keys[place], matches)
    return InsertReport(inserted, replaced, skipped)


def insert_batch_if_new(
    session: Session,
    query: BandQuery | FingerprintQuery,
    documents: NewDocuments,
    on_conflict: str = "error",
    touch: bool = False,
) -> Decisions:
    """Store the documents of one batch that nothing is like, and return what became of each."""
    with session.changing() as (_, pending), session.store.reading() as txn:
        view = session.view(txn)
        require_comparable(view, query.compares)
        pending.require_room(documents)
        decisions = Batch(view, pending, asked_if_new(query), documents, on_conflict).settled()
        if touch:
            pending.touch(numbers_of(view, decisions.keys_of_matches()))
        for key, older in decisions.removed.items():
            pending.remove(key, older)
        pending.add(documents, decisions.places)
        return decisions
