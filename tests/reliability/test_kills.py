"""Processes are killed wherever it may hurt: see tools/attacks/kills.py."""

import re

import pytest
from support.commands import needs_faults, torture


@needs_faults
@pytest.mark.parametrize("life", [2, 3], ids=["changes", "changes beside a backup"])
def test_what_was_acknowledged_survives_ten_kills(life: int) -> None:
    """What is under way at a kill depends on how fast the machine is, so it is not asked for here."""
    output = torture("kills", "--seed", "1", "--only", str(life))
    assert {name: (right, n) for name, right, n in kills_of(output)}["all"] == ("10", "10")


@needs_faults
@pytest.mark.long
def test_what_was_acknowledged_survives_a_hundred_kills() -> None:
    """At random times, and before, in the middle of and behind the n-th call that changes a file.

    Of an index that changes, of one that is backed up meanwhile, of `simindex dedup`, of `repair`, `merge`
    and `restore`, and of partitions that move from place to place.
    """
    calls = kills_of(torture("kills", rounds=100))
    assert {name: (right, n) for name, right, n in calls}["all"] == ("100", "100")
    assert {
        "insert_many",
        "expire",
        "compact",
        "between calls",
        "backup",
        *("dedup", "repair", "merge", "restore", "move"),
    } <= {name for name, _, _ in calls}


def kills_of(output: str) -> list[tuple[str, str, str]]:
    """What was under way, how often the outcome was right, of how many kills."""
    return re.findall(r"^([a-z_ ]+?) +(\d+) .* (\d+)$", output, re.MULTILINE)
