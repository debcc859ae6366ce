"""Compaction: one segment in place of many, then a file without free pages.

Owns the loop of small commits, and how much space they need. Must not know how a merge or a copy is made.
"""

from __future__ import annotations

from collections.abc import Callable

from simindex.changes.session import Session
from simindex.changes.writer import Writer
from simindex.storage.replacement import replace_by_copy

_MARGIN_BYTES = 1 << 17
"""For what no estimate sees: meta pages, the pages that a commit touches on its way."""


def compact(session: Session, progress: Callable[[int, int], object] | None) -> None:
    """Merge everything into one segment and give the space back; see `Index.compact`."""
    with session.alone("compact") as writer:
        with session.store.room_for_compaction(*_needed_bytes(session)):
            total = _merge(session, writer, progress)
            replace_by_copy(session.store)
        if progress is not None:
            progress(total, total)


def _merge(session: Session, writer: Writer, progress: Callable[[int, int], object] | None) -> int:
    """Merge everything into one segment; returns the bytes that were read for it."""
    total = done = 0
    while True:
        with session.store.reading() as txn:
            view = session.committed_view(txn)
            if not writer.is_compacting:
                more = writer.begin_compaction(view, again=total > 0)
                if not more:
                    return total
                total += more
            prepared = writer.continue_compaction(view)
        session.commit(writer, prepared)
        done = min(total, done + prepared.merged.num_bytes)
        if progress is not None:
            progress(done, total)


def _needed_bytes(session: Session) -> tuple[int, int]:
    """Return the bytes by which the file will grow, and those of its copy, as far as counts tell.

    The new segment lies beside the old ones until it is whole, in free pages as far as there are any: half of
    them are counted, for a chunk needs hundreds in a row. What was removed is left out of it, by the share of
    documents that are alive.
    """
    with session.store.reading() as txn:
        manifest = session.committed_view(txn).manifest
        figures = session.store.figures(txn)
    segments, used = figures["segments"], figures["used_bytes"]
    entered = sum(entry.num_keys for entry in manifest.segments)
    if len(manifest.segments) <= 1 and entered == manifest.num_documents:
        return 0, used + _MARGIN_BYTES
    counts = map(sum, zip(*(entry[3:8] for entry in manifest.segments), strict=True))
    merged = session.scheme.tables.paged_bytes(list(counts), manifest.num_documents / max(entered, 1))
    free = figures["file_bytes"] - used
    return max(0, merged - free // 2), used - segments + merged + _MARGIN_BYTES
