"""An index that another process makes longer while this one is opening it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import simindex
from simindex.storage import check_at_open, lmdb_file, store

OPEN = "import sys, simindex\nwith simindex.open(sys.argv[1]) as index:\n    "
COMPACT = OPEN + "index.compact()"
GROW = OPEN + "index.insert_many((n, f'text number {n}', {'much': 'x' * 9000}) for n in range(3000))"


def by_another_process(program: str, path: Path) -> None:
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, cwd=path.parent)


def growing(path: Path, read: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that reads the databases, with a writer that comes before its first call."""
    left = [GROW]

    def late(*arguments: Any) -> Any:
        if left:
            by_another_process(left.pop(), path)
        return read(*arguments)

    return late


@pytest.mark.parametrize(("module", "step"), [(check_at_open, "prove_entrance"), (store, "databases_of")])
def test_file_that_grows_beyond_the_map_of_its_opener_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str
) -> None:
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert("fox", "the quick brown fox jumps over the lazy dog")
    monkeypatch.setattr(module, step, growing(path, getattr(module, step)))
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
        by_another_process(COMPACT, path)
        monkeypatch.setattr(lmdb_file, "databases_of", growing(path, lmdb_file.databases_of))
        assert len(index) == 3001
