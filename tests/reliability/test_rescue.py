"""Damaged files through open, check, repair and untrusted: see tools/attacks/rescue.py."""

import re

from support.commands import torture


def test_no_call_with_a_damaged_file_ends_its_process_or_answers_wrongly() -> None:
    told = torture("rescue", rounds=32)
    counts = {
        call: list(map(int, numbers.split()))
        for call, numbers in re.findall(r"^([a-z]+): all +([\d ]+)$", told, re.MULTILINE)
    }
    assert counts.keys() == {"open", "check", "repair", "untrusted"}
    for call, (right, typed, other, untyped, wrong, hang, signal, n) in counts.items():
        assert n == 32
        assert right > 5
        assert typed > 5
        assert untyped == hang == wrong == 0
        # LMDB's assertions may end a plain open: docs/reliability.md.
        assert call == "open" or signal == 0
        assert other + signal <= 4
