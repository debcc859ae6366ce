"""Building over Ray: a driver that is killed in the middle, and a data set."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from rays import one_node

import simindex
from simindex import Config, scaleout
from simindex.scaleout.building import parts

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


FILES, ROWS = 6, 60

KILLED = """
import os, sys
from simindex import scaleout
from simindex.scaleout.building import parts

parts.PART_BYTES = 1_000

def progress(documents, ranges):
    if ranges == 2:
        os.kill(os.getpid(), 9)

scaleout.build(sys.argv[1], sys.argv[2], progress=progress, batch_size=5, address=sys.argv[3])
"""


def rows_of(file: int) -> list[tuple[int, str]]:
    first = file * ROWS
    return [(n, f"a text of number {n} beside {n // 3} others") for n in range(first, first + ROWS)]


def test_a_driver_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", 1_000)
    for file in range(FILES):
        rows = (json.dumps({"id": key, "text": text}) + "\n" for key, text in rows_of(file))
        (tmp_path / f"{file}.jsonl").write_text("".join(rows))
    uri, pattern = str(tmp_path / "catalog"), str(tmp_path / "*.jsonl")
    index = scaleout.create(uri, Config(seed=1), partitions=4)
    address = ray.get_runtime_context().gcs_address
    killed = subprocess.run([sys.executable, "-c", KILLED, pattern, uri, address], capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    with pytest.raises(scaleout.UnfinishedBuildError, match="other sources"):
        scaleout.build(str(tmp_path / "0.jsonl"), uri, batch_size=5)

    told = list[tuple[int, int]]()
    report = scaleout.build(pattern, uri, batch_size=5, progress=lambda *done: told.append(done))
    assert (report.ranges, report.resumed) == (FILES, 2)
    assert told[-1] == (FILES * ROWS, FILES)
    assert report.inserted + report.skipped == FILES * ROWS
    assert (report.replaced, report.bad) == (0, 0)
    assert not (tmp_path / "catalog.build").exists()
    with simindex.open(tmp_path / "one", config=Config(seed=1)) as one:
        one.insert_many(row for file in range(FILES) for row in rows_of(file))
        assert sorted(index) == sorted(one)
        texts = [text for _, text in rows_of(1)]
        for found, expected in zip(index.query_many(texts), one.query_many(texts), strict=True):
            assert {(m.key, m.similarity) for m in found} == {(m.key, m.similarity) for m in expected}
    again = scaleout.build(pattern, uri, batch_size=5)
    assert (again.inserted, again.skipped, again.resumed) == (0, FILES * ROWS, 0)

    (tmp_path / "0.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(scaleout.SourceError, match=r"0\.jsonl:1: expected a field 'text'"):
        scaleout.build(pattern, uri)
    index.stop()


def test_a_data_set_is_stored(tmp_path: Path) -> None:
    data = pytest.importorskip("ray.data")
    data.DataContext.get_current().enable_progress_bars = False
    uri = str(tmp_path / "catalog")
    index = scaleout.create(uri, Config(seed=1), partitions=2)
    dataset = data.from_items([{"key": key, "body": text} for key, text in rows_of(0)])
    report = scaleout.build(dataset, uri, batch_size=10, id="key", text="body")
    assert (report.inserted, report.skipped) == (ROWS, 0)
    assert sorted(index) == [key for key, _ in rows_of(0)]
    assert scaleout.build(dataset, uri, id="key", text="body").skipped == ROWS
    index.stop()
