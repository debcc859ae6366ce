"""Inputs of which nothing stays are named: a whole source that is a copy of another is seen at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.commands import Run
from support.dedup_settings import dedup_arguments

from simindex import corpus


def write(path: Path, numbers: range) -> None:
    lines = [
        {"id": f"{path.stem}-{n}", "text": f"page {n} of words {n * 7} and {n * 13} of its own"}
        for n in numbers
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    """a; b, a copy of some of it; c, partly new; d, one row; e, without rows."""
    ranges = {"a": range(30), "b": range(5, 20), "c": range(25, 40), "d": range(1), "e": range(0)}
    for name, numbers in ranges.items():
        write(tmp_path / f"{name}.jsonl", numbers)
    return [str(tmp_path / f"{name}.jsonl") for name in ranges]


def test_command_names_the_inputs_of_which_nothing_stayed(
    tmp_path: Path, inputs: list[str], run: Run
) -> None:
    done = run("dedup", *inputs, "-o", tmp_path / "out.jsonl")
    assert f"nothing stayed of: {inputs[1]}\n" in done.err
    again = run("dedup", *inputs, "-o", tmp_path / "out.jsonl", "--json")  # done before: the journal knows
    assert json.loads(again.out)["emptied"] == [inputs[1]]


def test_command_names_ten_inputs_and_counts_the_others(tmp_path: Path, inputs: list[str], run: Run) -> None:
    copies = [tmp_path / f"copy{n:02}.jsonl" for n in range(13)]
    for copy in copies:
        write(copy, range(3))
    done = run("dedup", inputs[0], *copies, "-o", tmp_path / "out.jsonl")
    assert f"{copies[9]} and 3 more\n" in done.err
    assert str(copies[10]) not in done.err


@pytest.mark.parametrize("options", [{}, {"level": "paragraph"}, {"keep": "longest"}, {"workers": 2}])
def test_report_names_them(tmp_path: Path, inputs: list[str], options: dict[str, Any]) -> None:
    report = corpus.deduplicate(inputs, tmp_path / "out.jsonl", **dedup_arguments(**options))
    assert report.emptied == (inputs[1],)


def test_rows_that_an_index_has_count_once(tmp_path: Path, inputs: list[str]) -> None:
    corpus.deduplicate(inputs[:1], tmp_path / "first.jsonl", into=tmp_path / "seen")
    report = corpus.deduplicate(inputs, tmp_path / "out.jsonl", against=tmp_path / "seen")
    assert report.emptied == (inputs[0], inputs[1])


def test_iterable_of_which_all_is_known(tmp_path: Path) -> None:
    rows = [("a", "the same text for both of these"), ("b", "the same text for both of these")]
    assert corpus.deduplicate(rows, tmp_path / "out.jsonl", into=tmp_path / "seen").emptied == ()
    assert len(corpus.deduplicate(rows, tmp_path / "again.jsonl", against=tmp_path / "seen").emptied) == 1
