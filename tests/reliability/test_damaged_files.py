"""Data files damaged at random: see tools/attacks/files.py. Python may die of what LMDB meets, in a child."""

import re

import pytest
from support.commands import torture
from support.samples import sample_of

WHOLE = {"reading": 100, "writing": 50, "compacting": 50}


@pytest.mark.parametrize(("mode", "rounds"), sample_of([(mode, 12) for mode in WHOLE], WHOLE.items()))
def test_a_damaged_file_gives_right_answers_or_says_that_it_is_damaged(mode: str, rounds: int) -> None:
    """No wrong answer, no hang and no error of another kind."""
    output = torture("files", "--mode", mode, rounds=rounds, judged=False)
    [counts] = re.findall(r"^all +" + r"(\d+) +" * 7 + rf"{rounds}$", output, re.MULTILINE)
    right, typed, other, untyped, wrong, hang, signal = map(int, counts)
    assert (untyped, wrong, hang) == (0, 0, 0), output
    # LMDB's asserts end a process that meets some damaged tree pages: docs/reliability.md.
    assert right + typed + other >= 0.9 * rounds
    assert typed > right > 0
    assert signal == rounds - right - typed - other
