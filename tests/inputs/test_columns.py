"""Rows some at a time are the rows one by one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex.inputs import BadRowError, Fields, InputError, Inputs, Limits

FIELDS = [Fields(key_from="line"), Fields(), Fields(key_from="content", metadata=True)]

LINES = st.one_of(
    st.fixed_dictionaries({"id": st.text(max_size=3) | st.integers(0, 9), "text": st.text(max_size=9)}).map(
        json.dumps
    ),
    st.sampled_from(
        ["", "  ", "[]", "{", '{"text": "a"}', '{"id": 1}', '{"id": 1.5, "text": "b"}', "\ufeff{}"]
    ),
    st.integers(20, 60).map(lambda size: json.dumps({"id": size, "text": "x" * (size << 15)})),
    st.just('{"id": 3, "text": "c"}\r'),
)


def _one_by_one(inputs: Inputs) -> list[Any]:
    found: list[Any] = []
    for row in inputs:
        if isinstance(row, BadRowError):
            found.append(str(row))
        else:
            newest = inputs.newest
            found.append((newest.name, newest.number, row.key, row.document, newest.content))
    return found


def _by_columns(inputs: Inputs) -> list[Any]:
    found: list[Any] = []
    for some in inputs.columns():
        found += zip(some.names, some.numbers, some.keys, some.documents, some.contents, strict=True)
        found += [] if some.error is None else [str(some.error)]
    return found


@settings(max_examples=30, deadline=None)
@given(lines=st.lists(LINES, max_size=20), closed=st.booleans(), place=st.integers(0, 2), small=st.booleans())
def test_columns_hold_the_rows_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], closed: bool, place: int, small: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "columns.jsonl"
    path.write_text("\n".join(lines) + "\n" * closed)
    limits = Limits(row=40) if small else Limits()
    inputs = Inputs([str(path), str(path)], FIELDS[place], limits=limits)
    assert _by_columns(inputs) == _one_by_one(inputs)


def test_line_that_is_long_and_longer_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    long = json.dumps({"id": 2, "text": "y" * (6 << 20)})
    path.write_text(f'{{"id": 1, "text": "a"}}\n{long}\n{{"id": 3, "text": "b"}}\n{long}')
    for limits in (Limits(), Limits(row=3 << 20)):
        inputs = Inputs([str(path)], limits=limits)
        found = _by_columns(inputs)
        assert found == _one_by_one(inputs)
        assert [type(row) is str for row in found] == [False, limits.row < 6 << 20] * 2


def test_torn_file_gives_the_rows_before_the_tear_and_their_number(tmp_path: Path) -> None:
    lines = [json.dumps({"id": number, "text": f"{number} " * 300}) for number in range(2_000)]
    packed = gzip.compress("\n".join(lines).encode(), mtime=0)
    (tmp_path / "torn.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    found: list[list[Any]] = [[], []]
    inputs = Inputs([str(tmp_path / "torn.jsonl.gz")])
    with pytest.raises(InputError, match=r"cannot be read beyond line [\d,]+") as one_by_one:
        found[0] += inputs
    with pytest.raises(InputError) as by_columns:
        found[1] += (row for some in inputs.columns() for row in zip(some.keys, some.documents, strict=True))
    assert str(by_columns.value) == str(one_by_one.value)
    assert [row[:2] for row in found[0]] == found[1]
    assert 0 < len(found[1]) < 2_000


def test_other_formats_come_as_columns_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,a\n2,b\n3\n4,d\n")
    for name in ("b.txt", "c.txt"):
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / name).write_text(name)
    inputs = Inputs([str(tmp_path / "a.csv"), str(tmp_path / "texts")])
    assert _by_columns(inputs) == _one_by_one(inputs)
    assert len(_by_columns(inputs)) == 6
