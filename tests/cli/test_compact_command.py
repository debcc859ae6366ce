"""`simindex compact`: one segment, and the word of it."""

import json
import subprocess
import sys
from pathlib import Path

from support.commands import process

import simindex


def size_of(index: Path) -> int:
    return (index / "data.mdb").stat().st_size


def test_compact_makes_one_segment_and_says_what_it_gave_back(tmp_path: Path) -> None:
    index = tmp_path / "i"
    with simindex.open(index, layout=simindex.Layout(2, 8, 256)) as stored:
        stored.insert_many(((i, f"document number {i} of some") for i in range(100)), batch_size=7)
    done = subprocess.run(
        [sys.executable, "-m", "simindex.cli", "compact", str(index)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    assert " bytes before, " in done.stderr
    before = size_of(index)
    again = process("compact", index, "--json", text=True)
    assert json.loads(again.stdout) == {"bytes_before": before, "bytes_after": size_of(index)}
    assert size_of(index) <= before
    assert again.stderr == ""
    with simindex.open(index, "r") as stored:
        assert stored.stats().segments == 1
        assert len(stored) == 100


def test_compact_of_nothing_creates_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "simindex.cli", "compact", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("simindex: ")
    assert not (tmp_path / "none").exists()
