"""The open LMDB environments of a process, each shared by all who refer to it, and what fork() does to them.

A second environment of one file would break LMDB's locks, and a forked child must not use what it has
inherited: it keeps every environment without touching it, and closes one only to open the same file anew.
"""

from __future__ import annotations

import os
import threading
import weakref

from simindex.errors import SimIndexError
from simindex.storage.environment import CLOSED, FORK_WAIT_SECONDS, INHERITED, Environment, calls
from simindex.storage.folder import WriterLock


class Registry:
    """What this process has open.

    Attributes:
        lock: held to look for an environment and to open one.
        environments: (device, inode) of a data file -> its environment, as long as anything refers to it.
        inherited: in a forked child: the parent's environments, kept from the garbage collector, which would
            close them, and whether calls were under way in them.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.environments: weakref.WeakValueDictionary[tuple[int, int], Environment] = (
            weakref.WeakValueDictionary()
        )
        self.inherited: list[tuple[Environment, bool]] = []
        self._has_hooks = self._is_held = False

    def add(self, environment: Environment) -> None:
        """Let other handles find an environment by its identity; the first one registers
        the hooks of fork()."""
        if not self._has_hooks:
            self._has_hooks = True
            os.register_at_fork(before=self._pause, after_in_parent=self._go_on, after_in_child=self._forget)
        self.environments[environment.identity] = environment

    def close(self, environment: Environment) -> None:
        """Close an environment at once, and forget it; the caller knows that it has no other user."""
        with self.lock:
            self._close(environment)

    def leave(self, environment: Environment, handle: object) -> None:
        """Drop a handle from an environment, and close that where no other handle uses it and no call is
        under way in it. One inherited through fork() stays open."""
        # Though nothing may refer to it now: a traceback that is kept would keep it open.
        with self.lock:
            environment.handles.discard(handle)
            if environment.handles or environment.ended == INHERITED:
                return
            before, environment.ended = environment.ended, CLOSED  # before the look at calls, as `Calls` says
            if calls.of(environment):
                environment.ended = before
            else:
                self._close(environment)

    def _close(self, environment: Environment) -> None:
        if self.environments.get(environment.identity) is environment:
            del self.environments[environment.identity]
        environment.env.close()

    def close_inherited(self, identity: tuple[int, int], path: str) -> None:
        """In a forked child: close the parent's environment of a file, if any, for a process may open one
        only. Raises SimIndexError where a call was under way in it at the fork."""
        for environment, is_quiet in self.inherited:
            if environment.identity == identity:
                if not is_quiet:
                    raise SimIndexError(
                        f"{path}: the parent process was in the middle of a call on it when it forked; "
                        "open it in a process that is started anew"
                    )
                environment.env.close()  # for good, and again where it is closed already

    def _pause(self) -> None:
        self._is_held = self.lock.acquire(timeout=FORK_WAIT_SECONDS)
        calls.stop()

    def _go_on(self) -> None:
        calls.go_on()
        if self._is_held:
            self.lock.release()

    def _forget(self) -> None:
        """In the child: move the parent's environments to `inherited`, drop their pins without ending its
        transactions, forget its calls, and close its writers' lock files without unlocking them."""
        self.lock = threading.Lock()
        for environment in list(self.environments.values()):
            self.inherited.append((environment, not calls.of(environment)))
            environment.ended = INHERITED
            for pin in list(environment.pins):
                del pin.txn  # py-lmdb leaves the parent's place among the readers alone
        self.environments.clear()
        calls.forget()
        for lock in list(WriterLock.held):
            lock.abandon()


registry = Registry()
