"""Compaction: one segment in place of many, then a file without free pages.

Owns the loop of small commits. Must not know how a merge or a copy is made.
"""

from __future__ import annotations

from collections.abc import Callable

from simindex.changes.session import Session
from simindex.storage.replacement import replace_by_copy


def compact(session: Session, progress: Callable[[int, int], object] | None) -> None:
    """Merge everything into one segment and give the space back; see `Index.compact`."""
    with session.alone("compact") as writer:
        total = done = 0
        while True:
            with session.store.reading() as txn:
                view = session.committed_view(txn)
                if not writer.is_compacting:
                    more = writer.begin_compaction(view, again=total > 0)
                    if not more:
                        break
                    total += more
                prepared = writer.continue_compaction(view)
            session.commit(writer, prepared)
            done = min(total, done + prepared.merged.num_bytes)
            if progress is not None:
                progress(done, total)
        replace_by_copy(session.store)
        if progress is not None:
            progress(total, total)
