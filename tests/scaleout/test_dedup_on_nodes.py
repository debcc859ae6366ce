"""Deduplication on two nodes of Ray, while workers, hosts and a node are killed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rays import Nodes, nodes
from scaled_rows import rows_of, written

from simindex import scaleout
from simindex.corpus import deduplicate
from simindex.scaleout import UnsupportedError


@pytest.fixture(scope="module")
def two() -> Iterator[Nodes]:
    with nodes(2) as cluster:
        yield cluster


class Killer:
    """Kills something at each step, once of each kind."""

    def __init__(self, cluster: Nodes) -> None:
        self._cluster = cluster
        self.killed: list[str] = []

    def __call__(self, step: str, done: int, total: int) -> None:
        if step == "parts" and done == 1:
            self._kill("_make_here")
        elif step == "ranges" and "RangeHost" not in self.killed:
            self._kill("RangeHost")
        elif step == "ranges" and "walk_range" not in self.killed:
            self._kill("walk_range")
        elif step == "ranges" and "node" not in self.killed and done < total:
            self._cluster.kill_node()
            self.killed.append("node")

    def _kill(self, name: str) -> None:
        if self._cluster.kill_worker(name):
            self.killed.append(name)


def test_two_nodes_write_what_one_machine_does_whatever_is_killed(two: Nodes, tmp_path: Path) -> None:
    sources = [written(tmp_path / f"{seed}.jsonl", rows_of(seed, 400)) for seed in (1, 2)]
    expected = deduplicate(sources, tmp_path / "one.jsonl", 0.7)
    killer = Killer(two)
    given: dict[str, Any] = {"part_bytes": 10_000, "work": tmp_path / "work", "on_step": killer}
    found = scaleout.deduplicate(sources, tmp_path / "many.jsonl", 0.7, **given)
    assert found[:4] == expected[:4]
    assert (tmp_path / "many.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    removed = [(tmp_path / f"{name}.jsonl.dedup" / "removed.jsonl").read_bytes() for name in ("one", "many")]
    assert removed[0] == removed[1]
    assert {"RangeHost", "node"} <= set(killer.killed)
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.usefixtures("two")
def test_what_one_machine_alone_keeps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="without against="):
        scaleout.deduplicate([str(tmp_path / "a.jsonl")], None, against="other")
    with pytest.raises(UnsupportedError, match="expected files"):
        scaleout.deduplicate([("a", "one text")], [].append)
    with pytest.raises(TypeError, match="unexpected keyword argument 'treshold'"):
        scaleout.deduplicate([str(tmp_path / "a.jsonl")], None, treshold=0.5)
