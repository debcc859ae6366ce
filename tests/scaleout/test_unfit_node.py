"""Nodes without simindex, or that are gone: others take over, else callers hear why, and soon."""

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import ray
from support.ray_nodes import several_nodes
from support.stages import rows_of, written

from simindex import scaleout
from simindex.corpus import deduplicate
from simindex.scaleout import ScaleOutError, cluster


def test_node_without_simindex_is_named(tmp_path: Path) -> None:
    (tmp_path / "simindex").mkdir()
    (tmp_path / "simindex" / "__init__.py").write_text('raise ImportError("this node has no simindex")')
    with mock.patch.dict(os.environ, PYTHONPATH=str(tmp_path)), several_nodes(1):
        (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a row of some words"}')
        with pytest.raises(ray.exceptions.RayError, match="this node has no simindex"):
            scaleout.deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl")


def test_without_a_node_left_deduplication_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_PATIENCE_SECONDS", 2.0)
    source, steps = written(tmp_path / "a.jsonl", rows_of(1, 1_500)), list[str]()
    given: dict[str, Any] = {"part_bytes": 30_000, "work": tmp_path / "work"}
    with several_nodes(1) as kill:

        def step(name: str, *_: int) -> None:
            steps.append(name)
            if len(steps) == 1:
                kill(0)

        for again in (True, False):  # the second time there is none from the beginning
            with pytest.raises(ScaleOutError, match="nodes are gone and none took over"):
                scaleout.deduplicate(source, tmp_path / "out.jsonl", on_step=step, force=not again, **given)
    assert steps


def test_where_nodes_are_killed_the_rest_writes_the_bytes_of_one_machine(tmp_path: Path) -> None:
    source, killed = written(tmp_path / "a.jsonl", rows_of(1, 1_500)), list[str]()
    deduplicate(source, tmp_path / "right.jsonl")
    with several_nodes(3) as kill:
        for node, when in ((2, "parts"), (1, "ranges")):

            def step(name: str, *_: int, node: int = node, when: str = when) -> None:
                if name == when and when not in killed:
                    kill(node)
                    killed.append(when)

            output = tmp_path / f"{when}.jsonl"
            scaleout.deduplicate(source, output, part_bytes=30_000, on_step=step)
            assert killed[-1] == when
            assert output.read_bytes() == (tmp_path / "right.jsonl").read_bytes()
