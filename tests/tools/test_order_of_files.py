"""The list of the longest files of tests names files that are there."""

from pathlib import Path

from conftest import LONGEST

TESTS = Path(__file__).parents[1]


def test_longest_files_are_there_and_named_once() -> None:
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)
