"""The folder of an index in memory, which goes with its handle.

It lies on the file system that Linux keeps in memory, or in the temporary directory where there is none with
room. A killed process leaves its folder behind: the next index in memory removes those whose writer is gone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from simindex.storage.folder import WRITER_LOCK_FILE
from simindex.storage.lmdb_file import kept_open
from simindex.system import lock

MEMORY = ":memory:"
"""The path of an index in memory, as SQLite spells it; a `pathlib.Path` of that name is a folder."""

_SHARED_MEMORY, _PREFIX = "/dev/shm", "simindex-memory-"

_ROOM_BYTES = 1 << 28
"""Containers have 64 MiB there unless they are given more."""


def memory_folder(owner: object) -> tuple[str, Callable[[], object]]:
    """Make a private folder, which is removed with `owner` or at the end of the process; returns its path,
    and a function that removes it earlier. Folders that killed writers have left are removed first."""
    parent = _SHARED_MEMORY if _has_room(_SHARED_MEMORY) else tempfile.gettempdir()
    with contextlib.suppress(OSError):
        _remove_left(Path(parent))
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    with contextlib.suppress(OSError):  # a file system without locks: there none is found left, either
        lock(held)
    return folder, weakref.finalize(owner, _remove, folder, os.getpid(), held)


def removed_with(owner: object, folder: str) -> Callable[[], object]:
    """Arrange that a folder and all in it are removed when `owner` is garbage collected or the process ends,
    but not by a forked child; returns a function that removes it at once."""
    return weakref.finalize(owner, _remove, folder, os.getpid())


def _has_room(folder: str) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK) and found.f_bavail * found.f_frsize >= _ROOM_BYTES


def _remove_left(parent: Path) -> None:
    """Remove the folders of indexes in memory under `parent` whose process was killed: no descriptor has them
    locked. Those of other users, which cannot be opened, stay, and those without a writer's lock file."""
    # Locked by `memory_folder` before that file is made: the lock of the file itself is taken only
    # after it was made, and another process could remove the folder between the two.
    for found in parent.glob(f"{_PREFIX}*/{WRITER_LOCK_FILE}"):
        with contextlib.suppress(OSError), kept_open(str(found.parent)) as folder:
            if folder is not None:
                lock(folder)
                shutil.rmtree(found.parent, ignore_errors=True)


def _remove(folder: str, process: int, held: int | None = None) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
    if held is not None:
        os.close(held)
