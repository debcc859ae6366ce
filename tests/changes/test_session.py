"""Session: whose turn it is, and who sees an open transaction."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.faults import broken_off
from support.indexes import CAR, FOX
from support.processes import run_in_threads
from support.texts import SMALL

import simindex
from simindex import ClosedError, Index, KeyExistsError, SimIndexError


def test_threads_of_one_index_wait_for_a_transaction_and_do_not_see_it(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        begun, ended = threading.Event(), []

        def insert() -> None:
            begun.wait(20)
            index.insert("b", ["b"])
            ended.append("b")

        def query() -> None:
            begun.wait(20)
            assert len(index) == 0
            assert index.query(["a"]) == []

        waiting = threading.Thread(target=insert)
        waiting.start()
        with index.transaction():
            index.insert("a", ["a"])
            begun.set()
            run_in_threads(query)
            assert ended == []
            assert len(index) == 1
        waiting.join(20)
        assert list(index) == ["a", "b"]


def test_transaction_inside_a_transaction_is_refused(index: Index) -> None:
    def nest() -> None:
        with index.transaction():
            index.insert("new", FOX)
            with index.transaction():
                pass

    with pytest.raises(SimIndexError, match="transactions do not nest"):
        nest()


def test_error_inside_a_transaction_rolls_all_of_it_back(index: Index) -> None:
    def fail(change: Callable[[], object]) -> None:
        with index.transaction():
            index.insert("new", FOX)
            index.remove("fox")
            index.replace("car", FOX)
            change()

    for change, error in (
        (lambda: index.insert("car", CAR), KeyExistsError),
        (lambda: index.insert_many([("a", CAR), ("b", None)], batch_size=1), TypeError),
        (lambda: index.remove("absent"), KeyError),
        (lambda: index.query(FOX, 7), ValueError),
        (lambda: 1 / 0, ZeroDivisionError),
    ):
        with pytest.raises(error):
            fail(change)
        assert list(index) == ["fox", "car"]


def test_error_that_a_transaction_catches_undoes_only_its_own_call(index: Index) -> None:
    with index.transaction():
        index.insert("new", "entirely different words again")
        with pytest.raises(KeyExistsError):
            index.insert_many([("newer", CAR), ("fox", CAR)])
        with pytest.raises(TypeError):
            index.insert("newer", CAR, object())
        assert "newer" not in index
    assert list(index) == ["fox", "car", "new"]
    index.remove("new")


def test_close_inside_a_transaction_rolls_it_back(tmp_path: Path) -> None:
    index = simindex.open(tmp_path / "i")
    index.insert("fox", FOX)

    def change() -> None:
        with index.transaction():
            index.insert("car", CAR)
            index.close()
            index.insert("bus", CAR)

    with pytest.raises(ClosedError):
        change()
    with simindex.open(tmp_path / "i") as index:
        assert list(index) == ["fox"]


def test_change_without_documents_commits_nothing(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert("stored", "some words of a text")
        with index._store.reading() as txn:
            before = txn.id
        with index.transaction():
            pass
        assert index._session.change(lambda _, pending, __: pending.size) == 0
        assert index.remove_many(["absent"]) == 0
        index.insert("stored", "other words than those", on_conflict="skip")
        with index._store.reading() as txn:
            assert txn.id == before


def test_insert_looks_at_the_index_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One read transaction, then the commit: most of a single insert's time is spent around them."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        begun = broken_off(monkeypatch, "begin to read")
        index.insert("a", "some words")
        index.replace("a", "other words")
        index.insert("a", "some words", on_conflict="skip")
        assert len(begun) == 3
        assert index["a"].sketch == simindex.Sketcher(SMALL).sketch("other words")
