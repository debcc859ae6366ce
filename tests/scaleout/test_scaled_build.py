"""Building over Ray: a driver that is killed in the middle, and a data set."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from support.ray_nodes import one_node

import simindex
from simindex import Config, scaleout
from simindex.inputs import BadRowError, Fields, Inputs

pytestmark = pytest.mark.filterwarnings(
    # Of processes that Ray has started and not waited for, when their handles are collected; and of the
    # settings of Ray Data, which Ray reads itself.
    "ignore::ResourceWarning",
    "ignore::DeprecationWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    with one_node():
        yield


ROWS, OF_LARGE, PART_BYTES = 60, 300, 3_500

KILLED = """
import os, sys
from simindex import scaleout
from simindex.inputs import Fields, Inputs

def progress(documents, ranges):
    if ranges == 2:
        os.kill(os.getpid(), 9)

_, pattern, uri, address, size = sys.argv
sources = Inputs([pattern], Fields(key_from="line"))
scaleout.build(sources, uri, progress=progress, batch_size=5, part_bytes=int(size), address=address)
"""


def rows_of(first: int, count: int) -> list[tuple[int, str]]:
    return [(n, f"a text of number {n} beside {n // 3} others") for n in range(first, first + count)]


def test_a_driver_that_was_killed_goes_on(tmp_path: Path) -> None:
    small, large = tmp_path / "a.jsonl", tmp_path / "large.jsonl"
    documents: list[tuple[object, str]] = [*rows_of(0, ROWS)]
    small.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in documents))
    texts = [text for _, text in rows_of(ROWS, OF_LARGE)]
    large.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    documents += [(f"{large}:{line}", text) for line, text in enumerate(texts, 1)]
    uri, pattern = str(tmp_path / "catalog"), str(tmp_path / "*.jsonl")
    index = scaleout.create(uri, Config(seed=1), partitions=4)
    address = ray.get_runtime_context().gcs_address
    arguments = [pattern, uri, address, str(PART_BYTES)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()

    told, sources = list[tuple[int, int]](), Inputs([pattern], Fields(key_from="line"))
    more: dict[str, Any] = {"batch_size": 5, "part_bytes": PART_BYTES}
    report = scaleout.build(sources, uri, **more, progress=lambda *done: told.append(done))
    assert report.parts > 5
    assert report.resumed == 2
    assert told[-1] == (len(documents), report.parts)
    assert report.inserted + report.skipped == len(documents)
    assert (report.replaced, report.bad) == (0, 0)
    assert not (tmp_path / "catalog.build").exists()
    with simindex.open(tmp_path / "one", config=Config(seed=1)) as one:
        one.insert_many(documents)
        assert sorted(map(str, index)) == sorted(map(str, one))
        for found, expected in zip(index.query_many(texts[:60]), one.query_many(texts[:60]), strict=True):
            assert {(m.key, m.similarity) for m in found} == {(m.key, m.similarity) for m in expected}
    again = scaleout.build(sources, uri, batch_size=5)
    assert (again.parts, again.inserted, again.skipped, again.resumed) == (2, 0, len(documents), 0)

    small.write_text('{"id": 1}\n')
    with pytest.raises(BadRowError, match=r"a\.jsonl:1: expected a field 'text'"):
        scaleout.build(pattern, uri)
    index.stop()


def test_rows_of_a_data_set_that_an_index_knows_are_marked(tmp_path: Path) -> None:
    data = pytest.importorskip("ray.data")
    data.DataContext.get_current().enable_progress_bars = False
    with simindex.open(tmp_path / "index", config=Config(seed=1)) as index:
        index.insert_many(rows_of(0, 30))
    dataset = data.from_items([{"id": key, "body": text} for key, text in rows_of(0, ROWS)])
    seen = scaleout.SeenBefore(tmp_path / "index", 1.0, text="body")
    rows = dataset.map_batches(seen, batch_format="pyarrow", batch_size=7).take_all()
    assert {row["id"]: row["seen_before"] for row in rows} == {key: key < 30 for key in range(ROWS)}
