"""The n-th call about files, or the n-th allocation, fails: see tools/attacks/failures.py."""

import re

import pytest
from support.commands import needs_faults, torture
from support.samples import sample_of

WHOLE = {"files": 110, "lmdb memory": 30, "python memory": 50}


@needs_faults
@pytest.mark.parametrize(("mode", "rounds"), sample_of([(mode, 12) for mode in WHOLE], WHOLE.items()))
def test_a_failure_anywhere_loses_nothing_and_leaves_a_handle_that_works(mode: str, rounds: int) -> None:
    """With full and failing disks, half writes, and no memory: once, or from there to the end of the call."""
    if mode == "python memory":
        pytest.importorskip("_testcapi", reason="CPython's own tests are not installed")
    output = torture("failures", "--mode", mode, "--steps", "100", rounds=rounds)
    [(right, closed, n)] = re.findall(r"^all +(\d+) +0 +(\d+) +0 +0 +0 +0 +(\d+)$", output, re.MULTILINE)
    assert int(n) >= 0.9 * rounds  # now and then a step has no such call
    assert int(right) + int(closed) == int(n)
    assert int(right) >= int(n) // 2
