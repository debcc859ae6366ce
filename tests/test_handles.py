"""A handle that is closed, or that only reads, is refused by every method that it cannot serve."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import pytest
from support.indexes import FOX

import simindex
from simindex import ClosedError, Config, Index, ReadOnlyError

CLOSED_CALLS: dict[str, Callable[[Index], object]] = {
    "insert": lambda index: index.insert("a", FOX),
    "insert_many": lambda index: index.insert_many([("a", FOX)]),
    "insert_many of nothing": lambda index: index.insert_many([]),
    "replace": lambda index: index.replace("a", FOX),
    "remove": lambda index: index.remove("fox"),
    "remove_many": lambda index: index.remove_many(["fox"]),
    "touch": lambda index: index.touch("fox"),
    "expire": lambda index: index.expire(datetime(2000, 1, 1, tzinfo=UTC)),
    "compact": lambda index: index.compact(),
    "check": lambda index: index.check(),
    "query": lambda index: index.query(FOX),
    "query_many": lambda index: index.query_many([FOX]),
    "query_many of nothing": lambda index: index.query_many([]),
    "query_key": lambda index: index.query_key("fox"),
    "nearest": lambda index: index.nearest(FOX),
    "query_simhash": lambda index: index.query_simhash(FOX),
    "query_simhash_many": lambda index: index.query_simhash_many([FOX]),
    "query_containment": lambda index: index.query_containment(FOX),
    "query_containment_many": lambda index: index.query_containment_many([FOX]),
    "passages": lambda index: index.passages(FOX),
    "document_frequency": lambda index: index.document_frequency([FOX]),
    "common_passages": lambda index: index.common_passages(FOX),
    "insert_if_new": lambda index: index.insert_if_new("a", FOX),
    "insert_many_if_new": lambda index: index.insert_many_if_new([("a", FOX)]),
    "transaction": lambda index: index.transaction().__enter__(),
    "get": lambda index: index.get("fox"),
    "pop": lambda index: index.pop("fox", None),
    "keys": lambda index: list(index.keys()),
    "values": lambda index: list(index.values()),
    "items": lambda index: list(index.items()),
    "export_fingerprints": lambda index: list(index.export_fingerprints()),
    "pairs": lambda index: list(index.pairs()),
    "clusters": lambda index: list(index.clusters()),
    "cluster_of": lambda index: index.cluster_of("fox"),
    "backup": lambda index: index.backup(index.path + " copy"),
    "in": lambda index: "fox" in index,
    "len": len,
    "iter": lambda index: list(index),
    "item": lambda index: index["fox"],
    "stats": lambda index: index.stats(),
    "refresh": lambda index: index.refresh(),
    "with": lambda index: index.__enter__(),
}


def test_closed_calls_are_all_public_methods() -> None:
    methods = {name for name in dir(simindex.Index) if not name.startswith("_")} - {"close", "path", "config"}
    assert methods == {name for name in CLOSED_CALLS if hasattr(simindex.Index, name)}


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize("call", CLOSED_CALLS)
def test_closed_handle_is_refused_by_every_method(tmp_path: Path, mode: Literal["r", "a"], call: str) -> None:
    config = Config(containment=8)
    with simindex.open(tmp_path / "i", config=config) as index:
        index.insert("fox", FOX)
    index = simindex.open(tmp_path / "i", mode)
    index.close()
    index.close()
    with pytest.raises(ClosedError, match="the index is closed; open it again"):
        CLOSED_CALLS[call](index)
    assert repr(index) == f"Index({str(tmp_path / 'i')!r}, closed)"
    assert index.path == str(tmp_path / "i")
    assert index.config == config


def test_iterator_of_a_handle_closed_meanwhile_is_refused(tmp_path: Path) -> None:
    index = simindex.open(tmp_path / "i")
    index.insert_many((number, str(number)) for number in range(3_000))
    keys = iter(index)
    assert next(keys) == 0
    index.close()
    with pytest.raises(ClosedError):
        list(keys)


CHANGES = [*list(CLOSED_CALLS)[:9], "transaction"]


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("call", CHANGES)
def test_change_through_a_reader_is_refused(tmp_path: Path, call: str) -> None:
    with simindex.open(tmp_path / "i", "r") as reader:
        message = 'opened with mode "r"; open it with mode "a" to change it'
        with pytest.raises(ReadOnlyError, match=message) as caught:
            CLOSED_CALLS[call](reader)
        assert isinstance(caught.value, TypeError)
        assert list(reader) == ["fox", "car"]


@pytest.mark.usefixtures("index")
def test_insert_if_new_through_a_reader_is_refused_whether_it_is_new_or_not(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "r") as reader:
        for text in (FOX, "entirely different words again"):
            with pytest.raises(ReadOnlyError):
                reader.insert_if_new("new", text)
