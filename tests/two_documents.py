"""An index of two documents, which holds them still when the test is over, and takes more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import simindex
from simindex import Index

FOX = "The quick brown fox jumps over the lazy dog near the old river bank"
CAR = "A red car drives slowly through the narrow streets of the sleeping town"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with simindex.open(tmp_path / "i") as index:
        index.insert("fox", FOX, {"page": 1})
        index.insert("car", CAR)
        yield index
        assert_holds_its_two_documents_and_takes_more(index)


def assert_holds_its_two_documents_and_takes_more(index: Index) -> None:
    assert list(index) == ["fox", "car"]
    assert [match.key for match in index.query(FOX)] == ["fox"]
    assert index["fox"].metadata == {"page": 1}
    index.insert("new", "some other words that nobody has stored before")
    assert [match.key for match in index.query("some other words that nobody has stored before")] == ["new"]
    index.remove("new")
    assert len(index) == 2
