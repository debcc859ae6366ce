"""A backup in a folder, which is an index itself: a new one, or an older backup that is brought up to date.

Invariant: at the path there is nothing, the old backup or the new one, wherever a process is killed: a new
one is renamed into place, and an older one becomes the new one by a single commit.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from simindex.changes.session import clear_unnamed
from simindex.checks import local_path
from simindex.config import both_values, differing_fields
from simindex.errors import BackupTargetError, ConfigMismatchError
from simindex.format.keys import segment_prefix
from simindex.format.layout import SegmentEntry
from simindex.format.meta import (
    BACKUP_KEY,
    CONFIG_KEY,
    MANIFEST_KEY,
    Manifest,
    decode_manifest,
    encode_backup_mark,
    encode_manifest,
    is_backup_of,
)
from simindex.maintenance.backup_parts import (
    SMALL,
    Counter,
    Items,
    Step,
    batched,
    checked,
    require_whole,
)
from simindex.maintenance.stored_segment import StoredSegment
from simindex.maintenance.work_folder import place_of, work_folder
from simindex.queries.scheme import Scheme, scheme_of
from simindex.queries.view import stored_manifest, stored_notes
from simindex.storage.environment import ReadTransaction, WriteTransaction
from simindex.storage.folder import is_index, permissions_of, require_room
from simindex.storage.lmdb_file import MAIN
from simindex.storage.store import Store

_MARGIN_BYTES = 1 << 20


@contextmanager
def open_folder(
    path: str | os.PathLike[str], source: Store, scheme: Scheme, header: bytes, counter: Counter
) -> Iterator[FolderTarget]:
    """Open the target of a backup for a ``with`` block: the older backup at the path, or a new index beside
    it, which gets the path when the block ends well, and is deleted where it fails.

    Raises ValueError for a path inside of the index, FormatError where there are other files, and as
    `_manifest_of_backup` where there is another index.
    """
    folder, own = Path(os.path.realpath(local_path(path))), Path(os.path.realpath(source.path))
    if folder == own or own in folder.parents:
        raise ValueError(f"{path}: expected a folder outside of the index, found {folder}")
    if not is_index(folder):
        place_of(folder, expected="a backup, an empty folder or nothing")
        with work_folder(folder, "backup", partial(_new, source=source, header=header)) as new:
            yield FolderTarget(folder, new, Manifest(), scheme, counter, is_new=True)
        return
    older, manifest = _older(folder, source, scheme)
    try:
        yield FolderTarget(folder, older, manifest, scheme, counter, is_new=False)
    finally:
        older.close()


@contextmanager
def _new(begun: Path, source: Store, header: bytes) -> Iterator[Store]:
    """Make an empty index with the header and the permissions of the source in a new folder, and close it at
    the end of the block."""
    store = Store(begun, "x", permissions=permissions_of(Path(source.path), None))
    try:
        store.initialise(CONFIG_KEY, header, encode_manifest(Manifest()))
        yield store
    finally:
        store.close()


def _older(folder: Path, source: Store, scheme: Scheme) -> tuple[Store, Manifest]:
    """Open an older backup for writing, and delete the segments that a killed one has left in it. Returns its
    open store and its manifest. Raises ConfigMismatchError or BackupTargetError, with the store closed, where
    it is no unchanged backup of the source."""
    store = Store(folder, "r+")
    try:
        manifest = _manifest_of_backup(store, source, scheme)
        clear_unnamed(store, manifest)
    except BaseException:
        store.close()
        raise
    return store, manifest


def _manifest_of_backup(store: Store, source: Store, scheme: Scheme) -> Manifest:
    """Return the manifest of a backup of this source, unchanged since it was made.

    Raises ConfigMismatchError where an index of other settings is in the store, and BackupTargetError for
    another index, or one that was written to since or was not made by a backup.
    """
    theirs = scheme_of(store, None, None)
    wanted = f"{store.path}: expected a backup of {source.path}, found"
    if theirs.identity != scheme.identity:
        fields = differing_fields(theirs.config, scheme.config)
        if fields:
            differing = both_values(fields, "{} there, {} here")
            found = (f"{wanted} an index of other settings (", differing, "); choose another path")
            raise ConfigMismatchError(found, fields)
        raise BackupTargetError(f"{wanted} another index; choose another path")
    with store.reading() as txn:
        stored, mark = stored_manifest(txn), txn.get("meta", BACKUP_KEY)
        is_unchanged = mark is not None and is_backup_of(mark, stored)
    if not is_unchanged:
        raise BackupTargetError(
            f"{wanted} a copy of it that was changed since, or made otherwise: an index of its own now; "
            "choose another path"
        )
    return decode_manifest(stored)


class FolderTarget:
    """A `Target`: an index in a folder. Nothing names what it takes before the commit of `finish`."""

    def __init__(
        self,
        folder: Path,
        store: Store,
        manifest: Manifest,
        scheme: Scheme,
        counter: Counter,
        *,
        is_new: bool,
    ) -> None:
        self.name, self.manifest, self.is_new = str(folder), manifest, is_new
        self._store, self._tables, self._counter = store, scheme.tables, counter
        self._held = {entry.id: entry for entry in manifest.segments}
        self.copied_bytes = 0

    def prepare(self, segment_bytes: int, other_bytes: int) -> None:
        """Raise IndexFullError, with `needed_bytes`, where there is no room for so many bytes of segments
        and, in a new backup, for `other_bytes` of the small databases."""
        needed = segment_bytes + (other_bytes if self.is_new else 0) + _MARGIN_BYTES
        require_room(self._store.path, needed, needed)

    def reuses(self, entry: SegmentEntry, digest: bytes) -> bool:
        """Return True: the older backup has the same segment under this id, as `digest` shows.

        Raises BackupTargetError where it has another one. Not to be called for an id that it has not.
        """
        if self._held[entry.id] == entry:
            with self._store.reading() as txn:
                if StoredSegment(self._tables, entry, partial(txn.get, "segments")).digest() == digest:
                    return True
        raise BackupTargetError(
            f"{self.name}: expected segment {entry.id} as the index has it, found another one: the backup is "
            "damaged (simindex check), or the index was restored from an older one and went on otherwise; "
            "choose another path"
        )

    def take(self, entry: SegmentEntry, steps: Iterable[Step]) -> None:  # noqa: ARG002
        """Store the values of a segment, one commit for each step."""
        for pieces, values in steps:
            items = [(piece.key, value) for piece, value in zip(pieces, values, strict=True)]
            self._store.commit(partial(WriteTransaction.put_all, database="segments", items=items))
            self._advance(sum(map(len, values)))

    def _advance(self, num_bytes: int) -> None:
        self.copied_bytes += num_bytes
        self._counter.advance(num_bytes)

    def drop(self, segment: int) -> None:
        """Delete the values of a segment from the backup, in a commit."""
        self._store.commit(lambda txn: txn.delete_prefix("segments", segment_prefix(segment)), True)

    def finish(self, txn: ReadTransaction, stored: bytes, manifest: Manifest) -> None:
        """Make the folder the backup of a snapshot, in one commit; a new one has got most of its records in
        commits before, while nothing names them. `stored`: the snapshot's manifest as it lies there.

        Raises CorruptIndexError, and commits nothing, where an entry of the index fails its seal or entries
        are missing.
        """
        gone = sorted(self._held.keys() - {entry.id for entry in manifest.segments})
        with self._store.reading(buffers=False) as there:
            differences = {name: difference(txn.parts(name), there.parts(name)) for name in SMALL}
            known = dict(stored_notes(there))
        if self.is_new:
            for name in SMALL:  # in several commits, for nothing is named yet
                for part in _tail(txn, name, differences.pop(name).tail):
                    self._store.commit(partial(WriteTransaction.append, database=name, items=part))
                    self._advance(sum(len(value) for _, value in part))
        notes = dict(stored_notes(txn))

        def change(writing: WriteTransaction) -> int:
            written = 0
            for key in notes.keys() - known.keys():
                writing.put("meta", key, bytes(notes[key]))
            for key in known.keys() - notes.keys():
                writing.delete("meta", key)
            for segment in gone:
                writing.delete_prefix("segments", segment_prefix(segment))
            for name, found in differences.items():
                written += _apply(txn, writing, name, found)
            require_whole(self.name, txn, manifest, writing.count)
            writing.put(MAIN, MANIFEST_KEY, stored)
            writing.put("meta", BACKUP_KEY, encode_backup_mark(stored))
            return written

        self._advance(self._store.commit(change))


def _tail(txn: ReadTransaction, name: str, first: bytes | None) -> Iterator[Items]:
    """Yield the entries of a database from the key `first` on, their seals and order checked, in lists of
    about `PART_BYTES`; of ``None`` nothing."""
    return checked(name, batched(txn.parts(name, first))) if first is not None else iter(())


def _apply(txn: ReadTransaction, writing: WriteTransaction, name: str, found: Difference) -> int:
    """Make a database of the target equal to that of the index, within the write transaction of the target:
    read each entry of `found` in the index by `txn`, check its seal and put it, or delete it where the index
    has none. Returns the bytes of the values written."""
    written = 0
    for key in found.keys:
        value = txn.get(name, key)
        if value is None:
            writing.delete(name, key)
        else:
            [[(_, copy)]] = checked(name, iter([[(key, bytes(value))]]))
            writing.put(name, key, copy)
            written += len(copy)
    for batch in _tail(txn, name, found.tail):
        writing.append(name, batch)
        written += sum(len(value) for _, value in batch)
    return written


class Difference(NamedTuple):
    """What makes a database of the backup equal to that of the index.

    Attributes:
        keys: whose values are other ones in the index, new ones, or gone.
        tail: from this key on everything is new, and follows all that is there; ``None``: nothing is.
    """

    keys: list[bytes]
    tail: bytes | None


def difference(index: Iterator[Items], backup: Iterator[Items]) -> Difference:
    """Return what the backup's database needs to equal the index's. Both iterators yield lists of (key,
    value) by ascending key; entries of the index behind all of the backup's are not read."""
    keys, ours, theirs = list[bytes](), Items(), Items()
    while (ours := ours or next(index, [])) and (theirs := theirs or next(backup, [])):
        last = min(ours[-1][0], theirs[-1][0])
        here, there = (bisect_right(items, last, key=itemgetter(0)) for items in (ours, theirs))
        if ours[:here] != theirs[:there]:
            keys += sorted({key for key, _ in {*ours[:here]} ^ {*theirs[:there]}})
        ours, theirs = ours[here:], theirs[there:]
    gone = chain(theirs, chain.from_iterable(backup))
    return Difference(keys + [key for key, _ in gone], ours[0][0] if ours else None)
