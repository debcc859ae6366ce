"""One index of many drivers: the answers of one index, nothing lost and nothing twice, whatever is killed."""

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from inspect import signature
from pathlib import Path
from random import Random
from typing import Any

import pyarrow
import pytest
import ray
from support.ray_nodes import one_node
from support.stages import rows_of

import simindex
from simindex import Config, ConfigMismatchError, KeyExistsError, scaleout
from simindex.scaleout import PlaceMissingError, ScaleOutError, SharedIndex

CONFIG = Config(num_perm=64, seed=1, keep_shingles=64)
ITEMS = [(f"k{number}", row["text"], {"n": number}) for number, row in enumerate(rows_of(4, 300))]


@pytest.fixture(scope="module", autouse=True)
def _ray() -> Iterator[None]:
    with one_node():
        yield


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SharedIndex]:
    index = scaleout.shared(tmp_path / "i", config=CONFIG)
    yield index
    index.stop()


def owner() -> int:
    """The process of the one owner that this Ray has started."""
    mark = f"RAY_TMPDIR={os.environ['RAY_TMPDIR']}".encode()
    for _ in range(100):
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_owner = (folder / "cmdline").read_bytes().startswith(b"ray::Owner")
                if is_owner and mark in (folder / "environ").read_bytes():
                    return int(folder.name)
        time.sleep(0.1)
    raise AssertionError("no owner runs")


@pytest.mark.parametrize("name", ["insert_many", "insert_many_if_new"])
def test_a_commit_has_as_many_documents_as_one_of_an_index(name: str) -> None:
    most = [
        signature(getattr(of, name)).parameters["batch_size"].default for of in (SharedIndex, simindex.Index)
    ]
    assert most[0] == most[1]


def test_changes_and_questions_are_answered_as_by_one_index(index: SharedIndex, tmp_path: Path) -> None:
    with simindex.open(tmp_path / "one", config=CONFIG) as one:
        told: dict[Any, list[Any]] = {}
        for at in (index, one):
            told[at] = []
            given: dict[str, Any] = {"batch_size": 70, "on_conflict": "skip"}
            tell = told[at].append
            told[at] += [
                at.insert_many(ITEMS[:100], batch_size=40),
                at.insert_many_if_new(ITEMS, 0.6, **given, on_match=lambda *some: tell(some)),  # noqa: B023
                at.insert_many_if_new([("s", ITEMS[3][1])], by="simhash"),
                at.remove_many(["k1", "k5", "none"]),
                at.insert_many(pyarrow.table({"id": ["t1", "t2"], "text": ["a b c", "d e f"]})),
            ]
        assert told[index] == told[one]
        assert len(told[one]) > 50
        texts = [text for _, text, _ in ITEMS]
        for how in ({}, {"limit": 2}, {"threshold": 0.4}, {"exact": True}, {"recall": 0.99}):
            asked: dict[str, Any] = {"threshold": 0.6} | how
            assert index.query_many(texts, **asked) == one.query_many(texts, **asked)
        assert index.query_many(texts, by="simhash") == one.query_simhash_many(texts)
        assert index.stats().documents == len(one)
        with pytest.raises(KeyExistsError, match="t1"):
            index.insert_many([("t1", "again")])
    with simindex.open(tmp_path / "i", "r") as reader:  # an index as any other
        assert reader["t2"].metadata is None


def test_a_call_that_is_repeated_by_name_gets_its_first_answer(index: SharedIndex) -> None:
    met = list[list[Any]]()
    for _ in range(2):
        met.append([])
        report = index.insert_many_if_new(
            ITEMS,
            0.6,
            batch_size=50,
            on_match=lambda *some: met[-1].append(some),
            call="a",
            on_conflict="skip",
        )
        met[-1].append(report)
        assert index.insert_many([("x", "some words")], call="a").inserted == 1
        assert index.remove_many(["x"], call="a") == 1
    assert met[0] == met[1]
    assert len(met[0]) > 50
    assert index.insert_many_if_new(ITEMS, 0.6, on_conflict="skip").inserted == 0


