"""Rows some at a time are the rows of each line by itself."""

from __future__ import annotations

import codecs
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simindex.inputs import BadRowError, Fields, InputError, Inputs, Limits, Row

FIELDS = [
    Fields(key_from="line"),
    Fields(),
    Fields(key_from="content", metadata=True),
    Fields(metadata=True),
    Fields(metadata_from="more"),
]

LINES = st.one_of(
    st.fixed_dictionaries({"id": st.text(max_size=3) | st.integers(0, 9), "text": st.text(max_size=9)}).map(
        json.dumps
    ),
    st.fixed_dictionaries(
        {
            "id": st.just("m"),
            "text": st.just("d"),
            "more": st.sampled_from([1, None, "x", {"y": 1}, [1, [2]]]),
        }
    ).map(json.dumps),
    st.sampled_from(
        ["", "  ", "[]", "{", '{"text": "a"}', '{"id": 1}', '{"id": 1.5, "text": "b"}', "\ufeff{}"]
    ),
    st.integers(20, 60).map(lambda size: json.dumps({"id": size, "text": "x" * (size << 15)})),
    st.just('{"id": 3, "text": "c"}\r'),
)


def _one_by_one(path: Path, fields: Fields, limits: Limits) -> list[Any]:
    """Return the rows of each line of a file, read from a file in which it stands alone."""
    found: list[Any] = []
    alone = path.with_name("alone.jsonl")
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        alone.write_bytes(b"\n" * (number - 1) + line)
        for row in Inputs([str(alone)], fields, limits=limits):
            if isinstance(row, BadRowError):
                found.append(str(row).replace(str(alone), str(path)))
            else:
                key = row.key.replace(str(alone), str(path)) if isinstance(row.key, str) else row.key
                content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                found.append((str(path), number, key, row.document, content, row.metadata))
    return found


def _by_columns(inputs: Inputs) -> list[Any]:
    found: list[Any] = []
    for some in inputs.columns():
        metadata = some.metadata or [None] * len(some.keys)
        found += zip(*some[:5], metadata, strict=True)
        assert list(some.rows()) == list(map(Row, some.keys, some.documents, metadata))
        found += [] if some.error is None else [str(some.error)]
    return found


@settings(max_examples=30, deadline=None)
@given(lines=st.lists(LINES, max_size=20), closed=st.booleans(), place=st.integers(0, 4), small=st.booleans())
def test_columns_hold_the_rows_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], closed: bool, place: int, small: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "columns.jsonl"
    path.write_text("\n".join(lines) + "\n" * closed)
    limits = Limits(row=40) if small else Limits()
    inputs = Inputs([str(path), str(path)], FIELDS[place], limits=limits)
    assert _by_columns(inputs) == 2 * _one_by_one(path, FIELDS[place], limits)


def test_line_that_is_long_and_longer_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    long = json.dumps({"id": 2, "text": "y" * (6 << 20)})
    path.write_text(f'{{"id": 1, "text": "a"}}\n{long}\n{{"id": 3, "text": "b"}}\n{long}')
    for limits in (Limits(), Limits(row=3 << 20)):
        inputs = Inputs([str(path)], limits=limits)
        found = _by_columns(inputs)
        assert found == _one_by_one(path, Fields(), limits)
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
    csv, found = str(tmp_path / "a.csv"), _by_columns(inputs)
    assert [row[1:4] for row in found[:2] + found[3:4]] == [(2, "1", "a"), (3, "2", "b"), (5, "4", "d")]
    assert found[2] == f"{csv}:4: expected 2 columns, found 1"
    texts = [str(tmp_path / "texts" / name) for name in ("b.txt", "c.txt")]
    assert found[4:] == [(path, 0, path, path[-5:], None, None) for path in texts]
