"""A node on which simindex cannot be imported: Ray starts hosts there for ever, and callers hear why."""

import os
import time
from pathlib import Path
from unittest import mock

import pytest
import ray
from support.ray_nodes import several_nodes

from simindex import Config, scaleout
from simindex.scaleout import PlaceMissingError


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
