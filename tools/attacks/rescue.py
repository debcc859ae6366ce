"""Damaged files put through all that may be done with one: opened and asked, written to, compacted, `check`,
`repair`, and `untrusted=True`.

Owns what must hold, whatever was damaged:
* no call ends its process, hangs or raises an error that is not of simindex, but for a plain open, its
  questions and its changes, which LMDB's assertions may end;
* answers are those of the whole index, of a plain open and of an untrusted one, before and after changes, or
  there is an error;
* what a check finds nothing in answers as the whole index, and opens as untrusted;
* a repair has documents of the whole index alone, with their metadata and times, and with their sketches or
  none, and a check finds nothing in it; it has removed ones only where it says that it may.
An older page in the place of a newer one of the same file has right seals, and two pages that are swapped may
be such ones. A whole older file must give the answers of its time.

What check and repair start as a process of its own is a fork here, which is quicker; all else is as it is.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import simindex
from attacks import files
from attacks.children import OTHER, OUTCOMES, RIGHT, TYPED, WRONG, run_child
from attacks.files import kind_of
from simindex import Index, Layout
from simindex.maintenance import subprocess_call as upkeep_child
from simindex.maintenance.repair import (
    LAST_LOST,
    MANIFEST_LOST,
    MARKS_LOST,
    MAYBE_OLDER,
    META_LOST,
    STATE_UNSURE,
)
from simindex.storage.folder import data_file

STALE_PAGE, STALE_FILE = "stale page", "stale file"
DAMAGES = (*files.DAMAGES, STALE_PAGE, STALE_FILE)
CALLS = ("open", "write", "compact", "check", "repair", "untrusted")
_MAY_END = {"open", "write", "compact"}
LAYOUTS = {
    "small segments": (Layout(), False),
    "chunked": (Layout(4, 100, 2000), False),
    "chunked, compacted": (Layout(4, 100, 2000), True),
}
_DOCUMENTS = 400
_SECONDS = 60.0


class Trial(NamedTuple):
    """What came of one call with a damaged file."""

    number: int
    layout: str
    damage: str
    note: str
    call: str
    outcome: str
    why: str

    def is_bad(self) -> bool:
        """Whether it must not be."""
        if self.outcome in (RIGHT, TYPED, OTHER):
            return False
        return self.call not in _MAY_END or self.outcome != "signal"


class Whole(NamedTuple):
    """An index without damage: its folder, an older copy of its file, and what both hold and answer, and what
    it answers when it was written to."""

    folder: Path
    held: dict[Any, Any]
    older: dict[Any, Any]
    answers: dict[str, Any]
    older_answers: dict[str, Any]
    written_answers: dict[str, Any]


# ---- whole indexes ----


def make_whole(work_folder: Path) -> dict[str, Whole]:
    """Build an index of each layout, in children: this process never opens one, for it forks."""
    return {
        name: _returned(run_child(partial(_build, work_folder / name, layout, compacted), 120))
        for name, (layout, compacted) in LAYOUTS.items()
    }


def _returned(ended: tuple[str | None, Any]) -> Any:
    end, result = ended
    if end is not None:
        raise RuntimeError(f"a child without damage ended with {end}: {result}")
    return result


def _build(folder: Path, layout: Layout, compacted: bool) -> Whole:
    times = iter(range(10**18, 10**19, 10**9))
    clock = mock.patch("time.time_ns", side_effect=times)
    with clock, simindex.open(folder, "x", files.CONFIG, layout=layout) as index:
        rows = ((number, files.text_of(number), {"number": number}) for number in range(_DOCUMENTS))
        index.insert_many(rows, batch_size=50)
        index.remove_many(range(0, _DOCUMENTS, 13))
        if compacted:
            index.compact()
    shutil.copyfile(data_file(folder), folder / "older.mdb")
    with simindex.open(folder, "r") as index:
        older, older_answers = held_by(index), answers_of(index)
    with clock, simindex.open(folder) as index:
        index.insert_many(((number, files.text_of(number)) for number in range(2000, 2040)), batch_size=10)
        index.remove_many(range(1, _DOCUMENTS, 29))
        index.touch(*range(2, 40, 5))
    with simindex.open(folder, "r") as index:
        held, answers = held_by(index), answers_of(index)
    copy = folder.with_name(f"{folder.name}, written to")
    shutil.copytree(folder, copy)
    with simindex.open(copy) as index:
        _write(index)
    with simindex.open(copy, "r") as index:
        return Whole(folder, held, older, answers, older_answers, answers_of(index))


def _write(index: Index) -> None:
    index.insert_many(((5000 + number, files.text_of(number)) for number in range(0, 300, 10)), batch_size=10)
    index.remove_many(range(2, _DOCUMENTS, 40))
    index.replace(3, files.text_of(777))


def held_by(index: Index) -> dict[Any, Any]:
    """Return key -> (metadata, times, sketch)."""
    return {
        record.key: ((record.metadata, record.inserted_at, record.seen_at), repr(record.sketch))
        for record in index.values()
    }


def _questions(index: Index) -> dict[str, Callable[[], Any]]:
    """Each a call of its own: where one meets damage the others still answer."""

    def matches(found: Iterable[Any]) -> list[Any]:
        return sorted((match.key, match.similarity, match.distance) for match in found)

    def metadata(number: int) -> Any:
        found = index.get(number)
        return found and (found.metadata, repr(found.sketch))

    asked: dict[str, Callable[[], Any]] = {
        "len": lambda: len(index),
        "keys": lambda: list(index),
        "list": lambda: [(key, record, sketch) for key, ((record, *_), sketch) in held_by(index).items()],
        "pairs": lambda: sorted((pair.a, pair.b, pair.similarity) for pair in index.pairs(0.8)),
    }
    for number in range(0, _DOCUMENTS, 5):
        text = files.text_of(number)
        asked[f"record {number}"] = partial(metadata, number)
        asked[f"query {number}"] = lambda text=text: matches(index.query(text, 0.4))  # type: ignore[misc]
        asked[f"simhash {number}"] = lambda text=text: matches(index.query_simhash(text))  # type: ignore[misc]
        if number % 9 == 0:
            asked[f"nearest {number}"] = lambda text=text: matches(index.nearest(text, 3))  # type: ignore[misc]
    return asked


def answers_of(index: Index) -> dict[str, Any]:
    return {name: question() for name, question in _questions(index).items()}


# ---- what is done with a damaged file ----


def _asked(folder: Path, expected: dict[str, Any], **options: Any) -> tuple[str, str]:
    """Open and ask; returns (outcome, why): the worst of them."""
    outcomes: dict[str, str] = {}
    try:
        with simindex.open(folder, "r", **options) as index:
            for name, question in _questions(index).items():
                try:
                    if question() != expected[name]:
                        outcomes[WRONG] = name
                except Exception as error:
                    outcomes[kind_of(error)] = f"{name}: {type(error).__name__}: {error}"
    except Exception as error:
        outcomes[kind_of(error)] = f"open, close: {type(error).__name__}: {error}"
    worst = max(outcomes, key=OUTCOMES.index, default=RIGHT)
    return worst, "; ".join(outcomes.values())


def _changed(folder: Path, expected: dict[str, Any], change: Callable[[Index], object]) -> tuple[str, str]:
    """Change a copy, and ask it; of a change that failed it is not known what is stored."""
    copy = folder.with_name("changed")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    try:
        with simindex.open(copy, "a") as index:
            change(index)
    except Exception as error:
        return kind_of(error), f"change: {type(error).__name__}: {error}"
    return _asked(copy, expected)


def _checked(folder: Path) -> tuple[str, str]:
    try:
        report = simindex.check(folder)
    except Exception as error:
        return kind_of(error), f"{type(error).__name__}: {error}"
    return (RIGHT, "") if report.ok else (TYPED, str(report.problems[0]))


def _repaired(folder: Path, allowed: list[dict[Any, Any]], older: dict[Any, Any]) -> tuple[str, str]:
    target = folder.with_name("saved")
    shutil.rmtree(target, ignore_errors=True)
    try:
        report = simindex.repair(folder, target)
        with simindex.open(target, "r") as index:
            saved = held_by(index)
    except Exception as error:
        return kind_of(error), f"{type(error).__name__}: {error}"
    are_marks_lost = bool({MARKS_LOST, MANIFEST_LOST} & {*report.notes})
    older_notes = META_LOST, LAST_LOST, STATE_UNSURE, MANIFEST_LOST, MAYBE_OLDER
    if any(note.endswith(older_notes) for note in report.notes):
        allowed = [*allowed, older]
    for key, (record, sketch) in saved.items():
        known = [held[key] for held in allowed if key in held]
        if not known and are_marks_lost and key in older:
            continue
        if not any(record == one for one, _ in known):
            return WRONG, f"{key!r}: {record}, expected one of {known}; {report.notes}"
        # A lost sketch is that of a document without shingles.
        if not any(sketch == one for _, one in known) and len(report.without_sketch) == 0:
            return WRONG, f"{key!r}: another sketch, {sketch}"
    back = older.keys() if are_marks_lost else set()
    if report.is_whole and not any(one.keys() <= saved.keys() <= one.keys() | back for one in allowed):
        return WRONG, f"it names no loss, and has {len(saved)} documents of {len(allowed[0])}"
    left = simindex.check(target)
    if not left.ok:
        return WRONG, f"check of the repaired: {left.problems[0]}"
    return (RIGHT if report.is_whole and len(saved) == len(allowed[0]) else TYPED), ""


class _Fork:
    """Stands for `subprocess.Popen` of simindex.maintenance.subprocess_call: the same function in a fork."""

    def __init__(self, command: list[str], *, stderr: Any, **_: Any) -> None:

        _, target, arguments, send = ast.literal_eval(command[-1])
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            os.dup2(stderr.fileno(), 2)
            try:
                upkeep_child.serve(target, arguments, send)
            except BaseException:
                os._exit(1)
            os._exit(0)

    def wait(self) -> int:

        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def kill(self) -> None:

        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)


# ---- trials ----


def run_trial(whole: dict[str, Whole], work_folder: Path, seed: int, number: int) -> list[Trial]:
    """Damage a copy and see what becomes of each call; the same for the same seed and number."""
    chance = random.Random(f"rescue {seed} {number}")
    layout, kind = chance.choice(list(LAYOUTS)), chance.choice(DAMAGES)
    index = whole[layout]
    folder = work_folder / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(index.folder, folder, ignore=shutil.ignore_patterns("older.mdb"))
    note = _damage(index, Path(data_file(folder)), kind, chance)
    expected = index.older_answers if kind == STALE_FILE else index.answers
    allowed = {STALE_FILE: [index.older], STALE_PAGE: [index.held, index.older]}.get(kind, [index.held])
    found = judge(folder, expected, allowed, index.older)
    if kind in files.DAMAGES:  # what a writer makes of an older state is another one
        for call, answers, change in (
            ("write", index.written_answers, _write),
            ("compact", expected, Index.compact),
        ):
            end, result = run_child(partial(_changed, folder, answers, change), _SECONDS)
            found[call] = (end, str(result)) if end is not None else result
    return [
        Trial(number, layout, kind, note, call, outcome, why.replace(str(work_folder), ""))
        for call, (outcome, why) in found.items()
    ]


def judge(
    folder: Path, expected: dict[str, Any], allowed: list[dict[Any, Any]], older: dict[Any, Any]
) -> dict[str, tuple[str, str]]:
    """Put a damaged index through each call, in a child; returns call -> (outcome, why).

    Args:
        expected: the answers of the whole index.
        allowed: states that a repair may save.
        older: what an older state held, which a repair may save with a note.
    """
    works: dict[str, Callable[[], tuple[str, str]]] = {
        "open": partial(_asked, folder, expected),
        "check": partial(_checked, folder),
        "repair": partial(_repaired, folder, allowed, older),
        "untrusted": partial(_asked, folder, expected, untrusted=True),
    }
    found: dict[str, tuple[str, str]] = {}
    for call, work in works.items():
        end, result = run_child(partial(with_forks, work), _SECONDS)
        found[call] = (end, str(result)) if end is not None else result
    if found["check"][0] == RIGHT:
        for call in ("untrusted", "open"):
            outcome, why = found[call]
            if outcome != RIGHT:
                found["check"] = WRONG, f"it finds nothing, {call}: {outcome}, {why}"
                break
    return found


def with_forks(work: Callable[[], tuple[str, str]]) -> tuple[str, str]:
    """Do some work where what simindex starts as a process is a fork."""
    with mock.patch("subprocess.Popen", _Fork):
        return work()


def _damage(index: Whole, path: Path, kind: str, chance: random.Random) -> str:
    older = (index.folder / "older.mdb").read_bytes()
    if kind == STALE_FILE:
        path.write_bytes(older)
        return "beside a newer lock file"
    if kind != STALE_PAGE:
        return files.damage(path, kind, chance)
    data = bytearray(path.read_bytes())
    pages = [
        at
        for at in range(0, min(len(data), len(older)), files.PAGE)
        if data[at : at + files.PAGE] != older[at : at + files.PAGE]
    ]
    at = chance.choice(pages)
    data[at : at + files.PAGE] = older[at : at + files.PAGE]
    path.write_bytes(data)
    return f"page {at // files.PAGE}"


def table(trials: list[Trial]) -> list[list[str]]:
    """Return rows of counts: a call and a damage each."""
    rows = [["", *OUTCOMES, "n"]]
    for call in CALLS:
        for kind in (*sorted({t.damage for t in trials}), "all"):
            counts = Counter(t.outcome for t in trials if t.call == call and kind in ("all", t.damage))
            if counts:
                rows.append(
                    [f"{call}: {kind}", *(str(counts[outcome]) for outcome in OUTCOMES), str(counts.total())]
                )
    return rows
