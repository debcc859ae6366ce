"""Work folders: a new index is made in a folder beside its place, and renamed when all of it is there.

Invariant: at the place there is nothing or the whole index, wherever a process is killed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from simindex.checks import local_path
from simindex.errors import FormatError, IndexLockedError
from simindex.storage.folder import WRITER_LOCK_FILE, WriterLock, remove_index
from simindex.system import sync_folder

T = TypeVar("T")


def place_of(
    destination: str | os.PathLike[str],
    sources: Iterable[str] = (),
    expected: str = "an empty folder or nothing",
) -> Path:
    """Return the real path of the folder for a new index; nothing is made there.

    Raises FormatError, which says what was `expected`, where there is anything but an empty folder, or one
    that is a mount point, and ValueError where it lies inside of a source.
    """
    folder = Path(os.path.realpath(local_path(destination)))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FormatError(f"{folder}: expected {expected}, found other files; choose another path")
    if os.path.ismount(folder):  # the folder beside it lies on another disk, and cannot take its place
        raise FormatError(f"{folder}: expected {expected}, found a mount point; choose a folder in it")
    for source in sources:
        if Path(os.path.realpath(source)) in folder.parents:
            raise ValueError(
                f"{folder}: expected a folder outside of the index {source}; choose another path"
            )
    return folder


@contextmanager
def work_folder(folder: Path, work: str, opened: Callable[[Path], AbstractContextManager[T]]) -> Iterator[T]:
    """Make a folder in a ``with`` block: it is built beside, under another name, and gets its own when the
    block ends well. It is removed where the block fails. What a killed process has left under that name is
    deleted before.

    Args:
        work: what is done, for the name of the folder meanwhile.
        opened: opens what is made there, and locks it (FileExistsError: another one is at it).

    Raises:
        IndexLockedError: another process does this work for the same folder.
        FormatError: a symbolic link lies under the other name."""
    begun = _begun(folder, work)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _clear(begun)
    with ExitStack() as stack:
        try:
            made = stack.enter_context(opened(begun))
        except FileExistsError:
            raise IndexLockedError(
                f"{folder}: another {work} to this place has just been begun; wait for its end"
            ).located(str(folder)) from None
        except IndexLockedError:
            raise
        except BaseException:
            remove_index(begun)
            raise
        try:
            yield made
            # With its lock held, so that another process does not take the folder for one that was left.
            os.rename(begun, folder)
            sync_folder(folder.parent)
        except BaseException:
            remove_index(begun)
            raise


def forget(folder: Path, work: str) -> None:
    """Delete the unfinished folder that a dead process has left of its work; one that a live process holds
    stays."""
    begun = _begun(folder, work)
    with suppress(IndexLockedError, FormatError):
        _clear(begun)
        shutil.rmtree(begun, ignore_errors=True)


def _begun(folder: Path, work: str) -> Path:
    """Return the path at which a folder is built: beside it, named ``.<its name>.<work>``."""
    return folder.with_name(f".{folder.name}.{work}")


def _clear(begun: Path) -> None:
    """Delete all but the lock file from the folder of a work that was killed, if there is one. Raises
    IndexLockedError where the work is under way, FormatError for a symbolic link."""
    if begun.is_symlink():
        raise FormatError(f"{begun}: expected a folder or nothing, found a symbolic link; take it away")
    if not begun.exists():
        return
    lock = WriterLock(str(begun))
    try:
        lock.require_held()
        for entry in list(begun.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != WRITER_LOCK_FILE:
                entry.unlink()
    finally:
        lock.release()
