"""Expiry: documents inserted before a time go, oldest first.

Owns the loop over batches. Must not know how a document is removed.
"""

from __future__ import annotations

from datetime import datetime

from simindex.changes.session import Session
from simindex.queries.walk import Walk


def expire(session: Session, before: datetime, batch_size: int) -> int:
    """Remove the documents inserted before a time; returns how many; see `Index.expire`."""
    limit = int(before.timestamp() * 1e6)
    removed = 0
    while True:
        with session.changing() as (_, pending):
            with session.store.reading() as txn:
                found = Walk().part(session.view(txn), batch_size)
            old = [(number, record) for number, record in found if record.inserted_at < limit]
            for number, record in old:
                pending.remove_number(number, record)
        removed += len(old)
        if len(old) < batch_size:
            return removed
