"""The header stands twice, in the data file and beside it, and either tells what an index is."""

import os
from pathlib import Path
from typing import Literal

import pytest
from support.indexes import problems_of
from support.stored import CONFIG_KEY, flipped, store_values, stored_values

import simindex
from simindex import Config, CorruptIndexError

CONFIG = Config(num_perm=16)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with simindex.open(tmp_path / "i", "x", CONFIG) as index:
        index.insert_many((number, f"{number} is a number of its own") for number in range(50))
    return tmp_path / "i"


def stored_header(path: Path) -> bytes:
    return next(value for name, key, value in stored_values(path) if (name, key) == ("meta", CONFIG_KEY))


def break_stored(path: Path) -> bytes:
    """Flip a bit of the header in the data file; returns the header as it was."""
    header = stored_header(path)
    store_values(path, [("meta", CONFIG_KEY, flipped(header, 8 * len(header) - 100))])
    return header


def works(path: Path, mode: Literal["r", "r+", "a"] = "r") -> None:
    with simindex.open(path, mode) as index:
        assert index.config == CONFIG
        assert [match.key for match in index.query("7 is a number of its own", 0.9)] == [7]


def test_header_lies_beside_the_data_file_from_the_beginning(path: Path) -> None:
    assert (path / "header").read_bytes() == stored_header(path)
    assert (path / "header").stat().st_mode == (path / "data.mdb").stat().st_mode
    with simindex.open(path) as index:
        index.compact()
        index.backup(path.parent / "backup")
    assert (path / "header").read_bytes() == (path.parent / "backup" / "header").read_bytes() != b""
    assert not problems_of(path)
    assert not (path / "header.new").exists()


def test_broken_header_is_read_beside_the_file_and_put_right_by_the_next_writer(path: Path) -> None:
    header = break_stored(path)
    works(path)
    report = simindex.check(path)
    assert [problem.kind for problem in report.problems] == ["header"]
    assert report.num_documents == 50  # the rest of the check goes on
    with simindex.open(path, "r", refresh="manual") as reader:
        reader.refresh()
        assert len(reader) == 50
    works(path, "r+")
    assert stored_header(path) == header
    assert not problems_of(path)


@pytest.mark.parametrize("second", [b"", b"other bytes", None])
def test_second_copy_that_is_missing_or_broken_is_written_by_the_next_writer(
    path: Path, second: bytes | None
) -> None:
    header = (path / "header").read_bytes()
    (path / "header").unlink()
    if second is not None:
        (path / "header").write_bytes(second)
    works(path)
    # The data file alone is an index, too.
    assert [problem.kind for problem in simindex.check(path).problems] == ["header"] * bool(second)
    works(path, "a")
    assert (path / "header").read_bytes() == header
    assert not problems_of(path)


def test_index_with_both_copies_broken_says_so(path: Path) -> None:
    break_stored(path)
    (path / "header").write_bytes(b"x")
    for mode in ("r", "a"):
        with pytest.raises(CorruptIndexError, match="header"):
            simindex.open(path, mode)


def test_repair_reads_the_header_beside_a_file_that_has_lost_every_copy_of_it(path: Path) -> None:
    data = bytearray((path / "data.mdb").read_bytes())
    header = (path / "header").read_bytes()
    found = 0
    while (at := data.find(header)) >= 0:
        data[at : at + len(header)] = bytes(len(header))
        found += 1
    assert found
    (path / "data.mdb").write_bytes(data)
    report = simindex.repair(path, path.parent / "repaired")
    assert report.documents == 50
    works(path.parent / "repaired")


def test_header_that_is_left_alone_is_no_place_for_a_new_index(path: Path) -> None:
    for name in ("data.mdb", "data.mdb-lock"):
        (path / name).unlink()
    with pytest.raises(CorruptIndexError, match=r"data\.mdb is gone, and the second copy"):
        simindex.open(path, "a")
    with pytest.raises(FileExistsError):
        simindex.open(path, "x")
    with pytest.raises(FileNotFoundError):
        simindex.open(path, "r")


def test_disk_without_room_for_the_second_copy_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("simindex.storage.folder.os.replace", full)
        with simindex.open(tmp_path / "i", "x", CONFIG) as index:
            index.insert(7, "7 is a number of its own")
    assert "header" not in os.listdir(tmp_path / "i")
    works(tmp_path / "i")
    works(tmp_path / "i", "a")
    assert (tmp_path / "i" / "header").read_bytes() != b""
