"""`simindex backup`: the copy, and the word of it."""

import json
from pathlib import Path

from support.commands import process

import simindex


def test_backup_copies_and_then_brings_up_to_date(tmp_path: Path) -> None:
    path, copy = tmp_path / "i", tmp_path / "copy"
    with simindex.open(path) as index:
        index.insert("a", "some text", {"page": 1})
    first = process("backup", path, copy, text=True)
    assert (first.returncode, first.stdout) == (0, "")
    assert first.stderr.startswith("1 document: 0.0 MB copied, in ")
    with simindex.open(path) as index:
        index.insert("b", "some other text")
        again = process("backup", path, copy, "--json", text=True)
    said = json.loads(again.stdout)
    assert (said["created"], said["documents"], said["reused_segments"]) == (False, 2, 1)
    with simindex.open(copy, "r") as restored:
        assert restored["a"].metadata == {"page": 1}
        assert list(restored) == ["a", "b"]


def test_backup_to_another_index_fails_in_one_line(tmp_path: Path) -> None:
    for name in "ab":
        simindex.open(tmp_path / name).close()
    done = process("backup", tmp_path / "a", tmp_path / "b", text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "found another index; choose another path" in done.stderr
    missing = process("backup", tmp_path / "none", tmp_path / "c", text=True)
    assert missing.returncode == 1
    assert not (tmp_path / "c").exists()
