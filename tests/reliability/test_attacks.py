"""Short runs of the attacks of tools/attacks, which say what each of them does."""

import re
import sys

import pytest
from support.commands import counts_of, needs_faults, torture
from support.samples import sample_of

_FAILS = {"files": 110, "lmdb memory": 30, "python memory": 50}


@pytest.mark.parametrize(("seconds", "queries"), [(2, 20), pytest.param(10, 100, marks=pytest.mark.long)])
def test_sixteen_threads_and_eight_processes_see_whole_commits_and_none_twice(
    seconds: int, queries: int
) -> None:
    output = torture("crowd", rounds=seconds).replace(",", "")
    done = {name: int(number) for number, name in re.findall(r"^ +(\d+) (.+)$", output, re.MULTILINE)}
    assert done.keys() >= {"queries", "pinned snapshots", "transactions"}
    assert done["queries"] >= queries


@needs_faults
@pytest.mark.parametrize(("mode", "rounds"), sample_of([(mode, 12) for mode in _FAILS], _FAILS.items()))
def test_a_failure_anywhere_loses_nothing_and_leaves_a_handle_that_works(mode: str, rounds: int) -> None:
    if mode == "python memory":
        pytest.importorskip("_testcapi", reason="CPython's own tests are not installed")
    output = torture("failures", "--mode", mode, "--steps", "100", rounds=rounds)
    [found] = re.findall(r"^all +(\d+) +0 +(\d+) +0 +0 +0 +0 +(\d+)$", output, re.MULTILINE)
    right, closed, n = map(int, found)
    assert n >= 0.9 * rounds  # now and then a step has no such call
    assert right + closed == n
    assert right >= n // 2


@pytest.mark.parametrize("rounds", sample_of([600], [2_000]))
def test_a_flipped_bit_gives_the_right_answer_or_corrupt_index_error(rounds: int) -> None:
    output = torture("bits", "--merge-every", "4", seed=7, rounds=rounds)
    assert output.startswith(f"bits, seed 7\n{rounds:,} bits flipped\n")
    right, typed = map(int, output.splitlines()[3].split()[1:3])
    assert right > 50 * rounds
    assert typed > 5 * rounds


def kills_of(output: str) -> dict[str, tuple[str, str]]:
    """What was under way -> how often the outcome was right, of how many kills."""
    found = re.findall(r"^([a-z_ ]+?) +(\d+) .* (\d+)$", output, re.MULTILINE)
    return {name: (right, n) for name, right, n in found}


@needs_faults
@pytest.mark.parametrize("life", [2, 3], ids=["changes", "changes beside a backup"])
def test_what_was_acknowledged_survives_ten_kills(life: int) -> None:
    """What is under way at a kill depends on how fast the machine is, so it is not asked for here."""
    assert kills_of(torture("kills", "--seed", "1", "--only", str(life)))["all"] == ("10", "10")


@needs_faults
@pytest.mark.long
def test_what_was_acknowledged_survives_a_hundred_kills() -> None:
    kills = kills_of(torture("kills", rounds=100))
    assert kills["all"] == ("100", "100")
    jobs = {"dedup", "repair", "merge", "restore"}
    assert {"insert_many", "expire", "compact", "between calls", "backup"} | jobs <= kills.keys()


@pytest.mark.parametrize("rounds", [9, pytest.param(20, marks=pytest.mark.long)])
def test_backups_under_load_are_states_that_the_index_had(rounds: int) -> None:
    """Made by the writer and by a reader, anew and to the place of an older one."""
    output = torture("backups", rounds=rounds)
    done = {name: int(number) for number, name in re.findall(r"^ +(\d+) (.+)$", output, re.MULTILINE)}
    backups = {name: number for name, number in done.items() if name.startswith("backups")}
    assert sum(backups.values()) == rounds
    makers = {"the writer", "a reader", "another process"}
    assert {name.rpartition("from ")[2] for name in backups} == makers
    assert done["changes meanwhile"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs, or limits the length of files")
def test_steps_without_room_say_so_and_can_be_taken_with_room() -> None:
    output = torture("full", rounds=75)
    [(right, typed)] = re.findall(r"^all +(\d+) +(\d+) +0 +0 +0 +0 +0 +75$", output, re.MULTILINE)
    assert int(right) + int(typed) == 75
    assert int(typed) > 3


@pytest.mark.parametrize(("rounds", "at_least"), [(20, 0), pytest.param(64, 5, marks=pytest.mark.long)])
def test_no_call_with_a_damaged_file_ends_its_process_or_answers_wrongly(rounds: int, at_least: int) -> None:
    counts = counts_of(torture("rescue", rounds=rounds))
    changes = {"write", "compact"}  # of states that a writer may go on from
    assert counts.keys() == {"open", "check", "repair", "untrusted"} | changes
    for call, (right, typed, other, untyped, wrong, hang, signal, n) in counts.items():
        assert rounds // 2 < n <= rounds if call in changes else n == rounds
        assert right > at_least
        assert typed > at_least
        assert untyped == hang == wrong == 0
        # LMDB's assertions may end a plain open, and changes: docs/reliability.md.
        assert call in {"open"} | changes or signal == 0
        assert other + signal <= 4
