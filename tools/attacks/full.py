"""A file system without room at each step: a small tmpfs, where this process may mount one, else a limit on
the length of files.

Owns the room that is left and the judgement: an error says that there is none, the index holds the state
before the step or whole commits of it, and the step succeeds when there is room again.
"""

from __future__ import annotations

import ctypes
import os
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from attacks import script
from attacks.children import RIGHT, TYPED, UNTYPED, WRONG, run_child
from attacks.script import State, Step
from simindex import Index, IndexFullError
from simindex.storage.folder import data_file

PART = 25
"""Steps of one process, and of one file system."""

_SECONDS = 1800.0
_DISK_BYTES = 24 << 20
_ROOM = (0, 4096, 12_288, 65_536, 262_144, 1 << 20)
_NEWNS, _PRIVATE = 0x20000, 1 << 18 | 1 << 14


class Full(NamedTuple):
    """What became of a step without room.

    Attributes:
        part: number of the process; `only` repeats it.
        room: bytes that were left.
    """

    part: int
    step: int
    name: str
    room: int
    outcome: str
    why: str


def fill_many(folder: Path, seed: int, steps: int, only: int | None = None) -> tuple[str, list[Full]]:
    """Take the room away before so many steps; returns what was full, and what became of each."""
    what = "a tmpfs" if _can_mount(folder) else "RLIMIT_FSIZE"
    found: list[Full] = []
    for part in range((steps + PART - 1) // PART) if only is None else [only]:
        disk = folder / f"disk{part}"
        disk.mkdir()
        end, result = run_child(partial(_part, disk, seed, part, what == "a tmpfs"), _SECONDS)
        found += result if end is None else [Full(part, 0, "", 0, end, str(result))]
    return what, found


def _mount(disk: Path) -> None:
    """Mount a tmpfs that this process and its children alone see."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={_DISK_BYTES}".encode()
    if (
        libc.unshare(_NEWNS)
        or libc.mount(None, b"/", None, _PRIVATE, None)
        or libc.mount(b"none", os.fsencode(disk), b"tmpfs", 0, options)
    ):
        raise OSError(ctypes.get_errno(), "a tmpfs cannot be mounted")


def _can_mount(folder: Path) -> bool:
    disk = folder / "mounted"
    disk.mkdir()

    def mounted() -> bool:
        try:
            _mount(disk)
        except OSError:
            return False
        return True

    return run_child(mounted, 60.0) == (None, True)


@contextmanager
def _filled(root: Path, room: int) -> Iterator[None]:
    """Leave so much room on a file system."""
    filler = root / "filler"
    disk = os.statvfs(root)
    with open(filler, "wb") as file:
        if (size := disk.f_bavail * disk.f_frsize - room) > 0:
            os.posix_fallocate(file.fileno(), 0, size)
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def _limited(path: Path, room: int) -> Iterator[None]:
    """Let no file become longer than the data file by more than that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = os.stat(data_file(path)).st_size + room
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _part(disk: Path, seed: int, part: int, is_mounted: bool) -> list[Full]:
    path, chance, found = disk / "index", random.Random(f"full {seed} {part}"), list[Full]()
    if is_mounted:
        _mount(disk)
    less = partial(_filled, disk) if is_mounted else partial(_limited, path)
    state: State = {}
    with script.open_index(path, script.LAYOUTS[part % len(script.LAYOUTS)]) as index:
        steps = script.steps(random.Random(f"steps {seed} {part}"), state)
        for step in islice(steps, 8):  # something to work on
            _run(index, step)
            state = step.after
        for number, step in enumerate(islice(steps, PART)):
            room = chance.choice(_ROOM)
            outcome, why, is_done = _tried(index, state, step, partial(less, room))
            found.append(Full(part, number, step.name, room, outcome, why))
            if outcome not in (RIGHT, TYPED):
                break
            if not is_done:
                try:
                    _again(index, state, step)
                except Exception as error:
                    why = f"{type(error).__name__}: {error}, with room again"
                    found[-1] = found[-1]._replace(outcome=WRONG, why=why)
                    break
            state = step.after
    return found


def _run(index: Index, step: Step) -> None:
    with script.at_time(step.time):
        step.call(index)


def _tried(
    index: Index, before: State, step: Step, less: Callable[[], AbstractContextManager[None]]
) -> tuple[str, str, bool]:
    """Take a step without room; returns the outcome, why, and whether it was done."""
    told = ""
    try:
        with less():
            _run(index, step)
    except IndexFullError as error:
        told = f"IndexFullError: {error}"
    except Exception as error:
        return UNTYPED, f"{type(error).__name__}: {error}", False
    try:
        held = script.held_by(index)
    except Exception as error:
        return WRONG, f"{told}; {type(error).__name__}: {error}", False
    if held == step.after:
        return (TYPED if told else RIGHT), told, True
    if not told or not script.is_between(before, step, held):
        return WRONG, f"{told or 'no error'}; {script.difference(before, held)}", False
    return TYPED, told, False


def _again(index: Index, before: State, step: Step) -> None:
    """Take it again, where there is room; of a call of several commits the index may hold some."""
    if script.held_by(index) == before:
        _run(index, step)
    else:
        gone = before.keys() - step.after.keys()
        index.remove_many(sorted(key for key in gone if key in index))
        for key, held in step.after.items():
            if key not in index:
                with script.at_time(step.time):
                    index.insert(key, script.document(held.text), held.text)
    found = script.held_by(index)
    if found != step.after:
        raise script.WrongError(script.difference(step.after, found))