def test_a_call_is_repeated_behind_hundreds_of_another_driver(index: SharedIndex) -> None:
    first = index.insert_many(ITEMS[:3], call="slow 0")
    index.insert_many([(n, "words") for n in range(300)], batch_size=1, call="fast")
    assert index.insert_many(ITEMS[:3], call="slow 0") == first


def test_a_call_made_again_with_other_batches_loses_no_document(index: SharedIndex) -> None:
    first = index.insert_many(ITEMS[:4], batch_size=2, call="a")
    assert index.insert_many(ITEMS[:4], batch_size=2, call="a") == first
    # Started again with other batches: the second of them was not stored before.
    report = index.insert_many(ITEMS[:9], batch_size=5, on_conflict="skip", call="a")
    assert (report.inserted, report.skipped) == (5, 4)
    assert index.stats().documents == 9
    assert index.remove_many(["k1"], call="a") == 1
    assert index.remove_many(["k1"], call="a") == 1
    assert index.remove_many(["k2"], call="a") == 1


def test_answers_that_fit_no_note_come_in_halves(index: SharedIndex, tmp_path: Path) -> None:
    items = [(n, "the same words in all of them", "m" * 300_000) for n in range(12)]
    told: dict[Any, list[Any]] = {}
    with simindex.open(tmp_path / "one", config=CONFIG) as one:
        for at in (index, one):
            told[at] = []
            at.insert_many(items[:2])
            at.insert_many_if_new(items[2:], 0.9, on_match=lambda *some: told[at].append(some))  # noqa: B023
    assert told[index] == told[one]
    assert len(told[one]) == 10


DRIVER = """
import sys, ray, pickle
from simindex import scaleout
address, path, number, items = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
ray.init(address=address, namespace="simindex", log_to_driver=False, logging_level=40)
index = scaleout.shared(path)
for at, batch in enumerate(pickle.load(open(items, "rb"))):
    own = [(f"{number} {key}", text) for key, text in batch]
    report = index.insert_many_if_new(own, 0.7, call=f"{number} {at}")
    print(at, report.inserted, flush=True)
"""


def test_drivers_with_the_same_texts_store_what_one_index_stores_whatever_is_killed(tmp_path: Path) -> None:
    """Two drivers; they and the owner are killed at random, and a driver begins anew with its first batch."""
    random = Random(7)
    rows = [(n, row["text"]) for n, row in enumerate(rows_of(6, 1800, newest=0))]
    batches = [rows[at : at + 15] for at in range(0, len(rows), 15)]
    (tmp_path / "items").write_bytes(pickle.dumps(batches))
    index = scaleout.shared(tmp_path / "i", config=CONFIG)
    address = ray.get_runtime_context().gcs_address
    inserted: list[dict[int, int]] = [{}, {}]
    outputs = [tmp_path / "0.out", tmp_path / "1.out"]

    def begin(number: int) -> subprocess.Popen[bytes]:
        arguments = [address, str(tmp_path / "i"), str(number), str(tmp_path / "items")]
        with outputs[number].open("ab") as out:
            return subprocess.Popen([sys.executable, "-c", DRIVER, *arguments], stdout=out)

    drivers, owners, restarts = [begin(0), begin(1)], 0, 0
    while any(driver.poll() is None for driver in drivers):
        time.sleep(random.uniform(0.1, 0.4))
        if owners < 4 and all(out.stat().st_size for out in outputs):
            os.kill(owner(), signal.SIGKILL)
            owners += 1
            index.stats()
        if restarts < 2 and owners > restarts + 1:
            number = restarts % 2
            if drivers[number].poll() is None:
                drivers[number].kill()
                drivers[number].wait()
                drivers[number] = begin(number)
            restarts += 1
    assert [driver.returncode for driver in drivers] == [0, 0]
    for number, out in enumerate(outputs):
        for line in out.read_text().splitlines():
            at, count = map(int, line.split())
            assert inserted[number].setdefault(at, count) == count  # a repeated batch: the first answer
    assert owners >= 2
    found = index.stats().documents
    index.stop()
    with simindex.open(tmp_path / "i", "r") as stored, simindex.open(tmp_path / "one", config=CONFIG) as one:
        assert found == len(stored) == sum(sum(each.values()) for each in inserted)
        assert stored.check()
        texts = {key: rows[int(str(key).split()[1])][1] for key in stored}
        one.insert_many_if_new(texts.items(), 0.7)
        assert len(one) == len(stored)  # none of them is like one before it
        for _, text in rows:
            assert stored.query(text, 0.7, 1)  # and each text is there, or one that is like it


