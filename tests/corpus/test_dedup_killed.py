"""A job that is killed at any place and gone on with writes the bytes of one that was not."""

import itertools
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import pytest
from support.dedup_settings import dedup_arguments
from support.faults import small_frames, stopping_at
from support.samples import sample_of
from support.truth import texts, write_lines

import simindex
from simindex.corpus import deduplicate

TEXTS = texts(200)


def in_child(work: Callable[[], object]) -> int:
    """Run it in a forked process; its exit code, negative where a signal has ended it."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_at(calls: int) -> None:
    """Kill this process when so many functions have been called or have returned."""
    counter = itertools.count(1)

    def count(*_: object) -> None:
        if next(counter) == calls:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called and return."""
    counter = itertools.count(1)
    sys.setprofile(lambda *_: next(counter) and None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return next(counter)


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    small_frames(monkeypatch, 4_000)


def run(folder: Path, name: str = "out.jsonl.gz", **arguments: Any) -> Any:
    write: dict[str, Any] = {
        "into": folder / "out.simindex",
        "removed": folder / "removed.jsonl.zst",
        "batch_size": 30,
        "workers": 1,
    }
    return deduplicate(folder / "a.jsonl", folder / name, **dedup_arguments(**(write | arguments)))


def outputs(folder: Path, name: str = "out.jsonl.gz") -> tuple[bytes, bytes, list[Any]]:
    if not (folder / "out.simindex").exists():
        return (folder / name).read_bytes(), (folder / "removed.jsonl.zst").read_bytes(), []
    with simindex.open(folder / "out.simindex", "r") as index:
        stored = [(record.key, record.metadata, record.sketch.fingerprint) for record in index.values()]
    return (folder / name).read_bytes(), (folder / "removed.jsonl.zst").read_bytes(), stored


def forget(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name.startswith(("out.", ".out.", "removed.", ".removed.")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


INTO: dict[str, Any] = {"exact": True}
"""Rows go into an index, with their kept shingles."""

ALONE: dict[str, Any] = {"into": None}

HELD: dict[str, Any] = {"into": None, "in_kept": 0.9, "max_distance": 12}

ORDERED: dict[str, Any] = {"into": None, "keep": "longest", "against": True, "explain": True}
"""With what an order goes by, what an index says, and texts of all rows."""


@pytest.mark.parametrize("named", [INTO, ALONE, HELD, ORDERED], ids=["into", "alone", "held", "ordered"])
def test_killed_at_random_gives_the_bytes_of_one_run(tmp_path: Path, named: dict[str, Any]) -> None:
    write_lines(tmp_path / "a.jsonl", TEXTS)
    if "against" in named:
        with simindex.open(tmp_path / "seen") as index:
            index.insert_many(enumerate(TEXTS[::9]))
        named = named | {"against": tmp_path / "seen"}
    num_calls = calls_of(lambda: run(tmp_path, **named))
    expected = outputs(tmp_path)
    forget(tmp_path)
    dice, kills, rounds = random.Random(5), 0, 0
    while kills < 5 or rounds < 2:
        calls = dice.randrange(num_calls)

        def work(calls: int = calls) -> None:
            kill_at(calls)
            run(tmp_path, workers=1, **named)

        code = in_child(work)
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
        assert (tmp_path / "out.jsonl.gz").exists() or code != 0
        if code == 0:
            assert outputs(tmp_path) == expected
            assert run(tmp_path, **named).read == 200
            rounds += 1
            forget(tmp_path)


def test_into_an_index_that_a_kill_has_left_half_made(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", TEXTS)
    with lmdb.open(str(tmp_path / "into")):
        pass  # what a process leaves that was killed before it had made the databases
    deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl", into=tmp_path / "into")
    with simindex.open(tmp_path / "into", "r") as index:
        assert len(index) == len((tmp_path / "out.jsonl").read_bytes().splitlines())


@pytest.mark.parametrize(
    ("name", "after", "named"),
    sample_of(
        [("replace", False, INTO), ("fsync", True, INTO), ("rmtree", True, INTO), ("replace", True, ALONE)],
        [
            *itertools.product(["makedirs"], [False, True], [INTO]),
            *(("replace", True, INTO), ("fsync", False, INTO), ("rmtree", False, INTO)),
            *(("replace", False, ALONE), ("rmtree", False, ALONE), ("rmtree", True, ALONE)),
        ],
    ),
)
def test_killed_at_each_step_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, after: bool, named: dict[str, Any]
) -> None:
    """Before and after every call of it, those at the publishing among them."""
    write_lines(tmp_path / "a.jsonl", TEXTS[:60])
    module: Any = shutil if name == "rmtree" else os
    original = getattr(module, name)
    steps: list[int] = []
    stop = -1

    def step(*arguments: Any, **options: Any) -> Any:
        steps.append(len(steps))
        if len(steps) == stop and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **options)
        if len(steps) == stop:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    monkeypatch.setattr(module, name, step)
    run(tmp_path, **named)
    expected, num_steps = outputs(tmp_path), len(steps)
    assert num_steps
    forget(tmp_path)
    wanted = {*range(1, min(3, num_steps) + 1), *range(max(num_steps - 3, 1), num_steps + 1)}
    for stop in sorted(wanted):
        steps.clear()
        assert in_child(lambda: run(tmp_path, **named)) == -signal.SIGKILL
        stop = -1
        steps.clear()
        run(tmp_path, **named)
        assert outputs(tmp_path) == expected
        forget(tmp_path)


def test_gone_on_with_it_does_not_begin_again(tmp_path: Path) -> None:
    """A run that is stopped late leaves little to the next one."""
    write_lines(tmp_path / "a.jsonl", TEXTS)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, mode="annotate", progress=stopping_at(150))
    state = json.loads((tmp_path / "out.jsonl.gz.dedup" / "journal.json").read_bytes())["state"]
    assert state["phase"] == "reading"
    assert 100 <= state["read"] <= 150
    rows_done: list[int] = []
    report = run(tmp_path, mode="annotate", progress=rows_done.append, batch_size=7, workers=2)
    assert rows_done[0] == state["read"] + 7
    found = outputs(tmp_path)
    assert run(tmp_path, mode="annotate") == report
    forget(tmp_path)
    whole = run(tmp_path, mode="annotate")
    assert outputs(tmp_path) == found
    assert whole[:4] == report[:4]
    assert not (tmp_path / "out.jsonl.gz.dedup" / "sketches").exists()
