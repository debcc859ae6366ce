"""The calls of faults.c, loaded before libc: which call of a process fails, is cut short, or is its last.

Owns compiling and loading it, and the log that it writes. Must not know what simindex does with files. Linux
with glibc and a C compiler only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

OPEN, WRITE, SYNC, TRUNCATE, RENAME, UNLINK, MKDIR, MAP, MARK, ALLOCATE = (1 << bit for bit in range(10))
KINDS = {
    "open": OPEN,
    "write": WRITE,
    "sync": SYNC,
    "truncate": TRUNCATE,
    "rename": RENAME,
    "unlink": UNLINK,
    "mkdir": MKDIR,
    "map": MAP,
}
EVERY_KIND = sum(KINDS.values())

NOTHING, FAIL, SHORT, KILL_BEFORE, KILL_HALF, KILL_AFTER = range(6)
"""What an armed call does: nothing, fail, write half, kill its process before, in the middle or behind it."""

IS_CREATED, IS_CUT, IS_DURABLE, IS_FOLDER = 1, 2, 4, 8
FOREVER = 1 << 40
_ENTRY = struct.Struct("<IIQqQQ")
_LOADED = "SIMINDEX_FAULTS"


def compiler() -> str | None:
    """Return a C compiler; ``None`` where there is none, or the system is not Linux."""
    return (shutil.which("cc") or shutil.which("gcc")) if sys.platform == "linux" else None


def run_again_with_faults() -> None:
    """Start this program anew with faults.c loaded, if it is not.

    Raises:
        SystemExit: it cannot be compiled here.
    """
    if _LOADED in os.environ:
        return
    cc = compiler()
    if cc is None:
        raise SystemExit("this attack needs Linux and a C compiler")
    library = Path(tempfile.mkdtemp(prefix="simindex-faults-")) / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run(
        [cc, "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread"], check=True
    )
    # Behind the sanitizers' libraries, which want to be the first.
    before = os.environ.get("LD_PRELOAD", "")
    environment = os.environ | {"LD_PRELOAD": f"{before}:{library}".strip(":"), _LOADED: str(library)}
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def _library() -> ctypes.CDLL:
    found = ctypes.CDLL(None)
    found.faults_arm.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_int]
    found.faults_counted.restype = found.faults_fired.restype = ctypes.c_long
    found.faults_mark.argtypes = [ctypes.c_long]
    return found


def forget() -> None:
    """Remove the compiled library; it stays loaded. At the end of a program that was started anew."""
    shutil.rmtree(Path(os.environ[_LOADED]).parent, ignore_errors=True)


def watch(folder: Path) -> None:
    """Count calls about what lies below a folder (a real path), from now on."""
    _library().faults_watch(os.fsencode(folder))


def arm(
    action: int, first: int = 1, last: int | None = None, *, kinds: int = EVERY_KIND, error: int = errno.EIO
) -> None:
    """Count anew; the calls number `first` to `last` (``None``: that one alone) are met by the action."""
    _library().faults_arm(action, kinds, first, first if last is None else last, error)


def disarm() -> None:
    """Let all calls pass."""
    arm(NOTHING)


def fired() -> int:
    """Return how many calls were met since `arm`."""
    return int(_library().faults_fired())


def counted() -> int:
    """Return how many calls counted since `arm`."""
    return int(_library().faults_counted())


def log_to(file: int) -> None:
    """Write down every call from now on; -1: no longer."""
    _library().faults_log(file)


def mark(number: int) -> None:
    """Put a number of the harness into the log."""
    _library().faults_mark(number)


class Entry(NamedTuple):
    """A call of the log.

    Attributes:
        inode: of the file; the number of a mark.
        offset: where it was written, or the length that it was cut to.
        data: what was written, or the path.
        second: the new path of a rename.
    """

    kind: int
    flags: int
    inode: int
    offset: int
    data: bytes
    second: bytes


def entries_of(log: Path) -> Iterator[Entry]:
    """Return the calls of a log, in their order."""
    data, at = log.read_bytes(), 0
    while at < len(data):
        kind, flags, inode, offset, size, size2 = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        yield Entry(kind, flags, inode, offset, data[at : at + size], data[at + size : at + size + size2])
        at += size + size2
