"""What a backup tells when it is done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BackupReport:
    """What `Index.backup` did.

    Attributes:
        path: the folder of the backup.
        created: whether it was made anew; False where an older backup was brought up to date.
        documents: stored documents, of the state that was backed up.
        copied_segments, reused_segments: which were copied now, and which the older backup had.
        copied_bytes, reused_bytes: of these segments, and of records and other entries that were written.
        seconds: from the call to the end.
        pinned_seconds: of these, how long one snapshot of the index was held, so that the space of what was
            removed meanwhile could not be used again.
    """

    path: str
    created: bool
    documents: int
    copied_segments: int
    reused_segments: int
    copied_bytes: int
    reused_bytes: int
    seconds: float
    pinned_seconds: float
