"""A backup in an object store: sealed segments once each, and what changes in parts.

A backup is of one index. Parts are named by their content and never
changed; the manifest that names the parts is put last. So whatever is killed, the store holds the old backup
or the new one. Invariant: the manifest names parts that are durable only. One process at a time makes backups
in a place; where two do, the one that notices gives up and removes nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from simindex.errors import BackupTargetError, CorruptIndexError
from simindex.format.backup_objects import (
    Part,
    StoredBackup,
    StoredSegment,
    decode_backup,
    encode_backup,
    encode_entries,
    part_of,
)
from simindex.format.layout import SegmentEntry
from simindex.format.meta import (
    BACKUP_KEY,
    CONFIG_KEY,
    Manifest,
    decode_header,
    decode_manifest,
)
from simindex.maintenance.backup_parts import (
    SMALL,
    Counter,
    Step,
    checked,
    cut,
    require_whole,
    segment_parts,
)
from simindex.maintenance.object_store import MissingObjectError, Objects, StoreError
from simindex.maintenance.stored_segment import Digest, Piece
from simindex.queries.scheme import Scheme
from simindex.storage.environment import ReadTransaction
from simindex.storage.store import MOVED_KEY, Store

MANIFEST = "manifest"
"""The object of a backup's manifest."""

_MOST_MANIFEST_BYTES = 256 << 20
"""A thousand times that of a billion documents."""

PARTS = "parts"
"""The folder of the parts."""

_NOT_COPIED = {CONFIG_KEY, BACKUP_KEY, MOVED_KEY}
"""In the database "meta": what the manifest of a backup says itself, and what is of one file alone."""

_THREADS = 4

_AHEAD = 2 * _THREADS
"""Parts that are held in memory at most."""


