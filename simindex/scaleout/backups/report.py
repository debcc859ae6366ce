"""What a backup to a store, and a restoring from it, tell when they are done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoreBackupReport:
    """What `backup_index` did.

    Attributes:
        uri: of the backup.
        created: whether there was none before.
        documents: stored documents, of the state that was backed up.
        made_at: when, in microseconds since 1970-01-01 UTC.
        copied_segments, reused_segments: which were uploaded now, and which the store had.
        copied_bytes: that were uploaded, records and other entries included.
        reused_bytes: that the store had already.
        removed_objects: that the new backup does not need, and batches of the journal that are part of it.
        seconds: from the call to the end.
        pinned_seconds: of these, how long one snapshot of the index was held, so that the space of what was
            removed meanwhile could not be used again.
    """

    uri: str
    created: bool
    documents: int
    made_at: int
    copied_segments: int
    reused_segments: int
    copied_bytes: int
    reused_bytes: int
    removed_objects: int
    seconds: float
    pinned_seconds: float


@dataclass(frozen=True)
class RestoreReport:
    """What `restore_index` did.

    Attributes:
        uri: of the backup.
        path: the folder of the index.
        documents: that it holds now.
        num_bytes: that were read.
        batches: of the journal that were done again.
        last_batch: the number of the last one, or of the last one that the backup has.
        seconds: from the call to the end.
    """

    uri: str
    path: str
    documents: int
    num_bytes: int
    batches: int
    last_batch: int
    seconds: float
