"""What fork() does to open handles, in the child and in the parent."""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.faults import around, set_bound
from support.indexes import CALLS
from support.processes import Tell, everything_from, forked, run_in_threads, succeeds
from support.texts import BATCH, SMALL, TINY_LAYOUT, batch, document, label

import simindex
from simindex import ClosedError, Config, Index, IndexLockedError


def stored_batch(folder: Path, size: int) -> tuple[Path, list[object]]:
    """A closed index of a batch of documents, and their keys."""
    with simindex.open(folder / "i", "x", SMALL) as index:
        index.insert_many(batch("a", size=size))
    return folder / "i", [label("a", n) for n in range(size)]


def ended(*children: tuple[int, int]) -> list[list[str]]:
    """What each child has sent; all of them ended well."""
    outputs = []
    for pid, pipe in children:
        status = os.waitpid(pid, 0)[1]
        outputs.append(everything_from(pipe))
        assert status == 0, outputs
    return outputs


@pytest.mark.parametrize("is_held", [False, True], ids=["", "in a transaction of another thread"])
def test_fork_gives_the_child_a_closed_writer_and_leaves_the_parent_alone(
    tmp_path: Path, is_held: bool
) -> None:
    """The child may inherit a lock that no thread of its own will ever release: it must not wait for it."""
    path = tmp_path / "i"
    with simindex.open(path, "x", Config(containment=8)) as index, simindex.open(path, "r") as reader:
        index.insert("a", ["a"])
        assert len(reader) == 1
        begun, end_now = threading.Event(), threading.Event()

        def hold() -> None:
            with index.transaction():
                index.insert("held", ["held"])
                begun.set()
                end_now.wait(20)

        def work(tell: Tell) -> None:
            signal.alarm(5)
            for call in CALLS.values():
                with pytest.raises(ClosedError, match=r"fork\(\).*parent.*open it again"):
                    call(index)
            index.close()
            reader.close()
            tell("closed")

        holder = threading.Thread(target=hold)
        if is_held:
            holder.start()
            begun.wait(20)
        child = forked(work)
        assert ended(child) == [["closed"]]
        end_now.set()
        if is_held:
            holder.join(20)
        with pytest.raises(IndexLockedError):
            simindex.open(path)
        index.insert("b", ["b"])
        assert list(reader) == ["a", *["held"] * is_held, "b"]


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
    done = succeeds([sys.executable, "-W", "error", "-c", FORK, tmp_path / "i", child])
    assert done.stderr == ""


def test_fork_with_other_threads_in_the_middle_of_a_call_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, layout=TINY_LAYOUT) as index:
        index.insert_many(batch("a", size=100))
        is_over = threading.Event()

        def query() -> None:
            while not is_over.is_set():
                assert all(index.query_many([text for _, text in batch("a", size=100)], 0.9))

        def insert() -> None:
            number = 0
            while not is_over.is_set():
                index.insert_many(batch("b", number), workers=1)
                number += 1

        def fork() -> None:
            try:
                for _ in range(10):

                    def work(tell: Tell) -> None:
                        with simindex.open(path, "r") as own:
                            assert all(own.query_many([text for _, text in batch("a", size=100)], 0.9))
                        tell("found")

                    assert ended(forked(work)) == [["found"]]
            finally:
                is_over.set()

        run_in_threads(query, query, insert, fork)
        assert len(index) % BATCH == 100 % BATCH


def test_call_whose_traceback_is_kept_is_waited_for_by_one_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "seconds that a fork waits", 0.2)
    pauses = list[float]()
    sleep = time.sleep

    def counted(seconds: float) -> None:
        pauses.append(seconds)
        sleep(seconds)

    monkeypatch.setattr("simindex.storage.environment.time.sleep", counted)
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        kept = index._store.reading()
        kept.__enter__()  # as a Ctrl-C leaves it that comes before the end of the block
        for is_first in (True, False, False):
            assert ended(forked(lambda tell: tell("found"))) == [["found"]]
            assert bool(pauses) == is_first
            pauses.clear()
        kept.__exit__(None, None, None)


# ---- a reader's handle ----


PASSING = {f"passing {n}" for n in range(8)}


def assert_answers(reader: Index, keys: list[object], threads: int = 4) -> None:
    """Every thread gets the right answer from the first call on."""
    begin = threading.Barrier(threads)

    def ask() -> None:
        begin.wait(20)
        assert [match.key for match in reader.query(document("a", 7), 0.9)] == [label("a", 7)]
        assert sorted(str(key) for key in reader if key not in PASSING) == sorted(map(str, keys))
        assert [match.key for match in reader.query_simhash(document("a", 7), 0)] == [label("a", 7)]

    run_in_threads(*[ask] * threads)


