"""CSV: header, quotes, empty keys, and a property: what is written is read."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import rows_and_bad

from simindex.inputs import BadRowError, Fields, Inputs, Limits, Row

CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"))


def read(path: Path, content: bytes, fields: Fields | None = None) -> list[Row | BadRowError]:
    path.write_bytes(content)
    return rows_and_bad([str(path)], fields or Fields())


@given(st.lists(st.tuples(CELLS.filter(bool), CELLS, CELLS)))
def test_csv_gives_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]]
) -> None:
    content = io.StringIO(newline="")
    csv.writer(content).writerows([("id", "text", "more"), *rows])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    found = read(path, content.getvalue().encode(), Fields(metadata=True))
    assert found == [Row(key, text, {"more": more}) for key, text, more in rows]


def test_csv_row_without_key_gets_the_line_in_which_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = read(path, b'\xef\xbb\xbfid,text\r\n,"two\nlines"\n\n,x\n', Fields(key_from="line"))
    assert rows == [Row(f"{path}:3", "two\nlines", None), Row(f"{path}:5", "x", None)]


@pytest.mark.parametrize("header", [b"id,text", b'"id","text"', b'"id",text'])
def test_csv_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path, header: bytes) -> None:
    rows = read(tmp_path / "a.csv", b"\xef\xbb\xbf" + header + b"\r\na,one two\r\n")
    assert rows == [Row("a", "one two", None)]


@pytest.mark.parametrize(
    "content", [b"\n\r\nid;text\r\n\r\na;one, two\n", b"\xef\xbb\xbf\nid\ttext\n\na\tone, two\n"]
)
def test_csv_empty_lines_count_as_lines_alone(tmp_path: Path, content: bytes) -> None:
    """Before the header, too; spreadsheets write them."""
    path = tmp_path / "a.csv"
    assert read(path, content) == [Row("a", "one, two", None)]
    number = content.count(b"\n") + 1
    bad = read(path, content + b"b;c\td;e\tf\n")[-1]
    assert isinstance(bad, BadRowError)
    assert str(bad).startswith(f"{path}:{number}: ")
    assert read(path, b"\n\r\n") == read(path, b"")


def rows_of(path: Path, content: bytes, limits: Limits) -> list[object]:
    """The documents of a file, with the words of an error in place of a row that is over a limit."""
    path.write_bytes(content)
    rows = rows_and_bad([str(path)], Fields(key_from="line"), limits=limits)
    return [row.document if isinstance(row, Row) else str(row) for row in rows]


def test_csv_leaves_the_limit_of_the_module_as_it_is(tmp_path: Path) -> None:
    before = csv.field_size_limit(77)
    try:
        path = tmp_path / "a.csv"
        path.write_text(f"text\n{'x' * 300_000}\nlast\n")
        rows = iter(Inputs([str(path)], Fields(key_from="line")))
        assert isinstance(next(rows), Row)
        assert csv.field_size_limit() == 77
        with pytest.raises(csv.Error, match=r"limit \(77\)"):
            list(csv.reader(["x" * 100]))
        assert next(rows) == Row(f"{path}:3", "last", None)
        assert csv.field_size_limit() == 77
    finally:
        csv.field_size_limit(before)


def test_csv_quote_that_is_not_closed_costs_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"{number},document {number:03}" for number in range(100)]
    rows[5] = '5,"never closed'
    content = "\n".join(["id,text", *rows]).encode()
    found = rows_of(path, content, Limits(row=100))
    (bad,) = (row for row in found if str(row).startswith(str(path)))
    assert bad == (
        f"{path}:13: expected a row of at most 100 bytes, found more"
        "; the row began in line 7: is a quote not closed?"
    )
    assert found[:5] == [f"document {number:03}" for number in range(5)]
    documents = [f"document {number:03}" for number in range(6, 100)]
    assert found[6:] == documents
    assert rows_of(path, content, Limits(row=50))[6:] == documents
    to_the_end = rows_of(path, content, Limits())
    assert str(to_the_end[5]).startswith(f"{path}:101: unexpected end of data; the row began in line 7")
    assert to_the_end[6:] == documents
    keys = rows_and_bad([str(path)], Fields("none", key_from="line"))
    assert [row.key for row in keys if isinstance(row, Row)][5:] == [f"{path}:{n}" for n in range(8, 102)]


def test_csv_cell_over_the_limit_does_not_cost_the_rows_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    content = b'id,text\n1,"' + b"a line\n" * 50 + b'"\n2,two\n3,three\n'
    assert rows_of(path, content, Limits(row=100))[-2:] == ["two", "three"]
    assert rows_of(path, content.replace(b"a line", b'""'), Limits(row=100))[-2:] == ["two", "three"]
    assert rows_of(path, content, Limits())[1:] == ["two", "three"]


def test_csv_rows_keep_their_lines_behind_a_line_over_the_limit_within_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'text\n"open\none\n' + b"x" * 200 + b"\ntwo\n")
    rows = rows_and_bad([str(path)], Fields(key_from="line"), limits=Limits(row=100))
    assert [row.key if isinstance(row, Row) else row.place for row in rows] == [
        f"{path}:4",
        f"{path}:3",
        f"{path}:5",
    ]
