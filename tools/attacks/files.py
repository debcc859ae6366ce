"""Data files that were damaged at random, opened by a process that reads, writes or compacts.

Owns what is damaged and how, what the processes do, and how an answer is judged. An index may say that it is
damaged, or give the answers of the whole one; the damage may also lie where nobody looks.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import simindex
from attacks.children import OTHER, OUTCOMES, RIGHT, TYPED, UNTYPED, WRONG, run_child
from simindex import (
    Config,
    CorruptIndexError,
    FormatError,
    Index,
    Layout,
    SimHashConfig,
    SimIndexError,
)

PAGE, SECTOR = 4096, 512
SECONDS = 30.0
CONFIG = Config(num_perm=32, simhash=SimHashConfig(3, 4))
LAYOUTS = {
    "small segments": (Layout(), False),
    "chunked": (Layout(4, 300, 6000), False),
    "chunked, compacted": (Layout(4, 300, 6000), True),
}
DOCUMENTS = 1200
DAMAGES = ("bit", "sector zeroed", "sector noise", "page zeroed", "pages swapped", "cut short")
MODES = ("reading", "writing", "compacting")

Answers = dict[str, Any]


def text_of(number: int) -> str:
    """Return a document: every fourth is nearly the one before, every tenth is a copy."""
    number -= number % 10 == 9
    chance = random.Random(number - number % 4)
    words = [f"w{chance.randrange(400)}" for _ in range(24)]
    words[number % 4] = f"x{number}"
    return " ".join(words)


def build(folder: Path, layout: Layout, compacted: bool) -> None:
    """Make a whole index; always the same bytes, so the clock stands still."""
    stopped = mock.patch("time.time_ns", return_value=10**18)
    with stopped, simindex.open(folder, "x", CONFIG, layout=layout, map_bytes=1 << 22) as index:
        rows = ((number, text_of(number), {"number": number}) for number in range(DOCUMENTS))
        index.insert_many(rows, batch_size=100)
        index.remove_many(range(0, DOCUMENTS, 13))
        if compacted:
            index.compact()
            index.insert_many(((number, text_of(number)) for number in range(2000, 2040)), batch_size=10)
            index.remove_many(range(1, DOCUMENTS, 29))


# ---- damage ----


def damage(path: Path, kind: str, chance: random.Random) -> str:
    """Damage a data file; returns a note on what was done."""
    data = bytearray(path.read_bytes())
    page = chance.randrange(len(data) // PAGE) * PAGE
    sector = page + chance.randrange(PAGE // SECTOR) * SECTOR
    if kind == "bit":
        bit = chance.randrange(8 * PAGE)
        data[page + bit // 8] ^= 1 << bit % 8
        note = f"byte {page + bit // 8}, bit {bit % 8}"
    elif kind == "sector zeroed":
        data[sector : sector + SECTOR] = bytes(SECTOR)
        note = f"byte {sector}"
    elif kind == "sector noise":
        data[sector : sector + SECTOR] = chance.randbytes(SECTOR)
        note = f"byte {sector}"
    elif kind == "page zeroed":
        data[page : page + PAGE] = bytes(PAGE)
        note = f"page {page // PAGE}"
    elif kind == "pages swapped":
        other = chance.randrange(len(data) // PAGE) * PAGE
        data[page : page + PAGE], data[other : other + PAGE] = (
            data[other : other + PAGE],
            data[page : page + PAGE],
        )
        note = f"pages {page // PAGE} and {other // PAGE}"
    else:
        end = chance.choice([page, chance.randrange(len(data))])
        del data[end:]
        note = f"at byte {end} of {path.stat().st_size}"
    path.write_bytes(data)
    return note


# ---- what is asked ----


def questions(index: Index) -> dict[str, Callable[[], Any]]:
    """Everything that an index is asked, each as a call of its own."""

    def record(number: int) -> Any:
        try:
            found = index[number]
        except KeyError:
            return None
        return found.metadata, repr(found.sketch)

    def matches(found: Any) -> list[Any]:
        return sorted((match.key, match.similarity, match.distance) for match in found)

    asked: dict[str, Callable[[], Any]] = {
        "len": lambda: len(index),
        "list": lambda: list(index),
    }
    for number in range(0, DOCUMENTS + 60, 7):
        asked[f"in {number}"] = lambda number=number: number in index  # type: ignore[misc]
        asked[f"record {number}"] = partial(record, number)
    for number in range(0, DOCUMENTS, 17):
        text = text_of(number)
        asked[f"query {number}"] = lambda text=text: matches(index.query(text, 0.4))  # type: ignore[misc]
        asked[f"simhash {number}"] = lambda text=text: matches(index.query_simhash(text))  # type: ignore[misc]
    for number in range(0, DOCUMENTS, 101):
        text = text_of(number)
        asked[f"nearest {number}"] = lambda text=text: matches(index.nearest(text, 3))  # type: ignore[misc]
    return asked


def kind_of(error: BaseException) -> str:
    """Return the outcome that an error is."""
    if isinstance(error, CorruptIndexError | FormatError):
        return TYPED
    return OTHER if isinstance(error, SimIndexError) else UNTYPED


def ask(folder: Path) -> tuple[Answers, list[tuple[str, str]]]:
    """Return the answers of an index, and (outcome, error) of what did not answer."""
    answers: Answers = {}
    errors: list[tuple[str, str]] = []
    try:
        with simindex.open(folder, "r") as index:
            for name, question in questions(index).items():
                try:
                    answers[name] = question()
                except Exception as error:
                    errors.append((kind_of(error), f"{name}: {type(error).__name__}: {error}"))
    except Exception as error:
        errors.append((kind_of(error), f"open, close: {type(error).__name__}: {error}"))
    return answers, errors


def write(folder: Path) -> tuple[Answers, list[tuple[str, str]]]:
    """Insert and remove, and read; answers of a change that failed are not compared."""
    return _change(folder, _insert_and_remove)


def compact(folder: Path) -> tuple[Answers, list[tuple[str, str]]]:
    """Compact, and read."""
    return _change(folder, Index.compact)


def _insert_and_remove(index: Index) -> None:
    index.insert_many(((5000 + number, text_of(number)) for number in range(0, 300, 10)), batch_size=10)
    index.remove_many(range(2, DOCUMENTS, 40))
    index.replace(3, text_of(777))


def _change(folder: Path, change: Callable[[Index], object]) -> tuple[Answers, list[tuple[str, str]]]:
    try:
        with simindex.open(folder, "a") as index:
            change(index)
    except Exception as error:
        # What of the change is stored is not known, so later answers have nothing to be compared with.
        return {}, [(kind_of(error), f"change: {type(error).__name__}: {error}")]
    return ask(folder)


WORK = {"reading": ask, "writing": write, "compacting": compact}


# ---- trials ----


class Whole(NamedTuple):
    """An index without damage, and what it answers in a mode."""

    folder: Path
    answers: Answers


class Trial(NamedTuple):
    """What came of a damaged file."""

    number: int
    layout: str
    damage: str
    note: str
    outcome: str
    why: str


def make_whole(work_folder: Path, mode: str) -> dict[str, Whole]:
    """Build an index of each layout, in children: this process never opens one, for it forks."""
    made = {}
    for name, (layout, compacted) in LAYOUTS.items():
        folder, copy = work_folder / name, work_folder / "copy"
        _returned(run_child(partial(build, folder, layout, compacted), 120))
        shutil.copytree(folder, copy)
        answers, errors = _returned(run_child(partial(WORK[mode], copy), 120))
        assert not errors, errors
        shutil.rmtree(copy)
        made[name] = Whole(folder, answers)
    return made


def _returned(ended: tuple[str | None, Any]) -> Any:
    end, result = ended
    if end is not None:
        raise RuntimeError(f"a child without damage ended with {end}: {result}")
    return result


def run_trial(whole: dict[str, Whole], work_folder: Path, seed: int, mode: str, number: int) -> Trial:
    """Damage a copy and see what becomes of it; the same for the same seed, mode and number."""
    chance = random.Random(f"files {seed} {mode} {number}")
    layout, kind = chance.choice(list(LAYOUTS)), chance.choice(DAMAGES)
    folder = work_folder / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    # What lies beside it, too: a file of no length alone would be an index that was never made.
    shutil.copytree(whole[layout].folder, folder, ignore=shutil.ignore_patterns("*.lock", "lock.mdb"))
    note = damage(folder / "data.mdb", kind, chance)
    end, result = run_child(partial(WORK[mode], folder), SECONDS)
    if end is not None:
        return Trial(number, layout, kind, note, end, str(result))
    answers, errors = result
    expected = whole[layout].answers
    outcomes = dict(reversed(errors))
    wrong = [name for name in answers if answers[name] != expected[name]]
    if wrong:
        outcomes[WRONG] = f"{len(wrong)} answers, {wrong[0]}; " + (errors[0][1] if errors else "no error")
    outcome = max(outcomes, key=OUTCOMES.index, default=RIGHT)
    why = outcomes.get(outcome, "").replace(str(folder), "INDEX")
    return Trial(number, layout, kind, note, outcome, why)


def table(trials: list[Trial]) -> list[list[str]]:
    """Return rows of counts: a damage each, and all."""
    rows = [["", *OUTCOMES, "n"]]
    for kind in (*DAMAGES, "all"):
        counts = Counter(trial.outcome for trial in trials if kind in ("all", trial.damage))
        rows.append([kind, *(str(counts[outcome]) for outcome in OUTCOMES), str(counts.total())])
    return rows
