"""The short runs of tools/torture, each in a process of its own: it forks, and loads what fails on demand."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = str(Path(__file__).parents[1] / "tools")

needs_faults = pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("cc") or shutil.which("gcc")),
    reason="faults.c needs Linux and a C compiler",
)


def torture(
    name: str,
    *arguments: str,
    seed: int = 1,
    rounds: int | None = None,
    fails: bool = False,
    judged: bool = True,
) -> str:
    """Run an attack; returns what it tells.

    Args:
        seed, rounds: not given where `arguments` repeat one part with "--only".
        fails: whether it must fail.
        judged: whether its exit status counts.
    """
    words = [name, *arguments]
    if "--only" not in words:
        words += ["--seed", str(seed)] + ([] if rounds is None else ["--rounds", str(rounds)])
    command = [sys.executable, f"{TOOLS}/torture", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not judged or done.returncode == int(fails), done.stdout + done.stderr
    return done.stdout
