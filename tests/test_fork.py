"""What fork() does to open handles, in the child and in the parent."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from batches import (
    BATCH,
    SMALL,
    TINY_LAYOUT,
    batch,
)
from processes import Tell, everything_from, forked, run_in_threads

import simindex
from simindex import ClosedError, IndexLockedError


def test_fork_gives_the_child_a_closed_handle_and_leaves_the_parent_alone(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL) as index, simindex.open(path, "r") as reader:
        index.insert("a", ["a"])
        assert len(reader) == 1

        def work(tell: Tell) -> None:
            for call in (
                lambda: index.query(["a"]),
                lambda: index.insert("b", ["b"]),
                lambda: index.insert_many([("b", ["b"])]),
                lambda: index.remove("a"),
                lambda: "a" in reader,
                lambda: list(reader),
                lambda: reader.stats(),
                lambda: index.transaction().__enter__(),
            ):
                with pytest.raises(ClosedError, match=r"fork\(\).*parent.*open it again"):
                    call()
            index.close()
            reader.close()
            tell("closed")

        pid, pipe = forked(work)
        assert os.waitpid(pid, 0)[1] == 0
        assert everything_from(pipe) == ["closed"]
        with pytest.raises(IndexLockedError):
            simindex.open(path)
        index.insert("b", ["b"])
        assert list(reader) == ["a", "b"]


FORK = """
import os, sys, simindex
index = simindex.open(sys.argv[1], "a", simindex.Config(num_perm=64))
reader = simindex.open(sys.argv[1], "r")
index.insert("a", ["a"])
assert len(index) == len(reader) == 1
for number in range(3):
    pid = os.fork()
    if not pid:
        if sys.argv[2] == "opens":
            with simindex.open(sys.argv[1], "r") as own:
                assert own.query(["a"])[0].key == "a"
            try:
                simindex.open(sys.argv[1], "a")
            except simindex.IndexLockedError:
                sys.exit(0)
            sys.exit(1)
        if sys.argv[2] == "closes":
            index.close()
        sys.exit(0)  # with the interpreter's clearing up
    assert os.waitpid(pid, 0)[1] == 0
    try:
        simindex.open(sys.argv[1], "a")
        sys.exit("the writer lock was gone")
    except simindex.IndexLockedError:
        pass
    assert len(reader) == len(index) == number + 1, "reader"
    index.insert(number, [str(number)])
    assert [match.key for match in reader.query([str(number)])] == [number]
index.close()
with simindex.open(sys.argv[1], "a") as index:
    assert list(index) == ["a", 0, 1, 2]
"""


@pytest.mark.parametrize("child", ["ends", "closes", "opens"])
def test_fork_does_no_harm_to_the_parent_when_the_child(tmp_path: Path, child: str) -> None:
    """A child that ends in the usual way, closes its dead handles, or opens the index for itself."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, str(tmp_path / "i"), child],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_fork_with_other_threads_in_the_middle_of_a_call_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, layout=TINY_LAYOUT) as index:
        index.insert_many(batch("a", size=100))
        ended = threading.Event()

        def query() -> None:
            while not ended.is_set():
                assert all(index.query_many([text for _, text in batch("a", size=100)], 0.9))

        def insert() -> None:
            number = 0
            while not ended.is_set():
                index.insert_many(batch("b", number), workers=1)
                number += 1

        def fork() -> None:
            try:
                for _ in range(10):

                    def work(tell: Tell) -> None:
                        with simindex.open(path, "r") as own:
                            assert all(own.query_many([text for _, text in batch("a", size=100)], 0.9))
                        tell("found")

                    pid, pipe = forked(work)
                    assert os.waitpid(pid, 0)[1] == 0, everything_from(pipe)
                    assert everything_from(pipe) == ["found"]
            finally:
                ended.set()

        run_in_threads(query, query, insert, fork)
        assert len(index) % BATCH == 100 % BATCH


def test_fork_during_another_threads_transaction_gives_the_child_a_closed_handle(tmp_path: Path) -> None:
    """The child inherits a lock that nobody will ever release; it must not wait for it."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        begun, end_now = threading.Event(), threading.Event()

        def hold() -> None:
            with index.transaction():
                index.insert("a", ["a"])
                begun.set()
                end_now.wait(20)

        holder = threading.Thread(target=hold)
        holder.start()
        begun.wait(20)

        def work(tell: Tell) -> None:
            signal.alarm(5)
            for call in (
                lambda: index.insert("b", ["b"]),
                lambda: index.remove_many(["a"]),
                lambda: index.insert_if_new("b", ["b"]),
                lambda: index.transaction().__enter__(),
                lambda: index.query(["a"]),
            ):
                with pytest.raises(ClosedError):
                    call()
            index.close()
            tell("closed")

        pid, pipe = forked(work)
        status = os.waitpid(pid, 0)[1]
        end_now.set()
        holder.join(20)
        assert (everything_from(pipe), status) == (["closed"], 0)
        assert list(index) == ["a"]
