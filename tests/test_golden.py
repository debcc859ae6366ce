"""Indexes that earlier versions wrote give their answers."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.stored import CONFIG_KEY, DATABASES, octets, store_values

import simindex

GOLDEN = Path(__file__).parent / "golden"

DUMP_INDEX = Path(__file__).parents[1] / "tools" / "dump_index"

GOLDEN_INDEXES = [
    (path, name) for path in sorted(GOLDEN.glob("*.json")) for name in json.loads(path.read_text())
]


def built_from(databases: dict[str, list[tuple[str, str]]], path: Path) -> Path:
    """An LMDB environment with these databases (hex), as an earlier version has left it."""
    path.mkdir()
    changes = [
        (name, bytes.fromhex(key), octets(value)) for name, items in databases.items() for key, value in items
    ]
    store_values(path, changes)
    return path


@pytest.mark.parametrize(("file", "name"), GOLDEN_INDEXES, ids=lambda value: getattr(value, "stem", value))
def test_golden_index_gives_its_answers(tmp_path: Path, file: Path, name: str) -> None:
    golden = json.loads(file.read_text(encoding="utf-8"))[name]
    path = built_from(golden["databases"], tmp_path / "i")
    with simindex.open(path, "r") as index:
        assert [
            [
                repr(key),
                repr(index[key].metadata),
                index[key].inserted_at.isoformat(),
                index[key].seen_at.isoformat(),
                repr(index[key].sketch),
            ]
            for key in index
        ] == golden["records"]
        for document, call, arguments, expected in golden["queries"]:
            matches = getattr(index, call)(document, *arguments)
            found = sorted([match.distance, match.similarity, repr(match.key)] for match in matches)
            assert found == expected, (document, call, arguments)
    with simindex.open(path) as index:
        size = len(index)
        index.insert("new", "written by today's code into an older file")
        assert (
            index.query_simhash("written by today's code into an older file")
            if index.config.simhash
            else True
        )
        for number in range(20):
            index.insert(f"new {number}", f"and {number} more, so that old segments are merged")
        index.remove("new")
        assert index.touch("new 3", "new 4") == 2
        assert index.expire(index["new 3"].inserted_at) == size + 3
        index.insert_many((f"more {number}", "as many as there were") for number in range(size + 3))
        assert len(index) == len(list(index)) == size + 20


FOLDERS = sorted(GOLDEN.glob("*.simindex"))


def said(index: simindex.Index) -> dict[object, object]:
    return {key: (index[key].metadata, index[key].inserted_at, index[key].sketch) for key in index}


def test_every_format_has_its_folder_and_its_answers() -> None:
    assert [folder.stem for folder in FOLDERS] == [path.stem for path in sorted(GOLDEN.glob("*.json"))]
    page = (GOLDEN.parents[1] / "docs" / "format.md").read_text(encoding="utf-8")
    versions = re.findall(r"This is format version (\d+)\.", page)  # tests/test_docs.py has it from the code
    assert {f"format-{version}" for version in range(2, int(*versions) + 1)} == {
        path.stem for path in FOLDERS
    }


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.stem)
def test_golden_folder_is_read_checked_and_made_into_others(tmp_path: Path, folder: Path) -> None:
    """What somebody has on a disk: not values, but the file as it was written."""
    golden = json.loads((GOLDEN / f"{folder.stem}.json").read_text(encoding="utf-8"))["chunked"]
    path = shutil.copytree(folder, tmp_path / "i")
    header = next(value for key, value in golden["databases"]["meta"] if bytes.fromhex(key) == CONFIG_KEY)
    assert (path / "header").read_bytes() == bytes.fromhex(header)
    with simindex.open(path, "r") as index:
        first, config = said(index), index.config
        assert [repr(key) for key in index] == [key for key, *_ in golden["records"]]
        for document, call, arguments, expected in golden["queries"]:
            matches = getattr(index, call)(document, *arguments)
            assert sorted([m.distance, m.similarity, repr(m.key)] for m in matches) == expected
        index.backup(tmp_path / "backup")
    assert (path / "data.mdb").read_bytes() == (folder / "data.mdb").read_bytes()  # nobody wrote to it
    for level in ("quick", "full"):
        assert simindex.check(path, level).ok
    report = simindex.repair(path, tmp_path / "repaired")
    assert not report.lost
    with simindex.open(tmp_path / "new", "x", config) as new:
        new.insert("of today", "a document of today, beside those of then")
    simindex.merge([path, tmp_path / "new"], tmp_path / "merged")
    with simindex.open(tmp_path / "merged", "r") as index:
        assert said(index).keys() == first.keys() | {"of today"}
        assert {key: value for key, value in said(index).items() if key in first} == first
    with simindex.open(path, "r+") as index:
        index.compact()
        assert said(index) == first
    for made in ("i", "backup", "repaired"):
        assert simindex.check(tmp_path / made).ok
        with simindex.open(tmp_path / made, "r") as index:
            assert said(index) == first


def test_golden_indexes_hold_what_the_format_has() -> None:
    golden = json.loads((GOLDEN / "format-2.json").read_text(encoding="utf-8"))
    assert all(golden["chunked"]["databases"][database] for database in ("main", *DATABASES))
    tables = {bytes.fromhex(key)[8:10] for key, _ in golden["chunked"]["databases"]["segments"]}
    assert len(tables) > 5
    assert all(
        any(bytes.fromhex(key).startswith(b"done ") for key, _ in one["databases"]["meta"])
        for one in golden.values()
    )
    whole = {bytes.fromhex(key)[8:10] for key, _ in golden["whole"]["databases"]["segments"]}
    assert whole == {b"\xff\xff"}


def test_dump_index_prints_what_is_stored(tmp_path: Path) -> None:
    golden = json.loads((GOLDEN / "format-2.json").read_text(encoding="utf-8"))["whole"]["databases"]
    path = built_from(golden, tmp_path / "i")
    done = subprocess.run(
        [sys.executable, str(DUMP_INDEX), str(path)], capture_output=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == golden
