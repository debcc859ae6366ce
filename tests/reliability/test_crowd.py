"""Many threads and processes on one index: see tools/attacks/crowd.py."""

import re

import pytest
from support.commands import torture


@pytest.mark.parametrize(("seconds", "queries"), [(2, 20), pytest.param(10, 100, marks=pytest.mark.long)])
def test_sixteen_threads_and_eight_processes_see_whole_commits_and_none_twice(
    seconds: int, queries: int
) -> None:
    output = torture("crowd", rounds=seconds)
    done = {
        name: int(number.replace(",", ""))
        for number, name in re.findall(r"^ +([\d,]+) (.+)$", output, re.MULTILINE)
    }
    assert done.keys() >= {"queries", "pinned snapshots", "transactions"}
    assert done["queries"] >= queries
