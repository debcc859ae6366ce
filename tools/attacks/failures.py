"""The n-th call that changes a file fails, or the n-th allocation: for every n of a script, or for some.

Each step is tried with its first call failing, then the second and so on, until it comes to its end without a
failure. Owns which call fails and how, and the judgement: the error is one of simindex or a MemoryError; the
index holds the state before the step or whole commits of it; the handle works, or says that it is closed.
(The loop is that of SQLite's tests: sqlite.org/testing.html, section 3.) Must be run with faults.c
(`faults`).
"""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

from attacks import faults, script
from attacks.children import OTHER, RIGHT, UNTYPED, WRONG, run_child
from attacks.script import State, Step
from simindex import ClosedError, Index, Layout, SimIndexError
from simindex.storage.folder import data_file

MODES = ("files", "lmdb memory", "python memory")
"""What fails: a call about files; LMDB's malloc; an allocation of Python's own, of what uses its allocators,
too."""

PART = 25
"""Steps of one process."""

_SECONDS = 1800.0
_ERRORS = (errno.ENOSPC, errno.EIO, errno.EIO, errno.EDQUOT)


class Failure(NamedTuple):
    """What became of a step in which something failed.

    Attributes:
        part: number of the process; `only` repeats it.
        what: "ENOSPC", "EIO, for ever" and the like.
    """

    part: int
    step: int
    name: str
    number: int
    what: str
    outcome: str
    why: str


