"""Processes killed while one thread changes an index and another one makes backups of it, one after the other
to the same place.

Owns the judgement of the backup: it is whole, and what the index held in a moment of the last call for one
that has returned, or of the one that was under way. Before the first has returned there may be none.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest import mock

from attacks import script
from attacks.killing import lives
from attacks.killing.process import LIFE, Kill, Tell, judged, killed
from attacks.script import State, Step
from simindex import Index, Layout
from simindex.maintenance import backup_parts

_LONGEST_SECONDS = 0.4
_STEP_BYTES = 20_000
"""Of segments between two commits of a backup: so small that there are several."""


def back_up(folder: Path, seed: int, life: int) -> list[Kill]:
    """Kill `LIFE` processes that change one index and back it up."""
    path, copy = folder / "index", folder / "copy"
    for entry in folder.iterdir():
        shutil.rmtree(entry)
    layout = lives.layout_of(seed, life)
    state: State = {}
    backed_up: State | None = None
    kills: list[Kill] = []
    for turn in range(LIFE):
        name = f"backup {seed} {life} {turn}"
        work = partial(_work, path, copy, layout, lives.steps(name, state, turn))
        death = killed(work, name, _LONGEST_SECONDS)
        done = lives.Done(state, lives.steps(name, state, turn), re.sub(r"[][]", "", death.told))
        found = lives.seen(partial(lives.look, path, layout, is_made=bool(kills)))
        why = found if isinstance(found, str) else done.objection(found)
        held: State | str | None = None
        if not why:
            held = lives.seen(partial(_held_by_backup, copy)) if copy.exists() else None
            why = held if isinstance(held, str) else _objection(held, backed_up, done, death.told)
        call = "backup" if death.told.rfind("[") > death.told.rfind("]") else "between backups"
        kills.append(judged(life, turn, call, death, why))
        if why or isinstance(found, str) or isinstance(held, str):
            return kills
        state, backed_up = found, held
    return kills


def _work(path: Path, copy: Path, layout: Layout, steps: Iterator[Step], tell: Tell) -> None:
    """Tell "[" before each backup and "]" behind it, among what the steps tell."""
    with mock.patch.object(backup_parts, "PART_BYTES", _STEP_BYTES), script.open_index(path, layout) as index:
        load = threading.Thread(target=_take, args=(index, steps, tell))
        load.start()
        while load.is_alive():
            tell("[")
            index.backup(copy)
            tell("]")
        load.join()


def _take(index: Index, steps: Iterator[Step], tell: Tell) -> None:
    try:
        lives.take(index, steps, tell)
    except Exception as error:
        tell(f"!{type(error).__name__}: {error}")


def _held_by_backup(copy: Path) -> State | str:
    try:
        with script.open_index(copy, Layout(), "r") as index:
            held = script.held_by(index)
        script.require_clean(copy)
    except Exception as error:
        return f"the backup: {type(error).__name__}: {error}"
    return held


def _objection(held: State | None, before: State | None, done: lives.Done, told: str) -> str:
    """Return what is wrong with what a backup holds now; "" where it is right."""
    returned, begun = told.rfind("]"), told.rfind("[")
    if returned < 0 and held == before:
        return ""
    if held is None:
        return f"expected a backup, found none, after {told}"
    objections = [f"expected no other backup than before, after {told}"] if begun < 0 else []
    # The last one that has returned, and the one under way, which may have.
    for first, last in ((told.rfind("[", 0, max(returned, 0)), returned), (begun, len(told))):
        if 0 <= first < last:
            objection = done.objection_to(held, told.count(")", 0, first), told.count("(", 0, last))
            if not objection:
                return ""
            objections.append(objection)
    return f"the backup: {objections}"
