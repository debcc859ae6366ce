"""Backups of an index that changes, full disks, a crowd in one bucket."""

import re
import sys

import pytest
from support.commands import torture
from support.samples import sample_of


@pytest.mark.parametrize("rounds", [9, pytest.param(20, marks=pytest.mark.long)])
def test_backups_under_load_are_states_that_the_index_had(rounds: int) -> None:
    """Made by the writer and by a reader, anew and to the place of an older one."""
    output = torture("backups", rounds=rounds)
    done = {name: int(number) for number, name in re.findall(r"^ +(\d+) (.+)$", output, re.MULTILINE)}
    assert sum(number for name, number in done.items() if name.startswith("backups")) == rounds
    assert {name.rpartition("from ")[2] for name in done if name.startswith("backups")} == {
        "the writer",
        "a reader",
        "another process",
    }
    assert done["changes meanwhile"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs, or limits the length of files")
def test_steps_without_room_say_so_and_can_be_taken_with_room() -> None:
    output = torture("full", rounds=75)
    [(right, typed)] = re.findall(r"^all +(\d+) +(\d+) +0 +0 +0 +0 +0 +75$", output, re.MULTILINE)
    assert int(right) + int(typed) == 75
    assert int(typed) > 3


@pytest.mark.parametrize("count", sample_of([20_000], [100_000]))
def test_many_documents_in_one_bucket_are_said_to_be_cut(count: int) -> None:
    """One of them finds its like by other bands, and says that it was cut; others find theirs, and do not."""
    assert "survived" in torture("buckets", rounds=count)
