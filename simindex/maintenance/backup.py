"""Backup of an index to a folder or to an object store: one engine, two targets.

Segments are copied first, a step at a time, then what is small on one snapshot, then the target takes the new
state at once. Nothing in the index is changed. Invariants: every value that is written fits its seal; the
target names nothing new before its last step; between two steps nothing of the index is held, and only the
last part, whose length the report has, pins a snapshot.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from simindex.checks import require_callable
from simindex.errors import BackupTargetError
from simindex.events import event
from simindex.format.layout import SegmentEntry
from simindex.format.meta import CONFIG_KEY, Manifest, decode_manifest
from simindex.maintenance.backup_folder import FolderTarget, open_folder
from simindex.maintenance.backup_parts import (
    SMALL,
    Counter,
    Step,
    segment_parts,
)
from simindex.maintenance.backup_store import StoreTarget
from simindex.maintenance.object_store import open_store
from simindex.maintenance.reports import BackupReport
from simindex.maintenance.stored_segment import Piece, StoredSegment, checked_value, pieces_of
from simindex.queries.scheme import Scheme
from simindex.queries.view import stored_manifest
from simindex.remote import is_remote
from simindex.storage.environment import ReadTransaction
from simindex.storage.folder import DEFAULT_PERMISSIONS, permissions_of
from simindex.storage.store import Store

_ROUNDS = 4
"""So often it is looked for segments that came meanwhile, before a snapshot is pinned for the rest."""


def backup(
    source: Store, scheme: Scheme, path: str | os.PathLike[str], progress: Callable[[int, int], object] | None
) -> BackupReport:
    """Copy the newest committed state to a folder or a store; see `Index.backup`."""
    require_callable("progress", progress)
    started = time.monotonic()
    source.require_in_place()
    with source.reading() as txn:
        header = bytes(txn.get("meta", CONFIG_KEY) or b"")
    counter = Counter(progress)
    target: Target
    if is_remote(os.fspath(path)):
        permissions = permissions_of(Path(source.path), None) or DEFAULT_PERMISSIONS
        with closing(
            StoreTarget(open_store(path, permissions), source, scheme, counter, permissions)
        ) as target:
            copied = _Copying(source, scheme, target, counter).run()
            target.publish()
        copied["reused_bytes"] = target.reused_bytes
    else:
        with open_folder(path, source, scheme, header, counter) as target:
            copied = _Copying(source, scheme, target, counter).run()
    counter.end()
    seconds = time.monotonic() - started
    event("backup done", source.path, target=target.name, copied_bytes=target.copied_bytes, seconds=seconds)
    return BackupReport(
        path=target.name, created=target.is_new, copied_bytes=target.copied_bytes, seconds=seconds, **copied
    )


Target = FolderTarget | StoreTarget
"""Where the engine puts what it copies."""


class _GoneError(Exception):
    """A segment is there no more: a merge has replaced it."""


class _Copying:
    """One backup under way."""

    def __init__(self, source: Store, scheme: Scheme, target: Target, counter: Counter) -> None:
        self._source, self._tables, self._target, self._counter = source, scheme.tables, target, counter
        self._copied = set[int]()
        self._reused: dict[int, int] = {}  # id of a segment -> its bytes

    def run(self) -> dict[str, Any]:
        """Copy everything to the target, and call its `finish`. Returns the counts, and seconds pinned, of
        `BackupReport` as a dict; a store corrects the reused bytes."""
        self._begin()
        self._copy_ahead()
        pinned = time.monotonic()
        with self._source.reading(buffers=False) as txn:
            stored = bytes(stored_manifest(txn))
            manifest = decode_manifest(stored)
            for entry in self._missing(manifest):
                self._copy(entry, txn)
            self._target.finish(txn, stored, manifest)
        return {
            "documents": manifest.num_documents,
            "copied_segments": len(manifest.segments) - len(self._reused),
            "reused_segments": len(self._reused),
            "reused_bytes": sum(self._reused.values()),
            "pinned_seconds": time.monotonic() - pinned,
        }

    def _begin(self) -> None:
        """Note which segments the target has already, and count the bytes of the rest, and of the small
        databases, as the total.

        Raises BackupTargetError where it is of a newer state than the index, or has another segment under an
        id, and IndexFullError where a folder has no room.
        """
        target = self._target
        held = {entry.id for entry in target.manifest.segments}
        with self._source.reading() as txn:
            manifest = decode_manifest(stored_manifest(txn))
            theirs = target.manifest
            if theirs.next_doc_id > manifest.next_doc_id or theirs.next_segment > manifest.next_segment:
                raise BackupTargetError(
                    f"{target.name}: expected an older backup of {self._source.path}, found a newer one "
                    f"(documents up to doc id {theirs.next_doc_id} there, {manifest.next_doc_id} here); "
                    "choose another place"
                )
            for entry in manifest.segments:
                if entry.id in held:
                    stored = StoredSegment(self._tables, entry, partial(txn.get, "segments"))
                    if target.reuses(entry, stored.digest()):
                        self._reused[entry.id] = sum(piece.num_bytes for piece in stored.pieces)
            small = sum(size for name, size in txn.sizes().items() if name in SMALL)
        coming = (pieces_of(self._tables, entry) for entry in self._missing(manifest))
        missing = sum(piece.num_bytes for pieces in coming for piece in pieces)
        self._counter.total = missing + small
        target.prepare(missing, small)

    def _copy_ahead(self) -> None:
        """Copy the segments that are missing, without a snapshot from one step to the next. Merges can
        replace some meanwhile: after four rounds what is still missing is left to `run`."""
        for _ in range(_ROUNDS):
            with self._source.reading() as txn:
                manifest = decode_manifest(stored_manifest(txn))
            # A merge may replace some meanwhile, so it is looked again.
            if all(self._copy(entry) for entry in self._missing(manifest)):
                return

    def _missing(self, manifest: Manifest) -> list[SegmentEntry]:
        """Return the segments of a manifest that are neither copied yet nor reused from the older backup.
        Forgets copied and reused ones that are no more in it, and drops the copied from the target."""
        live = {entry.id for entry in manifest.segments}
        for segment in self._copied - live:
            self._target.drop(segment)
        self._copied &= live
        self._reused = {segment: size for segment, size in self._reused.items() if segment in live}
        return [e for e in manifest.segments if e.id not in self._copied and e.id not in self._reused]

    def _copy(self, entry: SegmentEntry, pinned: ReadTransaction | None = None) -> bool:
        """Copy a segment, a step at a time, and return True; where a merge has replaced it meanwhile, drop
        what was copied and return False."""
        try:
            self._target.take(entry, self._steps(entry, pinned))
        except _GoneError:
            self._target.drop(entry.id)
            return False
        self._copied.add(entry.id)
        return True

    def _steps(self, entry: SegmentEntry, pinned: ReadTransaction | None) -> Iterator[Step]:
        """Yield (pieces, their checked values) of a segment, some at a time, each read by a transaction of
        its own if none is pinned."""
        for pieces in segment_parts(pieces_of(self._tables, entry)):
            if pinned is not None:
                values = self._values(entry, pieces, pinned)
            else:
                with self._source.reading() as txn:
                    txn.read_ahead("segments", (piece.key for piece in pieces))
                    values = self._values(entry, pieces, txn)
            yield pieces, values

    def _values(self, entry: SegmentEntry, pieces: list[Piece], txn: ReadTransaction) -> list[bytes]:
        """Return copies of values that fit their seals. Raises _GoneError where the segment is in the
        manifest no more, CorruptIndexError where a value is damaged or missing."""
        values = []
        for piece in pieces:
            value = txn.get("segments", piece.key)
            if value is None and entry not in decode_manifest(stored_manifest(txn)).segments:
                raise _GoneError
            values.append(checked_value(entry, piece, value))
        return values
