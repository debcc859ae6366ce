"""Backups of an index that changes, full disks, a crowd in one bucket."""

import re
import sys

import pytest
from support.commands import torture


def test_twenty_backups_under_load_are_states_that_the_index_had() -> None:
    """Made by the writer and by a reader, anew and to the place of an older one."""
    told = torture("backups", rounds=20)
    done = {name: int(number) for number, name in re.findall(r"^ +(\d+) (.+)$", told, re.MULTILINE)}
    assert sum(number for name, number in done.items() if name.startswith("backups")) == 20
    assert {name.rpartition("from ")[2] for name in done if name.startswith("backups")} == {
        "the writer",
        "a reader",
        "another process",
    }
    assert done["changes meanwhile"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs, or limits the length of files")
def test_steps_without_room_say_so_and_can_be_taken_with_room() -> None:
    told = torture("full", rounds=75)
    [(right, typed)] = re.findall(r"^all +(\d+) +(\d+) +0 +0 +0 +0 +0 +75$", told, re.MULTILINE)
    assert int(right) + int(typed) == 75
    assert int(typed) > 3


def test_a_hundred_thousand_documents_in_one_bucket_are_said_to_be_cut() -> None:
    """One of them finds its like by other bands, and says that it was cut; others find theirs, and do not."""
    assert "survived" in torture("buckets", rounds=100_000)
