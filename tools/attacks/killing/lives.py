"""Processes killed while they change an index.

Owns the judgement: what a process has acknowledged is there, of a call under way whole commits or nothing,
and the index answers rightly and can be gone on with.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from attacks import script
from attacks.children import run_child
from attacks.killing.process import LIFE, Kill, Tell, judged, killed
from attacks.script import State, Step
from simindex import Index, Layout

_STEPS = 60
_LONGEST_SECONDS = 0.25
_SECONDS = 300.0


def live(folder: Path, seed: int, life: int) -> list[Kill]:
    """Kill `LIFE` processes that work on one index."""
    path = folder / "index"
    shutil.rmtree(path, ignore_errors=True)
    layout = layout_of(seed, life)
    state: State = {}
    kills: list[Kill] = []
    for turn in range(LIFE):
        name = f"{seed} {life} {turn}"
        death = killed(partial(_work, path, layout, steps(name, state, turn)), name, _LONGEST_SECONDS)
        done = Done(state, steps(name, state, turn), death.told)
        found = seen(partial(look, path, layout, is_made=bool(kills)))
        why = found if isinstance(found, str) else done.objection(found)
        kills.append(judged(life, turn, done.under_way, death, why))
        if why or isinstance(found, str):
            return kills
        state = found
    return kills


def layout_of(seed: int, life: int) -> Layout:
    """Return how the segments of an index lie."""
    return random.Random(f"kills {seed} {life}").choice(script.LAYOUTS)


def steps(name: str, state: State, turn: int) -> Iterator[Step]:
    """Return what a process does before it is killed."""
    return islice(script.steps(random.Random(f"steps {name}"), state, turn * _STEPS), _STEPS)


def take(index: Index, steps: Iterator[Step], tell: Tell) -> None:
    """Tell "(" before each step and ")" behind it."""
    for step in steps:
        tell("(")
        with script.at_time(step.time):
            step.call(index)
        tell(")")


def _work(path: Path, layout: Layout, steps: Iterator[Step], tell: Tell) -> None:
    with script.open_index(path, layout) as index:
        take(index, steps, tell)


class Done:
    """What a process had done when it was killed, by what it has told."""

    def __init__(self, state: State, steps: Iterator[Step], told: str) -> None:
        self._steps = list(islice(steps, told.count("(")))
        self._states = [state, *(step.after for step in self._steps)]
        self._ended = told.count(")")
        self.under_way = self._steps[-1].name if self._ended < len(self._steps) else ""
        """The name of the call that was interrupted; "" between two."""

    def objection(self, found: State) -> str:
        """Return what is wrong with what an index holds now; "" where it is right."""
        return self.objection_to(found, self._ended, len(self._steps))

    def objection_to(self, found: State, first: int, last: int) -> str:
        """Return what is wrong with a state that was taken when so many steps had ended, or begun."""
        if found == self._states[first]:
            return ""
        if any(script.is_between(self._states[at], self._steps[at], found) for at in range(first, last)):
            return ""
        return script.difference(self._states[last], found)


def seen(look: Callable[[], State | str]) -> State | str:
    """Look in a child; returns what it holds, or what is wrong."""
    end, found = run_child(look, _SECONDS)
    return found if end is None else f"{end}: {found}"


def look(path: Path, layout: Layout, is_made: bool) -> State | str:
    """Return what an index holds, to a reader and to a writer, or what is wrong with it."""
    try:
        found = None
        if is_made:
            with script.open_index(path, layout, "r") as index:
                found = script.held_by(index)
        with script.open_index(path, layout) as index:
            again = script.held_by(index)
            if found is not None and again != found:
                return f"a reader found other documents than a writer: {script.difference(found, again)}"
            index.insert(-1, ["afterwards"])
            index.remove(-1)
        script.require_clean(path)
        return again
    except Exception as error:
        return f"{type(error).__name__}: {error}"
