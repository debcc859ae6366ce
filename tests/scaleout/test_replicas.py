"""Read-only copies of a backup: the answers of the index, whichever of them lives."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from support.ray_nodes import one_node
from support.truth import texts

import simindex
from simindex import scaleout
from simindex.scaleout import (
    MissingObjectError,
    PlaceMissingError,
    ScaledIndex,
    ScaleOutError,
    UnsupportedError,
)

TEXTS = texts(200)


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    with one_node():
        yield


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simindex.Index]:
    with simindex.open(tmp_path_factory.mktemp("one") / "i") as index:
        index.insert_many((f"k{number}", text, {"n": number}) for number, text in enumerate(TEXTS))
        scaleout.backup_index(index.path, Path(index.path).with_name("backup"))
        yield index


@pytest.fixture(scope="module")
def copies(index: simindex.Index, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScaledIndex]:
    folder = tmp_path_factory.mktemp("copies")
    with scaleout.replicas(Path(index.path).with_name("backup"), 2, folder=str(folder)) as copies:
        assert len(list(folder.iterdir())) == 2
        yield copies
        copies.stop()
    assert list(folder.iterdir()) == []


def test_replicas_answer_as_the_index_does(index: simindex.Index, copies: ScaledIndex) -> None:
    for found, expected in zip(copies.query_many(TEXTS, 0.3), index.query_many(TEXTS, 0.3), strict=True):
        assert {(m.key, m.similarity) for m in found} == {(m.key, m.similarity) for m in expected}
    assert copies.query(TEXTS[3], 0.9)[0].key == "k3"
    assert {m.key for m in copies.query_simhash(TEXTS[4])} == {m.key for m in index.query_simhash(TEXTS[4])}
    assert len(copies.nearest(TEXTS[5], 3)) == 3
    assert (len(copies), copies["k7"].metadata, "k200" in copies) == (200, {"n": 7}, False)
    assert sorted(copies) == sorted(index)
    assert copies.check()


def test_questions_go_to_all_replicas_in_turn(copies: ScaledIndex) -> None:
    assert len({copies.status()["replicas"]["pid"] for _ in range(4)}) == 2


def test_changes_are_refused(copies: ScaledIndex) -> None:
    for change in (
        lambda: copies.insert("new", "a text that is new"),
        lambda: copies.remove("k1"),
        lambda: copies.touch("k1"),
        copies.compact,
    ):
        with pytest.raises(UnsupportedError, match="expected a question, for replicas are read only"):
            change()
    assert len(copies) == 200


def test_another_replica_answers_for_one_that_hangs_or_was_killed(copies: ScaledIndex) -> None:
    for number in range(30):
        assert copies.query(TEXTS[number], 0.9)
    pid = copies.status()["replicas"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        for number in range(6):
            found = copies.query(TEXTS[number], 0.9, seconds=20, on_missing="raise")
            assert f"k{number}" in {match.key for match in found}
    finally:
        os.kill(pid, signal.SIGKILL)
    for number in range(6):
        assert copies.query(TEXTS[number], 0.9, on_missing="raise")


def test_replicas_of_a_catalog_hold_all_partitions(tmp_path: Path) -> None:
    places = {"local:a": str(tmp_path / "a"), "local:b": str(tmp_path / "b")}
    uri = tmp_path / "catalog"
    with scaleout.create(uri, partitions=3, places=places, store=str(tmp_path / "store")) as index:
        index.insert_many(enumerate(TEXTS))
        index.backup()
        expected = index.query_many(TEXTS, 0.3)
    with scaleout.replicas(uri, 1, cores=0, folder=str(tmp_path / "copies")) as copies:
        assert copies.query_many(TEXTS, 0.3) == expected
        for actor in copies._calls._actors.values():  # type: ignore[attr-defined] # they are of replicas
            ray.kill(actor)

        def ask() -> None:
            while True:  # until it is gone
                copies.query(TEXTS[0], seconds=0.5, on_missing="raise")

        with pytest.raises(PlaceMissingError, match=r"no replica has answered in time; .*actor"):
            ask()


def test_too_few_cores_are_an_error(
    index: simindex.Index, copies: ScaledIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simindex.scaleout.replica_actors._START_SECONDS", 2.0)
    with pytest.raises(ScaleOutError, match="each of 3 replicas, found them for 2 within"):
        scaleout.replicas(Path(index.path).with_name("backup"), 3)
    assert len(copies) == len(TEXTS)


def test_source_that_is_no_backup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingObjectError, match="expected a backup, found none"):
        scaleout.replicas(tmp_path / "none", 1, cores=0)
    with pytest.raises(ValueError, match="expected 1 or more"):
        scaleout.replicas(tmp_path / "none", 0)
    scaleout.create(tmp_path / "catalog", partitions=1, places={"local": str(tmp_path / "p")}).close()
    with pytest.raises(ValueError, match="expected a catalog with a store"):
        scaleout.replicas(tmp_path / "catalog", 1)
