"""The recent changes: records and removal marks that the manifest holds until a page full of them is written.

LMDB writes a page whole, and beside the old one. A single insert or removal would write a page of `documents`
or `removed`, with the branches above, for each doc id; the manifest is written by every commit anyway.

Invariant: the records are of later documents than those in `documents`, and each mark is of a document whose
record is stored, there or here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from simindex.format.keys import doc_id_key
from simindex.format.records import STORED_FLAGS


class Recent(NamedTuple):
    """Recent changes: doc id -> sealed record, ascending, and doc id -> REMOVED flags; not to be changed."""

    records: Mapping[int, bytes] = {}
    marks: Mapping[int, int] = {}

    def live_records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield (database key, record) of those recent records that are not marked removed, by ascending doc
        id."""
        return ((doc_id_key(n), record) for n, record in self.records.items() if n not in self.marks)


NO_CHANGES = Recent()


def recent_of(fields: Any, next_doc_id: int) -> Recent | None:
    """Return recent changes from their unpacked form in the manifest; ``None`` for what no writer stores."""
    try:
        records, marks = fields
        doc_ids = [*records]
        is_valid = doc_ids == sorted(doc_ids) and {*marks.values()} <= {*STORED_FLAGS}
        is_valid &= all(type(n) is int and 0 <= n < next_doc_id for n in (*doc_ids, *marks))
        is_valid &= all(type(record) is bytes for record in records.values())
    except (TypeError, ValueError, AttributeError):
        return None
    return Recent(records, marks) if is_valid else None
