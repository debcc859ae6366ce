"""Texts and rows that others made do not mix: neither in an index nor in a question."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.indexes import CAR, FOX

import simindex
from simindex import Config, ConfigMismatchError, Index, Sketch, Sketcher

CONFIG = Config(num_perm=64)
OTHER = Config(num_perm=64, seed=2)
THEIRS = Sketch.from_rows(np.arange(64) * 7, 5)
OURS = Sketcher(CONFIG).sketch(FOX)
BARE = Sketch.from_fingerprint(5)
OWN: list[Any] = [FOX, {"fox", "dog"}, {"fox": 2.0}, OURS, Sketch.from_rows(np.arange(64), config=CONFIG)]


@pytest.fixture(params=["texts", "rows"])
def held(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Index, list[Any], list[Any]]:
    """An index of the one kind, documents of its kind, and of the other."""
    index = simindex.open(tmp_path / "i", config=CONFIG)
    if request.param == "texts":
        index.insert("own", FOX)
        return index, OWN, [THEIRS, Sketch.from_rows(range(64), 9)]
    index.insert("own", THEIRS)
    return index, [THEIRS, Sketch.from_rows(range(64), 7)], OWN


def inserts(index: Index, document: Any) -> list[Callable[[], object]]:
    return [
        lambda: index.insert("new", document),
        lambda: index.replace("own", document),
        lambda: index.insert_many([("new", document), ("newer", document)]),
        lambda: index.insert_if_new("new", document, 1.0),
        lambda: index.insert_many_if_new([("new", document), ("newer", document)], 1.0),
        lambda: index.insert_if_new("new", document, by="simhash", max_distance=0),
    ]


def questions(index: Index, document: Any) -> list[Callable[[], object]]:
    return [
        lambda: index.query(document),
        lambda: index.query_many([document, document]),
        lambda: index.query_many([document] * 1_200, workers=2),
        lambda: index.nearest(document),
        lambda: index.query_simhash(document),
        lambda: index.query_simhash_many([document]),
    ]


def test_other_kind_is_refused_at_insert_and_in_questions(held: Any) -> None:
    index, same, others = held
    for other in others:
        for call in inserts(index, other):
            with pytest.raises(ConfigMismatchError, match=r"^expected .* as the index holds; found "):
                call()
        if other.fingerprint if isinstance(other, Sketch) else True:
            for call in questions(index, other):
                with pytest.raises(ConfigMismatchError, match="their rows mean different things"):
                    call()
    assert list(index) == ["own"]
    for number, document in enumerate(same):
        index.insert(number, document)
        assert index.query(document, 1.0)
    index.close()


def test_refusal_names_what_is_held_and_what_to_do(tmp_path: Path) -> None:
    with (
        simindex.open(tmp_path / "t", config=CONFIG) as texts,
        simindex.open(tmp_path / "r", config=CONFIG) as rows,
    ):
        texts.insert("a", FOX)
        rows.insert("a", THEIRS)
        with pytest.raises(ConfigMismatchError, match="expected texts, shingles or sketches of them"):
            texts.query(THEIRS)
        with pytest.raises(ConfigMismatchError, match=r"expected rows .* found texts, shingles"):
            rows.query(FOX)
        with pytest.raises(ConfigMismatchError, match=r"Sketch.from_rows\(rows, config=index.config\)"):
            rows.query(FOX)
        rows.remove("a")
        with pytest.raises(ConfigMismatchError, match=r"expected either texts or rows .*; found both"):
            rows.insert_many([("a", FOX), ("b", THEIRS)])


def test_bare_fingerprints_go_with_both(held: Any) -> None:
    index, _, _ = held
    index.query_simhash(BARE)
    index.nearest(BARE, by="simhash")
    index.insert("bare", BARE)
    assert "bare" in [match.key for match in index.query_simhash(BARE)]
    index.close()


def test_bare_fingerprints_alone_leave_the_kind_open(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=CONFIG) as index:
        index.insert("bare", BARE)
        index.insert("rows", THEIRS)
        with pytest.raises(ConfigMismatchError):
            index.insert("text", FOX)


def test_kind_is_stored_and_given_up_with_the_last_document(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=CONFIG) as index:
        index.insert_many([("a", THEIRS), ("b", Sketch.from_rows(range(64)))])
    with simindex.open(tmp_path / "i") as index, simindex.open(tmp_path / "i", "r") as reader:
        for handle in (index, reader):
            with pytest.raises(ConfigMismatchError):
                handle.query(FOX)
        index.compact()
        index.remove("a")
        with pytest.raises(ConfigMismatchError):
            index.insert("text", FOX)
        index.remove("b")
        assert reader.query(FOX) == []
        index.insert("text", FOX)
        assert [match.key for match in reader.query(FOX)] == ["text"]
        with pytest.raises(ConfigMismatchError):
            index.insert("rows", THEIRS)


def test_kind_holds_inside_a_transaction_and_goes_with_it(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=CONFIG) as index:

        def broken_off() -> None:
            with index.transaction():
                index.insert("rows", THEIRS)
                with pytest.raises(ConfigMismatchError):
                    index.insert("text", FOX)
                with pytest.raises(ConfigMismatchError):
                    index.query(FOX)
                assert index.query(THEIRS)[0].key == "rows"
                raise RuntimeError("broken off")

        with pytest.raises(RuntimeError, match="broken off"):
            broken_off()
        with index.transaction():
            index.insert("text", FOX)
            index.insert_many([("more", CAR)])
        assert index.query(FOX)[0].key == "text"


def test_stored_sketches_are_of_the_kind_of_their_index(tmp_path: Path) -> None:
    with (
        simindex.open(tmp_path / "t", config=CONFIG) as texts,
        simindex.open(tmp_path / "r", config=CONFIG) as rows,
    ):
        texts.insert("a", FOX)
        rows.insert_many([("a", THEIRS), ("b", THEIRS)])
        assert texts["a"].sketch.origin == OURS.origin
        assert rows["a"].sketch.origin is None
        assert [match.key for match in rows.query(rows["a"].sketch)] == ["a", "b"]
        assert [match.key for match in rows.query_key("a")] == ["b"]
        with pytest.raises(ConfigMismatchError):
            texts.insert("b", rows["a"].sketch)
        texts.insert("b", texts["a"].sketch)


def test_a_sketcher_does_not_make_rows_of_others_its_own() -> None:
    for batch in (
        Sketcher(CONFIG).sketch_many([THEIRS]),
        Sketcher(CONFIG).sketch_many([THEIRS, THEIRS]),
        Sketcher(CONFIG).sketch_many([THEIRS, Sketch.from_rows(range(64))]),
    ):
        assert {sketch.origin for sketch in batch} == {None}


def test_declared_rows_are_those_of_their_configuration() -> None:
    rows = OURS.rows
    assert rows is not None
    assert Sketch.from_rows(rows, OURS.fingerprint, config=CONFIG) == OURS
    assert Sketch.from_rows(rows, config=CONFIG).origin == OURS.origin
    with pytest.raises(ConfigMismatchError, match="made with other"):
        Sketcher(OTHER).sketch(Sketch.from_rows(rows, config=CONFIG))
    with pytest.raises(ValueError, match="rows: expected the 128 of the configuration, found 64"):
        Sketch.from_rows(rows, config=Config())
