"""Parquet: only the wanted columns, row by row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simindex.inputs import BadRowError, Fields, InputError, Limits, Row, Source
from simindex.inputs.formats import parquet

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")


def write(path: Path, rows: list[dict[str, object]]) -> Source:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return Source(str(path))


def read(source: Source, fields: Fields) -> Iterator[Row | BadRowError]:
    for number, _content, values in parquet.read(source, fields):
        yield values if isinstance(values, BadRowError) else fields.row(source.name, number, values)


def test_parquet_gives_its_rows_and_tells_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    source = write(path, [{"id": number, "text": f"text {number}"} for number in range(2_500)])
    rows = read(source, Fields())
    assert next(rows) == Row(0, "text 0", None)
    assert source.bytes_read == path.stat().st_size // 2_500
    assert list(rows) == [Row(number, f"text {number}", None) for number in range(1, 2_500)]
    assert source.bytes_read == path.stat().st_size


def test_parquet_keeps_the_other_columns_when_asked(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", [{"id": None, "text": ["a", "b"], "year": 1984}])
    with_metadata = Fields(metadata=True, key_from="line")
    assert list(read(source, with_metadata)) == [Row(f"{source.path}:1", ("a", "b"), {"year": 1984})]
    assert list(read(source, Fields(key_from="line"))) == [Row(f"{source.path}:1", ("a", "b"), None)]
    (bad,) = read(source, Fields())
    assert str(bad).startswith(f"{source.path}:1: expected a key in the field 'id', found null; --id-field")


def test_parquet_that_cannot_be_read_is_an_error_with_its_place(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", [{"id": 1, "text": "x"}])
    with pytest.raises(InputError, match=r"a\.parquet: expected a column 'body', found "):
        list(read(source, Fields(text="body")))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"a\.parquet: cannot be read: "):
        list(read(source, Fields()))


def test_parquet_cell_over_the_limit_is_a_bad_row_and_reading_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    rows = [
        {"id": 1, "text": "x" * 50, "more": [1]},
        {"id": 2, "text": "x" * 51, "more": None},
        {"id": 3, "text": None, "more": [1]},
        {"id": 4, "text": "fine", "more": list(range(50))},
        {"id": 5, "text": "last", "more": [5]},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=2)
    limits = Limits(row=50)
    found = list(read(Source(path, limits), Fields()))
    assert [row.key if isinstance(row, Row) else row.place for row in found] == [
        1,
        f"{path}:2",
        f"{path}:3",
        4,
        5,
    ]
    assert isinstance(found[1], BadRowError)
    assert found[1].reason == (
        "expected a cell of at most 50 bytes, found more; --max-row (Limits.row) sets the limit"
    )
    with_metadata = list(read(Source(path, limits), Fields(metadata=True)))
    assert [type(row) for row in with_metadata] == [Row, BadRowError, BadRowError, BadRowError, Row]
    assert with_metadata[4] == Row(5, "last", {"more": [5]})


def test_long_rows_become_python_s_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five hundred rows of 1,000 bytes, and parts of 100,000."""
    monkeypatch.setattr(parquet, "PART_BYTES", 100_000)
    taken: list[int] = []
    values = parquet._values

    def counted(batch: Any, limit: int) -> Iterator[dict[str, Any] | None]:
        taken.append(batch.num_rows)
        return values(batch, limit)

    monkeypatch.setattr(parquet, "_values", counted)
    rows = [{"id": number, "text": f"{number:03} {'x' * 996}"} for number in range(500)]
    source = write(tmp_path / "a.parquet", rows)
    assert [row.key for row in read(source, Fields()) if isinstance(row, Row)] == list(range(500))
    assert sum(taken) == 500
    assert 50 < max(taken) <= 100
