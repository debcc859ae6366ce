"""What operating systems differ in: locks and syncs of files, advice on pages; and files that are seen whole,
which rests on syncs.

Linux has all of it. Where another system lacks a call the portable way stands beside it, and
tests/storage/test_portable.py runs tests with those calls hidden. No other module names them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from typing import IO


def num_cores() -> int:
    """Return how many cores this process may run on, by its affinity; quotas of containers do not count."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def lock(file: int | IO[str] | IO[bytes], *, shared: bool = False) -> None:
    """Lock an open file against every other opening of it, or, `shared`, against those that lock it alone.
    Raises BlockingIOError where one has a lock that excludes this one."""
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def unlock(file: int) -> None:
    """Release the lock of an open file at once, even where a forked child has the same open file."""
    fcntl.flock(file, fcntl.LOCK_UN)


def sync(file: int) -> None:
    """Make the bytes of a file, or the names in a folder, durable."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS, where fsync alone leaves them in the cache of the disk
        with contextlib.suppress(OSError):  # not every file system has it
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)
            return
    os.fsync(file)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Make new names in a folder durable; one that may not be read is passed by."""
    with contextlib.suppress(PermissionError):
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            sync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def whole_file(path: str, permissions: int | None = None) -> Iterator[IO[bytes]]:
    """Give a file that takes the place of the one at a path when the block ends well: whole, and durable but
    for its name. Several processes may write one at once: each has one of its own beside it, and nothing is
    left of that where its block fails.

    Args:
        permissions: of the file; ``None``: those that the umask leaves."""
    folder, name = os.path.split(path)
    # A name may have 255 bytes, and a character of UTF-8 has up to four.
    beside = os.path.join(folder, f"{name[:48]}.{secrets.token_hex(16)}.partial")
    try:
        with open(
            beside, "xb", 1 << 20, opener=lambda path, flags: os.open(path, flags, permissions or 0o666)
        ) as file:
            if permissions is not None:
                os.fchmod(file.fileno(), permissions)
            yield file
            file.flush()
            sync(file.fileno())
        os.replace(beside, path)
    except BaseException as exc:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        if isinstance(exc, OSError) and exc.filename == beside:
            raise type(exc)(exc.errno, exc.strerror, path) from None
        raise


def read_at_random(file: int) -> None:
    """Ask the system not to read ahead of reads of a file; where it has no such call, nothing is done."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
