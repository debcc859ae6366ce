"""Compaction: one segment in place of many, by small commits, then a file without free pages."""

from pathlib import Path

import pytest
from merging import BATCH, BATCHES, LAYOUT, SMALL, check, insert

import simindex
from simindex import Index, SimIndexError
from simindex.changes import merges


@pytest.fixture
def segmented(tmp_path: Path) -> Index:
    """An index of many segments, open for writing."""
    index = simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT)
    for batch in range(BATCHES):
        insert(index, batch)
    return index


def test_compaction_makes_one_segment_without_the_removed(segmented: Index) -> None:
    with segmented as index:
        index.remove_many(range(10, 30))
        index.compact()
        stats = index.stats()
        assert (stats.segments, stats.entries["keys"]) == (1, BATCH * BATCHES - 20)
        check(index, range(BATCHES), range(10, 30))
        with index._store.reading() as txn:
            assert list(txn.items("removed")) == []


@pytest.mark.parametrize("step", [1, 1 << 23])
def test_progress_goes_up_to_the_total(segmented: Index, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(merges, "_COMPACTION_STEP", step)
    told: list[tuple[int, int]] = []
    with segmented as index:
        index.compact(lambda done, total: told.append((done, total)))
    done, totals = zip(*told, strict=True)
    assert list(done) == sorted(done)
    assert len(set(totals)) == 1
    assert told[-1] == (totals[0], totals[0])
    assert done[0] > 0
    assert (len(told) > 10) == (step == 1)


def test_compaction_of_nothing_and_of_one_segment_merges_nothing(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        index.compact(lambda *figures: told.append(figures))
        assert told == [(0, 0)]
        insert(index, 0)
        (before,) = index._session.writer().manifest.segments
        index.compact()
        assert index._session.writer().manifest.segments == (before,)
        check(index, [0])


def test_compaction_rewrites_a_single_segment_that_has_removed_documents(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        insert(index, 0)
        index.remove(0)
        index.compact()
        assert index.stats().entries["keys"] == BATCH - 1
        index.remove_many(range(1, BATCH))
        index.compact()
        assert (index.stats().segments, len(index)) == (0, 0)


def test_compaction_inside_a_transaction_is_refused(segmented: Index) -> None:
    with segmented as index:
        with index.transaction(), pytest.raises(SimIndexError, match="compact: expected no open transaction"):
            index.compact()
        check(index, range(BATCHES))


def test_inserts_between_the_steps_of_a_compaction_stay(segmented: Index) -> None:
    """A progress function may call the index; the merge under way then begins anew."""
    more = iter(range(BATCHES, BATCHES + 3))

    def insert_more(_: int, __: int) -> None:
        batch = next(more, None)
        if batch is not None:
            insert(segmented, batch)

    with segmented as index:
        index.compact(insert_more)
        index.compact()
        check(index, range(BATCHES + 3 - len(list(more))))
        assert index.stats().segments == 1
