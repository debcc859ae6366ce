"""Records of an earlier time in the place of newer ones, under their right seals, as an older page leaves
them: a repair goes by marks, key tables and runs of ages, and says so."""

from pathlib import Path

import lmdb
import pytest

import simindex
from simindex.maintenance.repair import REMOVED_FOUND, TOUCHES_LOST

_DOCUMENTS = 40


def values_of(path: Path) -> dict[bytes, bytes]:
    """The records as they are stored."""
    with lmdb.open(str(path), max_dbs=16, lib_version=0) as env, env.begin() as txn:
        return dict(txn.cursor(db=env.open_db(b"documents", txn=txn, create=False)))


def put_back(path: Path, values: dict[bytes, bytes]) -> None:
    with lmdb.open(str(path), max_dbs=16, lib_version=0) as env, env.begin(write=True) as txn:
        documents = env.open_db(b"documents", txn=txn, create=False)
        for key, value in values.items():
            txn.put(key, value, db=documents)


def made(path: Path) -> simindex.Index:
    index = simindex.open(path, "x")
    index.insert_many(
        (number, f"{number} is a number of its own, {'and so on ' * 5}") for number in range(40)
    )
    return index


@pytest.mark.parametrize("compacted", [False, True])
def test_repair_saves_no_removed_document_whose_record_came_back(tmp_path: Path, compacted: bool) -> None:
    path = tmp_path / "i"
    removed = {3, 17, 38}
    made(path).close()
    before = values_of(path)
    with simindex.open(path) as index:
        index.remove_many(removed)
        if compacted:
            index.compact()
    after = values_of(path)
    put_back(path, {key: value for key, value in before.items() if key not in after})
    assert not simindex.check(path).ok
    report = simindex.repair(path, tmp_path / "saved")
    assert f"{len(removed)} {REMOVED_FOUND}" in report.notes
    with simindex.open(tmp_path / "saved", "r") as index:
        assert set(index.keys()) == set(range(_DOCUMENTS)) - removed
    assert simindex.check(tmp_path / "saved").ok


def test_repair_names_touches_that_older_records_have_lost(tmp_path: Path) -> None:
    path = tmp_path / "i"
    made(path).close()
    before = values_of(path)
    with simindex.open(path) as index:
        index.touch(5, 6, 7)
    after = values_of(path)
    put_back(path, {key: value for key, value in before.items() if after[key] != value})
    assert not simindex.check(path).ok
    report = simindex.repair(path, tmp_path / "saved")
    assert f"3 {TOUCHES_LOST}" in report.notes
    with simindex.open(tmp_path / "saved", "r") as index:
        assert set(index.keys()) == set(range(_DOCUMENTS))