def test_a_backup_needs_a_uri_that_the_index_was_opened_with(tmp_path: Path) -> None:
    index = scaleout.shared(tmp_path / "i", config=CONFIG)
    with pytest.raises(ScaleOutError, match=r"backup: expected a uri, given to shared\(\)"):
        index.back_up()
    assert index.saved() == (None, 0, None)
    index.stop()


def test_a_backup_that_is_asked_for_and_fails_is_an_error(tmp_path: Path) -> None:
    index = scaleout.shared(tmp_path / "i", config=CONFIG, backup=f"file://{tmp_path}/store")
    index.insert_many(ITEMS[:10])
    (tmp_path / "store").touch()
    with pytest.raises(ScaleOutError, match=r"store: expected to write a backup, found "):
        index.back_up()
    saved = index.saved()
    assert (saved.made_at, saved.changes) == (None, 10)
    assert saved.error is not None
    index.stop()


def test_a_lost_disk_is_an_error_and_costs_what_came_after_the_backup(tmp_path: Path) -> None:
    store = f"file://{tmp_path}/store"
    index = scaleout.shared(tmp_path / "i", config=CONFIG, backup=store)
    assert index.saved() == (None, 0, None)
    index.insert_many(ITEMS[:60])
    assert index.saved().changes == 60
    saved = index.back_up()
    assert (saved.changes, saved.error) == (0, None)
    assert saved.made_at is not None
    index.insert_many(ITEMS[60:70])
    index.remove_many(["k1"])
    assert index.saved().changes == 11
    pid = owner()
    (tmp_path / "i").rename(tmp_path / "lost")
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ScaleOutError, match=r"i: expected the index whose .*simindex restore"):
        index.stats()
    with pytest.raises(ScaleOutError, match="found none"):
        scaleout.shared(tmp_path / "i", backup=store)
    simindex.restore(store, tmp_path / "i")
    again = scaleout.shared(tmp_path / "i", backup=store)
    assert again.stats().documents == 60
    assert again.saved().made_at is not None
    again.stop()


def test_many_changes_are_backed_up_by_themselves(tmp_path: Path) -> None:
    index = scaleout.shared(
        tmp_path / "i", config=Config(num_perm=8, simhash=None), backup=f"file://{tmp_path}/s"
    )
    index.insert_many((n, [f"w{n}"]) for n in range(10_500))
    for _ in range(600):
        if (saved := index.saved()).made_at is not None:
            break
        time.sleep(0.1)
    assert saved.changes < 10_000
    index.stop()


def test_what_cannot_be_opened_is_named_and_may_be_mended(tmp_path: Path, index: SharedIndex) -> None:
    with pytest.raises(PlaceMissingError, match="'simindex:typo', which no node has"):
        scaleout.shared(tmp_path / "other", "simindex:typo")
    with pytest.raises(ValueError, match="path: expected an absolute path"):
        scaleout.shared("relative")
    with pytest.raises(ValueError, match="backup: expected a uri"):
        scaleout.shared(tmp_path / "other", backup=tmp_path / "store")
    with pytest.raises(ConfigMismatchError, match="num_perm"):
        scaleout.shared(tmp_path / "i", config=Config(num_perm=8))
    assert index.stats().documents == 0  # it goes on
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(simindex.FormatError, match="file: expected a folder"):
        scaleout.shared(tmp_path / "file")
    (tmp_path / "file").unlink()
    with scaleout.shared(tmp_path / "file") as mended:
        assert mended.insert_many([("a", "b c")]).inserted == 1
        mended.stop()
