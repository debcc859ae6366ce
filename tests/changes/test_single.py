"""The short way of a single insert stores what the long one does, and takes no document that it cannot."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.faults import broken_off
from support.indexes import problems_of
from support.stored import held, stored_values
from support.texts import TINY_LAYOUT

import simindex
from simindex import Config, ConfigMismatchError, Index, KeyExistsError, Layout, Sketch
from simindex.changes.writer import Writer

CONFIGS = [
    Config(num_perm=64),
    Config(num_perm=8),
    Config(num_perm=64, simhash=None),
    Config(num_perm=64, keep_shingles=4),
    Config(num_perm=0),
]


@contextmanager
def only_the_long_way() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "prepare_one", lambda *_: None)
        yield


@pytest.fixture
def long_ways(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each change that went the long way."""
    return broken_off(monkeypatch, "prepare")


def some_text(rng: random.Random) -> Any:
    """A new text, one of a few that come again, no words at all, ready shingles, or rows of others."""
    kind = rng.randrange(10)
    if kind == 9:
        return Sketch.from_rows([rng.randrange(256) for _ in range(64)], rng.choice([None, 5]))
    if kind == 0:
        return f"a page that comes again and again, number {rng.randrange(3)}"
    if kind == 1:
        return rng.choice(["", "?!", "word"])
    words = [f"w{rng.randrange(10_000)}" for _ in range(rng.randrange(1, 30))]
    return words if kind == 2 else " ".join(words)


def some_change(index: Index, rng: random.Random) -> object:
    """Make a change; returns what comes of it."""
    key: Any = rng.choice([f"key {rng.randrange(60)}", rng.randrange(20), "k" * 300, b"bytes"])
    metadata = rng.choice([None, {"n": 1}, "text"])
    kind = rng.randrange(12)
    if kind == 0:
        return index.remove_many([key])
    if kind == 1:
        return index.touch(key)
    how: Any = rng.choice(["error", "error", "skip", "replace"])
    try:
        index.insert(key, some_text(rng), metadata, on_conflict=how)
    except (KeyExistsError, ConfigMismatchError, ValueError) as exc:
        return type(exc), str(exc)
    return None


def index_of_changes(
    path: Path, config: Config, layout: Layout, count: int
) -> tuple[list[object], list[Any]]:
    """Make the same changes at the same times as ever; returns what came of them, and all stored values."""
    clock, rng, results = [1_700_000_000_000_000_000], random.Random(23), list[object]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: clock[0])
        with simindex.open(path, "x", config, layout=layout) as index:
            for _ in range(count):
                clock[0] += 1_000_000
                results.append(some_change(index, rng))
            assert not problems_of(index.path)
    values = [value for value in stored_values(path) if value[:2] != ("meta", b"config")]
    return results, values


@pytest.mark.parametrize(
    ("config", "layout"),
    [
        (CONFIGS[0], TINY_LAYOUT),
        (CONFIGS[0], Layout(3, 64, 100)),
        *((config, Layout(tier_factor=3)) for config in CONFIGS),
    ],
)
def test_stored_values_are_those_of_the_long_way(tmp_path: Path, config: Config, layout: Layout) -> None:
    """With keys that are stored, copies, documents without words, removals, ages and merges in between."""
    short = index_of_changes(tmp_path / "short", config, layout, 50)
    with only_the_long_way():
        assert index_of_changes(tmp_path / "long", config, layout, 50) == short
    assert any(isinstance(result, tuple) for result in short[0])


def test_a_run_of_ages_that_is_long_enough_is_stored_by_a_single_insert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simindex.format.ages.RUN_DOCUMENTS", 5)
    short = index_of_changes(tmp_path / "short", CONFIGS[0], Layout(), 30)
    with only_the_long_way():
        assert index_of_changes(tmp_path / "long", CONFIGS[0], Layout(), 30) == short
    assert any(database == "ages" for database, _, _ in short[1])


def test_a_new_text_goes_the_short_way(tmp_path: Path, long_ways: list[None]) -> None:
    with simindex.open(tmp_path / "i", "x", CONFIGS[0]) as index:
        for number in range(20):
            index.insert(f"key {number}", f"some text of {number} and more", {"n": number})
        index.replace("key 20", ["ready", "shingles"])
        assert not long_ways
        assert len(index) == 21
        assert index.query("some text of 7 and more")[0].key == "key 7"
        assert not problems_of(index.path)


LONG: dict[str, Callable[[Index], object]] = {
    "a key that is replaced": lambda index: index.replace("a", "other words than those"),
    "a copy": lambda index: index.insert("b", "some words of a text"),
    "no words": lambda index: index.insert("b", ""),
    "half of a sketch": lambda index: index.insert("b", Sketch.from_fingerprint(5)),
}


@pytest.mark.parametrize("change", LONG.values(), ids=LONG)
def test_other_documents_go_the_long_way(
    tmp_path: Path, long_ways: list[None], change: Callable[[Index], object]
) -> None:
    with simindex.open(tmp_path / "i", "x", CONFIGS[0]) as index:
        index.insert("a", "some words of a text")
        change(index)
        assert len(long_ways) == 1
        assert not problems_of(index.path)


def test_a_document_that_is_skipped_is_no_commit(tmp_path: Path, long_ways: list[None]) -> None:
    with simindex.open(tmp_path / "i", "x", CONFIGS[0]) as index:
        index.insert("a", "some words of a text")
        before = held(index._store, "meta")
        index.insert("a", "other words than those", on_conflict="skip")
        assert held(index._store, "meta") == before
        assert not long_ways


def test_a_document_inside_a_transaction_waits_for_its_end(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", CONFIGS[0]) as index:
        with index.transaction():
            index.insert("a", "some words of a text")
            assert "a" in index
            assert not held(index._store, "documents")
        assert len(index) == 1


@pytest.mark.parametrize(
    ("key", "document", "metadata"),
    [("a", 5, None), (2.5, "text", None), ("a", "text", object()), ("a" * 70_000, "text", None)],
)
def test_what_cannot_be_stored_is_refused_as_in_a_batch(
    tmp_path: Path, key: Any, document: Any, metadata: object
) -> None:
    with simindex.open(tmp_path / "i", "x", CONFIGS[0]) as index:
        with pytest.raises((TypeError, ValueError)) as many:
            index.insert_many([(key, document, metadata)])
        with pytest.raises(many.type) as one:
            index.insert(key, document, metadata)
        assert str(one.value) == str(many.value)
        assert len(index) == 0
