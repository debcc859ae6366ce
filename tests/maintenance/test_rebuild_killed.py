"""A merge, a resketching or a repair whose process is killed leaves nothing at its destination, or all."""

import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.faults import bound, die_at
from support.indexes import TINY, locked, problems_of, records_of, repaired, texts
from support.processes import Tell, everything_from, forked
from support.samples import sample_of

import simindex
from simindex import Config, IndexLockedError

Work = Callable[[Path, Path], object]


WORKS: dict[str, Work] = {
    "merge": lambda root, target: simindex.merge([root / "a", root / "b"], target),
    "resketch": lambda root, target: simindex.resketch(root / "a", target, num_perm=8),
    # The part of it that has a process of its own.
    "repair": lambda root, target: repaired(root / "a", target),
    "backup": lambda root, target: backed_up(root / "a", target),
}


def backed_up(path: Path, target: Path) -> None:
    with bound("bytes of a part of a backup", 48_000), simindex.open(path, "r") as index:
        index.backup(target)


FEWEST_COMMITS = {"merge": 8, "resketch": 4, "repair": 4, "backup": 4}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for at, name in enumerate("ab"):
        with simindex.open(tmp_path / name, "x", Config(num_perm=16), layout=TINY) as index:
            index.insert_many(texts(100 * at, 40))
    return tmp_path


def killed_at(call: int, work: Work, root: Path, target: Path, acknowledge: Tell) -> None:
    """Do the work in a process that ends at its n-th commit, renaming or sync of a folder: before it where n
    is even."""
    die_at(call, "commit", "commit the first state", "rename", "sync a folder")
    with bound("documents of a commit of a new index", 10), bound("documents of a commit of a repair", 10):
        work(root, target)
    acknowledge("done")


@pytest.mark.parametrize("name", sample_of(["merge", "repair", "backup"], ["resketch"]))
def test_work_that_is_killed_anywhere_leaves_nothing_or_all(root: Path, name: str) -> None:
    work, target = WORKS[name], root / "new"
    work(root, root / "whole")
    whole = records_of(root / "whole")
    before = {entry.name for entry in root.iterdir()}
    seen = list[str]()
    for call in range(200):
        pid, pipe = forked(lambda tell, n=call: killed_at(n, work, root, target, tell))  # type: ignore[misc]
        said = everything_from(pipe)
        os.waitpid(pid, 0)
        left = {entry.name for entry in root.iterdir()} - before
        if not target.exists():
            assert left <= {f".new.{name.split()[0]}"}
            seen.append("nothing")
            continue
        assert left == {"new"}
        assert records_of(target) == whole
        assert not problems_of(target)
        if said:
            assert said == ["done"]
            break
        seen.append("all")
        for entry in target.iterdir():
            entry.unlink()
        target.rmdir()
    assert seen.count("all") == 3  # behind the renaming, and around the sync of the folder above
    assert seen.count("nothing") > 2 * FEWEST_COMMITS[name]


@pytest.mark.parametrize("name", WORKS)
def test_same_place_is_one_work_at_a_time(root: Path, name: str) -> None:
    begun = root / f".new.{name.split()[0]}"
    begun.mkdir()
    with locked(begun):
        (begun / "data.mdb").write_bytes(b"of somebody else")
        with pytest.raises(IndexLockedError):
            WORKS[name](root, root / "new")
        assert (begun / "data.mdb").read_bytes() == b"of somebody else"
    WORKS[name](root, root / "new")
    assert {entry.name for entry in root.iterdir()} == {"a", "b", "new"}


def test_repair_that_is_broken_off_leaves_nothing_or_all(root: Path) -> None:
    """Its process is ended with it, unless it was quicker."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simindex.repair(root / "a", root / "new", progress=stop)
    left = {entry.name for entry in root.iterdir()} - {"a", "b"}
    assert left <= {"new"}
    if left:
        assert not problems_of(root / "new")
        shutil.rmtree(root / "new")
    assert simindex.repair(root / "a", root / "new").is_whole
    assert {entry.name for entry in root.iterdir()} == {"a", "b", "new"}


@pytest.mark.parametrize("name", sample_of(["merge", "backup"], ["resketch"]))
def test_work_that_runs_out_of_descriptors_leaves_no_folder(root: Path, name: str) -> None:
    """Removing them takes none."""
    failed = 0
    taken = set(map(int, os.listdir("/proc/self/fd")))
    free = [number for number in range(len(taken) + 14) if number not in taken]
    for most in free[:14]:  # the limit is on their numbers, which have gaps

        def work(tell: Tell, most: int = most) -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            try:
                WORKS[name](root, root / "new")
            except (simindex.SimIndexError, OSError):
                tell("failed")

        pid, pipe = forked(work)
        failed += "failed" in everything_from(pipe)
        os.waitpid(pid, 0)
        assert {entry.name for entry in root.iterdir()} <= {"a", "b", "new"}
        if (root / "new").exists():
            assert not problems_of(root / "new")
            shutil.rmtree(root / "new")
    assert failed > 2
