"""CSV: header, quotes, empty keys, and a property: what is written is read."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex.inputs import BadRowError, Fields, InputError, Row, Source
from simindex.inputs import csv as csv_input

CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"))


def read(path, content, fields=None):
    path.write_bytes(content)
    return list(csv_input.read(Source(str(path)), fields or Fields()))


@given(st.lists(st.tuples(CELLS.filter(bool), CELLS, CELLS)))
def test_csv_gives_what_was_written(tmp_path_factory, rows):
    content = io.StringIO(newline="")
    csv.writer(content).writerows([("id", "text", "more"), *rows])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    found = read(path, content.getvalue().encode(), Fields(metadata=True))
    assert found == [Row(key, text, {"more": more}) for key, text, more in rows]


def test_csv_row_without_key_gets_the_line_in_which_it_ends(tmp_path):
    path = tmp_path / "a.csv"
    rows = read(path, b'\xef\xbb\xbfid,text\r\n,"two\nlines"\n\n,x\n')
    assert rows == [Row(f"{path}:3", "two\nlines", None), Row(f"{path}:5", "x", None)]


def test_csv_takes_cells_beyond_the_limit_of_the_module(tmp_path):
    text = "long " * 100_000
    (row,) = read(tmp_path / "a.csv", f"text\n{text}\n".encode())
    assert row.document == text


def test_csv_gives_a_bad_row_its_place_and_reads_on(tmp_path):
    path = tmp_path / "a.csv"
    found = read(path, b'id,text\na,b,c\nx,"y"z\nq,\xff\nok,fine\n')
    assert [str(row) for row in found[:1]] == [f"{path}:2: expected 2 columns, found 3"]
    assert [row.place for row in found[:3]] == [f"{path}:{number}" for number in (2, 3, 4)]
    assert all(isinstance(row, BadRowError) for row in found[:3])
    assert found[2].reason == "expected UTF-8, found other bytes"
    assert found[3:] == [Row("ok", "fine", None)]


def test_csv_without_the_column_of_documents_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"a.csv:1: expected a column 'body', found \['id', 'text'\]"):
        read(tmp_path / "a.csv", b"id,text\nx,y\n", Fields(text="body"))
    assert read(tmp_path / "a.csv", b"") == []