class StoreTarget:
    """A `Target`: a backup in a store, whose parts are uploaded on threads. For one thread.

    Attributes:
        copied_bytes: of parts that were uploaded.
        reused_bytes: of parts that the store had.
    """

    def __init__(
        self,
        objects: Objects,
        source: Store,
        scheme: Scheme,
        counter: Counter,
        permissions: int,
    ) -> None:
        self._content = _manifest(objects)
        self._older = read_backup(objects, self._content)
        self.name, self.is_new, self.manifest = objects.uri, self._older is None, Manifest()
        if self._older is not None:
            if decode_header(self._older.header, objects.uri).identity != scheme.identity:
                raise BackupTargetError(
                    f"{objects.uri}: expected a backup of {source.path}, found one of another index; choose "
                    "another place"
                )
            self.manifest = decode_manifest(self._older.manifest)
        self.copied_bytes = self.reused_bytes = 0
        self._objects, self._permissions = objects, permissions
        self._progress = counter.advance
        self._there, self._given = objects.sizes(PARTS), set[str]()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="simindex-upload")
        self._under_way: deque[tuple[Future[None], int]] = deque()
        self._held = {one.id: one for one in self._older.segments} if self._older else {}
        self._segments = dict[int, StoredSegment]()
        self._backup: StoredBackup | None = None

    def close(self) -> None:
        """End the upload threads, after the uploads that were begun; errors of these are not raised."""
        self._pool.shutdown()

    def prepare(self, segment_bytes: int, other_bytes: int) -> None:
        """Take any number of bytes: a store says it when it is full."""

    def reuses(self, entry: SegmentEntry, digest: bytes) -> bool:
        """Return whether the older backup has the same segment and the store all of its parts, and if so name
        these in the new backup."""
        stored = self._held.get(entry.id)
        if stored is None or stored.digest != digest or entry not in self.manifest.segments:
            return False
        if any(self._there.get(part.name) != part.num_bytes for part in stored.parts):
            return False  # the store has lost a part: it is uploaded again
        self._given |= {part.name for part in stored.parts}
        self.reused_bytes += sum(part.num_bytes for part in stored.parts)
        self._segments[stored.id] = stored
        return True

    def take(self, entry: SegmentEntry, steps: Iterable[Step]) -> None:
        """Begin to upload a segment, a part for each step; parts that the store has are not sent again. Waits
        while too many are under way, and raises StoreError where an earlier one could not be written."""
        digest, parts = Digest(), list[Part]()
        for pieces, values in steps:
            digest.add(pieces, values)
            parts.append(self._upload(b"".join(values)))
        self._segments[entry.id] = StoredSegment(entry.id, digest.value(), tuple(parts))

    def drop(self, segment: int) -> None:
        """Take a segment out of the new backup; `publish` removes its parts from the store."""
        self._segments.pop(segment, None)

    def finish(self, txn: ReadTransaction, stored: bytes, manifest: Manifest) -> None:
        """Begin to upload the small databases, and prepare the manifest that `publish` stores. `stored`: the
        snapshot's manifest as it lies there. Raises CorruptIndexError where an entry fails its seal or
        entries are missing."""
        databases, counts = dict[str, tuple[Part, ...]](), dict.fromkeys(SMALL, 0)
        for name in SMALL:
            parts = list[Part]()
            for items in checked(name, cut(name, txn.parts(name))):
                parts.append(self._upload(encode_entries(items)))
                counts[name] += len(items)
            databases[name] = tuple(parts)
        require_whole(self.name, txn, manifest, counts.__getitem__)
        others = [(key, bytes(value)) for key, value in txn.items("meta") if key not in _NOT_COPIED]
        if others:
            databases["meta"] = (self._upload(encode_entries(others)),)
        self._backup = StoredBackup(
            header=bytes(txn.get("meta", CONFIG_KEY) or b""),
            manifest=stored,
            segments=tuple(
                self._segments[entry.id] for entry in sorted(manifest.segments, key=lambda e: e.id)
            ),
            databases=databases,
            permissions=self._permissions,
            made_at=time.time_ns() // 1000,
            documents=manifest.num_documents,
        )

    def publish(self) -> None:
        """Wait for the uploads, put the manifest, and then remove the parts that it does not name. Raises
        StoreError where an upload has failed, or another process has put a manifest meanwhile; then nothing
        is removed."""
        backup = self._backup
        assert backup is not None
        while self._under_way:
            self._settle()
        if _manifest(self._objects) != self._content:
            raise StoreError(
                self._objects.uri,
                "another process has made a backup there meanwhile, which stands; this one was given up. "
                "Let one at a time make them",
            )
        self._objects.put(MANIFEST, encode_backup(backup))
        named = {part.name for part in backup.parts()}
        gone = sorted((self._there.keys() | self._given) - named)
        self._objects.remove(f"{PARTS}/{name}" for name in gone)

    def _upload(self, content: bytes) -> Part:
        """Begin to upload a part, unless the store has it, and return its name and size; waits while too many
        are under way. Raises as `_settle`."""
        part = part_of(content)
        if self._there.get(part.name) == part.num_bytes or part.name in self._given:
            self.reused_bytes += part.num_bytes
            self._progress(part.num_bytes)
        else:
            while len(self._under_way) >= _AHEAD:
                self._settle()
            upload = self._pool.submit(self._objects.put, f"{PARTS}/{part.name}", content)
            self._under_way.append((upload, part.num_bytes))
        self._given.add(part.name)
        return part

    def _settle(self) -> None:
        """Wait for the oldest part that is under way, then count and report its bytes. Raises StoreError
        where it cannot be written."""
        future, num_bytes = self._under_way.popleft()
        future.result()
        self.copied_bytes += num_bytes
        self._progress(num_bytes)


def _manifest(objects: Objects) -> bytes | None:
    """Return the bytes of the manifest object in a store; ``None`` where there is none."""
    try:
        return objects.get(MANIFEST, _MOST_MANIFEST_BYTES)
    except MissingObjectError:
        return None


def read_manifest(objects: Objects) -> StoredBackup | None:
    """Return the manifest of the newest backup in a store; ``None`` where there is none. Raises FormatError
    and CorruptIndexError as `read_backup`."""
    return read_backup(objects, _manifest(objects))


def read_backup(objects: Objects, content: bytes | None) -> StoredBackup | None:
    """Decode the manifest of a backup in a store; ``None`` of ``None``. Raises FormatError where it is no
    manifest of this version, CorruptIndexError where it is damaged."""
    return None if content is None else decode_backup(content, objects.uri_of(MANIFEST))


def pieces_in(pieces: list[Piece], parts: tuple[Part, ...]) -> list[list[Piece]]:
    """Return the pieces of each part of a segment. Raises CorruptIndexError where parts of these sizes do not
    follow from the pieces."""
    steps = [*segment_parts(pieces)]
    if [sum(piece.num_bytes for piece in step) for step in steps] != [part.num_bytes for part in parts]:
        raise CorruptIndexError(f"a backup: expected a segment of {len(steps)} parts, found others")
    return steps
