"""Read-only copies of a backup: the answers of the index, whichever of them lives."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.ray_nodes import one_node
from support.truth import texts

import simindex
from simindex import CorruptIndexError, MissingObjectError, scaleout
from simindex.scaleout import Replicas, ScaleOutError

TEXTS = texts(200)


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    with one_node():  # of two cores
        yield


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simindex.Index]:
    with simindex.open(tmp_path_factory.mktemp("one") / "i") as index:
        index.insert_many((f"k{number}", text, {"n": number}) for number, text in enumerate(TEXTS))
        index.backup(store_of(index))
        yield index


def store_of(index: simindex.Index) -> str:
    return f"file://{Path(index.path).with_name('backup')}"


@pytest.fixture(scope="module")
def copies(index: simindex.Index, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    folder = tmp_path_factory.mktemp("copies")
    with scaleout.replicas(store_of(index), 2, folder=str(folder)) as copies:
        assert len(list(folder.iterdir())) == 2
        yield copies
        copies.stop()
    assert list(folder.iterdir()) == []


def pids() -> list[int]:
    """The replicas that this Ray has started."""
    mark, found = f"RAY_TMPDIR={os.environ['RAY_TMPDIR']}".encode(), list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_replica = (folder / "cmdline").read_bytes().startswith(b"ray::Replica")
            if is_replica and mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


def test_replicas_answer_as_the_index_does(index: simindex.Index, copies: Replicas) -> None:
    asked = TEXTS * 20  # several batches, by turns
    assert copies.query_many(asked, 0.3) == index.query_many(asked, 0.3)
    assert copies.query(TEXTS[3], 0.4, limit=2) == index.query(TEXTS[3], 0.4, limit=2)
    assert copies.query_simhash(TEXTS[4]) == index.query_simhash(TEXTS[4])
    assert copies.nearest(TEXTS[5], 3) == index.nearest(TEXTS[5], 3)
    assert copies.stats().documents == 200
    with pytest.raises(ValueError, match="threshold"):
        copies.query(TEXTS[0], 1.5)


def test_another_replica_answers_for_one_that_hangs_or_was_killed(
    index: simindex.Index, copies: Replicas
) -> None:
    wanted = index.query_many(TEXTS, 0.3)
    for number in range(30):
        assert copies.query(TEXTS[number], 0.3) == wanted[number]
    pid, *_ = pids()
    os.kill(pid, signal.SIGSTOP)
    try:
        for number in range(6):
            assert copies.query(TEXTS[number], 0.3) == wanted[number]
    finally:
        os.kill(pid, signal.SIGKILL)
    for number in range(6):
        assert copies.query(TEXTS[number], 0.3) == wanted[number]
    assert copies.query_many(TEXTS, 0.3) == wanted


def test_a_later_backup_is_taken_by_one_call(index: simindex.Index, copies: Replicas) -> None:
    index.insert("late", "a page that came after the backup, of words of its own")
    assert not copies.query("a page that came after the backup, of words of its own", 0.9)
    index.backup(store_of(index))
    copies.refresh()
    for _ in range(4):
        found = copies.query("a page that came after the backup, of words of its own", 0.9)
        assert [match.key for match in found] == ["late"]


def test_jobs_behind_replicas_that_hold_all_cores_end_with_an_error(
    index: simindex.Index, copies: Replicas, tmp_path: Path
) -> None:
    assert copies.stats().documents >= 200
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": 1, "text": "some words"}) + "\n")
    began = time.monotonic()
    with pytest.raises(ScaleOutError, match="found all 2 held by others"):
        list(scaleout.pairs(index.path, 0.8, work=tmp_path / "w"))
    with pytest.raises(ScaleOutError, match="end some, or start nodes"):
        scaleout.deduplicate(tmp_path / "a.jsonl", tmp_path / "out.jsonl")
    assert time.monotonic() - began < 60  # they waited for ever
    assert not (tmp_path / "out.jsonl").exists()


def test_too_few_cores_are_an_error(
    index: simindex.Index, copies: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simindex.scaleout.replica_actors._START_SECONDS", 2.0)
    with pytest.raises(ScaleOutError, match="each of 3 replicas, found them for 2 within"):
        scaleout.replicas(store_of(index), 3)
    assert copies.stats().documents >= 200


def test_a_source_that_is_no_whole_backup_is_refused(index: simindex.Index, tmp_path: Path) -> None:
    with pytest.raises(MissingObjectError, match="expected a backup, found none"):
        scaleout.replicas(tmp_path / "none", 1, cores=0)
    with pytest.raises(ValueError, match="expected 1 or more"):
        scaleout.replicas(tmp_path / "none", 0)
    with pytest.raises(ValueError, match="folder: expected an absolute path"):
        scaleout.replicas(tmp_path / "none", 1, folder="copies")
    store = tmp_path / "store"
    index.backup(f"file://{store}")
    first, second = sorted((store / "parts").iterdir())[:2]
    sound = first.read_bytes()
    for content, error in (
        (sound[:-1], CorruptIndexError),
        (second.read_bytes(), CorruptIndexError),
        (None, MissingObjectError),
    ):
        first.unlink() if content is None else first.write_bytes(content)
        with pytest.raises(error, match=first.name):
            scaleout.replicas(store, 1, cores=0, folder=str(tmp_path))
    assert not list(tmp_path.glob("simindex-replica*/*"))
    first.write_bytes(sound)
    with scaleout.replicas(store, 1, cores=0, folder=str(tmp_path)) as mended:
        assert mended.stats().documents >= 200
        mended.stop()
