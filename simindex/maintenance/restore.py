"""Restore of an index from a backup in a store.

Invariants: every part is proved; at the path there is nothing or the whole index, wherever a process is
killed; what is damaged or missing is named by its object.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from simindex.batching import in_order
from simindex.checks import require_callable
from simindex.errors import CorruptIndexError
from simindex.format.backup_objects import Part, StoredBackup, decode_entries, part_of
from simindex.format.layout import SegmentEntry
from simindex.format.meta import CONFIG_KEY, MANIFEST_KEY, decode_header, decode_manifest
from simindex.maintenance.backup_parts import SMALL
from simindex.maintenance.backup_store import PARTS, pieces_in, read_manifest
from simindex.maintenance.object_store import MissingObjectError, Objects, open_store
from simindex.maintenance.reports import RestoreReport
from simindex.maintenance.stored_segment import Digest, Piece, checked_value, pieces_of
from simindex.maintenance.work_folder import place_of, work_folder
from simindex.queries.scheme import Scheme, scheme_of_header
from simindex.storage.environment import WriteTransaction
from simindex.storage.folder import WriterLock, require_permissions
from simindex.storage.lmdb_file import MAIN
from simindex.storage.replacement import new_file

_THREADS = 4

_ATTEMPTS = 3
"""So often a newer backup may take the place of the one that is read."""

Progress = Callable[[int, int], object]
Items = list[tuple[bytes, bytes]]


def restore(
    uri: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    permissions: int | None = None,
    progress: Progress | None = None,
) -> RestoreReport:
    """Make an index of a backup that `Index.backup` has made in a store.

    Every object is proved before anything appears at the path. A backup in a folder is an index already: open
    it, or copy it by a backup of its own.

    Args:
        uri: of the backup: s3://, gs:// and what else fsspec opens, file:// or the path of its folder.
        path: a folder that does not exist or is empty; it appears when all of the index is there.
        permissions: of the index's files, as of `open`; ``None``: those that the index had.
        progress: called as ``progress(done, total)`` with bytes.

    Returns:
        RestoreReport.

    Raises:
        MissingObjectError: there is no backup, or it has lost an object, which is named.
        CorruptIndexError: an object is damaged, or another backup's; it is named.
        FormatError: there is something else at the path, or a backup of another version at the uri.
        IndexLockedError: another process restores to the same path.
        StoreError: the store cannot be read.
        IndexFullError: no room.

    >>> import simindex, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with simindex.open(folder + "/i") as index:
    ...         index.insert("a", "some text")
    ...         done = index.backup("file://" + folder + "/store")
    ...     simindex.restore("file://" + folder + "/store", folder + "/restored").documents
    1
    """
    require_callable("progress", progress)
    require_permissions(permissions)
    started = time.monotonic()
    objects, folder = open_store(uri), place_of(path)
    for attempt in range(_ATTEMPTS):
        backup = read_manifest(objects)
        if backup is None:
            raise MissingObjectError(objects.uri, "expected a backup, found none")
        try:
            with work_folder(folder, "restore", _locked) as begun:
                _fill(begun, objects, backup, progress)
                mode = backup.permissions if permissions is None else permissions
                for file in begun.iterdir():
                    file.chmod(mode)
                begun.chmod(mode | (mode & 0o444) >> 2)
        except MissingObjectError:
            if attempt + 1 < _ATTEMPTS and read_manifest(objects) != backup:
                continue  # another backup has taken the place of this one, and its parts away
            raise
        return RestoreReport(
            uri=objects.uri,
            path=str(folder),
            documents=backup.documents,
            num_bytes=sum(part.num_bytes for part in backup.parts()),
            seconds=time.monotonic() - started,
        )
    raise AssertionError("the last attempt returns or raises")


@contextmanager
def _locked(begun: Path) -> Iterator[Path]:
    begun.mkdir(mode=0o700, exist_ok=True)
    begun.chmod(0o700)
    lock = WriterLock(str(begun))
    try:
        yield begun
    finally:
        lock.release()


class _Step(NamedTuple):
    """A part of a backup: some values (`pieces`) of a segment (`entry`), or entries of a small database."""

    part: Part
    database: str
    entry: SegmentEntry | None = None
    pieces: tuple[Piece, ...] = ()


def _fill(begun: Path, objects: Objects, backup: StoredBackup, progress: Progress | None) -> None:
    """Build the data file of a backup in a folder: read its parts ahead on threads, prove each, and store
    them. Raises CorruptIndexError for parts, segments or counts that do not fit the backup's manifest, and
    MissingObjectError for a part that is not there."""
    where = objects.uri
    scheme = scheme_of_header(decode_header(backup.header, where), where)
    manifest = decode_manifest(backup.manifest)
    entries = {entry.id: entry for entry in manifest.segments}
    if [segment.id for segment in backup.segments] != sorted(entries):
        raise CorruptIndexError(f"{where}: expected the segments of its manifest, found others", path=where)
    if unknown := backup.databases.keys() - {*SMALL, "meta"}:
        raise CorruptIndexError(
            f"{where}: expected parts of {', '.join(SMALL)} and meta, found some of {min(unknown)!r:.40}",
            path=where,
        )
    steps = _steps(scheme, entries, backup)
    digests = {segment.id: Digest() for segment in backup.segments}
    # Reading, proving and taking apart is done ahead, in threads; the file has one writer.
    ahead = in_order(
        lambda step: _items(objects, step), steps, _THREADS, _THREADS, lambda step: step.part.num_bytes
    )
    done, count, total = 0, 0, sum(step.part.num_bytes for step in steps)
    with new_file(begun) as file:
        for step, items in zip(steps, ahead, strict=True):
            put = WriteTransaction.put_all if step.database == "meta" else WriteTransaction.append
            file.commit(partial(put, database=step.database, items=items))
            if step.entry is not None:
                digests[step.entry.id].add(step.pieces, (value for _, value in items))
            count += len(items) if step.database == "documents" else 0
            done += step.part.num_bytes
            if progress is not None:
                progress(done, total)
        for segment in backup.segments:
            expected, found = segment.digest, digests[segment.id].value()
            if expected != found:
                raise CorruptIndexError(
                    f"{where}: expected segment {segment.id} of the digest {expected.hex()}, found "
                    f"{found.hex()}",
                    path=where,
                    segment=segment.id,
                )
        if count != manifest.num_records or manifest.num_documents != backup.documents:
            raise CorruptIndexError(
                f"{where}: expected {manifest.num_records} records, found {count}", path=where
            )
        file.commit(lambda new: new.put("meta", CONFIG_KEY, backup.header))
        file.commit(lambda new: new.put(MAIN, MANIFEST_KEY, backup.manifest))


def _steps(scheme: Scheme, entries: dict[int, SegmentEntry], backup: StoredBackup) -> list[_Step]:
    """Return what to read of a backup: the parts of its segments by id, then those of the small databases, in
    the order of their keys."""
    steps = []
    for segment in backup.segments:
        entry = entries[segment.id]
        pieces = pieces_in(pieces_of(scheme.tables, entry), segment.parts)
        for part, of_part in zip(segment.parts, pieces, strict=True):
            steps.append(_Step(part, "segments", entry, tuple(of_part)))
    for name, named in backup.databases.items():
        steps += [_Step(part, name) for part in named]
    return steps


def _items(objects: Objects, step: _Step) -> Items:
    """Read a part from the store, and return its entries. Raises CorruptIndexError where it has another
    digest, or a segment's value fails its seals, MissingObjectError where it is not there."""
    name = f"{PARTS}/{step.part.name}"
    content = objects.get(name, step.part.num_bytes)
    found = part_of(content)
    if found != step.part:
        uri = objects.uri_of(name)
        raise CorruptIndexError(
            f"{uri}: expected {step.part.num_bytes} bytes of the digest {step.part.name}, found "
            f"{found.num_bytes} of {found.name}; the object is damaged. Make another backup, or restore one "
            "of another place",
            path=uri,
        )
    if step.entry is None:
        return decode_entries(content)
    items, at = Items(), 0
    for piece in step.pieces:
        value = content[at : at + piece.num_bytes]
        items.append((piece.key, checked_value(step.entry, piece, value)))
        at += piece.num_bytes
    return items
