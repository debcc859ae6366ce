"""Processes killed with SIGKILL while they change an index: at random times, and at the n-th call that
changes a file, before it, in the middle of it and behind it.

Owns when a process dies, and the judgement: what it has acknowledged is there, of a call under way whole
commits or nothing, and the index answers rightly and can be gone on with. Must be run with faults.c
(`faults`).
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from attacks import faults, script
from attacks.children import RIGHT, WRONG, run_child
from attacks.script import State, Step
from simindex import Layout

LIFE = 10
"""Kills of one index, one after the other; then comes a new one."""

_STEPS = 60
_LONGEST_SECONDS = 0.25
_KINDS = ("write", "write", "sync", "sync", "rename", "unlink", "truncate", "open", "mkdir")
_MOST_CALLS = {"write": 700, "sync": 300, "rename": 6, "unlink": 20, "truncate": 150, "open": 60, "mkdir": 6}
_SECONDS = 300.0


class Kill(NamedTuple):
    """What became of an index whose process was killed.

    Attributes:
        life: number of the index; `only` repeats it.
        under_way: the name of the call that was interrupted; "" between two.
        point: where the process was killed.
    """

    life: int
    outcome: str
    under_way: str
    point: str
    why: str


def kill_many(folder: Path, seed: int, rounds: int, only: int | None = None) -> list[Kill]:
    """Kill so many processes; returns what became of each index."""
    faults.watch(folder)
    lives = range((rounds + LIFE - 1) // LIFE) if only is None else [only]
    return [kill for life in lives for kill in _live(folder / "index", seed, life)]


def _live(path: Path, seed: int, life: int) -> list[Kill]:
    """Kill `LIFE` processes that work on one index."""
    shutil.rmtree(path, ignore_errors=True)
    chance = random.Random(f"kills {seed} {life}")
    layout = chance.choice(script.LAYOUTS)
    state: State = {}
    kills: list[Kill] = []
    for turn in range(LIFE):
        begun, under_way, point = _killed(path, layout, state, f"{seed} {life} {turn}", turn)
        before, step = state, None
        for step in islice(_steps(f"{seed} {life} {turn}", state, turn), begun):
            before, state = state, step.after
        if step is not None and not under_way:
            before = state
        end, found = run_child(partial(_look, path, layout, is_made=bool(kills)), _SECONDS)
        name = step.name if step is not None and under_way else ""
        if end is not None or isinstance(found, str):
            kills.append(Kill(life, end or WRONG, name, point, f"kill {turn}: {found}"))
            return kills
        is_right = found == state or (
            step is not None and bool(under_way) and script.is_between(before, step, found)
        )
        why = "" if is_right else f"kill {turn}: {script.difference(state, found)}"
        kills.append(Kill(life, RIGHT if is_right else WRONG, name, point, why))
        if not is_right:
            return kills
        state = found
    return kills


def _steps(name: str, state: State, turn: int) -> Iterator[Step]:
    return script.steps(random.Random(f"steps {name}"), state, turn * _STEPS)


def _killed(path: Path, layout: Layout, state: State, name: str, turn: int) -> tuple[int, bool, str]:
    """Run steps in a process and kill it.

    Returns:
        How many steps were begun, whether the last of them was under way, and where it was killed.
    """
    chance = random.Random(f"point {name}")
    kind = None if chance.random() < 0.4 else chance.choice(_KINDS)
    number = 0 if kind is None else int(_MOST_CALLS[kind] ** chance.random())
    action = chance.choice([faults.KILL_BEFORE, faults.KILL_HALF, faults.KILL_AFTER])
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            if kind is not None:
                faults.arm(action, number, kinds=faults.KINDS[kind])
            _work(path, layout, _steps(name, state, turn), writing)
        finally:
            os._exit(1)
    os.close(writing)
    told, end = b"", time.monotonic() + (chance.uniform(0, _LONGEST_SECONDS) if kind is None else _SECONDS)
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
    if b"!" in told:
        raise RuntimeError(
            f"a call failed before its process was killed: {told[told.index(b'!') :].decode()}"
        )
    where = "at a time" if kind is None else f"{kind} {number}, {['before', 'middle', 'after'][action - 3]}"
    return told.count(b"("), told.endswith(b"("), where


def _work(path: Path, layout: Layout, steps: Iterator[Step], telling: int) -> None:
    """Tell "(" before each step and ")" behind it, and "!" and why where one fails."""
    try:
        with script.open_index(path, layout) as index:
            for step in islice(steps, _STEPS):
                os.write(telling, b"(")
                with script.at_time(step.time):
                    step.call(index)
                os.write(telling, b")")
    except BaseException as error:
        os.write(telling, f"!{type(error).__name__}: {error}".encode())


def _look(path: Path, layout: Layout, is_made: bool) -> State | str:
    """Return what the index holds, to a reader and to a writer, or what is wrong with it."""
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
        return again
    except Exception as error:
        return f"{type(error).__name__}: {error}"
