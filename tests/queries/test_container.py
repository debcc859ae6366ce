"""An index as a container: what a dict has, and what a dict would say."""

from pathlib import Path
from typing import Any

import pytest
from support.indexes import CAR, FOX

import simindex
from simindex import ClosedError, Index, ReadOnlyError, Record


def test_get_returns_the_record_or_the_default(index: Index) -> None:
    found = index.get("fox")
    assert found is not None
    assert found == index["fox"]
    assert found.metadata == {"page": 1}
    assert index.get("absent") is None
    assert index.get("absent", 7) == 7
    for key in (None, 1.5, [], object(), True, 2**70):
        assert index.get(key, "default") == "default"


def test_pop_removes_and_returns_the_record(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many([("fox", FOX, {"page": 1}), ("car", CAR)])
        expected = index["fox"]
        assert index.pop("fox") == expected
        assert "fox" not in index
        assert index.query(FOX) == []
        for absent in ("fox", b"car"):
            with pytest.raises(KeyError, match=repr(absent)):
                index.pop(absent)
        assert index.pop("fox", None) is None
        assert index.pop("fox", "default") == "default"
        assert list(index) == ["car"]
    with simindex.open(tmp_path / "i", "r") as reader:
        assert list(reader) == ["car"]
        with pytest.raises(ReadOnlyError):
            reader.pop("car")


def test_pop_of_no_key_is_an_error_though_there_is_a_default(index: Index) -> None:
    with pytest.raises(TypeError, match="key: expected str, bytes or int, found float"):
        index.pop(1.5, None)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="at most one default, found 2"):
        index.pop("fox", 1, 2)  # type: ignore[call-overload]


def test_pop_takes_part_in_a_transaction(index: Index) -> None:
    def broken_off() -> None:
        with index.transaction():
            index.insert("new", "some words that are new here", 5)
            assert index.pop("new").metadata == 5
            assert index.pop("fox").metadata == {"page": 1}
            assert index.pop("fox", None) is None
            assert list(index) == ["car"]
            raise RuntimeError("broken off")

    with pytest.raises(RuntimeError, match="broken off"):
        broken_off()
    assert list(index.keys()) == ["fox", "car"]


def test_del_removes_or_raises_key_error(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert("fox", FOX)
        del index["fox"]
        assert len(index) == 0
        with pytest.raises(KeyError):
            del index["fox"]


def test_views_are_those_of_a_dict(index: Index) -> None:
    expected = {key: index[key] for key in index}
    assert list(index.keys()) == list(expected)
    assert list(index.values()) == list(expected.values())
    assert list(index.items()) == list(expected.items())
    assert dict(index.items()) == expected
    for view in (index.keys(), index.values(), index.items()):
        assert len(view) == 2
        assert list(view) == list(view)
    assert index.keys() & {"fox", "hen"} == {"fox"}
    assert "fox" in index.keys()  # noqa: SIM118 - it is the view that is asked
    fox: Any = index["fox"]
    assert fox in index.values()
    assert ("fox", fox) in index.items()
    strangers: list[Any] = [None, "fox", 1.5]
    for stranger in strangers:
        assert stranger not in index.values()
        assert stranger not in index.items()
        assert ("car", fox) not in index.items()
        assert (stranger, stranger) not in index.items()


def test_views_show_what_is_stored_when_they_are_used(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        keys, values, items = index.keys(), index.values(), index.items()
        assert [*keys, *values, *items] == []
        index.insert("fox", FOX)
        with index.transaction():
            index.insert("car", CAR)
            assert [key for key, _ in items] == ["fox", "car"]
        assert [record.key for record in values] == ["fox", "car"]
        assert len(keys) == 2
    with pytest.raises(ClosedError):
        next(iter(values))


def test_views_stream_more_than_one_part(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many((number, [number], number) for number in range(2_500))
        walked = iter(index.values())
        first = next(walked)
        assert isinstance(first, Record)
        assert [first.metadata, *(record.metadata for record in walked)] == list(range(2_500))
        for number in range(0, 2_500, 2):
            assert index.pop(number).metadata == number
            if number == 20:
                break
        assert sum(1 for _ in index.items()) == len(index) == 2_489


@pytest.mark.parametrize("in_transaction", [False, True])
def test_iteration_ends_though_each_step_removes_a_document_and_stores_another(
    tmp_path: Path, in_transaction: bool
) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many([(number, FOX) for number in range(2_500)])
        seen = list[Any]()

        def renew() -> None:
            for key in index:
                seen.append(key)
                if isinstance(key, int) and key % 100 == 0:
                    index.remove(key)
                    index.insert(10_000 + key, CAR)

        if in_transaction:
            with index.transaction():
                index.insert(2_500, CAR)
                renew()
        else:
            renew()
        assert seen == list(range(2_500 + in_transaction))
        assert len(index) == 2_500 + in_transaction
        assert set(range(10_000, 12_500, 100)) < set(index)
