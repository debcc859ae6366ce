"""The copying of a backup: segments a step at a time, then what is small on one snapshot, then one commit.

Owns the order of the steps. Must not open the target, and changes nothing in the index. Invariants: every
value that is written fits its seal; the target names nothing new until the last commit; between two steps
nothing of the index is held, and only the last part, whose length the report tells, pins a snapshot.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from operator import itemgetter

from simindex.errors import BackupTargetError, CorruptIndexError, IndexFullError
from simindex.format.header import CONFIG_KEY
from simindex.format.keys import segment_prefix
from simindex.format.layout import SegmentEntry
from simindex.format.manifest import (
    BACKUP_KEY,
    MANIFEST_KEY,
    Manifest,
    decode_manifest,
    encode_backup_mark,
)
from simindex.format.replies import DONE_KEYS
from simindex.format.seals import unseal, unseal_many
from simindex.maintenance.backup_folder import Difference, Target, difference, open_target, require_older
from simindex.maintenance.reports import BackupReport
from simindex.queries.scheme import Scheme
from simindex.queries.snapshot import stored_manifest
from simindex.segments.portable import Piece, checked_value, pieces_of, sealed_segment
from simindex.storage.store import Store
from simindex.storage.transactions import ReadTransaction, WriteTransaction

_STEP_BYTES = 32 << 20
"""Of segments: copied between two commits of the target, and held in memory meanwhile."""

_ROUNDS = 4
"""So often it is looked for segments that came meanwhile, before a snapshot is pinned for the rest."""

_SMALL = "documents", "removed", "groups", "ages"

_MARGIN_BYTES = 1 << 20

Progress = Callable[[int, int], object]


def backup(
    source: Store, scheme: Scheme, path: str | os.PathLike[str], progress: Progress | None
) -> BackupReport:
    """Copy the newest committed state; see `Index.backup`."""
    started = time.monotonic()
    source.require_in_place()
    with source.reading() as txn:
        header = bytes(txn.get("meta", CONFIG_KEY) or b"")
    with open_target(path, source, scheme, header) as target:
        is_new = target.is_new
        copying = _Copying(source, scheme, target, progress)
        copying.begin()
        copying.copy_ahead()
        pinned = time.monotonic()
        manifest = copying.finish()
        pinned_seconds = time.monotonic() - pinned
        if target.is_new:
            target.put_in_place()
        return BackupReport(
            path=str(target.path),
            created=is_new,
            documents=manifest.num_documents,
            copied_segments=len(manifest.segments) - len(copying.reused),
            reused_segments=len(copying.reused),
            copied_bytes=copying.written,
            reused_bytes=sum(copying.bytes_of(entry) for entry in copying.reused),
            seconds=time.monotonic() - started,
            pinned_seconds=pinned_seconds,
        )


class _Copying:
    """The state of one backup.

    Attributes:
        reused: segments that the target had and keeps.
        written: bytes that were copied.
    """

    def __init__(self, source: Store, scheme: Scheme, target: Target, progress: Progress | None) -> None:
        self._source, self._target, self._tables = source, target, scheme.tables
        self._progress = progress
        self._copied: dict[int, SegmentEntry] = {}
        self._total = 0
        self.reused: list[SegmentEntry] = []
        self.written = 0

    def bytes_of(self, entry: SegmentEntry) -> int:
        """Return the bytes of a segment's values."""
        return sum(piece.num_bytes for piece in pieces_of(self._tables, entry))

    def begin(self) -> None:
        """Find what the target has already, and whether the disk has room for the rest.

        Raises:
            BackupTargetError: the target is of another or of a later state than the index ever had.
            IndexFullError: no room, with `needed_bytes`.
        """
        target = self._target
        with self._source.reading() as txn:
            manifest = decode_manifest(stored_manifest(txn))
            require_older(target, self._source, manifest)
            held = {entry.id: entry for entry in target.manifest.segments}
            with target.store.reading() as there:
                for entry in manifest.segments:
                    if entry.id in held and not self._is_same(entry, held[entry.id], txn, there):
                        raise BackupTargetError(
                            f"{target.path}: expected segment {entry.id} as the index has it, found another "
                            "one: the backup is damaged (simindex check), or the index was restored from an "
                            "older one and went on otherwise; choose another path"
                        )
            sizes = txn.sizes()
        missing = sum(self.bytes_of(entry) for entry in manifest.segments if entry.id not in held)
        small = sum(sizes[name] for name in _SMALL)
        self._total = missing + small
        needed = missing + (small if target.is_new else 0) + _MARGIN_BYTES
        disk = os.statvfs(target.store.path)
        if needed > disk.f_bavail * disk.f_frsize:
            raise IndexFullError(
                f"{target.path}: expected {needed} bytes of free disk for the backup, found "
                f"{disk.f_bavail * disk.f_frsize}; nothing was changed. Free some space",
                needed_bytes=needed,
            )

    def _is_same(
        self, entry: SegmentEntry, there: SegmentEntry, txn: ReadTransaction, target: ReadTransaction
    ) -> bool:
        """Whether both have the same segment; only seals are read."""
        return entry == there and (
            sealed_segment(self._tables, entry, lambda key: txn.get("segments", key))
            == sealed_segment(self._tables, entry, lambda key: target.get("segments", key))
        )

    # ---- segments ----

    def copy_ahead(self) -> None:
        """Copy the segments that are missing, without holding anything of the index between two steps.

        A merge may replace some meanwhile, so it is looked again; what is left is small, or `finish` pins it.
        """
        for _ in range(_ROUNDS):
            with self._source.reading() as txn:
                manifest = decode_manifest(stored_manifest(txn))
            self._forget_replaced(manifest)
            missing = self._missing(manifest)
            if sum(map(self.bytes_of, missing)) <= _STEP_BYTES:
                return
            for entry in missing:
                if not self._copy(entry):
                    break

    def _missing(self, manifest: Manifest) -> list[SegmentEntry]:
        held = {entry.id for entry in self._target.manifest.segments}
        return [entry for entry in manifest.segments if entry.id not in held and entry.id not in self._copied]

    def _forget_replaced(self, manifest: Manifest) -> None:
        """Remove copies of segments that the index has no more."""
        live = {entry.id for entry in manifest.segments}
        for segment in self._copied.keys() - live:
            self._remove(segment)

    def _remove(self, segment: int) -> None:
        self._target.store.commit(lambda txn: txn.delete_prefix("segments", segment_prefix(segment)), True)
        self._copied.pop(segment, None)

    def _copy(self, entry: SegmentEntry) -> bool:
        """Copy a segment, a step and a commit at a time; False where a merge has replaced it."""
        pieces = iter(pieces_of(self._tables, entry))
        while step := _next_step(pieces):
            with self._source.reading() as txn:
                txn.read_ahead("segments", (piece.key for piece in step))
                values = self._values(entry, step, txn)
            if values is None:
                self._remove(entry.id)
                return False
            self._store_values(values)
        self._copied[entry.id] = entry
        return True

    def _values(
        self, entry: SegmentEntry, step: list[Piece], txn: ReadTransaction
    ) -> list[tuple[bytes, bytes]] | None:
        """Return checked copies of values; ``None`` where the segment is there no more."""
        values = []
        for piece in step:
            value = txn.get("segments", piece.key)
            if value is None and entry not in decode_manifest(stored_manifest(txn)).segments:
                return None
            values.append((piece.key, checked_value(entry, piece, value)))
        return values

    def _store_values(self, values: list[tuple[bytes, bytes]]) -> None:
        """Store values of segments in the target, and compare what is stored."""

        def change(txn: WriteTransaction) -> None:
            for key, value in values:
                txn.put("segments", key, value)

        self._target.store.commit(change)
        with self._target.store.reading() as txn:
            for key, value in values:
                if bytes(txn.get("segments", key) or b"") != value:
                    raise CorruptIndexError(
                        f"{self._target.path}: expected what was just written under {key.hex()}, found "
                        "something else; look at the disk",
                        key=key,
                    )
        self._advance(sum(len(value) for _, value in values))

    def _advance(self, num_bytes: int) -> None:
        self.written += num_bytes
        self._total = max(self._total, self.written)
        if self._progress is not None:
            self._progress(self.written, self._total)

    # ---- the rest, on one snapshot ----

    def finish(self) -> Manifest:
        """Copy what is left on one snapshot, and make the target its backup; returns its manifest.

        Raises:
            CorruptIndexError: an entry fails its seal, or the backup does not equal the snapshot.
        """
        store = self._target.store
        with self._source.reading(buffers=False) as txn:
            stored = stored_manifest(txn)
            manifest = decode_manifest(stored)
            self._forget_replaced(manifest)
            for entry in self._missing(manifest):
                pieces = iter(pieces_of(self._tables, entry))
                while step := _next_step(pieces):
                    self._store_values(self._values(entry, step, txn) or [])
                self._copied[entry.id] = entry
            live = {entry.id for entry in manifest.segments}
            self.reused = [entry for entry in self._target.manifest.segments if entry.id in live]
            gone = sorted({entry.id for entry in self._target.manifest.segments} - live)
            with store.reading(buffers=False) as there:
                differences = _differences(txn, there)
            if self._target.is_new:
                for name in _SMALL:
                    self._append(txn, name, differences.pop(name).tail)

            notes = [(key, value) for key in sorted(DONE_KEYS) if (value := txn.get("meta", key)) is not None]

            def change(writing: WriteTransaction) -> int:
                written = 0
                for key, value in notes:
                    writing.put("meta", key, bytes(value))
                for segment in gone:
                    writing.delete_prefix("segments", segment_prefix(segment))
                for name, found in differences.items():
                    written += _apply(txn, writing, name, found)
                writing.put("meta", MANIFEST_KEY, stored)
                writing.put("meta", BACKUP_KEY, encode_backup_mark(stored))
                return written

            self.written += store.commit(change)
            self._require_equal(txn, manifest)
        if self._progress is not None:
            self._progress(self._total, self._total)
        return manifest

    def _append(self, txn: ReadTransaction, name: str, first: bytes | None) -> None:
        """Copy a database into a new target, in commits that nobody sees."""
        if first is None:
            return
        for batch in _checked_batches(name, txn.parts(name, first)):
            self._target.store.commit(lambda writing, batch=batch: writing.append(name, batch))  # type: ignore[misc]
            self._advance(sum(len(value) for _, value in batch))

    def _require_equal(self, txn: ReadTransaction, manifest: Manifest) -> None:
        with self._target.store.reading(buffers=False) as there:
            different = [name for name, found in _differences(txn, there).items() if found]
            count = there.count("documents")
        if different or count != manifest.num_documents:
            raise CorruptIndexError(
                f"{self._target.path}: expected a backup of {manifest.num_documents} documents that equals "
                f"its index, found {count}, and differences in {', '.join(different) or 'nothing'}; "
                "the index has lost pages, or the disk did not keep what was written"
            )


