"""The open LMDB environments of a process, each shared by its handles on that file, and what fork() does to
them.

A second environment of one file would break LMDB's locks, and a forked child must not touch the one that it
has inherited: it forgets every environment without closing it, unless it opens the same file, or uses a
reader's handle that it has inherited; then the inherited one is closed first.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from collections.abc import Callable

import lmdb

from simindex.errors import SimIndexError
from simindex.storage.environment import Environment, Exclusive
from simindex.storage.folder import LMDB_LOCK_FILE
from simindex.system import shared_maps

_FORK_WAIT_SECONDS = 10.0


_MAP_FIXED = 0x10


class Registry:
    """What this process has open.

    Attributes:
        lock: held for every change of the dictionaries.
        environments: (device, inode) of a data file -> its environment.
        on_fork: what the child calls for each open handle, to let go of it; it keeps no handle alive.
        inherited: in a forked child: the parent's environments, kept from the garbage collector, and
            whether they were quiet, so that closing one takes nothing from the parent.
        building: held for every step in a file that a compaction builds.
        unseen: LMDB's environments of such files. A child closes what it has inherited: when the file has got
            its place it could not open it otherwise, and only the writer has locks in it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.environments: dict[tuple[int, int], Environment] = {}
        self.on_fork: set[weakref.WeakMethod[Callable[[], None]]] = set()
        self.inherited: dict[tuple[int, int], tuple[Environment, bool]] = {}
        self.building = threading.Lock()
        self.unseen: set[lmdb.Environment] = set()
        self._has_hooks = False
        self._is_held = self._is_building_held = False
        self._paused: list[Environment] = []  # between the hooks of one fork

    def close_unused(self, leaving: object = None) -> None:
        """Close environments that no handle but `leaving` uses. The caller must not hold the lock."""
        with self.lock:
            for identity, environment in list(self.environments.items()):
                if leaving is not None:
                    environment.handles.discard(leaving)
                if not environment.handles:
                    # Calls of other threads end first: their addresses lie in the map.
                    with Exclusive(environment) as _exclusive:
                        self.environments.pop(identity, None)
                        environment.env.close()

    def give_up(self, dead: Environment) -> None:
        """Close an environment that was left between two files, if that is still to be done."""
        with self.lock, Exclusive(dead) as _exclusive:
            if self.environments.get(dead.identity) is dead:
                del self.environments[dead.identity]
            dead.env.close()

    def close_inherited(self, identity: tuple[int, int], folder: str, path: str) -> None:
        """In a forked child: close the parent's environment of a file, for a process may open one only."""
        # By the folder, too: another process may have put another file there since the parent
        # opened it.
        for found, (environment, quiet) in list(self.inherited.items()):
            if found != identity and environment.folder != folder:
                continue
            if not quiet:
                raise SimIndexError(
                    f"{path}: the parent process was in the middle of a call on it when it forked; "
                    "open it in a process that is started anew"
                )
            if not _unshare(environment.folder, environment.lock_inode):
                raise SimIndexError(
                    f"{path}: the parent process had it open when it forked, and this system does not tell "
                    "where its lock file lies in memory; open it in a process that is started anew"
                )
            environment.env.close()
            del self.inherited[found]

    def install_hooks(self) -> None:
        """Follow every fork() from now on."""
        with self.lock:
            if not self._has_hooks:
                self._has_hooks = True
                os.register_at_fork(
                    before=self._pause, after_in_parent=self._go_on, after_in_child=self._abandon
                )

    def _pause(self) -> None:
        """Let running transactions end, so that the child inherits none."""
        # For a while only: a signal handler may fork in the middle of one on its own thread.
        self._is_held = self.lock.acquire(timeout=_FORK_WAIT_SECONDS)
        for environment in list(self.environments.values()):
            if environment.close_gate(_FORK_WAIT_SECONDS):
                self._paused.append(environment)
        # The last: a visitor may be about to take a step in a file that is being built.
        self._is_building_held = self.building.acquire(timeout=_FORK_WAIT_SECONDS)

    def _go_on(self) -> None:
        for environment in self._paused:
            environment.gate.open()
        self._paused.clear()
        if self._is_held:
            self.lock.release()
        if self._is_building_held:
            self.building.release()

    def _abandon(self) -> None:
        """In the child: forget every environment without closing it, and let go of the writer lock."""
        self.lock, self.building = threading.Lock(), threading.Lock()
        if self._is_building_held:  # else another thread of the parent is in the middle of something
            while self.unseen:
                self.unseen.pop().close()
        for identity, environment in self.environments.items():
            self.inherited[identity] = environment, environment in self._paused
        self._paused.clear()
        self.environments.clear()
        references, self.on_fork = self.on_fork, set()
        for reference in references:
            let_go = reference()
            if let_go is not None:
                let_go()  # a reader's comes back: it may be forked again before it is used


def _unshare(folder: str, inode: int | None) -> bool:
    """In a forked child: put private memory where LMDB's lock file is mapped; whether that is done."""
    # To close what was inherited ends its transactions, those, too, that a thread of the parent had
    # just ended and not thrown away. The parent may have given their slots to other calls by now, whose
    # snapshots its writer would then overwrite. In private memory no slot is freed.
    try:
        shared = [each for each in shared_maps() if LMDB_LOCK_FILE in each[3]]
    except OSError:
        return False
    here = [each for each in shared if each[3] == os.path.join(folder, LMDB_LOCK_FILE)]
    # Renamed or removed meanwhile it has another path. On a disk that is read-only there is none.
    found = here or [each for each in shared if each[2] == inode]
    system = ctypes.CDLL(None, use_errno=True).mmap
    system.restype = ctypes.c_void_p
    size, number = ctypes.c_size_t, ctypes.c_int
    system.argtypes = [ctypes.c_void_p, size, number, number, number, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
    for first, behind, *_ in found:
        if system(first, behind - first, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0) != first:
            return False
    return True


registry = Registry()
