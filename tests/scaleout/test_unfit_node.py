"""A cluster that cannot work: its node has no simindex, or is gone. Callers hear why, and soon."""

import os
import time
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import ray
from support.hosts import rows_of, written
from support.ray_nodes import several_nodes

from simindex import Config, scaleout
from simindex.scaleout import PlaceMissingError, ScaleOutError, cluster


def test_node_without_simindex_is_named_long_before_the_deadline(tmp_path: Path) -> None:
    (tmp_path / "simindex").mkdir()
    (tmp_path / "simindex" / "__init__.py").write_text('raise ImportError("this node has no simindex")')
    place = {"simindex:0": str(tmp_path / "node")}
    with mock.patch.dict(os.environ, PYTHONPATH=str(tmp_path)), several_nodes(1):
        begin = time.monotonic()
        with pytest.raises(PlaceMissingError, match="this node has no simindex; install simindex") as raised:
            scaleout.create(tmp_path / "catalog", Config(num_perm=64), partitions=2, places=place)
        assert time.monotonic() - begin < 100  # of 300 that a change may take
        (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "a row of some words"}')
        with pytest.raises(ray.exceptions.RayError, match="this node has no simindex"):
            scaleout.deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl")
        assert not ray.util.list_named_actors(all_namespaces=True)  # none that is started for ever
    assert raised.value.partitions == (0, 1)
    assert set(raised.value.reasons) == {"simindex:0"}


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
