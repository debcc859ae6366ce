"""The folder of an index: what may lie in it, and the lock that only one writer gets."""

import errno
import fcntl
import itertools
import multiprocessing
import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any

import pytest
from support.indexes import READING_AND_ADDING
from support.processes import Tell, ask, everything_from, forked, pipes_of, start

import simindex
from simindex import FormatError, IndexLockedError
from simindex.storage.folder import (
    COMPACT_FILE,
    DATA_FILE,
    LOCK_SUFFIX,
    WRITER_LOCK_FILE,
    Mode,
    WriterLock,
    require_place,
)
from simindex.storage.memory import memory_folder


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
    modes: tuple[Mode, ...] = ("r", "r+")
    for path, mode in itertools.product((tmp_path / "missing", tmp_path), modes):
        with pytest.raises(FileNotFoundError, match="no simindex index"):
            simindex.open(path, mode)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("index")
def test_existing_index_is_not_created_again(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match='mode "x"'):
        simindex.open(tmp_path / "i", "x")
    with simindex.open(tmp_path / "nested" / "new", "x") as new:
        assert len(new) == 0


def try_to_open(path: Path, results: SimpleQueue[tuple[str, object]]) -> None:
    for mode in reversed(READING_AND_ADDING):
        try:
            with simindex.open(path, mode) as index:
                results.put((mode, len(index)))
        except IndexLockedError as error:
            results.put((mode, str(error)))


@pytest.mark.usefixtures("index")
def test_second_writer_is_refused_in_this_process_and_in_another(tmp_path: Path) -> None:
    message = 'expected to be the only writer.*close it, or open with mode "r"'
    with pytest.raises(IndexLockedError, match=message):
        simindex.open(tmp_path / "i", "a")
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


def test_kill_at_any_time_of_opening_leaves_an_index_that_opens(tmp_path: Path) -> None:
    chance = random.Random("kill while opening")
    for name in range(12):
        path = tmp_path / str(name)

        def work(tell: Tell, path: Path = path) -> None:
            with simindex.open(path) as index:
                index.insert("a", ["a"])
                tell("inserted")

        pid, pipe = forked(work)
        time.sleep(chance.uniform(0, 0.015))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        told = everything_from(pipe)
        with simindex.open(path) as index:
            assert len(index) == ("a" in index) >= len(told)
            index.replace("a", ["a"])
            assert index.query(["a"])[0].key == "a"


@pytest.mark.parametrize(
    "names", [[], [WRITER_LOCK_FILE], [WRITER_LOCK_FILE, DATA_FILE + LOCK_SUFFIX, COMPACT_FILE]]
)
def test_place_with_nothing_but_traces_takes_a_new_index(tmp_path: Path, names: list[str]) -> None:
    """What a writer leaves that was killed before it made the data file."""
    for name in names:
        (tmp_path / name).touch()
    require_place(tmp_path, "a")
    with pytest.raises(FileNotFoundError, match="no simindex index:"):
        require_place(tmp_path, "r")
    with pytest.raises(
        FileNotFoundError, match=r'no simindex index \(mode "r\+" makes none; "a" and "x" do\)'
    ):
        require_place(tmp_path, "r+")
    if len(names) < 2:
        require_place(tmp_path, "x")


def test_file_system_without_locks_is_an_error_that_names_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", refuse)
        with pytest.raises(OSError, match=rf"No locks available: '.*{WRITER_LOCK_FILE}'"):
            simindex.open(tmp_path / "i")
    with simindex.open(tmp_path / "i") as index:
        index.insert("a", "a document")


