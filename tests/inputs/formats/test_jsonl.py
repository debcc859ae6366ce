"""JSON lines: any object, hostile lines, and a property: what is written is read."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import FOX, good

from simindex.inputs import BadRowError, Fields, Inputs, Row

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
KEYS = st.integers(-(2**63), 2**63 - 1) | TEXTS.filter(lambda text: len(text) < 100)


def read(path: Path, content: bytes, fields: Fields | None = None) -> list[Row | BadRowError]:
    path.write_bytes(content)
    return list(Inputs([str(path)], fields or Fields()))


@given(st.lists(st.tuples(KEYS, TEXTS)), st.booleans())
def test_jsonl_gives_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    pairs: list[tuple[int | str, str]],
    escaped: bool,
) -> None:
    lines = [json.dumps({"id": key, "text": text}, ensure_ascii=escaped) for key, text in pairs]
    path = tmp_path_factory.mktemp("jsonl") / "a.jsonl"
    rows = read(path, "\n".join(lines).encode())
    assert rows == [Row(key, text, None) for key, text in pairs]


def test_jsonl_passes_over_a_byte_order_mark_and_empty_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = json.dumps({"text": FOX}).encode()
    rows = read(path, b"\xef\xbb\xbf" + line + b"\r\n \n\n" + line, Fields(key_from="line"))
    assert [row.key for row in good(rows)] == [f"{path}:1", f"{path}:4"]
    assert read(path, b"") == read(path, b"\xef\xbb\xbf\n") == []
