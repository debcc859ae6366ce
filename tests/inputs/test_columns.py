"""Rows some at a time are the rows of each line by itself."""

from __future__ import annotations

import codecs
import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import rows_and_bad

from simindex.inputs import BadRowError, Fields, InputError, Inputs, Limits, Row

FIELDS = [
    Fields(key_from="line"),
    Fields(),
    Fields(key_from="content", metadata=True),
    Fields(metadata=True),
    Fields(metadata_from="more"),
]

ENCODABLE = st.characters(exclude_categories=["Cs"])
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
        for row in rows_and_bad([str(alone)], fields, limits=limits):
            if isinstance(row, BadRowError):
                found.append(str(row).replace(str(alone), str(path)))
            else:
                key = row.key.replace(str(alone), str(path)) if isinstance(row.key, str) else row.key
                content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                found.append((str(path), number, key, row.document, content, row.metadata))
    return found


def _by_columns(paths: list[str], *arguments: Any, **options: Any) -> list[Any]:
    found: list[Any] = []
    inputs = Inputs(paths, *arguments, **options, on_bad_row=lambda bad: found.append(str(bad)))
    with suppress(InputError):  # of inputs without a row
        for some in inputs.columns():
            metadata = some.metadata or [None] * len(some.keys)
            found += zip(*some[:5], metadata, strict=True)
            assert list(some.rows()) == list(map(Row, some.keys, some.documents, metadata))
    assert inputs.tally.bad == sum(isinstance(row, str) for row in found)
    return found


@settings(max_examples=30, deadline=None)
@given(
    lines=st.lists(LINES, max_size=20),
    closed=st.booleans(),
    fields=st.sampled_from(FIELDS),
    limits=st.sampled_from([Limits(), Limits(row=40), Limits(row=1_100_000)]),
)
def test_columns_hold_the_rows_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], closed: bool, fields: Fields, limits: Limits
) -> None:
    path = tmp_path_factory.getbasetemp() / "columns.jsonl"
    path.write_text("\n".join(lines) + "\n" * closed)
    assert _by_columns([str(path)] * 2, fields, limits=limits) == 2 * _one_by_one(path, fields, limits)


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1) | st.text(ENCODABLE, max_size=99), st.text(ENCODABLE))
    ),
    st.booleans(),
)
def test_json_lines_give_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[int | str, str]], escaped: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "written.jsonl"
    lines = [json.dumps({"id": key, "text": text}, ensure_ascii=escaped) for key, text in pairs]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert list(Inputs([str(path)])) == [Row(key, text, None) for key, text in pairs]


def test_torn_file_gives_the_rows_before_the_tear_and_their_number(tmp_path: Path) -> None:
    lines = [json.dumps({"id": number, "text": f"{number} " * 300}) for number in range(2_000)]
    packed = gzip.compress("\n".join(lines).encode(), mtime=0)
    for content, least in ((packed[: len(packed) // 2], 1), (b"no gzip", 0)):
        (tmp_path / "torn.jsonl.gz").write_bytes(content)
        found: list[Row] = []
        with pytest.raises(InputError) as failure:
            found += Inputs([str(tmp_path / "torn.jsonl.gz")])
        assert [row.key for row in found] == list(range(len(found)))
        assert least <= len(found) < 2_000
        beyond = f" beyond line {len(found):,}" if found else ""
        assert failure.value.place == str(tmp_path / "torn.jsonl.gz")
        assert failure.value.reason.startswith(f"cannot be read{beyond}: ")


def test_other_formats_come_as_columns_too(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,a\n2,b\n3\n4,d\n")
    for name in ("b.txt", "c.txt"):
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / name).write_text(name)
    csv, found = str(tmp_path / "a.csv"), _by_columns([str(tmp_path / "a.csv"), str(tmp_path / "texts")])
    assert [row[1:4] for row in found[:2] + found[3:4]] == [(2, "1", "a"), (3, "2", "b"), (5, "4", "d")]
    assert found[2] == f"{csv}:4: expected 2 columns, found 1"
    texts = [str(tmp_path / "texts" / name) for name in ("b.txt", "c.txt")]
    assert found[4:] == [(path, 0, path, path[-5:], None, None) for path in texts]
