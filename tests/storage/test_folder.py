"""The folder of an index: what may lie in it, and the lock that only one writer gets."""

import multiprocessing
import re
import subprocess
import sys
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import pytest

import simindex
from simindex import Config, ConfigMismatchError, FormatError, IndexLockedError


def test_path_that_is_a_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    for mode in "rax":
        with pytest.raises(
            (FormatError, FileExistsError), match=r"(expected a folder with an index, found a file|exists)"
        ):
            simindex.open(path, mode)
    assert path.read_text() == "precious"


def test_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("precious")
    with pytest.raises(FormatError, match="found other files; choose another path"):
        simindex.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        simindex.open(tmp_path, "r")
    with pytest.raises(FileExistsError):
        simindex.open(tmp_path, "x")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("notes.txt", "precious")]


def test_missing_index_is_not_found_by_a_reader(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(FileNotFoundError, match="no simindex index"):
            simindex.open(path, "r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("index")
def test_existing_index_is_not_created_again(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match='mode "x"'):
        simindex.open(tmp_path / "i", "x")
    with simindex.open(tmp_path / "nested" / "new", "x") as new:
        assert len(new) == 0


def try_to_open(path: Path, results: SimpleQueue[tuple[str, object]]) -> None:
    for mode in "ar":
        try:
            with simindex.open(path, mode) as index:
                results.put((mode, len(index)))
        except IndexLockedError as error:
            results.put((mode, str(error)))


@pytest.mark.usefixtures("index")
def test_second_writer_is_refused_in_this_process_and_in_another(tmp_path: Path) -> None:
    message = 'expected to be the only writer.*close it, or open with mode "r"'
    for mode in "a":
        with pytest.raises(IndexLockedError, match=message):
            simindex.open(tmp_path / "i", mode)
    # The same folder by another name.
    (tmp_path / "link").symlink_to(tmp_path / "i")
    with pytest.raises(IndexLockedError, match=message):
        simindex.open(tmp_path / "link")
    spawn = multiprocessing.get_context("spawn")
    results = spawn.SimpleQueue()
    process = spawn.Process(target=try_to_open, args=(tmp_path / "i", results))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    mode, found = results.get()
    assert mode == "a"
    assert re.search(message, found)
    assert results.get() == ("r", 2)


def test_writer_lock_is_free_after_close_and_after_a_failed_open(tmp_path: Path) -> None:
    path = tmp_path / "i"
    for _ in range(3):
        with simindex.open(path, config=Config()):
            pass
        with pytest.raises(ConfigMismatchError):
            simindex.open(path, config=Config(seed=2))
    code = "import sys, simindex; simindex.open(sys.argv[1]).insert('a', ['a'])"  # ended without close
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    with simindex.open(path) as index:
        assert list(index) == ["a"]
