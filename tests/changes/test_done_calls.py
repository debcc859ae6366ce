"""Calls that may be repeated: done once, and answered twice."""

from pathlib import Path

import pytest
from support.indexes import content_of
from support.stored import store_values

import simindex
from simindex import Config, CorruptIndexError, KeyExistsError, TransactionOpenError
from simindex.changes.documents import NewDocuments, prepare_documents
from simindex.format.keys import encode_key
from simindex.format.meta import TURNS, done_key, encode_done
from simindex.scaleout.once import OnceIndex

CONFIG = Config(num_perm=16)


def call(number: int) -> bytes:
    return b"%016d" % number


def documents(*keys: str) -> NewDocuments:
    return prepare_documents([(key, f"a text of {key} alone") for key in keys], simindex.Sketcher(CONFIG))


def encoded(*keys: str) -> list[bytes]:
    return [encode_key(key) for key in keys]


def test_repeated_insert_answers_the_same_and_stores_nothing(tmp_path: Path) -> None:
    with OnceIndex(tmp_path / "i", "x", CONFIG) as index:
        assert index.add_once(call(1), documents("a", "b"), "error")[0] == [2, 0, 0]
        assert index.add_once(call(1), documents("a", "b"), "error")[0] == [2, 0, 0]
        assert index.add_once(call(2), documents("b", "c"), "skip")[0] == [1, 0, 1]
        index.remove("c")
        assert index.add_once(call(2), documents("b", "c"), "skip")[0] == [1, 0, 1]
        assert list(index) == ["a", "b"]
        with pytest.raises(KeyExistsError):
            index.add_once(call(3), documents("a"), "error")
        assert index.add_once(call(3), documents("d"), "error")[0] == [1, 0, 0]  # a failed call was not done


def test_repeated_call_is_known_behind_everything_that_happens_to_a_file(tmp_path: Path) -> None:
    with OnceIndex(tmp_path / "i", "x", CONFIG) as index:
        index.add_once(call(1), documents("a", "b"), "error")
        assert index.remove_once(call(2), encoded("a", "none"))[0] == [0, 1, 0]
        index.compact()
        assert index.remove_once(call(2), encoded("b"))[0] == [0, 1, 0]
    with OnceIndex(tmp_path / "i", "r+", CONFIG) as index:
        assert index.remove_once(call(2), encoded("b"))[0] == [0, 1, 0]
        assert index.add_once(call(1), documents("a"), "error")[0] == [2, 0, 0]
        index.backup(tmp_path / "copy")
        index.add_once(call(3), documents("c"), "error")
        index.backup(tmp_path / "copy")
        assert index.check()
    assert content_of(tmp_path / "copy") == content_of(tmp_path / "i")
    assert simindex.check(tmp_path / "copy")
    with OnceIndex(tmp_path / "copy", "r+", CONFIG) as index:
        assert index.add_once(call(3), documents("c"), "error")[0] == [1, 0, 0]
        assert list(index) == ["b", "c"]


def test_call_that_changes_nothing_is_known_as_well(tmp_path: Path) -> None:
    with OnceIndex(tmp_path / "i", "x", CONFIG) as index:
        assert index.remove_once(call(1), encoded("a"))[0] == [0, 0, 0]
        index.insert("a", "a text that came meanwhile")
        assert index.remove_once(call(1), encoded("a"))[0] == [0, 0, 0]
        assert "a" in index


def test_call_is_known_behind_hundreds_of_others(tmp_path: Path) -> None:
    with OnceIndex(tmp_path / "i", "x", CONFIG) as index:
        for number in range(600):
            assert index.remove_once(call(number), encoded("none"))[0] == [0, 0, 0]
        index.add_once(call(600), documents("a"), "error")
        for number in range(600):
            assert index.remove_once(call(number), encoded("a"))[0] == [0, 0, 0]
        assert list(index) == ["a"]


@pytest.mark.parametrize(("answer", "taken"), [([1, 0, 0], 1), ("x" * 10_000, 3)])
def test_oldest_note_makes_room(tmp_path: Path, answer: object, taken: int) -> None:
    with OnceIndex(tmp_path / "i", "x", CONFIG) as index:
        index.add_once(call(1), documents("a"), "error")
        index.add_once(call(2), documents("b"), "error")
    turn = TURNS - taken
    store_values(tmp_path / "i", [("meta", done_key(turn), encode_done(turn, call(3), answer))])
    with OnceIndex(tmp_path / "i", "r+") as index:
        assert index.add_once(call(1), documents("a"), "error")[0] == [1, 0, 0]
        index.backup(tmp_path / "copy")
        assert index.add_once(call(4), documents("c"), "error")[0] == [1, 0, 0]
        with pytest.raises(KeyExistsError):
            index.add_once(call(1), documents("a"), "error")
        assert index.add_once(call(2), documents("b"), "error")[0] == [1, 0, 0]
        index.backup(tmp_path / "copy")
        assert index.check()
    assert content_of(tmp_path / "copy") == content_of(tmp_path / "i")
    with OnceIndex(tmp_path / "i", "r+") as index:
        with pytest.raises(KeyExistsError):
            index.add_once(call(1), documents("a"), "error")
        assert index.add_once(call(2), documents("b"), "error")[0] == [1, 0, 0]


def test_repeatable_call_is_none_of_a_transaction(tmp_path: Path) -> None:
    with OnceIndex(tmp_path / "i", "x", CONFIG) as index:
        with index.transaction(), pytest.raises(TransactionOpenError, match="may be repeated"):
            index.add_once(call(1), documents("a"), "error")
        assert index.add_once(call(1), documents("a"), "error")[0] == [1, 0, 0]


def test_damaged_note_is_told_and_never_taken_for_none(tmp_path: Path) -> None:
    with OnceIndex(tmp_path / "i", "x", CONFIG) as index:
        index.add_once(call(1), documents("a"), "error")
    key, value = done_key(0), encode_done(0, call(1), [1, 0, 0])
    store_values(tmp_path / "i", [("meta", key, value[:-1] + b"?")])
    with OnceIndex(tmp_path / "i", "r+") as index:
        with pytest.raises(CorruptIndexError, match="note 0"):
            index.add_once(call(1), documents("a"), "error")
        report = index.check()
        assert [(problem.kind, problem.database) for problem in report.problems] == [("call", "meta")]
    store_values(tmp_path / "i", [("meta", key, value), ("meta", key + b"1", value)])
    (problem,) = simindex.check(tmp_path / "i").problems
    assert "expected a turn of 8 bytes" in problem.message
    with OnceIndex(tmp_path / "i", "r+") as index, pytest.raises(CorruptIndexError, match="of 8 bytes"):
        index.add_once(call(1), documents("a"), "error")
