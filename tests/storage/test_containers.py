"""Containers that share a folder and have process numbers of their own."""

from pathlib import Path

import pytest
from support.processes import Process, ask, end, start, succeeds
from support.texts import SMALL, batch

import simindex

CONTAINER = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]

PINNED = """
import os, sys, simindex
with simindex.open(sys.argv[1], "r", refresh="manual") as index:
    for _ in sys.stdin:
        print(os.getpid(), len(index), sum(1 for _ in index.items()), flush=True)
"""


def in_container(code: str, *arguments: object) -> Process:
    """A Python process in a container of its own, where it is the process number 1."""
    try:
        succeeds([*CONTAINER, "true"])
    except (OSError, AssertionError):
        pytest.skip("no right to make a namespace of process numbers")
    return start(code, *arguments, below=CONTAINER)


def test_second_process_of_the_same_number_is_refused_and_says_why(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=SMALL) as index:
        index.insert_many(batch(0))
    first = in_container(PINNED, tmp_path / "i")
    assert ask(first) == "1 30 30"
    second = in_container(
        """
import sys, simindex
try:
    simindex.open(sys.argv[1], "r")
except simindex.SimIndexError as error:
    print(error, flush=True)
""",
        tmp_path / "i",
    )
    assert second.communicate()[0] == (
        f"{tmp_path / 'i'}: another container has this index open in a process of the same number (1), by "
        "which LMDB tells readers apart; give containers that share an index one process namespace\n"
    )
    assert ask(first) == "1 30 30"
    end(first)


def test_writer_outside_leaves_the_snapshot_of_a_container(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=SMALL) as index:
        index.insert_many(batch(0))
    reader = in_container(PINNED, tmp_path / "i")
    assert ask(reader) == "1 30 30"
    for _ in range(3):  # each opening frees the slots of dead readers
        with simindex.open(tmp_path / "i") as index:
            for key, words in batch(0):
                index.replace(key, [*words, "anew"])
            index.insert_many(batch(1), on_conflict="skip")
            assert ask(reader) == "1 30 30"
    end(reader)
