"""Records and marks of small commits wait in the manifest: what they write, and what is read of them."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from support.faults import bound
from support.indexes import problems_of
from support.stored import PAGE, held, store_values

import simindex
from simindex import Index
from simindex.format.keys import doc_id_key
from simindex.format.meta import decode_manifest
from simindex.queries.view import stored_manifest

DRAW = Random(1)
WORDS = [f"word{number}" for number in range(2_000)]


def text() -> str:
    return " ".join(DRAW.choices(WORDS, k=60))


def replace(index: Index, number: int) -> None:
    index.replace(7 * number % 3_000, text())


def insert(index: Index, number: int) -> None:
    index.insert(f"new {number}", text())


def remove(index: Index, number: int) -> None:
    index.remove(7 * number % 3_000)


@pytest.mark.parametrize(("change", "most"), [(replace, 7.0), (insert, 6.0), (remove, 4.5)])
def test_single_changes_beside_a_pin_write_few_pages(
    tmp_path: Path, change: Callable[[Index, int], None], most: float
) -> None:
    """13.4, 9.5 and 8.9, where each writes its record and its mark."""
    with simindex.open(tmp_path / "i") as index:
        index.insert_many((number, text()) for number in range(3_000))
        with simindex.open(tmp_path / "i", "r", refresh="manual") as pinned:
            pinned.query(text())
            before = (tmp_path / "i" / "data.mdb").stat().st_size
            for number in range(300):
                change(index, number)
            grown = (tmp_path / "i" / "data.mdb").stat().st_size - before
    assert grown <= 300 * most * PAGE


def waiting(index: Index) -> tuple[set[int], set[int]]:
    """The numbers whose records wait, and those whose marks do."""
    with index._store.reading() as txn:
        records, marks = decode_manifest(stored_manifest(txn)).recent
    return set(records), set(marks)


def test_what_waits_is_read_as_what_is_written(tmp_path: Path) -> None:
    """After each of many small changes, some with metadata that no manifest has room for."""
    draw, live, met = Random(3), dict[int, object](), set[bool]()
    path = tmp_path / "i"
    with simindex.open(path, layout=simindex.Layout(2)) as index:
        for step in range(150):
            kind, key = draw.randrange(6), draw.randrange(40)
            if kind < 3:
                index.replace(key, text(), metadata := step if kind else [step] * 700)
                live.pop(key, None)
                live[key] = metadata
            elif kind == 3:
                gone = draw.sample(sorted(live), min(len(live), draw.choice([1, 2, 18])))
                index.remove_many(gone)
                live = {key: metadata for key, metadata in live.items() if key not in gone}
            elif kind == 4:
                index.touch(*draw.sample(sorted(live), min(len(live), 2)))
            else:
                keys = range(100 * step + 100, 100 * step + 100 + draw.choice([2, 20]))
                index.insert_many((key, text(), step) for key in keys)
                live |= dict.fromkeys(keys, step)
            assert {key: record.metadata for key, record in index.items()} == live
            assert (list(index), len(index)) == (list(live), len(live))
            records, marks = waiting(index)
            met |= {bool(records), bool(marks - records)}
            if step % 10 == 0:
                assert problems_of(path) == []
    assert met == {False, True}


def test_marked_document_whose_record_is_lost_is_damage(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many((number, text()) for number in range(30))
        index.remove(7)
        assert waiting(index) == (set(), {7})
    store_values(tmp_path / "i", [("documents", doc_id_key(7), None)])
    for level in ("full", "quick"):
        assert "documents" in {problem.database for problem in problems_of(tmp_path / "i", level)}
    with pytest.raises(simindex.CorruptIndexError, match="count of the 29 records"):
        simindex.open(tmp_path / "i", "r")


def test_large_commits_write_what_waits(tmp_path: Path) -> None:
    path = tmp_path / "i"
    with simindex.open(path) as index:
        index.insert("first", text())
        assert waiting(index) == ({0}, set())
        index.remove("first")
        assert waiting(index) == ({0}, {0})
        index.insert_many((number, text()) for number in range(17))
        assert waiting(index) == (set(), set())
        index.remove(3)
        index.insert("last", text())
        assert waiting(index) == ({18}, {4})
        with bound("changes of a commit that wait", 0):
            index.remove("last")
        assert waiting(index) == (set(), set())
        index.compact()
        assert held(index._store, "removed") == {}
        assert set(index) == {*range(17)} - {3}


@pytest.mark.parametrize("most", [16, 0])
def test_removed_document_is_nobodys_match_when_a_merge_has_taken_its_entries(
    tmp_path: Path, most: int
) -> None:
    """Its sketch stays, for that of its copy, and its record, as long as its mark waits."""
    common = text()
    with (
        bound("changes of a commit that wait", most),
        simindex.open(tmp_path / "i", layout=simindex.Layout(2)) as index,
    ):
        index.insert_many([("leader", common), ("copy", common), *((n, text()) for n in range(20))])
        index.remove("leader")
        number = 100
        while index.stats().entries["keys"] > len(index):
            index.insert(number, text())
            number += 1
        assert waiting(index)[1] == ({0} if most else set())
        for found in (index.query(common), index.query_simhash(common), index.query_many([common])[0]):
            assert [match.key for match in found] == ["copy"]
        again = [("copy", common), *((f"new {n}", text()) for n in range(3))]
        report = index.insert_many_if_new(again, on_conflict="replace")
        assert (report.inserted, report.replaced) == (3, 1)
