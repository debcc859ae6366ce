"""Many threads and processes on one index: see tools/attacks/crowd.py."""

import re

from support.commands import torture


def test_sixteen_threads_and_eight_processes_see_whole_commits_and_none_twice() -> None:
    told = torture("crowd", rounds=10)
    done = {
        name: int(number.replace(",", ""))
        for number, name in re.findall(r"^ +([\d,]+) (.+)$", told, re.MULTILINE)
    }
    assert done.keys() >= {"queries", "pinned snapshots", "transactions"}
    assert done["queries"] >= 100
