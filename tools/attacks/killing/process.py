"""A process that works and is killed: at a random time, or at the n-th call that changes a file, before it,
in the middle of it or behind it.

Owns when it dies, and what it has told until then. Must not know what it does. Must be run with faults.c
(`faults`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import select
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from attacks import faults
from attacks.children import RIGHT, WRONG

LIFE = 10
"""Kills of one index or one job, one after the other; then comes a new one."""

Tell = Callable[[str], object]
"""Tells the parent something, in one piece, and in order."""

_KINDS = ("write", "write", "sync", "sync", "rename", "unlink", "truncate", "open", "mkdir")
_MOST_CALLS = {"write": 700, "sync": 300, "rename": 6, "unlink": 20, "truncate": 150, "open": 60, "mkdir": 6}
_SECONDS = 300.0


class Kill(NamedTuple):
    """What became of the work of a process that was killed.

    Attributes:
        life: number of what it worked on; `only` repeats it.
        under_way: the name of the call that was interrupted; "" between two.
        point: where the process was killed.
    """

    life: int
    outcome: str
    under_way: str
    point: str
    why: str


def judged(life: int, turn: int, under_way: str, death: Death, why: str) -> Kill:
    """Return what became of a work, where `why` is what is wrong with it; "" where it is right."""
    return Kill(life, WRONG if why else RIGHT, under_way, death.where, why and f"kill {turn}: {why}")


class Death(NamedTuple):
    """The end of a process.

    Attributes:
        told: all that it has told.
        where: it was killed.
    """

    told: str
    where: str


def killed(work: Callable[[Tell], object], name: str, longest_seconds: float) -> Death:
    """Run some work in a fork and kill it.

    Args:
        name: the same name is the same point, as far as clocks allow.
        longest_seconds: within them it is killed, where it is killed at a time. Then its children are killed
            with it, or go on; all have ended when this returns.

    Raises:
        RuntimeError: the work failed before it was killed.
    """
    chance = random.Random(f"point {name}")
    kind = None if chance.random() < 0.4 else chance.choice(_KINDS)
    number = 0 if kind is None else int(_MOST_CALLS[kind] ** chance.random())
    action = chance.choice([faults.KILL_BEFORE, faults.KILL_HALF, faults.KILL_AFTER])
    with_children = chance.random() < 0.5
    _be_parent_of_orphans()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _be_child(work, writing, partial(_arm, kind, action, number))
    os.close(writing)
    told, end = b"", time.monotonic() + (_SECONDS if kind else chance.uniform(0, longest_seconds))
    while (left := end - time.monotonic()) > 0 and select.select([reading], [], [], left)[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            break
        told += part
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while part := os.read(reading, 1 << 16):
        told += part
    os.close(reading)
    _wait_for_orphans(child, with_children)
    words = told.decode()
    if "!" in words:
        raise RuntimeError(f"a call failed before its process was killed: {words[words.index('!') :]}")
    where = f"at a time{', with its children' * with_children}"
    if kind is not None:
        where = f"{kind} {number}, {['before', 'middle', 'after'][action - 3]}"
    return Death(words, where)


def _arm(kind: str | None, action: int, number: int) -> None:
    if kind is not None:
        faults.arm(action, number, kinds=faults.KINDS[kind])


def _be_parent_of_orphans() -> None:
    """Let what outlives its parent become a child of this process (PR_SET_CHILD_SUBREAPER)."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def _wait_for_orphans(group: int, is_killing: bool) -> None:
    with contextlib.suppress(ChildProcessError, ProcessLookupError):
        while True:
            if is_killing:
                os.killpg(group, signal.SIGKILL)
            os.waitpid(-group, 0)


def _be_child(work: Callable[[Tell], object], writing: int, arm: Callable[[], object]) -> None:
    os.setpgid(0, 0)
    try:
        arm()
        work(lambda words: os.write(writing, words.encode()))
    except BaseException as error:
        os.write(writing, f"!{type(error).__name__}: {error}".encode())
    finally:
        os._exit(1)
