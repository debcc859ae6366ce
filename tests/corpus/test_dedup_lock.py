"""One process at a time writes an output of `dedup`; its lock ends with the process."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run
from support.dedup_settings import dedup_arguments
from support.texts import FOX, SHIP, json_lines

from simindex import SimIndexError
from simindex.corpus import DedupSettings, deduplicate

_AT_WORK = """
import sys, time
from simindex.corpus import DedupSettings, deduplicate
def wait(done):
    print(done, flush=True)
    time.sleep(60)
settings = DedupSettings(removed="r.jsonl", batch_size=1)
deduplicate("a.jsonl", "x.jsonl", settings=settings, progress=wait)
"""


@contextmanager
def another_process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is writing x.jsonl and r.jsonl."""
    with subprocess.Popen([sys.executable, "-c", _AT_WORK], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline()
            yield child
        finally:
            child.kill()


@pytest.fixture(autouse=True)
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "b.jsonl"):
        Path(name).write_bytes(json_lines([{"id": 1, "text": FOX}, {"id": 2, "text": SHIP}]))


def test_second_process_at_an_output_is_refused_by_name(run: Run) -> None:
    os.symlink("x.jsonl", "link.jsonl")
    jobs: list[tuple[Any, Any, dict[str, Any]]] = [
        ("a.jsonl", "x.jsonl", {"removed": "r.jsonl"}),
        ("b.jsonl", "x.jsonl", {}),
        ("b.jsonl", "x.jsonl", {"force": True}),
        ("b.jsonl", "./x.jsonl", {}),
        ("b.jsonl", "link.jsonl", {"force": True}),
        ("b.jsonl", "y.jsonl", {"removed": "r.jsonl"}),
        ([(1, FOX)], "x.jsonl", {"force": True}),
    ]
    with another_process() as child:
        for sources, sink, more in jobs:
            with pytest.raises(SimIndexError, match="another process is writing this output"):
                deduplicate(sources, sink, **dedup_arguments(**more))
        for source in ("a.jsonl", "-"):
            result = run("dedup", source, "-o", "x.jsonl", "--force", stdin=b"")
            assert result.code == 1
            assert "x.jsonl: another process is writing this output; wait for it" in result.err
        assert deduplicate("b.jsonl", "y.jsonl").kept == 2
        assert child.poll() is None


def test_lock_ends_with_its_process() -> None:
    with another_process() as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert deduplicate("a.jsonl", "x.jsonl", settings=DedupSettings(removed="r.jsonl")).kept == 2
    assert not [name for name in os.listdir() if name.endswith(".lock")]


def test_two_threads_are_two_writers() -> None:
    refused: list[SimIndexError] = []

    def again(_done: int) -> None:
        try:
            deduplicate("b.jsonl", "x.jsonl")
        except SimIndexError as error:
            refused.append(error)

    assert deduplicate("a.jsonl", "x.jsonl", progress=again).kept == 2
    assert refused


def test_output_in_a_folder_that_is_still_to_be_made() -> None:
    assert deduplicate("a.jsonl", "new/folder/x.jsonl").kept == 2
    assert sorted(os.listdir("new/folder")) == ["x.jsonl", "x.jsonl.dedup"]
