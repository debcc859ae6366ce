"""Several inputs in order, and which format reads which."""

import bz2
import gzip
import io
import lzma
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.texts import FOX, ROWS, SHIP, json_lines, make_folder, rows_and_bad, zstd

from simindex.inputs import (
    FORMATS,
    BadRowError,
    Columns,
    InputError,
    Inputs,
    Row,
    Tally,
)
from simindex.inputs.source import Extent


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of three inputs of different kinds, four documents in all."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_bytes(json_lines(ROWS[:2]))
    (tmp_path / "b.TXT").write_text(SHIP)
    (tmp_path / "c.csv").write_text(f"id,text\nx,{FOX}\n")
    return ["a.jsonl", "b.TXT", "c.csv"]


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
    (tmp_path / "tree/broken").unlink()
    seen = [inputs.bytes_read for _ in inputs]
    assert seen == sorted(seen)
    assert total is not None
    assert 0 < seen[0] < total
    assert inputs.bytes_read == total


def test_parts_of_a_file_are_read_as_the_whole_of_it(tmp_path: Path) -> None:
    path, content, first = tmp_path / "a.jsonl", json_lines(ROWS), json_lines(ROWS[:1])
    path.write_bytes(content)
    inputs = Inputs([str(path)])
    parts = [Extent(0, len(first), 0), Extent(len(first), len(content), 1)]
    found = [some for part in parts for some in inputs.columns_of(0, part)]
    assert [row for some in found for row in some.rows()] == list(inputs)
    assert [number for some in found for number in some.numbers] == [1, 2, 3]


def test_head_of_inputs_is_their_first_row(three: list[str]) -> None:
    assert Inputs(three).head() == json_lines(ROWS[:1])


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("A.NDJSON", json_lines(ROWS[:1]), [("fox", FOX)]),
        ("A.CSV.GZ", gzip.compress(b"id,text\na,b\n", mtime=0), [("a", "b")]),
        ("a.csv.doc", b"id,text\na,b\n", [("a.csv.doc", "id,text\na,b\n")]),
        ("a.parquet.gz", gzip.compress(b"id", mtime=0), [("a.parquet.gz", "id")]),
        ("a.wet", b"", []),
    ],
)
def test_format_is_what_the_suffix_says_in_any_case_and_else_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, rows: list[tuple[str, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(content)
    assert [(row.key, row.document) for row in Inputs([name])] == rows


PACKED = {
    "bzip2": bz2.compress(b"text"),
    "gzip": gzip.compress(b"text", mtime=0),
    "xz": lzma.compress(b"text"),
}
PACKED["zip"] = b"PK\x03\x04and so on"
PACKERS: dict[str, Any] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("packing", [*PACKERS, ".zst"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"id": "caf\xe9", "text": "un caf\xe9"}\n'),
        ("a.json", '[{"id": "caf\xe9", "text": "un caf\xe9"}]'),
        ("b.json", '{"id": "caf\xe9", "text": "un caf\xe9"}'),
        ("a.csv", "id,text\ncaf\xe9,un caf\xe9\n"),
        ("a.tsv", "id\ttext\ncaf\xe9\tun caf\xe9\n"),
        ("caf\xe9", "un caf\xe9"),
    ],
    ids=lambda value: value if len(value) < 7 else "",
)
def test_every_text_format_is_read_in_every_packing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str, packing: str
) -> None:
    monkeypatch.chdir(tmp_path)
    pack = PACKERS.get(packing) or zstd().compress
    Path(name + packing).write_bytes(pack(content.encode()))
    key = "caf\xe9" + packing if "." not in name else "caf\xe9"
    inputs = Inputs([name + packing])
    assert list(inputs) == [Row(key, "un caf\xe9", None)]
    assert inputs.bytes_read == inputs.total_bytes()
    if not packing:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        format_ = Path(name).suffix[1:] or "text"
        (row,) = Inputs(["-"], format=format_)
        assert row == Row("stdin" if format_ == "text" else "caf\xe9", "un caf\xe9", None)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.tsv", "a"])
