"""Disk space: what commits may use, and a reserve for removals."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from functools import lru_cache
from pathlib import Path

from simindex.errors import IndexFullError
from simindex.storage.folder import BALLAST_FILE, DATA_FILE, open_plain, permissions_of

_MIN_BALLAST, _MAX_BALLAST = 1 << 20, 1 << 24
_BALLAST_STEP = 1 << 16
_SHARED = -_MIN_BALLAST << 6
"""Files whose lengths agree in these bits have the same ballast."""


@lru_cache(maxsize=64)
def ballast_bytes(file_bytes: int, limit: int) -> int:
    """Return how much space is kept for removals: a 64th of the file in whole MiB, 1 to 16 MiB, but never
    more than a quarter of the limit."""
    share = file_bytes // 64 & -_MIN_BALLAST
    return min(max(share, _MIN_BALLAST), _MAX_BALLAST, limit // 4 & -4096)


class Space:
    """How much of the disk and of `max_bytes` the commits of a writer may use; its ballast.

    The ballast is a file that holds disk space, which only commits that free space may use. LMDB never
    overwrites a page in use, so a removal needs new pages before it gives old ones back: on a full disk
    nothing could be removed any more. Invariant: what is held is at most what lies on the disk.

    Attributes:
        limit: the largest length of the data file.
        map_limit: how far the map may grow at present: ordinary commits stop one ballast earlier than
            removals.
        held: bytes of the ballast.
    """

    def __init__(self, path: str, limit: int, remedy: str) -> None:
        """Args: remedy: how to have a higher limit."""
        self.limit, self._remedy = limit, remedy
        self._folder = Path(path)
        self._kept = ballast_bytes(limit, limit)
        """Bytes of the limit that only removals may use."""
        self.map_limit = limit - self._kept
        self.held = 0
        self._can_allocate = True
        """Whether the file system can allocate space ahead."""

    def look(self) -> None:
        """Take note of the ballast that lies in the folder."""
        with contextlib.suppress(FileNotFoundError):
            found = (self._folder / BALLAST_FILE).lstat()
            self.held = min(found.st_size, 512 * found.st_blocks)  # a copy of a folder may have it with holes

    @property
    def is_lifted(self) -> bool:
        """Whether the file may grow into the part of the limit that is kept for removals."""
        return self.map_limit > self.limit - self._kept

    def lift(self) -> None:
        """Let a commit that frees space have the ballast, on the disk and in the file."""
        self._give_up()
        self.map_limit = max(self.map_limit, self.limit)

    def settle(self) -> int:
        """Take back what was lifted; returns how far the map may grow."""
        self.map_limit = self.limit - self._kept
        return self.map_limit

    def hold(self, file_bytes: int) -> int:
        """Hold the ballast of a data file of that length, as far as the disk and the limit have room; returns
        the bytes that are missing, 0 where the file system cannot allocate ahead."""
        room = max(0, self.limit - file_bytes)
        whole = ballast_bytes(file_bytes & _SHARED, self.limit)
        if self.held == whole <= room:
            return 0
        available = self.available()
        # It must not be all there is on a small disk.
        wanted = ballast_bytes(file_bytes, min(self.limit, file_bytes + available))
        size = min(max(wanted, self.held), whole, room)
        if size > available:
            size = max(self.held, available & -_BALLAST_STEP)
        if size != self.held and self._can_allocate:
            self._resize(size)
        return max(0, wanted - (self.held if self._can_allocate else room))

    def available(self) -> int:
        """Return the free bytes of the disk, the ballast's included."""
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize + self.held

    def _resize(self, size: int) -> None:
        held, self.held = self.held, 0
        try:
            file = open_plain(self._folder / BALLAST_FILE, permissions_of(self._folder, None))
            try:
                if size > held:
                    os.posix_fallocate(file, 0, size)
                os.ftruncate(file, size)
            finally:
                os.close(file)
            self.held = size
        except OSError as exc:
            if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
                self._can_allocate = False
            self._give_up()

    def _give_up(self) -> None:
        self.held = 0
        with contextlib.suppress(OSError):
            (self._folder / BALLAST_FILE).unlink(missing_ok=True)

    def usable_bytes(self, file_bytes: int) -> int | None:
        """Return how many bytes an ordinary commit may leave in use; ``None`` where any number is well.

        Where a removal has used the ballast, free pages of the file stand in for what is missing of it.
        """
        missing = self.hold(file_bytes)
        if missing:
            return file_bytes - missing
        usable = self.limit - self._kept
        return usable if self.map_limit > usable else None

    def full(self, usable: int) -> IndexFullError:
        """Return the error of a commit that would need more."""
        if usable < self.limit - self._kept:
            return IndexFullError(
                f"{self._folder}: the disk is full but for what is kept for removals ({max(0, usable)} bytes "
                f"of {DATA_FILE} may be in use); nothing of this commit was written. Free some space, or "
                "remove documents and compact"
            )
        return IndexFullError(
            f"{self._folder}: the index reached its largest allowed size of {self.limit} bytes, {self._kept} "
            "of them kept for removals; nothing of this commit was written. Remove documents (fewer at a "
            f"time, if this was a removal) and compact, or {self._remedy}"
        )


def require_room(path: str, file_bytes: int, needed: int, found: int) -> None:
    """Refuse a compaction that would run out of space: its file comes to `file_bytes`, it needs so many free
    bytes of disk and finds so many."""
    longest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if longest != resource.RLIM_INFINITY and file_bytes > longest:
        raise IndexFullError(
            f"{path}: expected a file of {file_bytes} bytes to be allowed, found a limit of {longest} "
            "(RLIMIT_FSIZE); nothing was changed. Raise it, or remove documents",
            needed_bytes=needed,
        )
    if needed > found:
        raise IndexFullError(
            f"{path}: expected {needed} bytes of free disk for the new segment and the copy beside the old "
            f"file, found {found}; nothing was changed. Free some space, or remove documents",
            needed_bytes=needed,
        )
