"""Partitions in folders of this process, on many disks, without Ray: the calls and answers of one index."""

import json
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.commands import Run

from simindex import Config, scaleout

CONFIG = Config(num_perm=64, seed=1)
TEXTS = [
    f"a text of the number {n // 2} beside {n // 3} and {n // 5} others that are longer" for n in range(120)
]


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ray is asked for, no head answers."""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")


def places(folder: Path, names: str = "ab") -> dict[str, str]:
    return {f"local:{name}": str(folder / name) for name in names}


def test_partitions_move_and_are_restored_under_open_handles(tmp_path: Path) -> None:
    uri, folders = tmp_path / "catalog", places(tmp_path)
    settings: dict[str, Any] = {"store": str(tmp_path / "store"), "durability": "store"}
    with scaleout.create(uri, CONFIG, partitions=4, places=folders, **settings) as index:
        index.insert_many(enumerate(TEXTS))
        with scaleout.open(uri) as other:  # the same hosts: partitions have one writer
            other.insert("other", "unlike all of them")
            assert len(index) == 121
            assert [
                (one.source, one.target) for one in scaleout.rebalance(uri, places(tmp_path, "abcd"))
            ] == [
                ("local:a", "local:c"),
                ("local:b", "local:d"),
            ]
            for stale in (index, other):
                with pytest.raises(scaleout.CatalogChangedError, match="open the index again"):
                    len(stale)
        assert sorted(scaleout.backup(uri)) == [0, 1, 2, 3]
        with scaleout.open(uri) as other:
            assert len(other) == 121
            other.insert("last", "acknowledged after the backup")
            other.insert_many((f"late {number}", f"stored behind it {number}") for number in range(9))
            times = {key: other[key].inserted_at for key in other}
            assert len(set(times.values())) == len(times) == 131
    shutil.rmtree(tmp_path / "d")
    reports = scaleout.restore(uri, "local:d", {"local:a": str(tmp_path / "a")})
    assert [(number, report.batches > 0) for number, report in reports.items()] == [(3, True)]
    with scaleout.open(uri) as index:
        assert {key: index[key].inserted_at for key in index} == times
        assert index.check()


@pytest.mark.parametrize("left", ["another index", "a catalog that is gone", "a call that was killed"])
def test_a_new_index_is_empty_whatever_lies_in_its_folders(
    left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = tmp_path / "c"
    settings: dict[str, Any] = {"partitions": 2, "places": places(tmp_path)}
    other = tmp_path / "other" if left == "another index" else uri
    if left == "a call that was killed":
        killed = mock.Mock(side_effect=KeyboardInterrupt)
        with monkeypatch.context() as patched:
            patched.setattr("simindex.scaleout.catalog.Catalog.replace", killed)
            with pytest.raises(KeyboardInterrupt):
                scaleout.create(uri, Config(seed="random"), **settings)
    else:
        with scaleout.create(other, **settings) as index:
            index.insert_many(enumerate(TEXTS))
    if left == "a catalog that is gone":
        uri.unlink()
    with scaleout.create(uri, Config(seed="random"), **settings) as index:
        assert (len(index), index.query(TEXTS[0])) == (0, [])
        index.insert("new", "a text")
    if other != uri:
        with scaleout.open(other) as index:
            assert "new" not in index
            assert len(index) == 120


def test_a_rebalance_that_was_killed_is_done_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, folders = tmp_path / "c", places(tmp_path)
    with scaleout.create(uri, CONFIG, partitions=4, places={"local:a": folders["local:a"]}) as index:
        index.insert_many(enumerate(TEXTS))
    with monkeypatch.context() as patched:

        def die(*_: Any) -> None:
            replaced = mock.Mock(side_effect=KeyboardInterrupt)
            patched.setattr("simindex.scaleout.catalog.Catalog.replace", replaced)
            raise KeyboardInterrupt

        patched.setattr("simindex.scaleout.host.Host.remove_left", die)
        with pytest.raises(KeyboardInterrupt):
            scaleout.rebalance(uri, folders)
    for _ in range(2):
        scaleout.rebalance(uri, folders)
        with scaleout.open(uri) as index:
            assert [len(numbers) for numbers in index.catalog.places.values()] == [2, 2]
            assert index.insert_many(enumerate(TEXTS), on_conflict="replace").replaced == 120


def test_without_a_store_a_partition_goes_by_its_new_folder(tmp_path: Path) -> None:
    with scaleout.create(tmp_path / "c", CONFIG, partitions=2, places=places(tmp_path, "a")) as index:
        index.insert_many(enumerate(TEXTS))
        assert scaleout.move(index.uri, 1, "local:b", str(tmp_path / "b")).places == {
            "local:a": (0,),
            "local:b": (1,),
        }
        with scaleout.open(index.uri) as moved:
            assert len(moved) == 120
            moved.insert("new", "a text")
        with pytest.raises(ValueError, match="expected nodes of a Ray cluster, or places in this process"):
            scaleout.move(index.uri, 1, "simindex:b", str(tmp_path / "b"))
    assert not [path for path in (tmp_path / "b" / "moving").rglob("*") if path.is_file()]


def test_folders_of_this_machine_do_not_depend_on_the_working_directory(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert run("scaleout", "init", "c", "--place=local:a=a", "--partitions", 4, "--store", "s").code == 0
    assert scaleout.backup("c").keys() == {0, 1, 2, 3}
    scaleout.move("c", 1, "local:b", "b")
    scaleout.rebalance("c", {"local:b": "b", "local:c": "c of three", "local:d": "~/d"})
    monkeypatch.chdir("/")
    uri = tmp_path / "c"
    with scaleout.open(uri) as index:
        index.insert_many(enumerate(TEXTS))
        index.backup()
    monkeypatch.chdir(tmp_path)
    scaleout.restore(uri, "local:d", {"local:e": "e"})
    monkeypatch.chdir("/")
    with scaleout.open(uri) as index:
        assert {Path(row.path).parent for row in index.catalog.partitions} == {
            tmp_path / name for name in ("b", "c of three", "e")
        }
        assert len(index) == 120


@pytest.mark.parametrize("store", ["~/s", "file://{}/s", "{}/s/"])
def test_a_store_is_the_folder_that_it_names(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    where = {"local:a": str(tmp_path / "a")}
    with scaleout.create(tmp_path / "c", CONFIG, places=where, store=store.format(tmp_path)) as index:
        index.backup()
        assert index.catalog.store == str(tmp_path / "s")
    assert [path.name for path in (tmp_path / "s").iterdir()] == [index.catalog.id]
    assert list((tmp_path / "cwd").iterdir()) == []


def test_commands_make_fill_ask_and_look_after_an_index(run: Run, tmp_path: Path) -> None:
    for name, some in (("x", TEXTS[:80]), ("y", TEXTS[80:])):
        rows = (json.dumps({"id": f"{name} {n}", "text": text, "page": n}) for n, text in enumerate(some))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    where = [f"--place={place}={folder}" for place, folder in places(tmp_path).items()]
    settings = ["--partitions", 4, "--num-perm", 64, "--store", "store", "--durability", "store"]
    assert run("scaleout", "init", "c", *settings, *where).code == 0
    done = run("scaleout", "build", "c", "?.jsonl", "--metadata", "--json")
    assert (done.code, json.loads(done.out)["inserted"]) == (0, 120), done.err
    again = run("scaleout", "build", "c", str(tmp_path / "?.jsonl"))
    assert "0 documents inserted, 0 replaced, 120 skipped, 0 bad rows; 2 parts, 0 of them" in again.err
    found = run("scaleout", "query", "c", TEXTS[7], "--json").out.splitlines()
    assert json.loads(found[0])["similarity"] == 1.0
    assert run("scaleout", "query", "none", "x").code == 1

    assert "4 partitions with 120 documents" in run("scaleout", "backup", "c").err
    moved = run("scaleout", "move", "c", 0, f"local:b={tmp_path / 'b'}")
    assert (moved.code, moved.err) == (0, "partition 0 is at local:b\n")
    assert run("scaleout", "move", "c", 0, "nonsense").code == 2
    planned = run("scaleout", "rebalance", "c", *where, "--dry-run", "--json").out
    assert [json.loads(line)["target"] for line in planned.splitlines()] == ["local:a"]
    status = json.loads(run("scaleout", "status", "c", "--json").out)
    assert {place: of["partitions"] for place, of in status.items()} == {"local:a": [2], "local:b": [0, 1, 3]}
    assert run("scaleout", "restore", "c", "local:a", where[1]).err.startswith("1 partition with ")
    status = json.loads(run("scaleout", "status", "c", "--json").out)
    assert sum(status["local:b"]["documents"].values()) == 120
    assert "documents" in run("scaleout", "status", "c").out
    assert run("scaleout", "rebalance", "c", where[1]).err == "nothing to move\n"
