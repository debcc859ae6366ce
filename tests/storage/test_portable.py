"""What stands beside calls that Linux alone has: tests of the storage once more, with these calls hidden."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simindex import system

TESTS = Path(__file__).parents[1]


def run_hidden(*arguments: str | Path) -> None:
    """Run tests with the calls hidden."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "support.portable"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=TESTS.parent,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_storage_works_without_what_linux_alone_has() -> None:
    names = ("store", "folder", "room", "registry")
    run_hidden(*(TESTS / "storage" / f"test_{name}.py" for name in names))


@pytest.mark.long
def test_all_of_storage_and_changes_works_without_what_linux_alone_has() -> None:
    run_hidden("--deselect", f"{Path(__file__)}", TESTS / "storage", TESTS / "changes", TESTS / "maintenance")


def test_sync_goes_past_the_cache_of_the_disk_where_the_system_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    synced: list[int] = []

    def control(_: int, command: int) -> None:
        asked.append(command)
        if len(asked) > 1:
            raise OSError("Operation not supported")

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", synced.append)
    with open(tmp_path / "file", "wb") as file:
        system.sync(file.fileno())
        assert (asked, synced) == ([51], [])
        system.sync(file.fileno())
        assert (asked, synced) == ([51, 51], [file.fileno()])
