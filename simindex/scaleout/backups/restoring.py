"""A store -> an index: every part proved, and in its place when all of it is there.

Owns the order of the steps and the folder under way. Must not change the store. Invariant: at the path there
is nothing or the whole index, wherever a process is killed; what is damaged or missing is named by its
object.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from simindex.checks import local_path, require_callable
from simindex.errors import CorruptIndexError, FormatError
from simindex.format.header import CONFIG_KEY, decode_header
from simindex.format.layout import SegmentEntry
from simindex.format.manifest import MANIFEST_KEY, decode_manifest
from simindex.format.objects.backup import Part, StoredBackup, StoredSegment, decode_entries, part_of
from simindex.parallel import in_order
from simindex.queries.scheme import Scheme, scheme_of_header
from simindex.scaleout.backups.job import pieces_in, read_manifest
from simindex.scaleout.backups.journal import replay
from simindex.scaleout.backups.report import RestoreReport
from simindex.scaleout.backups.uploads import FOLDER
from simindex.scaleout.stores import MissingObjectError, Objects, open_store
from simindex.segments.sealed import SealedSegment, import_segment, pieces_of
from simindex.storage.folder import WRITER_LOCK_FILE, WriterLock, sync_folder
from simindex.storage.replacement import NewFile, new_file

_THREADS = 4

_ATTEMPTS = 3
"""So often a newer backup may take the place of the one that is read."""

Progress = Callable[[int], object]
Items = list[tuple[bytes, bytes]]


def restore_index(
    uri: str | os.PathLike[str], path: str | os.PathLike[str], *, progress: Progress | None = None
) -> RestoreReport:
    """Make an index of the backup in a store, and of the batches of its journal.

    Args:
        uri: of the backup.
        path: a folder that does not exist or is empty; it appears when all of the index is there.
        progress: called as ``progress(done)`` with bytes.

    Returns:
        RestoreReport.

    Raises:
        MissingObjectError: there is no backup, or it has lost an object, which is named.
        CorruptIndexError: an object is damaged; it is named.
        FormatError: there is something else at the path, or a backup of a later version at the uri.
        IndexLockedError: somebody restores to the same path.
        StoreError: the store cannot be read.
        IndexFullError: no room.
    """
    require_callable("progress", progress)
    started = time.monotonic()
    objects, folder = open_store(uri), _require_nothing(Path(os.path.realpath(local_path(path))))
    for attempt in range(_ATTEMPTS):
        backup = read_manifest(objects)
        if backup is None:
            raise MissingObjectError(objects.uri, "expected a backup, found none")
        begun, lock = _begin(folder)
        try:
            _fill(begun, objects, backup, progress)
            lock.release()
            batches, documents = replay(begun, objects, backup.journal)
            os.rename(begun, folder)
            sync_folder(folder.parent)
        except BaseException as exc:
            shutil.rmtree(begun, ignore_errors=True)
            lock.release()
            if isinstance(exc, MissingObjectError) and attempt + 1 < _ATTEMPTS and _is_new(objects, backup):
                continue
            raise
        num_bytes = sum(part.num_bytes for part in backup.parts())
        return RestoreReport(
            objects.uri, str(folder), documents, num_bytes, batches, time.monotonic() - started
        )
    raise AssertionError("the last attempt returns or raises")


def _is_new(objects: Objects, backup: StoredBackup) -> bool:
    """Whether another backup has taken the place of this one, and its parts away."""
    return read_manifest(objects) != backup


def _require_nothing(folder: Path) -> Path:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FormatError(
            f"{folder}: expected an empty folder or nothing, found other files; choose another path"
        )
    return folder


def _begin(folder: Path) -> tuple[Path, WriterLock]:
    """Make the folder of a restoring under way, beside its place; one that was left there is emptied."""
    begun = folder.with_name(f".{folder.name}.restore")
    if begun.is_symlink():
        raise FormatError(f"{begun}: expected a folder or nothing, found a symbolic link; take it away")
    begun.mkdir(parents=True, exist_ok=True)
    lock = WriterLock(str(begun))
    for entry in list(begun.iterdir()):
        if entry.name != WRITER_LOCK_FILE:
            entry.unlink()
    return begun, lock


class _Fetched(NamedTuple):
    part: Part
    content: bytes


def _fill(begun: Path, objects: Objects, backup: StoredBackup, progress: Progress | None) -> None:
    """Build the data file of a backup, durable."""
    where = objects.uri
    scheme = scheme_of_header(decode_header(backup.header, where), where)
    manifest = decode_manifest(backup.manifest)
    entries = {entry.id: entry for entry in manifest.segments}
    if {segment.id for segment in backup.segments} != entries.keys():
        raise CorruptIndexError(f"{where}: expected the segments of its manifest, found others", path=where)
    parts = objects.inside(FOLDER)
    done = 0

    def fetch(part: Part) -> bytes:
        content = parts.get(part.name)
        found = part_of(content)
        if found != part:
            raise CorruptIndexError(
                f"{parts.uri_of(part.name)}: expected {part.num_bytes} bytes of the digest {part.name}, "
                f"found {found.num_bytes} of {found.name}; the object is damaged. Make another "
                "backup, or restore one of another place",
                path=parts.uri_of(part.name),
            )
        return content

    def contents() -> Iterator[bytes]:
        nonlocal done
        for content in in_order(fetch, backup.parts(), _THREADS, _THREADS, lambda part: part.num_bytes):
            done += len(content)
            if progress is not None:
                progress(done)
            yield content

    with new_file(begun, sum(part.num_bytes for part in backup.parts())) as file:
        coming = contents()
        for segment in backup.segments:
            _store_segment(file, scheme, entries[segment.id], segment, coming)
        count = 0
        for name, named in backup.databases.items():
            for _ in named:
                items = decode_entries(next(coming))
                count += len(items) if name == "documents" else 0
                _put(file, name, items)
        if count != manifest.num_documents:
            raise CorruptIndexError(
                f"{where}: expected {manifest.num_documents} records, found {count}", path=where
            )
        file.commit(lambda new: new.put("meta", CONFIG_KEY, backup.header))
        file.commit(lambda new: new.put("meta", MANIFEST_KEY, backup.manifest))


def _put(file: NewFile, name: str, items: Items) -> None:
    file.commit(lambda new: new.put_all(name, items, append=name != "meta"))


def _store_segment(
    file: NewFile, scheme: Scheme, entry: SegmentEntry, segment: StoredSegment, coming: Iterator[bytes]
) -> None:
    """Store the values of a segment, proved once more by their own seals and digest."""
    pieces = pieces_of(scheme.tables, entry)
    steps = pieces_in(pieces, segment.parts)
    sizes = iter([len(step) for step in steps])

    def values() -> Iterator[tuple[bytes, bytes]]:
        for step in steps:
            content, at = next(coming), 0
            for piece in step:
                yield piece.key, content[at : at + piece.num_bytes]
                at += piece.num_bytes

    sealed = SealedSegment(entry, sum(piece.num_bytes for piece in pieces), segment.digest)
    items: Items = []
    left = next(sizes)
    for item in import_segment(scheme.tables, sealed, values()):
        items.append(item)
        left -= 1
        if not left:
            _put(file, "segments", items)
            items, left = [], next(sizes, 0)
