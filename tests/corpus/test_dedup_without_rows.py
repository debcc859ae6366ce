"""Outputs that no row comes to: they have the columns of the inputs, with their types."""

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest
from support.commands import Run
from support.dedup_settings import dedup_arguments
from support.faults import small_frames, stopping_at
from support.texts import FOX, SHIP, json_lines

import simindex
from simindex.corpus import deduplicate

COLUMNS = ["id", "text", "url"]
ROWS = [[1, FOX, "a"], [2, SHIP, "b"]]
SCHEMA = pyarrow.schema(
    [("id", pyarrow.uint16()), ("text", pyarrow.large_string()), ("url", pyarrow.list_(pyarrow.date32()))]
)
ADDED = {
    "dedup": ["duplicate_of", "similarity", "cluster"],
    "dedup --level paragraph": ["seen_share", "seen"],
    "decontaminate": ["contamination", "items"],
}


def as_csv(path: str, rows: list[list[Any]], delimiter: str = ",") -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows([COLUMNS, *rows])
    content = text.getvalue().encode()
    Path(path).write_bytes(gzip.compress(content) if path.endswith(".gz") else content)


def as_parquet(path: str, rows: list[list[Any]]) -> None:
    columns = [[row[at] for row in rows] for at in range(2)] + [[None] * len(rows)]
    arrays = [pyarrow.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)]
    parquet.write_table(pyarrow.table(arrays, schema=SCHEMA), path)


def as_lines(path: str, rows: list[list[Any]]) -> None:
    Path(path).write_bytes(json_lines(dict(zip(COLUMNS, row, strict=True)) for row in rows))


WRITERS: dict[str, Callable[[str, list[list[Any]]], None]] = {
    "a.csv": as_csv,
    "a.csv.gz": as_csv,
    "a.tsv": lambda path, rows: as_csv(path, rows, "\t"),
    "a.parquet": as_parquet,
    "a.jsonl": as_lines,
}


@pytest.fixture
def stored(run: Run, tmp_path: Path) -> str:
    """An index of the rows, which none of them is new to."""
    with simindex.open(tmp_path / "stored", "x", simindex.Config(containment=1)) as index:
        index.insert_many((f"stored {row[0]}", row[1]) for row in ROWS)
    assert run("list", "stored").code == 0
    return "stored"


def columns_of(path: str) -> list[str]:
    if path.endswith(".parquet"):
        found = parquet.read_table(path)
        assert len(found) == 0
        return list(found.column_names)
    content = Path(path).read_bytes()
    lines = (gzip.decompress(content) if path.endswith(".gz") else content).decode().splitlines()
    (header,) = csv.reader(lines, delimiter="\t" if ".tsv" in path else ",")
    return header


PAIRS = [
    ("a.csv", "o.csv"),
    ("a.csv", "o.parquet"),
    ("a.csv.gz", "o.tsv.gz"),
    ("a.tsv", "o.csv"),
    ("a.parquet", "o.parquet"),
    ("a.parquet", "o.csv"),
    ("a.jsonl", "o.csv"),
    ("a.jsonl", "o.parquet"),
]


@pytest.mark.parametrize(("name", "sink"), PAIRS)
@pytest.mark.parametrize("job", ADDED)
def test_output_has_the_columns_of_inputs_of_which_no_row_stays(
    run: Run, stored: str, name: str, sink: str, job: str
) -> None:
    WRITERS[name](name, ROWS)
    done = run(*job.split(), name, "--against", stored, "-o", sink)
    assert done.code == 0, done.err
    assert columns_of(sink) == COLUMNS
    if name == "a.parquet" == f"a{Path(sink).suffix}":
        assert parquet.read_schema(sink).equals(SCHEMA)


@pytest.mark.parametrize(("name", "sink"), [pair for pair in PAIRS if pair[0] != "a.jsonl"])
@pytest.mark.parametrize("job", ADDED)
@pytest.mark.parametrize("mode", ["remove", "annotate"])
def test_output_has_the_columns_of_a_table_without_rows(
    run: Run, stored: str, name: str, sink: str, job: str, mode: str
) -> None:
    WRITERS[name](name, [])
    done = run(*job.split(), name, "--against", stored, "-o", sink, "--mode", mode)
    assert done.code == 0, done.err
    assert columns_of(sink) == COLUMNS + ADDED[job] * (mode == "annotate")
    if name == "a.parquet" == f"a{Path(sink).suffix}":
        found = parquet.read_schema(sink)
        assert [found.field(at) for at in range(3)] == list(SCHEMA)


def test_header_alone_on_standard_input_is_written(run: Run) -> None:
    done = run("dedup", "-", "--format", "csv", "-o", "o.csv", stdin=b"id,text,url\n")
    assert done.code == 0, done.err
    assert columns_of("o.csv") == COLUMNS


def test_first_table_with_columns_gives_them(run: Run) -> None:
    Path("0.jsonl").write_bytes(b"")
    as_csv("1.csv", [])
    Path("2.csv").write_text("text,id\n")
    done = run("dedup", "0.jsonl", "1.csv", "2.csv", "-o", "o.csv")
    assert done.code == 0, done.err
    assert columns_of("o.csv") == COLUMNS


@pytest.mark.parametrize("sink", ["o.csv", "o.parquet"])
def test_inputs_that_name_no_column_give_those_that_were_asked_for(run: Run, sink: str) -> None:
    Path("a.jsonl").write_bytes(b"")
    Path("empty").mkdir()
    done = run("dedup", "a.jsonl", "empty", "-o", sink, "--text-field", "body")
    assert done.code == 0, done.err
    assert columns_of(sink) == ["id", "body"]


def test_iterables_give_the_columns_of_their_items(tmp_path: Path) -> None:
    rows = [(1, FOX, {"url": "a"}), (2, FOX, {"url": "b"})]
    with simindex.open(tmp_path / "stored", "x") as index:
        index.insert("fox", FOX)
    deduplicate(iter(rows), tmp_path / "o.parquet", against=tmp_path / "stored")
    assert columns_of(str(tmp_path / "o.parquet")) == COLUMNS
    deduplicate([], tmp_path / "none.csv")
    assert columns_of(str(tmp_path / "none.csv")) == ["id", "text"]


@pytest.mark.parametrize("sink", ["o.csv", "o.parquet"])
def test_header_is_written_by_a_job_that_goes_on_behind_its_last_row(
    stored: str, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_csv("a.csv", ROWS)
    small_frames(monkeypatch, 1)
    how: dict[str, Any] = {"against": stored, "batch_size": 1, "workers": 1}
    with pytest.raises(KeyboardInterrupt):
        deduplicate("a.csv", sink, **dedup_arguments(**how, progress=stopping_at(2)))
    deduplicate("a.csv", sink, **dedup_arguments(**how))
    assert columns_of(sink) == COLUMNS