@pytest.mark.parametrize("refresh", ["auto", "manual"])
@pytest.mark.parametrize("has_asked", [False, True])
def test_reader_opens_by_itself_in_each_of_many_children_and_the_parent_goes_on(
    tmp_path: Path, refresh: Any, has_asked: bool
) -> None:
    """As in a server that loads its application before it forks its workers."""
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, layout=TINY_LAYOUT) as index:
        index.insert_many(batch("a", size=200))
        reader = simindex.open(path, "r", refresh=refresh)
        keys: list[object] = [label("a", n) for n in range(200)]
        if has_asked:
            assert_answers(reader, keys)

        def work(tell: Tell) -> None:
            assert_answers(reader, keys)
            reader.close()
            with pytest.raises(ClosedError, match="the index is closed"):
                len(reader)
            tell("answered")

        children = []
        for key in PASSING:
            children.append(forked(work))
            index.insert(key, [key])
            index.remove(key)
        assert ended(*children) == [["answered"]] * 8
        assert_answers(reader, keys)
        index.insert("b", ["b"])
        reader.refresh()
        assert_answers(reader, [*keys, "b"])
        reader.close()
    check_readers_are_gone(path)


def check_readers_are_gone(path: Path) -> None:
    """No child has left a snapshot that would keep old pages for ever."""
    with simindex.open(path) as index:
        assert index._store.environment().env.readers() == "(no active readers)\n"


def test_reader_opens_by_itself_in_a_child_of_a_child_used_there_first_or_not(tmp_path: Path) -> None:
    path, keys = stored_batch(tmp_path, 20)
    with simindex.open(path, "r") as reader:

        def deeper(depth: int, uses: bool, tell: Tell) -> None:
            if uses or not depth:
                assert_answers(reader, keys)
            if depth:
                child = forked(lambda send: deeper(depth - 1, uses, send))
                tell(f"{depth} {ended(child)}")
                assert_answers(reader, keys)

        for uses in (False, True):
            child = forked(lambda tell, uses=uses: deeper(3, uses, tell))  # type: ignore[misc]
            assert ended(child) == [["3 [[\"2 [['1 [[]]']]\"]]"]]
        assert_answers(reader, keys)


def test_reader_in_a_child_sees_what_was_committed_since_and_a_compacted_file(tmp_path: Path) -> None:
    path, keys = stored_batch(tmp_path, 50)
    with simindex.open(path, "r") as reader:
        assert len(reader) == 50
        read, write = os.pipe()

        def work(tell: Tell) -> None:
            os.read(read, 1)
            assert_answers(reader, [*keys, "new"])
            with simindex.open(path, timeout=None) as own:  # it shares the environment that the reader opened
                own.insert("newer", ["newer"])
                own.compact()
            assert_answers(reader, [*keys, "new", "newer"])
            tell("answered")

        child = forked(work)
        with simindex.open(path) as index:
            index.insert("new", ["new"])
            index.compact()
        os.write(write, b".")
        assert ended(child) == [["answered"]]
        assert_answers(reader, [*keys, "new", "newer"])
    os.close(read)
    os.close(write)


def test_reader_in_a_child_says_that_its_index_is_gone_or_another(tmp_path: Path) -> None:
    path = tmp_path / "i"
    simindex.open(path, "x", SMALL).close()
    with simindex.open(path, "r") as reader:
        assert len(reader) == 0
        path.rename(tmp_path / "away")

        def find_nothing(tell: Tell) -> None:
            with pytest.raises(FileNotFoundError, match="no simindex index"):
                len(reader)
            (tmp_path / "away").rename(path)
            tell(len(reader))
            path.rename(tmp_path / "away")

        assert ended(forked(find_nothing)) == [["0"]]
        simindex.open(tmp_path / "other", "x", simindex.Config(num_perm=8)).close()
        (tmp_path / "other").rename(path)

        def find_another(tell: Tell) -> None:
            for _ in range(2):
                with pytest.raises(simindex.FormatError, match="found one of another configuration"):
                    len(reader)
            tell("refused")

        assert ended(forked(find_another)) == [["refused"]]


def test_child_of_a_fork_within_a_compaction_opens_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has inherited LMDB's environment of that file from when it was being built."""
    path, children = tmp_path / "i", list[int]()
    go_on, tell = os.pipe()

    def fork_and_finish(finish: Callable[..., int], *file: object) -> int:
        child = os.fork()
        if not child:
            try:
                os.read(go_on, 1)
                with simindex.open(path, "r") as index:
                    os._exit(int(list(index) != list(range(40))))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        children.append(child)
        return finish(*file)

    around(monkeypatch, "finish a new file", fork_and_finish)
    with simindex.open(path, "x") as index:
        index.insert_many((number, f"the text of number {number}") for number in range(40))
        index.compact()
        os.write(tell, b"." * len(children))
        assert [os.waitpid(child, 0)[1] for child in children] == [0]
        assert len(index) == 40
    os.close(go_on)
    os.close(tell)
