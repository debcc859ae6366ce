"""What is committed stays when its process is killed, what is not leaves no trace."""

import os
import random
import select
import signal
import time
from pathlib import Path

import pytest
from support.indexes import stored_segments
from support.processes import Tell, everything_from, forked
from support.samples import sample_of
from support.texts import SMALL, TINY_LAYOUT, Held, after_batches, assert_holds, batch, label, removed_by

import simindex
from simindex import Config, IndexLockedError, Layout

# ---- kill -9 ----


def insert_until_killed(
    path: Path, name: object, config: Config, layout: Layout | None, map_bytes: int, acknowledge: Tell
) -> None:
    """Insert batches for ever; each also removes a third of the batch before the last one."""
    with simindex.open(path, "a", config, layout=layout, map_bytes=map_bytes) as index:
        number = 0
        while True:
            with index.transaction():
                index.insert_many(batch(name, number), workers=1)
                index.remove_many(removed_by(name, number))
            acknowledge(number)
            number += 1


@pytest.mark.parametrize(
    ("layout", "map_bytes"),
    sample_of([(None, 1 << 20), (Layout(2, 16, 512), 1 << 30)], [(None, 1 << 30), (TINY_LAYOUT, 1 << 20)]),
)
def test_kill_in_the_middle_of_inserting_loses_nothing_and_leaves_nothing_half(
    tmp_path: Path, layout: Layout | None, map_bytes: int
) -> None:
    """13 kills for each of four layouts (52): the small ones have merges of many chunks under way."""
    chance = random.Random(f"kill {layout} {map_bytes}")
    path = tmp_path / "i"
    before: Held = {}
    acknowledged = 0
    for name in range(13):

        def work(tell: Tell, name: int = name) -> None:
            insert_until_killed(path, name, SMALL, layout, map_bytes, tell)

        pid, pipe = forked(work)
        try:
            select.select([pipe], [], [], 20)  # the first batch
            time.sleep(chance.uniform(0, 0.1))
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        lines = everything_from(pipe)
        assert lines == [str(number) for number in range(len(lines))]
        assert lines
        acknowledged += len(lines)
        with simindex.open(path, "r") as reader:
            keys = set(reader)
        # The batch that was under way may have been committed, but never a part of it.
        count = len(lines) + (label(name, len(lines), 0) in keys)
        before = after_batches(before, name, count)
        assert keys == before.keys()
        with simindex.open(path, "a", map_bytes=map_bytes) as index:
            recent = {key: before[key] for key in list(before)[-600:]}
            found = index.query_many(list(recent.values()), 0.9)
            assert [[match.key for match in matches] for matches in found] == [[key] for key in recent]
        live, stored = stored_segments(path)
        assert stored == live
    with simindex.open(path, map_bytes=map_bytes) as index:
        assert_holds(index, before)
        index.insert("afterwards", ["afterwards"])
    assert acknowledged >= 13


def test_kill_at_any_time_of_opening_leaves_an_index_that_opens(tmp_path: Path) -> None:
    chance = random.Random("kill while opening")
    for name in range(12):
        path = tmp_path / str(name)

        def work(tell: Tell, path: Path = path) -> None:
            with simindex.open(path, "a", SMALL) as index:
                tell("open")
                index.insert("a", ["a"])
                tell("inserted")

        pid, pipe = forked(work)
        time.sleep(chance.uniform(0, 0.015))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        lines = everything_from(pipe)
        with simindex.open(path, "a", SMALL) as index:
            assert len(index) <= 1
            assert ("a" in index) or "inserted" not in lines
            index.replace("a", ["a"])
            assert index.query(["a"])[0].key == "a"


def test_killed_transaction_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL) as index:
        index.insert_many(batch("kept"))

    def work(tell: Tell) -> None:
        index = simindex.open(path)
        with index.transaction():
            index.insert_many(batch("lost", size=500), batch_size=100)
            index.remove(batch("kept")[0][0])
            index.replace(batch("kept")[1][0], ["other"])
            tell(len(index))
            signal.pause()

    pid, pipe = forked(work)
    assert os.read(pipe, 100) == b"529\n"
    with pytest.raises(IndexLockedError):
        simindex.open(path)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(pipe)
    with simindex.open(path) as index:
        assert_holds(index, dict(batch("kept")))
