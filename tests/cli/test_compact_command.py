"""`simindex compact`: one segment, and the word of it."""

import json
from pathlib import Path

from support.commands import Run

import simindex


def size_of(index: Path) -> int:
    return (index / "data.mdb").stat().st_size


def test_compact_makes_one_segment_and_says_what_it_gave_back(run: Run, tmp_path: Path) -> None:
    index = tmp_path / "i"
    with simindex.open(index, layout=simindex.Layout(2, 8, 256)) as stored:
        stored.insert_many(((i, f"document number {i} of some") for i in range(100)), batch_size=7)
    done = run("compact", index)
    assert done.out == ""
    assert " bytes before, " in done.err
    before = size_of(index)
    second = run("compact", index, "--json")
    assert json.loads(second.out) == {"bytes_before": before, "bytes_after": size_of(index)}
    assert size_of(index) <= before
    assert second.err == ""
    with simindex.open(index, "r") as stored:
        assert stored.stats().segments == 1
        assert len(stored) == 100


def test_compact_of_nothing_creates_nothing(run: Run, tmp_path: Path) -> None:
    done = run("compact", tmp_path / "none")
    assert done.code == 1
    assert done.err.startswith("simindex: ")
    assert not (tmp_path / "none").exists()
