"""The records of answers are asked for together: those of the matches that become answers, and no others."""

from pathlib import Path
from typing import Any

import pytest

import simindex
from simindex.queries.view import View

TEXT = "the same words again and again, and then a few that differ: "


@pytest.mark.parametrize("limit", [None, 1, 2, 9])
def test_records_of_answers_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(View, "expect_records", lambda _, numbers: asked.append(numbers.tolist()))
    with simindex.open(tmp_path / "i") as index:
        index.insert_many((n, TEXT + " ".join(map(str, range(n)))) for n in range(3))
        found = index.query_many([TEXT, "quite another text", TEXT + "0"], threshold=0.1, limit=limit)
    keys = [[match.key for match in matches] for matches in found]
    assert list(map(len, keys)) == [min(limit or 3, 3), 0, min(limit or 3, 3)]
    (numbers,) = asked
    assert numbers == keys[0] + keys[2]  # the first commit's documents have the numbers from 0 on
