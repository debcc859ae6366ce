"""The order in which `tools/test` has the files of tests."""

from pathlib import Path

from conftest import LONGEST, pytest_collection_modifyitems

TESTS = Path(__file__).parents[1]


def test_files_that_come_first_are_there_and_named_once() -> None:
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_longest_files_come_first_and_others_stay_in_order() -> None:
    class Item:
        def __init__(self, name: str) -> None:
            self.path = TESTS / name

    items = [Item(name) for name in ("b.py", LONGEST[1], "a.py", LONGEST[0], "b.py")]
    pytest_collection_modifyitems(items)  # type: ignore[arg-type] # all that is asked of an item
    assert [item.path for item in items] == [
        TESTS / name for name in (LONGEST[0], LONGEST[1], "b.py", "a.py", "b.py")
    ]
