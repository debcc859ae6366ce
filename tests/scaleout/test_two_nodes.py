"""Deduplication on two nodes of Ray: what one machine writes, byte for byte."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_nodes import several_nodes
from scaled_rows import rows_of, written

from simindex import scaleout
from simindex.corpus import deduplicate
from simindex.inputs import BadRowError


@pytest.fixture(scope="module")
def two() -> Iterator[None]:
    with several_nodes(2):
        yield


@pytest.mark.usefixtures("two")
def test_two_nodes_write_what_one_machine_does(tmp_path: Path) -> None:
    sources = [written(tmp_path / f"{seed}.jsonl", rows_of(seed, 1_500)) for seed in (1, 2)]
    work, steps = tmp_path / "work", list[tuple[str, int, int]]()

    def step(*told: Any) -> None:
        steps.append(told)
        if told[0] == "ranges":
            assert len(list(work.glob("*/*.simindex"))) > 4

    given: dict[str, Any] = {"keep": "longest", "mode": "annotate"}
    expected = deduplicate(sources, tmp_path / "one.jsonl", 0.7, **given)
    more: dict[str, Any] = {"part_bytes": 100_000, "work": work, "on_step": step}
    found = scaleout.deduplicate(sources, tmp_path / "many.jsonl", 0.7, **given, **more)
    assert found[:4] == expected[:4]
    assert expected.removed > 500
    for name in ("{}.jsonl", "{}.jsonl.dedup/removed.jsonl"):
        assert (tmp_path / name.format("many")).read_bytes() == (tmp_path / name.format("one")).read_bytes()
    assert {name: done for name, done, total in steps if done == total}.keys() == {"parts", "ranges"}
    assert not list(work.iterdir())


@pytest.mark.usefixtures("two")
def test_a_bad_row_on_a_node_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    source = tmp_path / "bad.jsonl"
    written(source, rows_of(3, 100))
    source.write_bytes(source.read_bytes() + b'{"id": 7\n')
    with pytest.raises(BadRowError, match=r"bad\.jsonl:101"):
        scaleout.deduplicate([str(source)], tmp_path / "out.jsonl", work=tmp_path / "work", part_bytes=5_000)
    assert not (tmp_path / "out.jsonl").exists()
