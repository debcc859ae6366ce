"""Session: whose turn it is, who sees an open transaction, conflicts of keys, and a change that becomes a
commit."""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.faults import broken_off
from support.indexes import CAR, FOX, chunk_key, stored_ids
from support.processes import run_in_threads
from support.stored import put_all
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


# ---- the writer ----


def test_stored_key_is_refused_and_named(index: Index) -> None:
    for call in (
        lambda: index.insert("fox", CAR),
        lambda: index.insert_many([("new", CAR), ("fox", CAR)]),
        lambda: index.insert_many([("new", CAR), ("new", FOX)]),
        lambda: index.insert_if_new("fox", "entirely different words again"),
    ):
        with pytest.raises(
            KeyExistsError,
            match=r"key '(fox|new)' is in the index already, or twice in the input; on_conflict=",
        ) as caught:
            call()
        assert isinstance(caught.value, KeyError)
    with pytest.raises(KeyExistsError):
        index.insert_many(((number % 25, FOX) for number in range(50)), batch_size=20)
    assert index.remove_many(range(25)) == 20


ITEMS: list[tuple[Any, ...]] = [("fox", FOX, 1), ("a", FOX, 2), ("a", CAR, 3), ("fox", CAR, 4), ("a", FOX, 5)]


@pytest.mark.parametrize(
    ("on_conflict", "counts", "kept"),
    [("skip", (1, 0, 4), {"a": 2, "fox": None}), ("replace", (1, 4, 0), {"fox": 4, "a": 5})],
)
@pytest.mark.parametrize("is_open", [False, True])
def test_key_that_comes_twice_in_one_call_is_skipped_or_the_last_one_stays(
    tmp_path: Path, on_conflict: Any, counts: tuple[int, int, int], kept: dict[str, Any], is_open: bool
) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert("fox", FOX)
        with index.transaction() if is_open else contextlib.nullcontext():
            assert index.insert_many(ITEMS, on_conflict=on_conflict) == counts
            assert {key: index[key].metadata for key in index} == kept
        assert {key: index[key].metadata for key in index} == kept


def test_commit_counts_documents_and_copies(index: Index) -> None:
    with index.transaction():
        index.insert_many([("copy", FOX), ("fox", "other words by now")], on_conflict="replace")
    manifest = index._session.writer().manifest
    assert (manifest.num_documents, manifest.num_copies, manifest.next_doc_id) == (3, 0, 4)
    assert [match.key for match in index.query(FOX)] == ["copy"]
    index.replace("fox", FOX, {"page": 1})
    index.remove_many(["copy", "car"])
    index.insert("car", CAR)
    assert index._session.writer().manifest.num_documents == 2


def test_number_is_never_given_again(index: Index) -> None:
    for _ in range(3):
        index.insert("new", FOX)
        index.remove("new")
    assert index._session.writer().manifest.next_doc_id == 5


def test_writer_removes_chunks_that_no_manifest_names(tmp_path: Path) -> None:
    """What an unfinished merge of an earlier writer leaves."""
    with simindex.open(tmp_path / "i") as index:
        index.insert("fox", FOX)
        live = stored_ids(index)
        put_all(index._store, "segments", {chunk_key(n, t): b"x" for n in (7, 9, 300) for t in (0, 3)})
        assert stored_ids(index) == live | {7, 9, 300}
    with simindex.open(tmp_path / "i", "r") as index:
        assert stored_ids(index) == live | {7, 9, 300}
    with simindex.open(tmp_path / "i") as index:
        assert stored_ids(index) == live
        assert [match.key for match in index.query(FOX)] == ["fox"]


def test_writer_counts_again_who_was_removed_before_it_was_opened(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many([(n, f"{n} is a number of its own") for n in range(10)])
        index.remove_many(range(4))
    with simindex.open(tmp_path / "i") as index:
        (segment,) = index._session.writer().manifest.segments
        assert index._session.writer().merges._dead == {segment.id: 4}
