"""Backups of an index that changes meanwhile: each is whole, and what the index held in a moment of the call.

Owns the load, where backups come from and go to, and their judgement. In one process, which nobody kills:
that is attacks/killing/backups.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections import Counter
from functools import partial
from pathlib import Path

from attacks import script
from attacks.children import run_child
from attacks.script import State, Step
from simindex import Index, Layout

_SECONDS = 600.0
_FRESH = 5
"""Backups to one place before there is a new one."""


def back_up_many(folder: Path, seed: int, rounds: int) -> tuple[Counter[str], list[str]]:
    """Make so many backups, in a child; returns what was done, and what was wrong."""
    end, result = run_child(partial(_work, folder, seed, rounds), _SECONDS)
    return result if end is None else (Counter(), [f"{end}: {result}"])


class _Load:
    """Changes an index in a thread until it is told to end, and knows what it held when."""

    def __init__(self, index: Index, seed: int) -> None:
        self.states: list[State] = [{}]
        self.steps: list[Step] = []
        self.ended = 0
        self.error = ""
        self._index, self._must_end = index, threading.Event()
        self._chance = random.Random(f"backups {seed}")
        self._thread = threading.Thread(target=self._change)

    def __enter__(self) -> _Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._must_end.set()
        self._thread.join()

    def _change(self) -> None:
        steps = script.steps(self._chance, {})
        while not self._must_end.is_set():
            step = next(steps)
            self.states.append(step.after)
            self.steps.append(step)
            try:
                with script.at_time(step.time):
                    step.call(self._index)
            except Exception as error:
                self.error = f"{step.name}: {type(error).__name__}: {error}"
                return
            self.ended += 1

    def objection(self, found: State, first: int, last: int) -> str:
        """Return what is wrong with a state taken when so many steps had ended, and had begun at its end."""
        if found == self.states[first] or any(
            script.is_between(self.states[at], self.steps[at], found) for at in range(first, last)
        ):
            return ""
        return script.difference(self.states[first], found)


def _work(folder: Path, seed: int, rounds: int) -> tuple[Counter[str], list[str]]:
    chance, done, wrong = random.Random(f"places {seed}"), Counter[str](), list[str]()
    path, copy = folder / "index", folder / "copy"
    layout = script.LAYOUTS[seed % len(script.LAYOUTS)]
    with script.open_index(path, layout) as index, _Load(index, seed) as load:
        while load.ended < 20 and not load.error:
            threading.Event().wait(0.01)
        for number in range(rounds):
            if number % _FRESH == 0:
                shutil.rmtree(copy, ignore_errors=True)
            whence = chance.choice(list(_WHENCE))
            first = load.ended
            try:
                _WHENCE[whence](path, copy, index)
                last = len(load.steps)
                with script.open_index(copy, Layout(), "r") as backup:
                    why = load.objection(script.held_by(backup), first, last)
                script.require_clean(copy)
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
            done[f"backups {'anew' if number % _FRESH == 0 else 'later'}, from {whence}"] += 1
            done["changes meanwhile"] += len(load.steps) - first
            if why or load.error:
                wrong.append(f"backup {number}, from {whence}: {why or load.error}")
                break
    if load.error and not wrong:
        wrong.append(load.error)
    return done, wrong


def _by_the_writer(_: Path, copy: Path, index: Index) -> None:
    index.backup(copy)


def _by_a_reader(path: Path, copy: Path, _: Index) -> None:
    with script.open_index(path, Layout(), "r") as reader:
        reader.backup(copy)


def _by_another_process(path: Path, copy: Path, index: Index) -> None:
    child = os.fork()
    if not child:
        try:
            _by_a_reader(path, copy, index)
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("a forked child could not make a backup")


_WHENCE = {
    "the writer": _by_the_writer,
    "a reader": _by_a_reader,
    "another process": _by_another_process,
}
