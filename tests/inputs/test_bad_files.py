"""Folders, links and files that cannot be read, values at the edge of JSON: said, and the rest kept."""

import errno
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run, must_say, rows_of, stored
from support.texts import FOX, ROWS, SHIP, json_lines

import simindex


@pytest.fixture
def closed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - for its folder
    """A folder with one in it that may not be opened, by root neither."""
    (tmp_path / "g/no").mkdir(parents=True)
    (tmp_path / "g/a.txt").write_text(FOX)
    (tmp_path / "g/no/c.txt").write_text(SHIP)

    def guarded(call: Callable[..., Any], *paths: str) -> Callable[..., Any]:
        def guard(path: Any = ".", *how: Any, **named: Any) -> Any:
            if path in paths:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return call(path, *how, **named)

        return guard

    monkeypatch.setattr(os, "scandir", guarded(os.scandir, "g/no", "g/no/"))
    monkeypatch.setattr(os, "lstat", guarded(os.lstat, "g/no/c.txt"))


@pytest.mark.parametrize("path", ["g", "g/no", "g/**/*.txt", "g/*/c.txt"])
@pytest.mark.parametrize("words", ["insert news PATH", "dedup PATH -o out.jsonl"])
@pytest.mark.usefixtures("closed")
def test_folder_that_may_not_be_opened_is_said_named_or_met(run: Run, words: str, path: str) -> None:
    arguments = words.replace("PATH", path).split()
    must_say(run(*arguments), "simindex: g/no: Permission denied; --skip-bad-rows skips it")
    is_alone = path in ("g/no", "g/*/c.txt")
    said = "expected rows, found none but bad ones" if is_alone else ", 0 bad rows and 1 bad file; "
    result = run(*arguments, "--skip-bad-rows")
    must_say(result, "simindex: g/no: Permission denied; skipped", said, code=int(is_alone))


def test_dedup_counts_what_insert_counts_and_a_done_job_tells_it_again(run: Run) -> None:
    Path("d/sub").mkdir(parents=True)
    contents = {"a.txt": FOX.encode(), "b.bin": b"\0", "c.txt": b"caf\xe9", ".d": b"x", "e.jsonl": b"{}"}
    for name, content in contents.items():
        Path("d", name).write_bytes(content)
    os.symlink("sub", "d/link")
    os.symlink("nowhere", "d/lost")
    inserted = json.loads(run("insert", "news", "d", "--json", "--skip-bad-rows").out)
    dedup = ["dedup", "d", "-o", "out.jsonl", "--json", "--skip-bad-rows"]
    once, again = json.loads(run(*dedup).out), json.loads(run(*dedup).out)
    counts = {"bad": 0, "bad_files": 1, "hidden": 1, "binary": 1, "links": 1, "mended": 1, "tables": 1}
    for found in (inserted, once, again):
        assert counts.items() <= found.items()
    assert (once["was_done"], again["was_done"]) == (False, True)
    must_say(
        run(*dedup[:4], "--skip-bad-rows", "--force"),
        "3 rows read, 3 kept, 0 removed, 0 bad rows and 1 bad file",
        "left out of folders: 1 binary file, 1 link to a folder, 1 hidden file or folder",
        "1 text file has bytes that are not UTF-8",
        code=0,
    )


