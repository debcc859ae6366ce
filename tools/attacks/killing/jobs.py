"""Processes killed while they write a corpus without its near duplicates, and while they make an index of
others or of a backup in a store: `dedup`, `repair`, `merge`, `resketch`, `restore`.

Owns the judgement: at the place of a result there is nothing, or the whole of it; what was read is as it was;
the same call again comes to its end, with the same result, whatever the ones before have left.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import orjson

import simindex
from attacks import script
from attacks.children import run_child
from attacks.killing.process import LIFE, Kill, Tell, judged, killed
from simindex.cli import main
from simindex.corpus.dedup import writer_loop as dedup_work
from simindex.maintenance import backup_parts, new_index
from simindex.storage.folder import data_file, is_index

_SECONDS = 300.0
_LONGEST_SECONDS = {"dedup": 1.0, "repair": 0.6}
"""Of the others `_SHORT_SECONDS`."""
_SHORT_SECONDS = 0.1
_PART_BYTES = 4_000
"""Of the backup: so few that it has many parts."""
_DOCUMENTS = 150
_WORDS = 60


class Job(NamedTuple):
    """A call that makes something.

    Attributes:
        make: makes it in a folder.
        result: reads what was made, and raises where it is not right.
        made: what stands in the folder when it is done, beside what stood there before.
    """

    make: Callable[[Path], object]
    result: Callable[[Path], Any]
    made: frozenset[str]


def _command(*arguments: str) -> None:
    """Run a command of `simindex` in this process."""
    with mock.patch.object(sys, "argv", ["simindex", *arguments]), contextlib.suppress(SystemExit):
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(null, stream)
        main()


def _deduplicate(folder: Path) -> None:
    """With frames so small, and so many marks, that it is gone on with in many places."""
    small = mock.patch.multiple(dedup_work, FRAME_BYTES=4_000, _SECONDS_A_MARK=0.0)
    with small, contextlib.chdir(folder):
        _command(
            *("dedup", "a.jsonl", "-o", "out.jsonl.gz", "--into", "out.simindex"),
            *("--batch-size", "30", "--workers", "1"),
        )


def _deduplicated(folder: Path) -> Any:
    with simindex.open(folder / "out.simindex", "r") as index:
        stored = [(record.key, record.metadata, repr(record.sketch)) for record in index.values()]
    script.require_clean(folder / "out.simindex")
    return (
        (folder / "out.jsonl.gz").read_bytes(),
        (folder / "out.jsonl.gz.dedup/removed.jsonl").read_bytes(),
        stored,
    )


def _made(folder: Path) -> Any:
    with simindex.open(folder / "new", "r") as index:
        stored = {
            record.key: (record.metadata, record.seen_at, repr(record.sketch)) for record in index.values()
        }
    script.require_clean(folder / "new")
    return stored


def _merge(folder: Path) -> None:
    """In many commits."""
    with mock.patch.object(new_index, "BATCH", 20):
        simindex.merge([folder / "a", folder / "b"], folder / "new")


def _restore(folder: Path) -> None:
    with mock.patch.object(backup_parts, "PART_BYTES", _PART_BYTES):
        simindex.restore(folder / "store", folder / "new")


JOBS = {
    "dedup": Job(
        _deduplicate,
        _deduplicated,
        frozenset({"out.jsonl.gz", "out.jsonl.gz.dedup", "out.simindex"}),
    ),
    "repair": Job(lambda folder: simindex.repair(folder / "a", folder / "new"), _made, frozenset({"new"})),
    "merge": Job(
        lambda folder: simindex.merge([folder / "a", folder / "b"], folder / "new"), _made, frozenset({"new"})
    ),
    "restore": Job(_restore, _made, frozenset({"new"})),
    "resketch": Job(
        lambda folder: simindex.resketch(folder / "a", folder / "new", num_perm=32), _made, frozenset({"new"})
    ),
    "merge in many commits": Job(_merge, _made, frozenset({"new"})),
}


def kill_a_job(folder: Path, seed: int, life: int, name: str) -> list[Kill]:
    """Kill `LIFE` processes that do one job, which begins anew when it is done."""
    job, work = JOBS[name], folder / "job"
    shutil.rmtree(work, ignore_errors=True)
    _run(partial(_prepare, work, random.Random(f"jobs {seed} {life}")))
    before = _content(work, [path.name for path in work.iterdir()])
    _run(partial(job.make, work))
    expected = _run(partial(job.result, work))
    _forget(work, before.keys())
    kills: list[Kill] = []
    for turn in range(LIFE):
        longest = _LONGEST_SECONDS.get(name, _SHORT_SECONDS)
        death = killed(partial(_do, job, work), f"{name} {seed} {life} {turn}", longest)
        why = _run(partial(_objection, job, work, before, expected, is_done="." in death.told))
        # It may have died between its end and telling of it; where all is there, that was compared.
        is_done = "." in death.told or job.made <= {path.name for path in work.iterdir()}
        if not why and (is_done or turn == LIFE - 1 or turn % 3 == 2):
            if not is_done:  # now to the end
                _run(partial(job.make, work))
                why = _run(partial(_objection, job, work, before, expected, is_done=True))
            _forget(work, before.keys())
        kills.append(judged(life, turn, name, death, why))
        if why:
            return kills
    return kills


def _do(job: Job, folder: Path, tell: Tell) -> None:
    job.make(folder)
    tell(".")


def _prepare(folder: Path, chance: random.Random) -> None:
    """Make a corpus in which a third is nearly something before it, and two indexes, one of them damaged."""
    folder.mkdir()
    texts: list[str] = []
    for number in range(_DOCUMENTS):
        words = [f"w{chance.randrange(2000)}" for _ in range(_WORDS)]
        if texts and number % 3 == 2:
            words = chance.choice(texts).split()
            words[chance.randrange(_WORDS)] = f"x{number}"
        texts.append(" ".join(words))
    lines = [orjson.dumps({"id": number, "text": text}) + b"\n" for number, text in enumerate(texts)]
    (folder / "a.jsonl").write_bytes(b"".join(lines))
    for at, name in enumerate("ab"):
        with script.open_index(folder / name, script.LAYOUTS[chance.randrange(3)], "x") as index:
            rows = ((f"{name}{number}", text, number) for number, text in enumerate(texts[at::2]))
            index.insert_many(rows, batch_size=20, workers=1)
            index.remove_many([f"{name}{number}" for number in range(0, 60, 7)])
    store = f"file://{folder / 'store'}"
    with (
        mock.patch.object(backup_parts, "PART_BYTES", _PART_BYTES),
        simindex.open(folder / "a", "r") as index,
    ):
        index.backup(store)


def _content(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of what a job reads."""
    return {name: _bytes_of(folder / name) for name in names}


def _bytes_of(path: Path) -> bytes:
    if path.is_file() or is_index(path):
        return (path if path.is_file() else Path(data_file(path))).read_bytes()
    return b"".join(file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file())


def _forget(folder: Path, kept: Any) -> None:
    for path in folder.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _objection(job: Job, folder: Path, before: dict[str, bytes], expected: Any, is_done: bool) -> str:
    """Return what is wrong with what stands in a folder; "" where it is right."""
    names = {path.name for path in folder.iterdir()}
    read = {name: data for name, data in _content(folder, before).items() if data != before[name]}
    if read:
        return f"changed what it reads: {sorted(read)}"
    new = names - before.keys()
    if is_done and new != job.made:
        return f"expected {sorted(job.made)}, found {sorted(new)}"
    if not is_done and not job.made <= new:
        return ""
    try:
        return (
            "" if job.result(folder) == expected else "another result than that of a call that was not killed"
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _run(work: Callable[[], Any]) -> Any:
    """Run in a child, for this process forks; returns what it returns."""
    end, result = run_child(work, _SECONDS)
    if end is not None:
        raise RuntimeError(f"{work}: {end}, {result}")
    return result