def fail_many(
    folder: Path, seed: int, mode: str, steps: int, sample: int | None, only: int | None = None
) -> list[Failure]:
    """Let calls fail in a script of so many steps; returns what became of each failure.

    Args:
        sample: failures wanted, spread over the script; ``None``: every n.
    """
    parts = list(range((steps + PART - 1) // PART)) if only is None else [only]
    failures: list[Failure] = []
    for part in parts:
        wanted = None if sample is None else -(-sample // ((steps + PART - 1) // PART))
        end, found = run_child(partial(_part, folder, seed, mode, part, wanted), _SECONDS)
        if end is not None:
            failures.append(Failure(part, 0, "", 0, mode, end, f"{found}; {_last_words(folder)}"))
        else:
            failures += found
    return failures


def _last_words(folder: Path) -> str:
    """Return what was under way when a process died."""
    words = folder / "words"
    return words.read_text() if words.exists() else ""


class _Trial:
    """An index that can be put back to where it was before a step."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.path, self._kept = folder / "index", folder / "kept"
        self._words = os.open(folder / "words", os.O_RDWR | os.O_CREAT)
        self._layout = layout
        shutil.rmtree(self.path, ignore_errors=True)
        self.index = script.open_index(self.path, layout)

    def keep(self) -> None:
        # The data file alone: a lock file that is opened and closed would lose the process's locks.
        shutil.copyfile(data_file(self.path), self._kept)

    def put_back(self) -> None:
        self.index.close()
        shutil.copyfile(self._kept, data_file(self.path))
        self.index = script.open_index(self.path, self._layout)

    def open_again(self) -> None:
        self.index.close()
        self.index = script.open_index(self.path, self._layout)

    def say(self, words: str) -> None:
        """Leave word for who finds this process dead."""
        os.pwrite(self._words, words.ljust(200).encode(), 0)


def _part(folder: Path, seed: int, mode: str, part: int, wanted: int | None) -> list[Failure]:
    """Let calls of `PART` steps fail, on top of some that are made without failures."""
    chance = random.Random(f"failures {seed} {mode} {part}")
    layout = script.LAYOUTS[part % len(script.LAYOUTS)]
    faults.watch(folder / "index")
    trial = _Trial(folder, layout)
    found: list[Failure] = []
    state: State = {}
    steps = script.steps(random.Random(f"steps {seed} {part}"), state)
    for step in islice(steps, 8):  # something to work on
        _run(trial.index, step)
        state = step.after
    for index, step in enumerate(islice(steps, PART)):
        trial.keep()
        wanted_here = None if wanted is None else -(-(wanted - len(found)) // (PART - index))
        for number in count(1) if wanted_here is None else _some(chance, mode, wanted_here):
            failure, is_over = _try(trial, state, step, mode, number, chance)
            if failure is not None:
                found.append(failure._replace(part=part, step=index))
            if is_over and wanted_here is None:
                break
        trial.put_back()
        _run(trial.index, step)
        state = step.after
    trial.index.close()
    return found


def _some(chance: random.Random, mode: str, wanted: int) -> Iterator[int]:
    """Return numbers of calls that may fail, the small ones more often."""
    most = {"files": 40, "lmdb memory": 8, "python memory": 4000}[mode]
    return (int(most ** chance.random()) for _ in range(wanted))


def _run(index: Index, step: Step) -> None:
    with script.at_time(step.time):
        step.call(index)


def _try(
    trial: _Trial, before: State, step: Step, mode: str, number: int, chance: random.Random
) -> tuple[Failure | None, bool]:
    """Let one call of a step fail; returns what became of it, and whether there was no such call."""
    what, arm, disarm = _weapon(mode, number, chance)
    trial.say(f"{step.name}, {mode} {number}, {what}")
    error: BaseException | None = None
    fired = True
    with script.at_time(step.time):
        try:
            arm()
            try:
                step.call(trial.index)
            finally:
                fired = disarm()
        except BaseException as raised:
            error = raised
    if not fired and error is None:
        trial.put_back()
        return None, True
    outcome, why, is_as_before = _judged(trial, before, step, error)
    if not is_as_before:
        trial.put_back()
    return Failure(0, 0, step.name, number, what, outcome, why), False


def _weapon(
    mode: str, number: int, chance: random.Random
) -> tuple[str, Callable[[], None], Callable[[], bool]]:
    """Return what it is, how it is armed, and how it is disarmed, which says whether it went off."""
    is_once = chance.random() < 0.7
    last, span = (number, "") if is_once else (faults.FOREVER, ", and all behind it")

    def disarm() -> bool:
        fired = faults.fired()
        faults.disarm()
        return fired > 0

    if mode == "files":
        error, action = chance.choice(_ERRORS), chance.choice([faults.FAIL, faults.FAIL, faults.SHORT])
        what = f"{'half of a write, or ' if action == faults.SHORT else ''}{errno.errorcode[error]}{span}"
        return what, partial(faults.arm, action, number, last, error=error), disarm
    if mode == "lmdb memory":
        # One alone: disarming takes memory, too.
        return "malloc", partial(faults.arm, faults.FAIL, number, kinds=faults.ALLOCATE), disarm

    import _testcapi  # type: ignore[import-not-found]  # CPython's own, where it is installed

    def disarm_python() -> bool:
        _testcapi.remove_mem_hooks()
        return True

    return "an allocation", partial(_testcapi.set_nomemory, number, number + 1), disarm_python


def _where(error: BaseException) -> str:
    """Return where an error was raised."""
    frames = [
        f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)
    ]
    return f"at {' < '.join(reversed(frames[-3:]))}"


def _judged(trial: _Trial, before: State, step: Step, error: BaseException | None) -> tuple[str, str, bool]:
    """Return the outcome, what is to be said of it, and whether the index is where it was."""
    told = "no error" if error is None else f"{type(error).__name__}: {error}"
    # NumPy returns no result and sets no exception where some of its small buffers have no room.
    is_numpys = isinstance(error, SystemError) and re.search("without (setting an )?exception", str(error))
    if error is not None and not (isinstance(error, SimIndexError | MemoryError | OSError) or is_numpys):
        return UNTYPED, f"{told} {_where(error)}", False
    is_closed = False
    try:
        try:
            found = script.held_by(trial.index)
            trial.index.remove_many([])
        except ClosedError:
            is_closed = True
            trial.open_again()
            found = script.held_by(trial.index)
    except script.WrongError as wrong:
        return WRONG, f"{told}; {wrong}", False
    except Exception as dead:
        return UNTYPED, f"{told}; the handle is dead: {type(dead).__name__}: {dead} {_where(dead)}", False
    if error is None and found != step.after:
        return WRONG, f"{told}; {script.difference(step.after, found)}", False
    if not script.is_between(before, step, found):
        return WRONG, f"{told}; {script.difference(before, found)}", False
    return OTHER if is_closed else RIGHT, told, found == before and not is_closed
