"""Several inputs in order, and which format reads which."""

import gzip
import io
import pickle
import sys
from pathlib import Path

import pytest
from samples import FOX, ROWS, SHIP, good, json_lines, make_folder

from simindex.inputs import BadRowError, Fields, InputError, Inputs, Limits, Row
from simindex.inputs.several import FORMATS, Format, Rows


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of three inputs of different kinds, four documents in all."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(json_lines(ROWS[:2]))
    (tmp_path / "b.TXT").write_text(SHIP)
    (tmp_path / "c.csv").write_text(f"id,text\nx,{FOX}\n")
    return ["a.jsonl", "b.TXT", "c.csv"]


def test_inputs_come_in_the_order_given(three: list[str]) -> None:
    assert [row.key for row in good(Inputs(three))] == ["fox", "fox too", "b.TXT", "x"]
    assert [row.key for row in good(Inputs(three[::-1]))] == ["x", "b.TXT", "fox", "fox too"]
    assert list(Inputs([])) == []


def test_inputs_can_be_read_again_and_from_another_process(three: list[str]) -> None:
    inputs = Inputs(three)
    rows = list(inputs)
    assert list(inputs) == rows
    assert list(pickle.loads(pickle.dumps(inputs))) == rows


def test_inputs_tell_how_far_they_are_read(three: list[str], tmp_path: Path) -> None:
    make_folder(tmp_path)
    inputs = Inputs([*three, "tree"])
    assert inputs.bytes_read == 0
    total = inputs.total_bytes()
    files = [*three, *(f"tree/{name}" for name in ("a.txt", "b/a.py", "b/z.py", "b.d/e.py", "c.py", "c.py"))]
    assert total == sum((tmp_path / name).stat().st_size for name in files)
    seen = [inputs.bytes_read for _ in inputs]
    assert seen == sorted(seen)
    assert total is not None
    assert 0 < seen[0] < total
    assert inputs.bytes_read == total


def test_inputs_do_not_know_the_bytes_of_stdin(three: list[str]) -> None:
    assert Inputs([three[0], "-"]).total_bytes() is None


def test_stdin_is_json_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json_lines([{"text": FOX}, 5]))))
    row, bad = Inputs(["-"], Fields(key_from="line"))
    assert row == Row("stdin:1", FOX, None)
    assert str(bad) == "stdin:2: expected a JSON object, found int"


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_format_is_told_by_its_suffix_in_any_case(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"A{suffix.upper()}"
    path.write_bytes(b"")
    assert iter(Inputs([str(path)]))


@pytest.mark.parametrize("name", ["a.doc", "jsonl", "a.txt.gz", "a.parquet.gz", "a.jsonl.zst.gz", "a.gz"])
def test_another_kind_of_file_is_refused_before_any_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    with pytest.raises(InputError) as caught:
        Inputs([str(path)])
    assert caught.value.place == str(path)
    assert caught.value.reason == (
        "expected .jsonl, .csv (each also with .gz or .zst), .parquet, .txt, a folder, or - for JSON lines "
        "on stdin, found another kind of file; a folder takes files of any name"
    )


def test_a_missing_input_is_told_before_any_is_read(three: list[str]) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Inputs([*three, "missing.jsonl"])
    assert caught.value.filename == "missing.jsonl"


def test_reading_goes_on_after_a_bad_row_and_into_the_next_input(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}\n" + json_lines(ROWS[:1]) + b"[]")
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(json_lines([{"n": 5, "body": SHIP, "id": 6}])))
    paths = [str(tmp_path / name) for name in ("a.jsonl", "b.jsonl.gz")]
    kinds = [type(row) for row in Inputs(paths)]
    assert kinds == [BadRowError, Row, BadRowError, BadRowError]
    assert list(Inputs(paths[1:], Fields("n", "body", metadata=True))) == [Row(5, SHIP, {"id": 6})]


def test_limits_hold_for_every_input(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(json_lines([{"id": 1, "text": "x" * 100}]))
    (tmp_path / "b.csv").write_text(f"id,text\n2,{'x' * 100}\n")
    (tmp_path / "c.txt").write_text("x" * 100)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "e").write_text("x" * 100)
    paths = [str(tmp_path / name) for name in ("a.jsonl", "b.csv", "c.txt", "d")]
    inputs = Inputs(paths, limits=Limits(line=90, cell=90, document=90))
    assert [type(row) for row in inputs] == [BadRowError] * 4
    assert [type(row) for row in pickle.loads(pickle.dumps(inputs))] == [BadRowError] * 4
    assert [type(row) for row in Inputs(paths)] == [Row] * 4


def test_input_for_which_there_is_no_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> Rows:
        raise MemoryError

    (tmp_path / "a.jsonl").write_bytes(b"{}")
    inputs = Inputs([str(tmp_path / "a.jsonl")])
    monkeypatch.setitem(FORMATS, ".jsonl", Format(no_memory, may_be_packed=True))
    with pytest.raises(InputError, match=r"a\.jsonl: cannot be read on: not enough memory"):
        list(inputs)
