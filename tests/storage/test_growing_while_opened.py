"""An index that another process makes longer while this one is opening it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.faults import around
from support.processes import printed

import simindex

OPEN = "import sys, simindex\nwith simindex.open(sys.argv[1]) as index:\n    "
COMPACT = OPEN + "index.compact()"
GROW = OPEN + "index.insert_many((n, f'text number {n}', {'much': 'x' * 9000}) for n in range(3000))"


def grow_before(monkeypatch: pytest.MonkeyPatch, step: str, path: Path) -> None:
    """Let another process write before the first run of a step."""
    left = [GROW]

    def late(read: Callable[..., Any], *arguments: Any) -> Any:
        if left:
            printed(left.pop(), path)
        return read(*arguments)

    around(monkeypatch, step, late)


@pytest.mark.parametrize("step", ["prove the entrance", "open the databases"])
def test_file_that_grows_beyond_the_map_of_its_opener_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert("fox", "the quick brown fox jumps over the lazy dog")
    grow_before(monkeypatch, step, path)
    with simindex.open(path, "r", map_bytes=1 << 20) as index:
        assert len(index) == 3001


def test_file_that_grows_while_a_reader_changes_over_to_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert("fox", "the quick brown fox jumps over the lazy dog")
    with simindex.open(path, "r", map_bytes=1 << 20) as index:
        assert len(index) == 1
        printed(COMPACT, path)
        grow_before(monkeypatch, "open the databases of a new file", path)
        assert len(index) == 3001
