"""Small databases in parts that stay the same while what lies beside them changes.

Owns where a part ends: at every 65,536th number of a document (ages: about every hour), and before that where
it has so many bytes. The places do not depend on what comes before the last such number; so a change of one
document changes one part, and new documents make new parts at the end.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from simindex.checks import local_path, require_callable
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
from simindex.format.header import CONFIG_KEY, decode_header
from simindex.format.layout import SegmentEntry
from simindex.format.manifest import BACKUP_KEY, MANIFEST_KEY, Manifest, decode_manifest
from simindex.format.seals import unseal_many
from simindex.maintenance.reports import StoreBackupReport
from simindex.maintenance.stores import Objects, StoreError, open_store, prove
from simindex.queries.scheme import Scheme, scheme_of
from simindex.queries.snapshot import stored_manifest
from simindex.segments.portable import Digest, Piece, checked_value, pieces_of, sealed_segment
from simindex.storage.store import MOVED_KEY, Store
from simindex.storage.transactions import ReadTransaction

PART_BYTES = 16 << 20

_PREFIX_BYTES = {"documents": 6, "removed": 6, "groups": 6, "ages": 4, "meta": 0}
"""Leading bytes of a key that are equal in all of a part: of a number all but the last 16 bits, of a time in
microseconds all but the last 32."""

Items = list[tuple[bytes, bytes]]


def cut(database: str, parts: Iterator[Items]) -> Iterator[Items]:
    """Yield the entries of a database, which come in order of keys and some at a time, as parts."""
    length = _PREFIX_BYTES[database]
    part, size = Items(), 0
    for items in parts:
        for run in _runs(items, length):
            if part and part[0][0][:length] != run[0][0][:length]:
                yield part
                part, size = [], 0
            total = _bytes_of(run)
            if size + total < PART_BYTES:
                part += run
                size += total
                continue
            for item in run:
                part.append(item)
                size += _bytes_of([item])
                if size >= PART_BYTES:
                    yield part
                    part, size = [], 0
    if part:
        yield part


def _runs(items: Items, length: int) -> Iterator[Items]:
    """Yield runs of entries whose keys begin alike."""
    while items:
        prefix = items[0][0][:length]
        if items[-1][0][:length] == prefix:
            yield items
            return
        low, high = 0, len(items) - 1  # the first begins so, the last does not
        while high - low > 1:
            middle = (low + high) // 2
            if items[middle][0][:length] == prefix:
                low = middle
            else:
                high = middle
        yield items[:high]
        items = items[high:]


def _bytes_of(items: Items) -> int:
    return sum(len(key) + len(value) for key, value in items)


FOLDER = "parts"

_THREADS = 4

_AHEAD = 2 * _THREADS
"""Parts that are held in memory at most."""


class Uploads:
    """The parts of one backup. For a ``with`` block, and for one thread.

    Attributes:
        there: names of the parts that the store had, with their bytes.
        copied_bytes: of parts that were uploaded.
        reused_bytes: of parts that were given and were there.
    """

    def __init__(self, store: Objects, progress: Callable[[int], object]) -> None:
        self._folder = store.inside(FOLDER)
        self.there = self._folder.sizes()
        self._given = set[str]()
        self._progress = progress
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="simindex-upload")
        self._under_way: deque[tuple[Future[None], int]] = deque()
        self.copied_bytes = 0
        self.reused_bytes = 0

    def __enter__(self) -> Uploads:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def add(self, content: bytes) -> Part:
        """Have a part uploaded, unless the store has it; waits while too many are under way.

        Raises:
            StoreError: an earlier one cannot be written.
        """
        part = part_of(content)
        if self.there.get(part.name) == part.num_bytes or part.name in self._given:
            self.reused_bytes += part.num_bytes
            self._progress(part.num_bytes)
        else:
            while len(self._under_way) >= _AHEAD:
                self._take()
            self._under_way.append((self._pool.submit(self._folder.put, part.name, content), part.num_bytes))
        self._given.add(part.name)
        return part

    def keep(self, parts: tuple[Part, ...]) -> None:
        """Take note of parts that an older backup has.

        Raises:
            KeyError: the store has lost one.
        """
        for part in parts:
            if self.there[part.name] != part.num_bytes:
                raise KeyError(part.name)
        self._given |= {part.name for part in parts}
        self.reused_bytes += sum(part.num_bytes for part in parts)

    def _take(self) -> None:
        future, num_bytes = self._under_way.popleft()
        future.result()
        self.copied_bytes += num_bytes
        self._progress(num_bytes)

    def wait(self) -> None:
        """Wait for all that is under way. Raises StoreError where one cannot be written."""
        while self._under_way:
            self._take()

    def remove_others(self, parts: list[Part]) -> int:
        """Remove what is no part of a backup; returns how many objects."""
        others = sorted((self.there.keys() | self._given) - {part.name for part in parts})
        self._folder.remove(others)
        return len(others)


MANIFEST = "manifest"
"""Under which the manifest of a backup is exchanged."""

JOURNAL = "journal"
"""The folder of the batches since."""

SMALL = "documents", "removed", "groups", "ages"

_ROUNDS = 4
"""So often it is looked for segments that came meanwhile, before a snapshot is pinned for the rest."""

_NOT_COPIED = {CONFIG_KEY, MANIFEST_KEY, BACKUP_KEY, MOVED_KEY, b"copied"}
"""In the database "meta": what the manifest of a backup says itself, and what is of one file alone."""

Progress = Callable[[int], object]


def backup_index(
    path: str | os.PathLike[str],
    uri: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
    position: Callable[[], int] | None = None,
) -> StoreBackupReport:
    """Copy the newest committed state of an index to a store.

    The first backup uploads everything; a later one what is new: segments never change, and of records those
    parts of some 65,536 documents in which something did. It may be killed at any time: the store holds the
    old backup or the new one, and the next backup takes up what was uploaded already. Others may read, write
    and compact meanwhile.

    Args:
        path: the folder of an index.
        uri: of the backup, which is of this index alone; see `open_store`.
        progress: called as ``progress(done)`` with bytes.
        position: tells, just before the snapshot, up to which number the journal's batches are part of it;
            ``None``: those that are in the store by then.

    Returns:
        StoreBackupReport.

    Raises:
        BackupTargetError: there is a backup of another index, or of a later state than this index ever had.
        UnprovenStoreError, StoreError: the store cannot be trusted, or not be read or written.
        CorruptIndexError: the index is damaged; the older backup is as it was.
        FileNotFoundError, FormatError: there is no index at the path.

    Cost: the first one reads and writes all once. Later ones read the seals of old segments, a hundredth of
    them, and all records, about 1 us each; and pin one snapshot meanwhile.
    """
    require_callable("progress", progress)
    store = Store(local_path(path), "r")
    try:
        return _backup(store, scheme_of(store, None, None), open_store(uri), progress, position)
    finally:
        store.close()


def _backup(
    source: Store,
    scheme: Scheme,
    objects: Objects,
    progress: Progress | None,
    position: Callable[[], int] | None,
) -> StoreBackupReport:
    started = time.monotonic()
    prove(objects)
    content = objects.current(MANIFEST)
    older = None if content is None else decode_backup(content, objects.uri_of(MANIFEST))
    done = 0

    def advance(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        if progress is not None:
            progress(done)

    with Uploads(objects, advance) as uploads:
        copying = _Copying(source, scheme, older, uploads)
        copying.require_older(objects.uri)
        copying.copy_ahead()
        covered = (
            max(batch_names(objects), default=older.journal if older else 0)
            if position is None
            else position()
        )
        pinned = time.monotonic()
        backup = copying.finish(covered)
        pinned_seconds = time.monotonic() - pinned
        uploads.wait()
        if not objects.exchange(MANIFEST, content, encode_backup(backup)):
            raise StoreError(
                objects.uri,
                "somebody else has made a backup there meanwhile, which stands; this one was given up. "
                "Let one at a time make them",
            )
        removed = uploads.remove_others(backup.parts()) + _forget_batches(objects, backup.journal)
        return StoreBackupReport(
            uri=objects.uri,
            created=older is None,
            documents=backup.documents,
            made_at=backup.made_at,
            copied_segments=len(backup.segments) - len(copying.reused),
            reused_segments=len(copying.reused),
            copied_bytes=uploads.copied_bytes,
            reused_bytes=uploads.reused_bytes,
            removed_objects=removed,
            seconds=time.monotonic() - started,
            pinned_seconds=pinned_seconds,
        )


def read_manifest(objects: Objects) -> StoredBackup | None:
    """Return the manifest of the newest backup in a store; ``None`` where there is none.

    Raises:
        CorruptIndexError, FormatError: it is damaged, or of a later version.
    """
    content = objects.current(MANIFEST)
    return None if content is None else decode_backup(content, objects.uri_of(MANIFEST))


def batch_names(objects: Objects) -> dict[int, str]:
    """Return the batches of a journal by their numbers, ascending."""
    names = (name.rpartition("/")[2] for name in objects.sizes(JOURNAL))
    return {int(name): f"{JOURNAL}/{name}" for name in names if name.isdigit()}


def _forget_batches(objects: Objects, covered: int) -> int:
    names = [name for number, name in batch_names(objects).items() if number <= covered]
    objects.remove(names)
    return len(names)


class _Copying:
    """The state of one backup.

    Attributes:
        reused: ids of the segments that the older backup has.
    """

    def __init__(self, source: Store, scheme: Scheme, older: StoredBackup | None, uploads: Uploads) -> None:
        self._source, self._tables, self._identity = source, scheme.tables, scheme.identity
        self._older, self._uploads = older, uploads
        self._copied: dict[int, StoredSegment] = {}
        self.reused = set[int]()

    def require_older(self, uri: str) -> None:
        """Take over the segments of the older backup that the index still has.

        Raises:
            BackupTargetError: it is of another index, or newer than this one.
        """
        if self._older is None:
            return
        found = decode_header(self._older.header, uri)
        if found.identity != self._identity:
            raise BackupTargetError(
                f"{uri}: expected a backup of {self._source.path}, found one of another index; choose "
                "another place"
            )
        there = decode_manifest(self._older.manifest)
        with self._source.reading() as txn:
            manifest = decode_manifest(stored_manifest(txn))
            if there.next_number > manifest.next_number or there.next_segment > manifest.next_segment:
                raise BackupTargetError(
                    f"{uri}: expected an older backup of {self._source.path}, found a newer one (documents "
                    f"up to number {there.next_number} there, {manifest.next_number} here); choose "
                    "another place"
                )
            entries = {entry.id: entry for entry in manifest.segments}
            held = {entry.id: entry for entry in there.segments}
            for segment in self._older.segments:
                entry = entries.get(segment.id)
                if entry is None or entry != held[segment.id]:
                    continue
                sealed = sealed_segment(self._tables, entry, lambda key: txn.get("segments", key))
                if sealed.digest == segment.digest:
                    self._keep(segment)

    def _keep(self, segment: StoredSegment) -> None:
        try:
            self._uploads.keep(segment.parts)
        except KeyError:
            return  # the store has lost a part: it is uploaded again
        self._copied[segment.id] = segment
        self.reused.add(segment.id)

    def copy_ahead(self) -> None:
        """Upload the segments that are missing, without holding anything of the index between two parts.

        A merge may replace some meanwhile, so it is looked again; what is left is small, or `finish` pins it.
        """
        for _ in range(_ROUNDS):
            with self._source.reading() as txn:
                manifest = decode_manifest(stored_manifest(txn))
            missing = [entry for entry in manifest.segments if entry.id not in self._copied]
            if not missing:
                return
            for entry in missing:
                if not self._copy(entry):
                    break

    def _copy(self, entry: SegmentEntry, pinned: ReadTransaction | None = None) -> bool:
        """Upload a segment; False where a merge has replaced it meanwhile."""
        digest, parts = Digest(), list[Part]()
        for step in _steps(pieces_of(self._tables, entry)):
            values = self._values(entry, step) if pinned is None else self._pinned_values(entry, step, pinned)
            if values is None:
                return False
            for piece, value in zip(step, values, strict=True):
                digest.add(piece, value)
            parts.append(self._uploads.add(b"".join(values)))
        self._copied[entry.id] = StoredSegment(entry.id, digest.value(), tuple(parts))
        return True

    def _values(self, entry: SegmentEntry, step: list[Piece]) -> list[bytes] | None:
        with self._source.reading() as txn:
            if entry not in decode_manifest(stored_manifest(txn)).segments:
                return None
            return self._pinned_values(entry, step, txn)

    def _pinned_values(self, entry: SegmentEntry, step: list[Piece], txn: ReadTransaction) -> list[bytes]:
        return [checked_value(entry, piece, txn.get("segments", piece.key)) for piece in step]

    def finish(self, covered: int) -> StoredBackup:
        """Upload what is left on one snapshot; returns the manifest of the backup.

        Raises:
            CorruptIndexError: an entry fails its seal, or records are missing.
        """
        with self._source.reading(buffers=False) as txn:
            stored = bytes(stored_manifest(txn))
            manifest = decode_manifest(stored)
            for entry in manifest.segments:
                if entry.id not in self._copied:
                    self._copy(entry, txn)
            live = {entry.id for entry in manifest.segments}
            self.reused &= live
            return StoredBackup(
                header=bytes(txn.get("meta", CONFIG_KEY) or b""),
                manifest=stored,
                segments=tuple(self._copied[number] for number in sorted(live)),
                databases=self._databases(txn, manifest),
                journal=covered,
                made_at=time.time_ns() // 1000,
                documents=manifest.num_documents,
            )

    def _databases(self, txn: ReadTransaction, manifest: Manifest) -> dict[str, tuple[Part, ...]]:
        found = {name: tuple(self._uploads.add(part) for part in _parts(name, txn)) for name in SMALL}
        others = [(key, bytes(value)) for key, value in txn.items("meta") if key not in _NOT_COPIED]
        if others:
            found["meta"] = (self._uploads.add(encode_entries(others)),)
        if txn.count("documents") != manifest.num_documents:
            raise CorruptIndexError(
                f"{self._source.path}: expected {manifest.num_documents} records, found "
                f"{txn.count('documents')}; simindex check tells more"
            )
        return found


def _parts(name: str, txn: ReadTransaction) -> Iterator[bytes]:
    for items in cut(name, txn.parts(name)):
        unseal_many(name, items, f"{name}, entry")
        yield encode_entries(items)


def _steps(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Yield the pieces of each part: up to its bytes, and one at least."""
    step, size = list[Piece](), 0
    for piece in pieces:
        step.append(piece)
        size += piece.num_bytes
        if size >= PART_BYTES:
            yield step
            step, size = [], 0
    if step:
        yield step


def pieces_in(pieces: list[Piece], parts: tuple[Part, ...]) -> list[list[Piece]]:
    """Return which pieces each part of a segment has.

    Raises:
        CorruptIndexError: the parts have other bytes than these pieces.
    """
    steps = [*_steps(pieces)]
    if [sum(piece.num_bytes for piece in step) for step in steps] != [part.num_bytes for part in parts]:
        raise CorruptIndexError(f"a backup: expected a segment of {len(steps)} parts, found others")
    return steps