def test_rows_before_a_tear_count_and_the_next_file_is_read(run: Run, tmp_path: Path) -> None:
    rows: list[Any] = [{"id": f"n{n}", "text": f"{n} {os.urandom(300).hex(' ')}"} for n in range(100)]
    packed = gzip.compress(json_lines(rows))
    (tmp_path / "a.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "b.jsonl").write_bytes(json_lines(ROWS))
    files = "a.jsonl.gz", "b.jsonl"
    result = run("insert", "news", *files, "--skip-bad-rows")
    must_say(result, "a.jsonl.gz: cannot be read beyond line ", "0 bad rows and 1 bad file", code=0)
    kept = stored("news")
    assert kept == [row["id"] for row in [*rows[: len(kept) - 3], *ROWS]]
    assert len(kept) > 30
    assert run("dedup", *files, "-o", "out.jsonl", "--skip-bad-rows", "--threshold", "1").code == 0
    assert [row["id"] for row in rows_of("out.jsonl")] == kept
    failed = run("dedup", *files, "-o", "new.jsonl")
    must_say(
        failed, f"{len(kept) - 3} rows were looked at, and are done again where an input is mended, with"
    )
    (tmp_path / "a.jsonl.gz").write_bytes(packed)
    must_say(run("dedup", *files, "-o", "new.jsonl"), "discard this one with --force")
    assert run("dedup", *files, "-o", "new.jsonl", "--force", "--threshold", "1").code == 0
    assert len(rows_of("new.jsonl")) == 103


def test_numbers_that_only_python_writes_are_taken_and_copied(run: Run, tmp_path: Path) -> None:
    values = {"nan": float("nan"), "many": [float("inf"), -float("inf")]}
    lines = json_lines([{"id": "fox", "text": FOX, **values}, {"id": "ship", "text": SHIP}])
    assert b"NaN" in lines
    (tmp_path / "a.jsonl").write_bytes(lines)
    (tmp_path / "a.json").write_bytes(b"[" + lines.replace(b"\n", b",", 1) + b"]")
    assert run("dedup", "a.jsonl", "-o", "out.jsonl").code == 0
    assert (tmp_path / "out.jsonl").read_bytes() == lines
    for name in ("a.jsonl", "a.json"):
        assert run("insert", name[2:], name, "--metadata").code == 0
        with simindex.open(name[2:], "r") as index:
            assert repr(index["fox"].metadata) == repr(values)


@pytest.mark.parametrize("number", [10**30, -(2**63) - 1, 2**64])
def test_id_over_64_bits_is_refused_in_the_same_words(run: Run, tmp_path: Path, number: int) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines([{"id": number, "text": FOX}]))
    for words in (("insert", "news", "a.jsonl"), ("dedup", "a.jsonl", "-o", "out.jsonl")):
        must_say(
            run(*words), "a.jsonl:1: id: expected a string or an integer of 64 bits, found a larger number"
        )
    must_say(run("insert", "meta", "a.jsonl", "--metadata"), "found a larger number")


def test_null_in_place_of_a_row_is_called_null(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("null\n")
    (tmp_path / "a.json").write_text("[null]")
    for name in ("a.jsonl", "a.json"):
        must_say(run("insert", "news", name), f"{name}:1: expected a JSON object, found null")
    (tmp_path / "b.json").write_text("null")
    must_say(run("insert", "news", "b.json"), "b.json: expected a JSON array of objects, found null")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_of_one_name_stay_apart_where_they_are_not_read(run: Run, suffix: str) -> None:
    rows = [["fox", FOX, "one", "two"], ["fox too", FOX, "three", "four"], ["ship", SHIP, "five", "six"]]
    names = ["id", "text", "n", "n"]
    if suffix == "csv":
        Path("a.csv").write_text("".join(",".join(row) + "\n" for row in [names, *rows]))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        columns = [pyarrow.array(column) for column in zip(*rows, strict=True)]
        parquet.write_table(pyarrow.Table.from_arrays(columns, names=names), "a.parquet")
    assert run("insert", "news", f"a.{suffix}", "--metadata").code == 0
    with simindex.open("news", "r") as index:
        assert index["ship"].metadata == {"n_2": "five", "n": "six"}
    assert run("dedup", f"a.{suffix}", "-o", f"out.{suffix}").code == 0
    if suffix == "csv":
        assert Path("out.csv").read_text().splitlines()[2] == ",".join(rows[2])
    else:
        found = parquet.ParquetFile("out.parquet").read()
        assert (found.column_names, found.column(3).to_pylist()) == (names, ["two", "six"])
    assert run("dedup", f"a.{suffix}", "-o", "out.jsonl").code == 0
    assert rows_of("out.jsonl")[1] == {"id": "ship", "text": SHIP, "n_2": "five", "n": "six"}
    for option in ("--text-field", "--id-field", "--metadata-field"):
        must_say(run("insert", "other", f"a.{suffix}", option, "n"), "expected one column 'n', found 2")