def _next_step(pieces: Iterator[Piece]) -> list[Piece]:
    """Return the next pieces, up to a step's bytes and one at least; none at the end."""
    step: list[Piece] = []
    size = 0
    for piece in pieces:
        step.append(piece)
        size += piece.num_bytes
        if size >= _STEP_BYTES:
            break
    return step


def _differences(txn: ReadTransaction, there: ReadTransaction) -> dict[str, Difference]:
    return {name: difference(name, txn.parts(name), there.parts(name)) for name in _SMALL}


def _checked_batches(
    name: str, parts: Iterator[list[tuple[bytes, bytes]]]
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield entries that fit their seals, about a step's bytes at a time. Raises CorruptIndexError."""
    batch, size = list[tuple[bytes, bytes]](), 0
    for part in parts:
        unseal_many(name, part, f"{name}, entry")
        batch += part
        size += sum(map(len, map(itemgetter(1), part)))
        if size >= _STEP_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _checked(name: str, key: bytes, value: memoryview | None) -> bytes:
    """Return a copy of an entry that fits its seal. Raises CorruptIndexError."""
    if value is None:
        raise CorruptIndexError(f"{name}: expected an entry under {key.hex()}, found nothing", key=key)
    copy = bytes(value)
    unseal(name, key, copy, f"{name}, entry {key.hex():.80}")
    return copy


def _apply(txn: ReadTransaction, writing: WriteTransaction, name: str, found: Difference) -> int:
    """Make a database of the target equal to that of the index; returns the bytes that were written."""
    written = 0
    for key in found.removed:
        writing.delete(name, key)
    for key in found.changed:
        value = _checked(name, key, txn.get(name, key))
        writing.put(name, key, value)
        written += len(value)
    if found.tail is not None:
        for batch in _checked_batches(name, txn.parts(name, found.tail)):
            writing.append(name, batch)
            written += sum(len(value) for _, value in batch)
    return written
