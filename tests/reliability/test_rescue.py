"""Damaged files through open, check, repair and untrusted: see tools/attacks/rescue.py."""

import pytest
from support.commands import counts_of, torture


@pytest.mark.parametrize(("rounds", "at_least"), [(10, 0), pytest.param(32, 5, marks=pytest.mark.long)])
def test_no_call_with_a_damaged_file_ends_its_process_or_answers_wrongly(rounds: int, at_least: int) -> None:
    counts = counts_of(torture("rescue", rounds=rounds))
    assert counts.keys() == {"open", "check", "repair", "untrusted"}
    for call, (right, typed, other, untyped, wrong, hang, signal, n) in counts.items():
        assert n == rounds
        assert right > at_least
        assert typed > at_least
        assert untyped == hang == wrong == 0
        # LMDB's assertions may end a plain open: docs/reliability.md.
        assert call == "open" or signal == 0
        assert other + signal <= 4
