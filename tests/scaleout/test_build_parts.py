"""What a build reads, stores and notes, without Ray."""

import gzip
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.hosts import LocalIndex

import simindex
from simindex import Config, CorruptIndexError
from simindex.inputs import BadRowError, Fields, InputError, Inputs, Reading, Row
from simindex.scaleout import SourceError, UnfinishedBuildError, input_parts
from simindex.scaleout.building import Counts, How, Journal, build, count_part, insert_part
from simindex.scaleout.calls import Calls
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.input_parts import Part, counted, parts_of

CONFIG = Config(seed=1)

BYTES = 6_000


def write_rows(path: Path, first: int, count: int) -> Path:
    rows = (
        {"id": n, "text": f"a text of number {n} beside {n // 3} others"} for n in range(first, first + count)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with a folder of texts and two tables, of which each is a part of `BYTES`."""
    folder = tmp_path / "sources"
    (folder / "texts" / "inner").mkdir(parents=True)
    for n in range(3):
        (folder / "texts" / "inner" / f"{n}.txt").write_text(f"a ship with {n} masts left the harbour")
    (folder / "texts" / "table.jsonl").write_text("a table that is read as one text")
    (folder / "texts" / "binary").write_bytes(b"\0\1\2")
    write_rows(folder / "a.jsonl", 0, 100)
    write_rows(folder / "b.jsonl", 100, 50)
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Any:
    with LocalIndex(tmp_path / "index", CONFIG, 4, 2) as index:
        yield index


def how_of(uri: str, **changed: Any) -> How:
    settings: dict[str, Any] = {"on_conflict": "skip", "skip_bad_rows": False, "batch_size": 5} | changed
    return How(uri, "job", **settings)


def feed(index: LocalIndex, part: Part, number: int = 0, **how: Any) -> Counts:
    def carrier(_catalog: Catalog) -> Calls:
        return index.local

    return insert_part(how_of(index.uri, **how), index.catalog, number, part, carrier)


def all_inputs(sources: Path) -> Inputs:
    return Inputs([str(sources / "*.jsonl"), str(sources / "texts")])


def test_parts_hold_what_one_reading_gives(sources: Path, index: LocalIndex, tmp_path: Path) -> None:
    inputs = all_inputs(sources)
    parts = parts_of(inputs, BYTES)
    assert [[Path(path).name for path in part.inputs.paths] for part in parts] == [
        ["a.jsonl"],
        ["b.jsonl"],
        ["binary", "0.txt", "1.txt", "2.txt", "table.jsonl"],
    ]
    counts = [feed(index, pickle.loads(pickle.dumps(part)), n) for n, part in enumerate(parts)]
    assert counts == [Counts(100), Counts(50), Counts(4)]
    with simindex.open(tmp_path / "one", config=CONFIG) as one:
        one.insert_many(row for row in inputs if isinstance(row, Row))
        assert sorted(map(repr, index)) == sorted(map(repr, one))
        text = "a ship with 2 masts left the harbour"
        assert {(m.key, m.similarity) for m in index.query(text, 0.3)} == {
            (m.key, m.similarity) for m in one.query(text, 0.3)
        }


def test_a_part_that_is_done_again_answers_the_same_and_stores_nothing(
    sources: Path, index: LocalIndex
) -> None:
    part = parts_of(Inputs([str(sources / "a.jsonl")]))[0]
    assert feed(index, part) == feed(index, part) == Counts(inserted=100)
    assert feed(index, part, number=1) == Counts(skipped=100)
    assert feed(index, part, number=2, on_conflict="replace") == Counts(replaced=100)
    assert len(index) == 100


def write_lines(path: Path) -> Inputs:
    """Rows without ids, of many lengths, with empty lines and a row that is none: keys are path and line."""
    texts = [f"a text of number {n} " + "and so on " * (n % 7) for n in range(60)]
    lines = [json.dumps({"text": text}) + "\n" * (1 + n % 5 // 4) for n, text in enumerate(texts)]
    lines[40] = "[7]\n"
    path.write_text("".join(lines).removesuffix("\n"))
    return Inputs([str(path)], Fields(key_from="line"))


def cut_and_counted(inputs: Inputs, size: int) -> list[Part]:
    parts = parts_of(inputs, size)
    return counted(parts, [count_part(how_of("none"), part) for part in parts])


@pytest.mark.parametrize("size", [1, 150, 1_000])
def test_a_large_file_in_parts_has_the_rows_of_one_reading(size: int, tmp_path: Path) -> None:
    inputs = write_lines(tmp_path / "large.jsonl")
    write_rows(tmp_path / "small.jsonl", 0, 1)
    both = inputs.of([*inputs.paths, str(tmp_path / "small.jsonl"), *inputs.paths])
    parts = cut_and_counted(both, size)
    assert len(parts) > 8
    assert list(map(repr, (row for part in parts for row in part.rows()))) == list(map(repr, both))
    again = cut_and_counted(both, size)
    assert [part.to_json() for part in again] == [part.to_json() for part in parts]
    assert len({json.dumps(part.to_json()) for part in parts}) > len(parts) // 2  # the third is the first


def test_what_cannot_be_cut_is_one_part(sources: Path) -> None:
    (sources / "packed.jsonl.gz").write_bytes(gzip.compress((sources / "a.jsonl").read_bytes()))
    (sources / "cells.csv").write_text("id,text\n1,a ship left\n2,it came back\n")
    whole = [str(sources / name) for name in ("packed.jsonl.gz", "cells.csv", "texts")]
    assert [part.extent for part in parts_of(Inputs(whole), 10)] == [None] * 7
    folder = Inputs([str(sources)], reading=Reading(format="jsonl", globs=("a.jsonl",)))
    assert len(parts_of(folder, 1_000)) > 3


def test_files_are_cut_into_even_parts_of_16_to_64_mebibytes(tmp_path: Path) -> None:
    mib, path = 1 << 20, tmp_path / "large.jsonl"
    path.touch()
    for size, count in ((40 * mib, 3), (10 * mib, 1), (3 << 30, 64), (5 << 30, 80)):
        os.truncate(path, size)
        with mock.patch.object(input_parts, "_line_behind", lambda _, at: at):  # there are none in a hole
            parts = parts_of(Inputs([str(path)]))
            assert [part.extent for part in parts_of(Inputs([str(path)]), size)] == [None]
        assert len(parts) == count
        extents = [part.extent for part in parts if part.extent is not None]
        lengths = [extent.end - extent.begin for extent in extents]
        assert max(lengths, default=0) - min(lengths, default=0) < count


def test_parts_of_one_file_store_what_one_reading_does(tmp_path: Path, index: LocalIndex) -> None:
    inputs = write_lines(tmp_path / "large.jsonl")
    parts = cut_and_counted(inputs, 400)
    for number in reversed(range(len(parts))):
        feed(index, pickle.loads(pickle.dumps(parts[number])), number, skip_bad_rows=True)
    rows = [row for row in inputs if isinstance(row, Row)]
    assert sorted(index) == sorted(row.key for row in rows)
    assert len(index) == 59
    found = index.query(rows[30].document, 1.0)
    assert rows[30].key in [match.key for match in found]


def test_a_row_that_is_none_is_named_by_its_line_in_the_file(tmp_path: Path, index: LocalIndex) -> None:
    parts = cut_and_counted(write_lines(tmp_path / "large.jsonl"), 400)
    line = 1 + (tmp_path / "large.jsonl").read_text().split("\n").index("[7]")
    (part,) = [part for part in parts if any(isinstance(row, BadRowError) for row in part.rows())]
    assert parts.index(part) > 2
    with pytest.raises(SourceError, match=rf"large\.jsonl:{line}: expected a JSON object") as raised:
        feed(index, part)
    assert raised.value.path == f"{tmp_path}/large.jsonl:{line}"


def test_rows_that_are_no_documents_are_named_or_counted(sources: Path, index: LocalIndex) -> None:
    with (sources / "b.jsonl").open("a") as file:
        file.write('{"id": 7}\n')
    part = parts_of(Inputs([str(sources / "b.jsonl")]))[0]
    with pytest.raises(SourceError, match=r"b\.jsonl:51: expected a field 'text'") as raised:
        feed(index, part)
    told = pickle.loads(pickle.dumps(raised.value))
    assert (told.node, told.path) == (raised.value.node, f"{sources}/b.jsonl:51")
    assert told.node in str(told)
    assert feed(index, part, skip_bad_rows=True).bad == 1
    assert len(index) == 50


def _remove(file: Path) -> None:
    file.unlink()


def _lengthen(file: Path) -> None:
    file.write_text(file.read_text() + "\n")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [(_remove, "every node reads them"), (_lengthen, r"expected \d+ bytes, found \d+")],
    ids=["removed", "lengthened"],
)
@pytest.mark.parametrize("size", [BYTES, 1_000], ids=["whole", "cut"])
def test_a_file_that_a_node_does_not_see_is_named(
    size: int, change: Callable[[Path], None], complaint: str, sources: Path, index: LocalIndex
) -> None:
    part = parts_of(Inputs([str(sources / "a.jsonl")]), size)[-1]
    change(sources / "a.jsonl")
    with pytest.raises(SourceError, match=complaint) as raised:
        feed(index, part)
    assert raised.value.path == str(sources / "a.jsonl")
    assert raised.value.node is not None
    assert raised.value.node in str(raised.value)
    assert len(index) == 0
    with pytest.raises(SourceError, match=complaint):
        count_part(how_of(index.uri), part)


def test_a_way_of_reading_goes_with_each_part(sources: Path) -> None:
    (sources / "c.csv").write_text("name;body\nx;a ship left\n")
    reading = Reading(delimiter=";")
    inputs = Inputs([str(sources / "c.csv"), str(sources / "texts")], Fields("name", "body"), reading=reading)
    rows = [[row for row in part.inputs if isinstance(row, Row)] for part in parts_of(inputs)]
    assert rows[0] == [("x", "a ship left", None)]
    assert len(rows[1]) == 4


def test_standard_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found standard input"):
        parts_of(Inputs(["-"]))
    uri = tmp_path / "catalog"
    with pytest.raises(FileNotFoundError, match="found none"):
        build([str(tmp_path)], uri)
    with pytest.raises(ValueError, match='on_conflict: expected "skip" or "replace"'):
        build([str(tmp_path)], uri, on_conflict="error")


@pytest.mark.parametrize("scheme", ["{}/catalog", "memory://{}"], ids=["folder", "store"])
def test_a_journal_goes_on_only_with_its_own_sources(scheme: str, tmp_path: Path) -> None:
    uri = scheme.format(tmp_path)
    first = Journal(uri, "sources")
    first.note(3, Counts(1, 2, 3, 4))
    first.note_lines([7, 0, 9])
    again = Journal(uri, "sources")
    assert again.lines == [7, 0, 9]
    assert (again.job, again.done) == (first.job, {3: Counts(1, 2, 3, 4)})
    with pytest.raises(UnfinishedBuildError, match="not finished"):
        Journal(uri, "others")
    forced = Journal(uri, "others", force=True)
    assert forced.job != first.job
    assert not forced.done
    assert forced.lines is None
    forced.forget()
    assert Journal(uri, "sources").job not in (first.job, forced.job)


def test_a_journal_that_was_changed_is_refused_and_removed_whole(tmp_path: Path) -> None:
    uri, folder = str(tmp_path / "catalog"), tmp_path / "catalog.build"
    journal = Journal(uri, "sources")
    journal.note(0, Counts(1))
    journal.note_lines([1])
    name = folder / "done" / "00000000"
    name.write_text(name.read_text().replace("[1,", "[2,"))
    with pytest.raises(CorruptIndexError, match="fits its seal") as raised:
        Journal(uri, "sources")
    assert raised.value.path == str(name)
    journal.forget()
    assert not folder.exists()
