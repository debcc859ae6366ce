"""A backup whose process is killed leaves the old one or the new one, and the next call goes on."""

import os
from pathlib import Path

import pytest
from support.faults import bound, die_at
from support.indexes import TINY, content_of, problems_of, texts
from support.processes import Tell, everything_from, forked
from support.samples import sample_of

import simindex


def backup_killed_at(path: Path, where: Path, call: int, acknowledge: Tell) -> None:
    """Make a backup in a process that ends at its n-th commit: before it where n is even."""
    die_at(call, "commit")
    with bound("bytes of a part of a backup", 48_000), simindex.open(path, "r") as index:
        index.backup(where)
    acknowledge("done")


@pytest.mark.parametrize("stride", sample_of([5], [1]))
def test_backup_killed_at_any_commit_is_the_old_one_or_the_new_one(tmp_path: Path, stride: int) -> None:
    path, where = tmp_path / "index", tmp_path / "backup"
    with simindex.open(path, "x", layout=TINY) as index:
        index.insert_many(texts(0, 60), batch_size=20)
        index.backup(where)
        index.insert_many(texts(60, 40))
        index.remove_many(range(0, 60, 7))
    states = [content_of(where), content_of(path)]
    for call in range(0, 200, stride):
        pid, pipe = forked(lambda tell, n=call: backup_killed_at(path, where, n, tell))  # type: ignore[misc]
        said = everything_from(pipe)
        os.waitpid(pid, 0)
        if said:
            assert said == ["done"]
            break
        found = states.index(content_of(where))
        if found:  # the next one has to begin where this one did
            break
        with simindex.open(where, "r") as copy:
            assert len(list(copy)) == len(copy)
        assert not problems_of(where)
    else:
        pytest.fail(f"no end after {call + 1} kills")
    assert call > 50
    with simindex.open(path, "r") as index:
        assert index.backup(where).documents == len(index)
    assert content_of(where) == states[1]
    assert {entry.name for entry in tmp_path.iterdir()} == {"index", "backup"}