def test_wrong_bytes_name_the_remedy_or_are_counted(tmp_path: Path, name: str) -> None:
    contents = {
        "a.jsonl": b'{"id": 1, "text": "caf\xe9"}',
        "a.json": b'[{"id": 1, "text": "caf\xe9"}]',
        "a.csv": b"id,text\n1,caf\xe9\n",
        "a.tsv": b"id\ttext\n1\tcaf\xe9\n",
        "a": b"caf\xe9",
    }
    path = tmp_path / name
    path.write_bytes(contents[name])
    inputs = Inputs([str(path)])
    if name == "a":
        assert list(inputs) == [Row(str(path), "caf\ufffd", None)]
        assert inputs.tally == Tally(mended=1)
    else:
        (row,) = rows_and_bad([str(path)])
        assert isinstance(row, BadRowError)
        assert row.reason == (
            "expected UTF-8, found other bytes; iconv makes UTF-8 of another encoding, -f latin1 -t utf-8"
        )


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"\x89PNG\0\0", "a binary file (with a zero byte)"),
        ("text".encode("utf-16"), "UTF-16; iconv -f utf-16"),
        *(
            (content, f"a file packed by {packing}; what is unpacked is named")
            for packing, content in PACKED.items()
        ),
    ],
)
def test_binary_file_that_is_named_is_a_bad_row(tmp_path: Path, content: bytes, found: str) -> None:
    (tmp_path / "a").write_bytes(content)
    (row,) = rows_and_bad([str(tmp_path / "a")])
    assert isinstance(row, BadRowError)
    assert row.reason.startswith(f"expected text, found {found}")


def test_json_is_an_array_of_objects_or_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf[{"id": 1, "text": "x"}, 5,\n {"id": 2}]')
    row, *bad = rows_and_bad([str(path)])
    assert row == Row(1, "x", None)
    assert [str(error).partition(";")[0] for error in bad] == [
        f"{path}:2: expected a JSON object, found int",
        f"{path}:3: expected a field 'text', found ['id']",
    ]
    for content, found in (
        (
            b'{"id": 1, "text": "x"}\n{"id": 2, "text": "y"}',
            "no JSON (unexpected content after document, line 2",
        ),
        (b'"text"', "str"),
        (b"", "no JSON ("),
    ):
        path.write_bytes(content)
        (error,) = rows_and_bad([str(path)])
        assert isinstance(error, BadRowError)
        assert (error.place, error.reason.startswith(f"expected a JSON array of objects, found {found}")) == (
            str(path),
            True,
        )
        assert error.reason.endswith(
            "; --format jsonl takes an object a line, --format text the file as one document"
        )
    path.write_bytes(b'{"a": [1]}')
    assert list(Inputs([str(path)], format="text")) == [Row(str(path), '{"a": [1]}', None)]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('id;text\n1;"one; and, two"\n', [Row("1", "one; and, two", None)]),
        ('id|"text"\r\n1|x,y\r\n', [Row("1", "x,y", None)]),
        ('"id"\ttext\n1\tx;y\n', [Row("1", "x;y", None)]),
        ('id,"a;b",text\n1,2,x\n', [Row("1", "x", None)]),
        ("\ufefftext;id\nx;1\n", [Row("1", "x", None)]),
        ("id;text", []),
        ("", []),
    ],
)
def test_header_of_a_table_says_what_stands_between_its_cells(
    tmp_path: Path, content: str, rows: list[Row]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8", newline="")
    assert list(Inputs([str(path)])) == rows


def test_header_that_has_no_column_of_texts_is_refused_with_what_was_found(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id;title\n1;x\n")
    with pytest.raises(InputError, match=r"found \['id', 'title'\]; --text-field names another"):
        list(Inputs([str(path)]))


def test_input_for_which_there_is_no_memory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> Iterator[Columns]:
        raise MemoryError

    (tmp_path / "a.jsonl").write_bytes(b"{}")
    inputs = Inputs([str(tmp_path / "a.jsonl")])
    monkeypatch.setitem(FORMATS, "jsonl", FORMATS["jsonl"]._replace(read=no_memory))
    with pytest.raises(InputError, match=r"a\.jsonl: cannot be read on: not enough memory"):
        list(inputs)


def test_pattern_is_what_it_fits_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b/2.txt", "b/1.txt", "a.txt", "c[1].txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    found = Inputs([f"{tmp_path}/**/*.txt", f"{tmp_path}/c[1].txt"])
    names = [str(row.document) for row in found if isinstance(row, Row)]
    assert names == ["a.txt", "b/1.txt", "b/2.txt", "c[1].txt", "c[1].txt"]
    assert found.paths[0] == f"{tmp_path}/a.txt"
    with pytest.raises(FileNotFoundError, match="no such file or folder"):
        Inputs([f"{tmp_path}/*.csv"])
