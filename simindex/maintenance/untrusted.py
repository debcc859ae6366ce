"""An index from an untrusted source: a private copy of it is checked in full before anything opens it.

Invariant: the copy lies in a folder that only this user can enter, and does not change after its check.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from simindex.checks import local_path
from simindex.errors import CorruptIndexError, IndexFullError, SimIndexError
from simindex.maintenance.check import check
from simindex.storage.folder import DATA_FILE, Mode, data_file, require_place
from simindex.storage.memory import removed_with

_SHOWN = 5

_META_BYTES = 1 << 16
"""Both meta pages lie in them, whatever the size of a page is."""

_ATTEMPTS, _PAUSE_SECONDS = 20, 0.01


def require_reading(mode: Mode) -> None:
    """Raise ValueError for a mode other than "r" and "a": a copy is only read."""
    if mode not in ("r", "a"):
        raise ValueError(f'untrusted: a copy is opened to be read, expected mode "r", found {mode!r}')


def proven_copy(owner: object, path: str | os.PathLike[str]) -> tuple[str, Callable[[], object]]:
    """Copy an index into a temporary folder and check the copy in full.

    Returns:
        The folder, and a function that removes it, which runs by itself at the end of `owner`.

    Raises:
        CorruptIndexError: the check found a problem. As on every error, the folder is removed.
        IndexFullError: the disk of temporary files has no room.
        FileNotFoundError, FormatError: there is no index.
    """
    source = Path(local_path(path))
    require_place(source, "r")
    folder = tempfile.mkdtemp(prefix="simindex-untrusted-")
    end = removed_with(owner, folder)
    data = Path(data_file(source))
    try:
        try:
            _copy(data, Path(folder) / DATA_FILE)
        except OSError as exc:
            if exc.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            needed = data.stat().st_size
            raise IndexFullError(
                f"{source}: expected {needed} bytes of free disk in {os.path.dirname(folder)} for the copy "
                f"that untrusted=True checks, found no room ({exc.strerror}); set TMPDIR to a disk with more",
                needed_bytes=needed,
            ).located(str(source)) from exc
        report = check(folder)
        if not report.ok:
            found = "; ".join(str(problem) for problem in report.problems[:_SHOWN])
            noun = "problem" if report.num_problems == 1 else "problems"
            raise CorruptIndexError(
                f"{source}: expected an index that is right in itself, found {report.num_problems} {noun}: "
                f"{found}; it was not opened",
                path=str(source),
            )
    except BaseException:
        end()
        raise
    return folder, end


def _copy(source: Path, target: Path) -> None:
    """Copy a data file to a new file, in the state of one commit. Raises CorruptIndexError where it is no
    plain file, and SimIndexError where it goes on changing through all attempts."""
    # A commit writes to pages that the one before does not use, and then a meta page. What was copied
    # while these stayed the same is one whole state.
    found = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(found, "rb") as incoming, open(target, "xb") as outgoing:
        if not stat.S_ISREG(os.fstat(found).st_mode):
            raise CorruptIndexError(f"{source}: expected a plain file, found another thing", path=str(source))
        os.fchmod(outgoing.fileno(), 0o600)
        for attempt in range(_ATTEMPTS):
            before = os.pread(found, _META_BYTES, 0)
            for file in (incoming, outgoing):
                file.seek(0)
            shutil.copyfileobj(incoming, outgoing, 1 << 20)
            outgoing.truncate()
            if os.pread(found, _META_BYTES, 0) == before:
                return
            time.sleep(_PAUSE_SECONDS * attempt)
    raise SimIndexError(
        f"{source}: expected a file that stays as it is while it is copied, found one that a writer goes on "
        f"changing, {_ATTEMPTS} times; make a backup of it and open that"
    ).located(str(source.parent))
