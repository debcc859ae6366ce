"""Parquet: only the wanted columns, row by row."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.faults import around, set_bound
from support.texts import rows_and_bad

import simindex
from simindex.inputs import BadRowError, Fields, InputError, Inputs, Limits, Row

pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")


def inputs_of(path: Path, rows: list[Any], fields: Fields | None = None, **options: Any) -> Inputs:
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=max(2, len(rows) // 2))
    return Inputs([str(path)], fields, **options)


def test_parquet_gives_its_rows_and_tells_how_far_it_is(tmp_path: Path) -> None:
    inputs = inputs_of(tmp_path / "a.parquet", [{"id": n, "text": f"text {n}"} for n in range(2_500)])
    rows, size = iter(inputs), (tmp_path / "a.parquet").stat().st_size
    assert next(rows) == Row(0, "text 0", None)
    assert 0 < inputs.bytes_read < size / 8
    assert list(rows) == [Row(n, f"text {n}", None) for n in range(1, 2_500)]
    assert inputs.bytes_read == inputs.total_bytes() == size


def test_parquet_keeps_the_other_columns_when_asked(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.parquet", [{"id": None, "text": ["a", "b"], "year": 1984}]
    for is_kept, metadata in ((True, {"year": 1984}), (False, None)):
        inputs = inputs_of(path, rows, Fields(metadata=is_kept, key_from="line"))
        assert list(inputs) == [Row(f"{path}:1", ("a", "b"), metadata)]
    (bad,) = rows_and_bad([str(path)])
    assert str(bad).startswith(f"{path}:1: expected a key in the field 'id', found null; --id-field")


def test_parquet_metadata_of_types_that_no_index_stores_is_text(tmp_path: Path) -> None:
    """A timestamp without a zone is what pandas writes."""
    day, hour, length = datetime.date(2026, 1, 2), datetime.time(3, 4), datetime.timedelta(hours=1)
    naive, aware = datetime.datetime.combine(day, hour), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    values = {
        "a": day,
        "b": hour,
        "c": naive,
        "d": aware,
        "e": length,
        "f": Decimal("1.50"),
        "g": [day],
        "n": 1,
    }
    row = {"id": 1, "text": "one text", **values, "h": {"of": naive}}
    (found,) = inputs_of(tmp_path / "a.parquet", [row], Fields(metadata=True))
    texts = ["2026-01-02", "03:04:00", "2026-01-02T03:04:00", aware, "1:00:00", "1.50", ["2026-01-02"], 1]
    assert found.metadata == {**dict(zip(values, texts, strict=True)), "h": {"of": texts[2]}}
    with simindex.open(":memory:") as index:
        index.insert_many([found])
        assert index[1].metadata == found.metadata


def test_parquet_that_cannot_be_read_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pytest.raises(InputError, match=r"a\.parquet: expected a column 'body', found "):
        list(inputs_of(path, [{"id": 1, "text": "x"}], Fields(text="body")))
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"a\.parquet: cannot be read: "):
        list(Inputs([str(path)]))


def test_parquet_without_columns_and_rows_has_no_rows(tmp_path: Path) -> None:
    """As a deduplication writes it that keeps nothing."""
    assert list(inputs_of(tmp_path / "a.parquet", [])) == []


def test_parquet_whose_footer_counts_no_rows_has_those_of_its_row_groups(tmp_path: Path) -> None:
    """As repeated_no_annotation.parquet of Apache's parquet-testing."""
    path = tmp_path / "a.parquet"
    inputs_of(path, [{"id": n, "text": f"text {n}"} for n in range(6)])
    footer = b"\x16\x0c\x19\x2c"  # six rows, and the begin of a list of two row groups
    content = path.read_bytes()
    assert content.count(footer) == 1
    path.write_bytes(content.replace(footer, b"\x16\x00\x19\x2c"))
    assert list(Inputs([str(path)])) == [Row(n, f"text {n}", None) for n in range(6)]


def test_parquet_cell_over_the_limit_is_a_bad_row_and_reading_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "a.parquet")
    rows = [
        {"id": 1, "text": "x" * 50, "more": [1]},
        {"id": 2, "text": "x" * 51, "more": None},
        {"id": 3, "text": None, "more": [1]},
        {"id": 4, "text": "fine", "more": list(range(50))},
        {"id": 5, "text": "last", "more": [5]},
    ]
    inputs_of(tmp_path / "a.parquet", rows)
    found = rows_and_bad([path], limits=Limits(row=50))
    assert [row.key if isinstance(row, Row) else row.place for row in found] == [
        1,
        f"{path}:2",
        f"{path}:3",
        4,
        5,
    ]
    assert isinstance(found[1], BadRowError)
    assert found[1].reason == ("expected a cell of at most 50 bytes, found more")
    with_metadata = rows_and_bad([path], Fields(metadata=True), limits=Limits(row=50))
    assert [type(row) for row in with_metadata] == [Row, BadRowError, BadRowError, BadRowError, Row]
    assert with_metadata[4] == Row(5, "last", {"more": [5]})


def test_long_rows_become_python_s_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five hundred rows of 1,000 bytes, and parts of 100,000."""
    set_bound(monkeypatch, "bytes of a part of Parquet", 100_000)
    taken: list[int] = []

    def counted(values: Any, batch: Any, *how: Any) -> Any:
        taken.append(batch.num_rows)
        return values(batch, *how)

    around(monkeypatch, "values of a part of Parquet", counted)
    rows = [{"id": n, "text": f"{n:03} {'x' * 996}"} for n in range(500)]
    found = inputs_of(tmp_path / "a.parquet", rows)
    assert [row.key for row in found if isinstance(row, Row)] == list(range(500))
    assert sum(taken) == 500
    assert 50 < max(taken) <= 100
