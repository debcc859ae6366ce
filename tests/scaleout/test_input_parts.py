"""How the input of a job is cut into parts."""

import json
import os
from pathlib import Path

import pytest

from simindex.inputs import Fields, Inputs
from simindex.scaleout.cluster import Tasks
from simindex.scaleout.input_parts import parts_of, size_for


def write_rows(path: Path, first: int, count: int) -> Path:
    rows = (
        {"id": n, "text": f"a text of number {n} beside {n // 3} others"} for n in range(first, first + count)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_lines(path: Path) -> Inputs:
    """Rows without ids, of many lengths, with empty lines and a row that is none: keys are path and line."""
    texts = [f"a text of number {n} " + "and so on " * (n % 7) for n in range(60)]
    lines = [json.dumps({"text": text}) + "\n" * (1 + n % 5 // 4) for n, text in enumerate(texts)]
    lines[40] = "[7]\n"
    path.write_text("".join(lines).removesuffix("\n"))
    return Inputs([str(path)], Fields(key_from="line"))


@pytest.mark.parametrize("size", [1, 150, 1_000])
def test_a_large_file_in_parts_has_the_rows_of_one_reading(size: int, tmp_path: Path) -> None:
    inputs = write_lines(tmp_path / "large.jsonl")
    small = str(write_rows(tmp_path / "small.jsonl", 0, 1))
    both = Inputs([*inputs.paths, small, *inputs.paths], Fields(key_from="line"))
    parts, _ = parts_of(both, size, Tasks())
    assert len(parts) > 8
    in_parts: list[str] = []
    both.on_bad_row = lambda error: in_parts.append(str(error))
    for part in parts:
        for some in both.columns_of(*part):
            in_parts += map(str, some.keys)
    at_once: list[str] = []
    both.on_bad_row = lambda error: at_once.append(str(error))
    at_once += [str(row.key) for row in both]
    assert sum("expected a JSON object" in line for line in in_parts) == 2
    assert sorted(in_parts) == sorted(at_once)


def test_parts_are_small_enough_for_all_who_work(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    os.truncate(path, 64 << 20)
    inputs = Inputs([str(path)])
    assert size_for(inputs, 64 << 20, 1) == 16 << 20
    assert size_for(inputs, 64 << 20, 2) == 8 << 20
    assert size_for(inputs, 64 << 20, 100) == 4 << 20
    assert size_for(inputs, 1_000, 2) == 1_000