def test_writer_lock_is_waited_for_and_the_error_says_how_long(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x") as index:
        with pytest.raises(IndexLockedError, match="wait for it") as refused:
            simindex.open(tmp_path / "i")
        assert refused.value.waited_seconds == 0
        with pytest.raises(IndexLockedError, match=r"still after \d+\.\d+ seconds; wait longer") as refused:
            simindex.open(tmp_path / "i", timeout=0.15)
        assert refused.value.waited_seconds >= 0.15
        assert len(simindex.open(tmp_path / "i", "r", timeout=None)) == 0
        index.insert("a", ["a"])


@pytest.mark.parametrize("timeout", [20, None])
def test_writer_that_waits_is_let_in_when_the_one_before_closes(
    tmp_path: Path, timeout: float | None
) -> None:
    before = simindex.open(tmp_path / "i", "x")
    waits = threading.Event()

    def wait() -> None:
        waits.set()
        with simindex.open(tmp_path / "i", timeout=timeout) as index:
            assert list(index) == ["a"]
            index.insert("b", ["b"])

    waiting = threading.Thread(target=wait)
    waiting.start()
    waits.wait(20)
    time.sleep(0.1)
    before.insert("a", ["a"])
    before.close()
    waiting.join(20)
    with simindex.open(tmp_path / "i", "r+") as index:
        assert list(index) == ["a", "b"]


def test_writer_that_waits_is_let_in_when_the_one_before_is_killed(tmp_path: Path) -> None:
    code = "import sys, simindex; index = simindex.open(sys.argv[1]); print('open', flush=True); input()"
    process = start(code, tmp_path / "i")
    assert ask(process) == "open"
    killing = threading.Timer(0.1, process.kill)
    killing.start()
    with simindex.open(tmp_path / "i", timeout=20) as index:
        index.insert("a", ["a"])
    killing.join()
    process.communicate()


def test_creation_that_waited_looks_again_for_what_was_made_meanwhile(tmp_path: Path) -> None:
    lock = WriterLock(str(tmp_path))

    def make() -> None:
        (tmp_path / DATA_FILE).touch()
        lock.release()

    making = threading.Timer(0.1, make)
    making.start()
    with pytest.raises(FileExistsError, match='mode "x"'):
        simindex.open(tmp_path, "x", timeout=20)
    making.join()
    WriterLock(str(tmp_path)).release()


def test_ctrl_c_ends_the_wait_for_the_writer(tmp_path: Path) -> None:
    code = (
        "import signal, sys, simindex\n"
        # As a terminal has it, whatever this process, and what it is started by, do with Ctrl-C.
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\nprint('waits', flush=True)\n"
        "try: simindex.open(sys.argv[1], timeout=None)\nexcept KeyboardInterrupt: print('ended')"
    )
    with simindex.open(tmp_path / "i", "x") as index:
        process = start(code, tmp_path / "i")
        assert pipes_of(process)[1].readline() == "waits\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[0] == "ended\n"
        index.insert("a", ["a"])


@contextmanager
def child_that(does: Callable[[], object]) -> Iterator[None]:
    """A forked child that does something and then lives as long as the block."""
    read, write = os.pipe()
    pid, pipe = forked(lambda _: (does(), os.read(read, 1)))
    try:
        yield
    finally:
        os.write(write, b".")
        os.waitpid(pid, 0)
        for end in (read, write, pipe):
            os.close(end)


def test_forked_child_of_a_process_that_waits_does_not_share_the_lock(tmp_path: Path) -> None:
    """A lock belongs to the open file: a child that inherits it would keep it beyond the parent's end."""
    lock = WriterLock(str(tmp_path))
    waiting = threading.Thread(target=lambda: WriterLock(str(tmp_path), timeout=20).abandon())
    waiting.start()
    time.sleep(0.1)

    with child_that(lock.abandon):
        lock.release()
        waiting.join(20)  # it had the lock and only closed its file
        WriterLock(str(tmp_path)).release()


@pytest.mark.parametrize(
    ("timeout", "error"), [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError), (True, TypeError)]
)
def test_timeout_is_a_number_of_seconds_or_none(tmp_path: Path, timeout: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"timeout: expected .*seconds"):
        simindex.open(tmp_path / "i", timeout=timeout)
    assert list(tmp_path.iterdir()) == []


def test_writer_lock_is_free_after_its_release_even_while_a_forked_child_lives(tmp_path: Path) -> None:
    """The child holds the same open file: closing the parent's would not unlock it."""
    lock = WriterLock(str(tmp_path))
    with child_that(lambda: None):
        lock.release()
        WriterLock(str(tmp_path)).release()


def test_index_in_memory_is_not_taken_for_that_of_a_killed_process_before_its_writer_has_the_lock() -> None:
    class Owner: ...

    owner = Owner()
    folder, remove = memory_folder(owner)
    (Path(folder) / "writer.lock").touch()  # made, and not locked yet
    with simindex.open(":memory:"):
        assert Path(folder).exists()
    remove()
    assert not Path(folder).exists()
