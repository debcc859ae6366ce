"""tools/torture: children that hang or die are told from those that end, and an attack can be repeated."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        ("lambda: [1, 'answer']", "(None, [1, 'answer'])"),
        ("lambda: bytes(3_000_000).count(0)", "(None, 3000000)"),
        ("lambda: time.sleep(60)", "('hang', 'no end in time')"),
        ("os.abort", "('signal', 'SIGABRT')"),
        ("lambda: os._exit(3)", "('signal', 'exit 3')"),
        ("lambda: 1 // 0", "('signal', 'exit 1')"),
    ],
)
def test_outcome_of_a_child_is_printed(work: str, outcome: str) -> None:
    code = (
        f"import os, sys, time; sys.path.insert(0, {str(TOOLS)!r}); from attacks.children import run_child; "
    )
    done = python("-c", f"{code}print(run_child({work}, 1.0))")
    assert done.stdout == outcome + "\n"


def test_a_trial_can_be_repeated_by_itself() -> None:
    """After the table come what was damaged and what became of each call."""
    arguments = str(TOOLS / "torture"), "rescue", "--seed", "5"
    first, second = (python(*arguments, "--only", "2").stdout.splitlines() for _ in range(2))
    assert first[:-1] == second[:-1]
    assert [line.split(":")[0] for line in first[-13:-1:2]] == [
        "open", "check", "repair", "untrusted", "write", "compact",
    ]  # fmt: skip
    assert {line.strip() for line in first[-12:-1:2]} == {"tools/torture rescue --seed 5 --only 2"}


def test_what_the_sanitizers_run_are_files_that_are_there() -> None:
    """A race on purpose, what is suppressed, and tests: otherwise a build would come before it is told."""
    scripts = (TOOLS / "test").read_text() + (TOOLS / "environment.sh").read_text()
    named = re.findall(r"\b(?:tests|tools)/[\w/.]+\.(?:py|suppressions)\b", scripts)
    assert len(named) > 6
    assert [name for name in named if not (TOOLS.parent / name).is_file()] == []
