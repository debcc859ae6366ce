"""`simindex backup`: the copy, and the word of it."""

import json
from pathlib import Path

from support.commands import Run

import simindex


def test_backup_copies_and_then_brings_up_to_date(run: Run, tmp_path: Path) -> None:
    path, copy = tmp_path / "i", tmp_path / "copy"
    with simindex.open(path) as index:
        index.insert("a", "some text", {"page": 1})
    first = run("backup", path, copy)
    assert (first.code, first.out) == (0, "")
    assert first.err.startswith("1 document: 0.0 MB copied, in ")
    with simindex.open(path) as index:
        index.insert("b", "some other text")
        second = run("backup", path, copy, "--json")
    said = json.loads(second.out)
    assert (said["created"], said["documents"], said["reused_segments"]) == (False, 2, 1)
    with simindex.open(copy, "r") as restored:
        assert restored["a"].metadata == {"page": 1}
        assert list(restored) == ["a", "b"]


def test_backup_to_another_index_fails_in_one_line(run: Run, tmp_path: Path) -> None:
    for name in "ab":
        simindex.open(tmp_path / name).close()
    done = run("backup", tmp_path / "a", tmp_path / "b")
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "found another index; choose another path" in done.err
    missing = run("backup", tmp_path / "none", tmp_path / "c")
    assert missing.code == 1
    assert not (tmp_path / "c").exists()
