"""Every bit of LMDB's two meta pages flipped, one at a time, and what each call makes of the file.

Owns the files: after some commits, behind a compaction, and behind one and behind four commits after that,
each with LMDB's lock file and without; and the judge of a writer. What must hold of the other calls `rescue`
owns. A writer inserts a document: it raises, or everything is there afterwards and a check finds nothing;
where a check finds damage before or afterwards, the writer may have met it. Nothing ends its process.

Of a meta page LMDB reads its first 152 bytes. The bits behind them are flipped all at once, page by page. The
older meta pages are those that the file had four commits before, or two.
"""

from __future__ import annotations

import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import simindex
from attacks import files
from attacks.children import RIGHT, TYPED, WRONG, run_child
from attacks.files import kind_of
from attacks.rescue import Trial, answers_of, held_by, judge, with_forks
from simindex.storage.folder import data_file

LOCK = "*-lock"
STATES = {
    "after commits": (False, 4),
    "behind a compaction": (True, 0),
    "behind a compaction and one commit": (True, 1),
    "behind a compaction and four commits": (True, 4),
}
"""Name -> whether the index is compacted, and how many commits follow."""
FIELDS = {
    0: "number of the page",
    8: "pad",
    10: "flags of the page",
    12: "unused",
    16: "magic",
    20: "data format",
    24: "address",
    32: "size of the map",
    40: "free list: size of a page",
    44: "free list: flags",
    46: "free list: depth",
    48: "free list: counts",
    80: "free list: root",
    88: "names: pad",
    92: "names: flags",
    94: "names: depth",
    96: "names: counts",
    128: "names: root",
    136: "last page",
    144: "number of the commit",
}
"""First byte of each field of a meta page, its header among them."""

_READ_BYTES = 152
_REST, _OLDER = "what LMDB never reads", "an older page"
_BITS = 2 * 8 * _READ_BYTES
PARTS = _BITS + 4
"""Of a state: bits of both pages, the rest of each, and an older page in the place of each."""
_DOCUMENTS = 60
_SECONDS = 60.0
_NEW_KEY = "new"


class Whole(NamedTuple):
    """A file without damage, what it holds and answers, and what it held one commit before."""

    folder: Path
    held: dict[Any, Any]
    answers: dict[str, Any]
    before: dict[Any, Any]
    older_pages: bytes


def make_whole(work_folder: Path) -> dict[str, Whole]:
    """Make a file for each state, in children: this process never opens one, for it forks."""
    made = {}
    for number, (name, state) in enumerate(STATES.items()):
        end, made[name] = run_child(partial(_build, work_folder / f"state {number}", *state), 120)
        if end is not None:
            raise RuntimeError(f"a child without damage ended with {end}: {made[name]}")
    return made


def _build(folder: Path, compacted: bool, num_commits: int) -> Whole:
    with simindex.open(folder, "x", files.CONFIG) as index:
        for first in range(0, _DOCUMENTS, 12):
            index.insert_many((n, files.text_of(n), {"number": n}) for n in range(first, first + 12))
        before = held_by(index)
        index.remove_many(range(0, _DOCUMENTS, 13))
        if compacted:
            index.compact()
    older = _meta_pages(folder)
    with simindex.open(folder) as index:
        for number in range(num_commits):
            before = held_by(index)
            if number % 2:
                index.remove(number)
            else:
                index.insert(1000 + number, files.text_of(1000 + number))
    with simindex.open(folder, "r") as index:
        return Whole(folder, held_by(index), answers_of(index), before, older)


def _meta_pages(folder: Path) -> bytes:
    with open(data_file(folder), "rb") as file:
        return file.read(2 * files.PAGE)


def parts_of(seed: int, sample: int | None) -> list[tuple[str, bool, int]]:
    """Return (state, whether there is a lock file, number of the part): all, or a random sample of each."""
    chance = random.Random(f"meta pages {seed}")
    every = [(state, locked, part) for part in range(PARTS) for state in STATES for locked in (False, True)]
    return every if sample is None else sorted(chance.sample(every, sample), key=lambda one: one[2])


def run_trial(whole: Whole, work_folder: Path, state: str, locked: bool, part: int) -> list[Trial]:
    """Damage a copy and see what becomes of each call."""
    folder = work_folder / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole.folder, folder, ignore=None if locked else shutil.ignore_patterns(LOCK))
    field, note = _damage(whole, Path(data_file(folder)), part)
    found = judge(folder, whole.answers, [whole.held], whole.before)
    end, wrote = run_child(partial(with_forks, partial(_written, folder, whole.held)), _SECONDS)
    outcome, why = (end, str(wrote)) if end is not None else wrote
    if outcome == TYPED and found["check"][0] == RIGHT:
        outcome, why = WRONG, f"a check finds nothing, a writer: {why}"
    found["write"] = outcome, why
    name = f"{state}, {'with' if locked else 'without'} {LOCK}"
    return [
        Trial(part, name, field, note, call, outcome, why.replace(str(work_folder), ""))
        for call, (outcome, why) in found.items()
    ]


def _damage(whole: Whole, path: Path, part: int) -> tuple[str, str]:
    pages = bytearray(_meta_pages(path.parent))
    if part < _BITS:
        page, bit = divmod(part, _BITS // 2)
        at = bit // 8
        pages[page * files.PAGE + at] ^= 1 << bit % 8
        first = max(first for first in FIELDS if first <= at)
        field, note = FIELDS[first], f"page {page}, bit {bit - 8 * first}"
    else:
        page = part % 2
        field, note = (_OLDER if part - _BITS >= 2 else _REST), f"page {page}"
        first, end = page * files.PAGE + (_READ_BYTES if field == _REST else 0), (page + 1) * files.PAGE
        inverted = bytes(255 - octet for octet in pages[first:end])
        pages[first:end] = inverted if field == _REST else whole.older_pages[first:end]
    with path.open("rb+") as file:
        file.write(pages)
    return field, note


def _written(folder: Path, held: dict[Any, Any]) -> tuple[str, str]:
    """Insert a document, and see whether all is there."""
    try:
        was_sound = simindex.check(folder).ok
        with simindex.open(folder, "a") as index:
            index.insert(_NEW_KEY, "a document that no other is near to")
        report = simindex.check(folder)
        if not report.ok:
            return TYPED, str(report.problems[0])
        with simindex.open(folder, "r") as index:
            found = held_by(index)
        found.pop(_NEW_KEY)
    except Exception as error:
        return kind_of(error), f"{type(error).__name__}: {error}"
    if found == held:
        return RIGHT, ""
    return (WRONG if was_sound else TYPED), f"expected {len(held)} documents, found {len(found)}"
