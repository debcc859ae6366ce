"""Processes are killed wherever it may hurt: see tools/attacks/kills.py."""

import re

from support.commands import needs_faults, torture


@needs_faults
def test_what_was_acknowledged_survives_a_hundred_kills() -> None:
    """At random times, and before, in the middle of and behind the n-th call that changes a file.

    Of an index that changes, of one that is backed up meanwhile, of `simindex dedup`, of `repair`, `merge`
    and `restore`, and of partitions that move from place to place.
    """
    told = torture("kills", rounds=100)
    calls = re.findall(r"^([a-z_ ]+?) +(\d+) .* (\d+)$", told, re.MULTILINE)
    assert {name: (right, n) for name, right, n in calls}["all"] == ("100", "100")
    assert {
        "insert_many",
        "expire",
        "compact",
        "between calls",
        "backup",
        *("dedup", "repair", "merge", "restore", "move"),
    } <= {name for name, _, _ in calls}
