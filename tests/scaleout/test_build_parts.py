"""What a build reads, stores and notes, without Ray."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from local import LocalIndex

import simindex
from simindex import Config, CorruptIndexError
from simindex.inputs import Fields, InputError, Inputs, Reading, Row
from simindex.scaleout import SourceError, UnfinishedBuildError
from simindex.scaleout.building import parts as parts_module
from simindex.scaleout.building.feeding import How, insert_part
from simindex.scaleout.building.job import build
from simindex.scaleout.building.journal import Journal
from simindex.scaleout.building.parts import Part, parts_of
from simindex.scaleout.building.report import Counts
from simindex.scaleout.catalog import Catalog
from simindex.scaleout.hosts.calls import Calls

CONFIG = Config(seed=1)


def write_rows(path: Path, first: int, count: int) -> Path:
    rows = (
        {"id": n, "text": f"a text of number {n} beside {n // 3} others"} for n in range(first, first + count)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a folder of texts and two tables, of which each is a part."""
    monkeypatch.setattr(parts_module, "PART_BYTES", 1_000)
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


def feed(index: LocalIndex, part: Part, number: int = 0, **how: Any) -> Counts:
    def carrier(_catalog: Catalog) -> Calls:
        return index.local

    settings: dict[str, Any] = {"on_conflict": "skip", "skip_bad_rows": False, "batch_size": 5} | how
    return insert_part(How(index.uri, "job", **settings), index.catalog, number, part, carrier)


def all_inputs(sources: Path) -> Inputs:
    return Inputs([str(sources / "*.jsonl"), str(sources / "texts")])


def test_parts_hold_what_one_reading_gives(sources: Path, index: LocalIndex, tmp_path: Path) -> None:
    inputs = all_inputs(sources)
    parts = parts_of(inputs)
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
def test_a_file_that_a_node_does_not_see_is_named(
    change: Callable[[Path], None], complaint: str, sources: Path, index: LocalIndex
) -> None:
    part = parts_of(Inputs([str(sources / "a.jsonl")]))[0]
    change(sources / "a.jsonl")
    with pytest.raises(SourceError, match=complaint) as raised:
        feed(index, part)
    assert raised.value.path == str(sources / "a.jsonl")
    assert raised.value.node is not None
    assert raised.value.node in str(raised.value)
    assert len(index) == 0


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
    again = Journal(uri, "sources")
    assert (again.job, again.done) == (first.job, {3: Counts(1, 2, 3, 4)})
    with pytest.raises(UnfinishedBuildError, match="not finished"):
        Journal(uri, "others")
    forced = Journal(uri, "others", force=True)
    assert forced.job != first.job
    assert not forced.done
    forced.forget()
    assert Journal(uri, "sources").job not in (first.job, forced.job)


def test_a_journal_that_was_changed_is_refused_and_removed_whole(tmp_path: Path) -> None:
    uri, folder = str(tmp_path / "catalog"), tmp_path / "catalog.build"
    journal = Journal(uri, "sources")
    journal.note(0, Counts(1))
    name = folder / "done" / "00000000"
    name.write_text(name.read_text().replace("[1,", "[2,"))
    with pytest.raises(CorruptIndexError, match="fits its seal") as raised:
        Journal(uri, "sources")
    assert raised.value.path == str(name)
    journal.forget()
    assert not folder.exists()
