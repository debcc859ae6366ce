"""Which files of tests a run has, and in which order."""

from pathlib import Path
from typing import Any
from unittest import mock

from conftest import LONGEST, pytest_collection_modifyitems, pytest_ignore_collect

TESTS = Path(__file__).parents[1]


def test_files_that_come_first_are_there_and_named_once() -> None:
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_longest_files_come_first_and_others_stay_in_order() -> None:
    class Item:
        def __init__(self, name: str, *, is_long: bool = False) -> None:
            self.path = TESTS / name
            self.is_long = is_long

        def get_closest_marker(self, _: str) -> bool:
            return self.is_long

    items = [Item(name) for name in ("b.py", LONGEST[1], "a.py", LONGEST[0], "b.py")]
    long = Item("a.py", is_long=True)
    for runs_all in (False, True):
        config = mock.Mock()
        config.getoption.return_value = runs_all
        collected: list[Any] = [*items, long]
        pytest_collection_modifyitems(config, collected)
        assert (long in collected) == runs_all
    items = [item for item in collected if item is not long]
    assert [item.path for item in items] == [
        TESTS / name for name in (LONGEST[0], LONGEST[1], "b.py", "a.py", "b.py")
    ]


def test_longest_files_are_left_out_where_no_path_is_given() -> None:
    config = mock.Mock()
    for is_short in (False, True):
        config.option.is_short = is_short
        assert pytest_ignore_collect(TESTS / LONGEST[0], config) is (True if is_short else None)
        assert pytest_ignore_collect(TESTS / "test_index.py", config) is None
