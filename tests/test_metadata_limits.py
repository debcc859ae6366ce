"""Metadata at its limits: what is taken comes back through every call, one more of it is refused."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from support.faults import set_bound
from support.stored import packed

import simindex
from simindex import Config, Index, SimHashConfig

CONFIG = Config(num_perm=16, simhash=SimHashConfig(3, 4))
KEYS = ["inserted", "one of many", "replaced", "if new", "in a transaction"]
MOST_DEEP, LIMIT = 1_023, 5_000


def inside(wrap: Callable[[Any], Any], innermost: object) -> Callable[[int], Any]:
    """What makes a value so many arrays or maps deep."""
    return lambda depth: reduce(lambda value, _: wrap(value), range(depth), innermost)


LIMITS: list[tuple[Callable[[int], Any], int]] = [
    (inside(lambda value: [value], None), MOST_DEEP),
    (inside(lambda value: {"a": value}, b"\xff"), MOST_DEEP),
    (lambda size: bytes(size - 3), LIMIT),
    (lambda size: {"text": "x" * (size - 9)}, LIMIT),
    (lambda size: [[bytes(size - 5)]], LIMIT),
]


def text_of(key: str) -> str:
    return f"the text of the document {key} has words of its own"


def insert_everywhere(index: Index, metadata: Any) -> None:
    """Insert documents through every call that takes metadata."""
    index.insert(KEYS[0], text_of(KEYS[0]), metadata)
    index.insert_many([(KEYS[1], text_of(KEYS[1]), metadata), ("plain", "another text altogether")])
    index.replace(KEYS[2], text_of(KEYS[2]), metadata)
    assert index.insert_if_new(KEYS[3], text_of(KEYS[3]), 0.9, metadata) == []
    with index.transaction():
        index.insert(KEYS[4], text_of(KEYS[4]), metadata)
        assert packed(index[KEYS[4]].metadata) == packed(metadata)
        assert index.query(text_of(KEYS[4]), 0.9)[0].key == KEYS[4]
        assert len(list(index)) == len(index)


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest metadata, of a size that a test can afford."""
    set_bound(monkeypatch, "bytes of metadata", LIMIT)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize(("make", "most"), LIMITS)
def test_greatest_metadata_comes_back_through_every_call(
    tmp_path: Path, make: Callable[[int], Any], most: int
) -> None:
    metadata = make(most)
    assert most == MOST_DEEP or len(packed(metadata)) == LIMIT
    with simindex.open(tmp_path / "i", "x", CONFIG) as index:
        insert_everywhere(index, metadata)
    with simindex.open(tmp_path / "i") as index:
        assert set(index) == {*KEYS, "plain"}
        for key in KEYS:
            assert key in index
            assert packed(index[key].metadata) == packed(metadata)
            assert index.query(text_of(key), 0.9)[0].key == key
            assert index.query_key(key, 0.9) == []
            assert index.nearest(text_of(key), 1)[0].key == key
            assert index.query_simhash(text_of(key), 0)[0].key == key
        index.replace(KEYS[0], text_of(KEYS[0]), metadata)
        index.remove(KEYS[1])
        index.compact()
        assert len(list(index)) == len(index) == 5
        assert packed(index[KEYS[2]].metadata) == packed(metadata)
        assert index.expire(datetime.now(UTC) + timedelta(1)) == 5


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize(("make", "most"), LIMITS)
def test_one_more_is_refused_with_the_key_and_the_limit(
    tmp_path: Path, make: Callable[[int], Any], most: int
) -> None:
    metadata = make(most + 1)
    message = r"key 'bad key': metadata: expected .*(1,023 arrays and maps|at most 5,000 bytes)"
    with simindex.open(tmp_path / "i", "x", CONFIG) as index:
        for call in (
            lambda: index.insert("bad key", text_of("x"), metadata),
            lambda: index.replace("bad key", text_of("x"), metadata),
            lambda: index.insert_many([("good", text_of("y")), ("bad key", text_of("x"), metadata)]),
            lambda: index.insert_if_new("bad key", text_of("x"), metadata=metadata),
        ):
            with pytest.raises((TypeError, ValueError), match=message):
                call()
        with index.transaction():
            with pytest.raises((TypeError, ValueError), match=message):
                index.insert("bad key", text_of("x"), metadata)
            index.insert("good", text_of("y"))
        assert list(index) == ["good"]
