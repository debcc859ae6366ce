"""Where a backup goes: a new folder, which gets its name when all of it is there, or an older backup.

Owns which targets are refused, the folder of a backup under way, and its way into place. Must not know what
is copied. Invariant: at the path there is nothing, the old backup or the new one, wherever a process is
killed: a new one is renamed into place, and an older one becomes the new one by a single commit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from simindex.changes.writer import stored_segments
from simindex.checks import local_path
from simindex.config import differing_fields
from simindex.errors import (
    BackupTargetError,
    ConfigMismatchError,
    CorruptIndexError,
    FormatError,
    IndexLockedError,
)
from simindex.format.header import CONFIG_KEY
from simindex.format.keys import segment_prefix
from simindex.format.manifest import (
    BACKUP_KEY,
    MANIFEST_KEY,
    Manifest,
    decode_manifest,
    encode_manifest,
    is_backup_of,
)
from simindex.queries.scheme import Scheme, scheme_of
from simindex.queries.snapshot import stored_manifest
from simindex.storage.folder import DATA_FILE, WRITER_LOCK_FILE, remove_index, sync_folder
from simindex.storage.lock import WriterLock
from simindex.storage.replacement import clear_traces
from simindex.storage.store import Store


@dataclass
class Target:
    """An open target.

    Attributes:
        path: where the backup will be found.
        store: its handle, the only writer.
        manifest: what it holds already; an empty one for a new folder.
        is_new: whether it still has to be renamed.
    """

    path: Path
    store: Store
    manifest: Manifest
    is_new: bool

    def put_in_place(self) -> None:
        """Give a new backup its name.

        Raises:
            FileExistsError: somebody has put something there meanwhile.
        """
        os.rename(self.store.path, self.path)
        sync_folder(self.path.parent)
        self.is_new = False


@contextmanager
def open_target(
    path: str | os.PathLike[str], source: Store, scheme: Scheme, header: bytes
) -> Iterator[Target]:
    """Open the target of a backup for a ``with`` block; what was begun anew and not finished is removed.

    Raises:
        ValueError: the path is that of the index itself, or inside of it.
        FormatError: there is something else at the path.
        ConfigMismatchError, BackupTargetError: there is an index that is no older backup of this one.
        IndexLockedError: somebody writes to the target, or makes a backup to the same place.
    """
    folder, own = Path(os.path.realpath(local_path(path))), Path(os.path.realpath(source.path))
    if folder == own or own in folder.parents:
        raise ValueError(f"{path}: expected a folder outside of the index, found {folder}")
    is_new = not (folder / DATA_FILE).exists()
    if is_new:
        _require_nothing(folder)
        target = Target(folder, _begin(folder, source, header), Manifest(), True)
    else:
        target = _older(folder, source, scheme)
    try:
        yield target
    finally:
        if target.is_new:
            remove_index(Path(target.store.path))
        target.store.close()


def _require_nothing(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FormatError(
            f"{folder}: expected a backup, an empty folder or nothing, found other files; choose another path"
        )


def _begin(folder: Path, source: Store, header: bytes) -> Store:
    """Make the folder of a backup under way, beside its place; one that was left there is emptied."""
    begun = folder.with_name(f".{folder.name}.backup")
    permissions = stat.S_IMODE(os.stat(source.data).st_mode) & 0o666 | 0o600
    folder.parent.mkdir(parents=True, exist_ok=True)
    if begun.is_symlink():
        raise FormatError(f"{begun}: expected a folder or nothing, found a symbolic link; take it away")
    if begun.exists():
        lock = WriterLock(str(begun), permissions)
        try:
            lock.require_held()
            for name in os.listdir(begun):
                if name != WRITER_LOCK_FILE:
                    (begun / name).unlink()
        finally:
            lock.release()
    try:
        store = Store(begun, "x", permissions=permissions)
    except FileExistsError:
        raise IndexLockedError(
            f"{folder}: another backup to this place has just been begun; wait for its end"
        ).located(str(folder)) from None
    except IndexLockedError:
        raise
    except BaseException:
        remove_index(begun)
        raise
    try:
        store.initialise(CONFIG_KEY, header, MANIFEST_KEY, encode_manifest(Manifest()))
    except BaseException:
        remove_index(begun)
        store.close()
        raise
    return store


def _older(folder: Path, source: Store, scheme: Scheme) -> Target:
    """Open an older backup, and remove what one that was killed has left in it."""
    store = Store(folder, "r+")
    try:
        manifest = _manifest_of_backup(store, source, scheme)
        clear_traces(store)
        with store.reading() as txn:
            unnamed = stored_segments(txn) - {entry.id for entry in manifest.segments}
        if unnamed:
            store.commit(
                lambda txn: [txn.delete_prefix("segments", segment_prefix(i)) for i in sorted(unnamed)], True
            )
    except BaseException:
        store.close()
        raise
    return Target(folder, store, manifest, False)


def _manifest_of_backup(store: Store, source: Store, scheme: Scheme) -> Manifest:
    """Return the manifest of a backup of an index. Raises as `open_target`."""
    theirs = scheme_of(store, None, None)
    wanted = f"{store.path}: expected a backup of {source.path}, found"
    if theirs.identity != scheme.identity:
        fields = differing_fields(theirs.config, scheme.config)
        if fields:
            differing = "; ".join(
                f"{name}: {there!r} there, {own!r} here" for name, (there, own) in fields.items()
            )
            raise ConfigMismatchError(
                f"{wanted} an index of another configuration ({differing}); choose another path", fields
            )
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


def require_older(target: Target, source: Store, manifest: Manifest) -> None:
    """Refuse a backup of a later state than the index has: the index was restored from an older one.

    Raises:
        BackupTargetError: it is newer.
    """
    there = target.manifest
    if there.next_number > manifest.next_number or there.next_segment > manifest.next_segment:
        raise BackupTargetError(
            f"{target.path}: expected an older backup of {source.path}, found a newer one (documents up to "
            f"number {there.next_number} there, {manifest.next_number} here); choose another path"
        )


Parts = Iterator[list[tuple[bytes, bytes]]]


@dataclass
class Difference:
    """What makes a database of the backup equal to that of the index.

    Attributes:
        removed: keys that are to go.
        changed: keys whose values are to be put, other ones or new ones among those that are there.
        tail: from this key on everything is new, and follows all that is there; ``None``: nothing is.
    """

    removed: list[bytes] = field(default_factory=list)
    changed: list[bytes] = field(default_factory=list)
    tail: bytes | None = None

    def __bool__(self) -> bool:
        return bool(self.removed or self.changed or self.tail is not None)


def difference(database: str, index: Parts, backup: Parts) -> Difference:
    """Compare the entries of both, which come in order of keys, some at a time.

    Raises:
        CorruptIndexError: keys do not ascend, where the two sides differ.
    """
    found = Difference()
    ours, theirs, last = _behind_what_is_alike(index, backup)
    there = next(theirs, None)
    for key, value in ours:
        if last is not None and key <= last:
            raise CorruptIndexError(
                f"{database}: expected ascending keys, found {key.hex():.80} behind {last.hex():.80}; "
                "restore a backup or rebuild the index",
                key=key,
            )
        last = key
        while there is not None and there[0] < key:
            found.removed.append(there[0])
            there = next(theirs, None)
        if there is None:
            found.tail = key
            break
        if there[0] != key:
            found.changed.append(key)
        else:
            if there[1] != value:
                found.changed.append(key)
            there = next(theirs, None)
    if there is not None:
        found.removed.append(there[0])
        found.removed += (key for key, _ in theirs)
    return found


def _behind_what_is_alike(
    index: Parts, backup: Parts
) -> tuple[Iterator[tuple[bytes, bytes]], Iterator[tuple[bytes, bytes]], bytes | None]:
    """Pass by the equal beginnings of both, as far as they come in equal parts; returns the rest of each, and
    the last key of the beginning."""
    last: bytes | None = None
    while True:
        ours, theirs = next(index, []), next(backup, [])
        if ours != theirs or not ours or (last is not None and ours[0][0] <= last):
            rests = chain([ours], index), chain([theirs], backup)
            return chain.from_iterable(rests[0]), chain.from_iterable(rests[1]), last
        last = ours[-1][0]
