"""Columns of every type that pyarrow reads from Parquet come out of a job as they went in."""

import datetime
import decimal
import uuid
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest
from support.commands import Run
from support.faults import set_bound, small_frames
from support.texts import json_lines
from support.truth import texts

UTC = datetime.UTC
DAY, HOUR = datetime.date(2020, 2, 29), datetime.time(1, 2, 3)
MOMENT, SPAN = datetime.datetime(2020, 2, 29, 1, 2, 3), datetime.timedelta(days=3, seconds=7)
LONG = "longer than what a view has in itself"

VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "null": (["null"], [None]),
    "bool": (["bool_"], [True, None, False]),
    "integers": ([f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)], [1, None, 2]),
    "floats": (["float16", "float32", "float64"], [1.5, None, 2.0]),
    "decimals": (
        [("decimal32", 5, 2), ("decimal64", 10, 2), ("decimal128", 20, 2), ("decimal256", 50, 2)],
        [decimal.Decimal("1.25"), None, decimal.Decimal("-7.50")],
    ),
    "dates": (["date32", "date64"], [DAY, None]),
    "times": ([("time32", "s"), ("time32", "ms"), ("time64", "us"), ("time64", "ns")], [HOUR, None]),
    "timestamps": (
        [("timestamp", unit, *zone) for unit in ("s", "ms", "us", "ns") for zone in ((), ("Asia/Tokyo",))],
        [MOMENT, None],
    ),
    "durations": ([("duration", unit) for unit in ("s", "ms", "us", "ns")], [SPAN, None]),
    "binary": (["binary", "large_binary", "binary_view"], [b"a", None, b"", LONG.encode()]),
    "fixed binary": ([("binary", 3)], [b"abc", None, b"\0\0\0"]),
    "texts": (["string", "large_string", "string_view"], ["a", None, "", LONG]),
}
NESTED: dict[str, tuple[list[Any], list[Any]]] = {
    "lists": (
        ["list_", "large_list", "list_view", "large_list_view"],
        [["a", None], None, [], [LONG, "b", "c"]],
    ),
    "structs": ([lambda kind: pyarrow.struct([("a", kind), ("b", pyarrow.list_(kind))])], [None]),
    "maps": ([lambda kind: pyarrow.map_(pyarrow.string(), kind)], [[("k", LONG), ("l", None)], None, []]),
}
"""Of texts of each kind: views have no kernels in places, within others, too."""
NESTED["structs"][1][:0] = [{"a": "a", "b": [LONG, None]}, {"a": LONG, "b": None}, {"a": None, "b": []}]


def kinds() -> dict[str, tuple[Any, list[Any]]]:
    """Types of this pyarrow, with some values of each, by their names."""
    found = dict[str, tuple[Any, list[Any]]]()
    for makers, values in VALUES.values():
        for maker in makers:
            name, *arguments = maker if isinstance(maker, tuple) else (maker,)
            if make := getattr(pyarrow, name, None):
                found[str(make(*arguments))] = make(*arguments), values
    for makers, values in NESTED.values():
        for maker in makers:
            if make := getattr(pyarrow, maker, None) if isinstance(maker, str) else maker:
                for kind in VALUES["texts"][0]:
                    nested = make(getattr(pyarrow, kind)())
                    found[str(nested)] = nested, values
    text = pyarrow.string()
    for index in (pyarrow.int8(), pyarrow.int32()):
        found[f"dictionary {index}"] = pyarrow.dictionary(index, text), ["a", None, LONG]
    found["list of dictionaries"] = pyarrow.list_(pyarrow.dictionary(pyarrow.int32(), text)), [["a"], None]
    found["list of fixed lists"] = pyarrow.list_(pyarrow.list_(pyarrow.int8(), 2)), [[[1, 2], [3, 4]], []]
    found["list of lists"] = pyarrow.list_(pyarrow.list_(text)), [[["a"], [], None], None, []]
    return found


def column(kind: Any, values: list[Any], size: int) -> Any:
    if kind == pyarrow.float16():
        import numpy as np

        values = [None if value is None else np.float16(value) for value in values]
    return pyarrow.array([values[at % len(values)] for at in range(size)], kind)


def extended(size: int) -> dict[str, Any]:
    """Columns of extension types that this pyarrow has."""
    tensor = pyarrow.fixed_shape_tensor(pyarrow.int32(), [2, 2])
    stored: dict[str, tuple[Any, list[Any]]] = {}
    stored["tensor"] = tensor, [[n, 2, 3, 4] for n in range(size)]
    for name, values in (("uuid", [uuid.UUID(int=7).bytes, None]), ("json_", ["{}", None, "[1]"])):
        if make := getattr(pyarrow, name, None):
            stored[name] = make(), [values[at % len(values)] for at in range(size)]
    return {
        name: pyarrow.ExtensionArray.from_storage(kind, pyarrow.array(values, kind.storage_type))
        for name, (kind, values) in stored.items()
    }


ROWS = texts(300)


def table() -> Any:
    """A table with a column of each type that this pyarrow can write."""
    size = len(ROWS)
    columns = {"id": pyarrow.array(range(size)), "text": pyarrow.array(ROWS)}
    made = {name: column(*of_kind, size) for name, of_kind in kinds().items()} | extended(size)
    for name, values in made.items():
        try:
            parquet.write_table(pyarrow.table({name: values}), "one.parquet", write_batch_size=1 << 20)
            parquet.read_table("one.parquet")
        except pyarrow.ArrowException:  # not by this version of pyarrow
            continue
        columns[name] = values
    return pyarrow.table(columns)


def test_all_types_are_tried(run: Run) -> None:
    assert run("--version").code == 0
    assert len(table().column_names) >= 50


@pytest.mark.parametrize("job", ["dedup", "decontaminate"])
@pytest.mark.parametrize("mode", ["remove", "annotate"])
def test_columns_of_all_types_stay_as_they_are(
    run: Run, job: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "bytes of a part of Parquet", 10_000)
    small_frames(monkeypatch, 40_000)
    parquet.write_table(table(), "a.parquet", write_batch_size=1 << 20)
    given = parquet.read_table("a.parquet")
    Path("items.jsonl").write_bytes(json_lines([{"id": 1, "text": ROWS[7]}]))
    against = ["--against", "items.jsonl"] if job == "decontaminate" else []
    done = run(job, "a.parquet", *against, "-o", "o.parquet", "--mode", mode)
    assert done.code == 0, done.err
    assert parquet.ParquetFile("o.parquet").num_row_groups > 1
    found = parquet.read_table("o.parquet")
    kept = set(found["id"].to_pylist())
    assert (0 < len(kept) < len(ROWS)) == (mode == "remove")
    for name in given.column_names:
        assert found.schema.field(name).equals(given.schema.field(name)), name
        values = given[name].to_pylist()
        assert found[name].to_pylist() == [values[at] for at in range(len(ROWS)) if at in kept], name
