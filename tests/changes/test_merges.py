"""The merges of a writer: how far a commit advances them, and what they leave to do."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from support.indexes import BATCH, LAYOUT, SMALL, check, document, insert, keys_of
from support.stored import bare_store, held, put_all

import simindex
from simindex import Index, IndexFullError, Layout
from simindex.changes.merges import Merged, Merges, tiers_of
from simindex.changes.session import unnamed_segments
from simindex.format.keys import segment_key, table_of
from simindex.format.layout import FILTERS, KEY_TABLE, SegmentEntry
from simindex.format.meta import Manifest, encode_manifest
from simindex.format.recent import NO_CHANGES
from simindex.queries.view import stored_manifest
from simindex.segments.merge import Merge
from simindex.storage.environment import ReadTransaction
from simindex.storage.store import Store


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(Store, "commit", lambda *_: (_ for _ in ()).throw(IndexFullError("no space")))
        yield


def test_dead_documents_are_counted_by_commits_that_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment that is more than half dead is rewritten, also when the first attempt fails."""
    with simindex.open(tmp_path / "i", "x", SMALL, layout=Layout(64, 8, 400)) as index:
        insert(index, 0)
        insert(index, 1)
        with full_disk(monkeypatch), pytest.raises(IndexFullError):
            index.remove_many(range(4))
        index.remove_many(range(4))
        with full_disk(monkeypatch), pytest.raises(IndexFullError):
            insert(index, 2)  # its preparation has rewritten the first segment
        insert(index, 2)
        insert(index, 3)
        assert index.stats().documents == 16
        assert [shape.num_keys for shape in index._session.writer().manifest.segments] == [1, 5, 5, 5]


# ---- by themselves ----


@contextmanager
def unmerged(path: Path, batches: int) -> Iterator[tuple[Index, Merges]]:
    """An index of a segment a batch that merges nothing, and merges of its scheme that would do all of it."""
    with simindex.open(path, "x", SMALL, layout=Layout(64, 8, 400)) as index:
        for batch in range(batches):
            insert(index, batch)
        scheme = index._session.scheme
        geometry = replace(scheme.tables, layout=LAYOUT)
        yield index, Merges(replace(scheme, tables=geometry), index._session.writer().manifest)


def test_done_merge_of_nothing_but_removed_documents_leaves_no_segment(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        insert(index, 0)
        insert(index, 1)
        index.remove_many(keys_of(0))
        index.remove_many(keys_of(1))
        insert(index, 2)
        insert(index, 3)
        insert(index, 4)
        check(index, [2, 3, 4])
        assert not index._session.writer().merges._dead
        with index._store.reading() as txn:
            assert list(txn.items("removed")) == []


def test_step_that_is_larger_than_the_budget_is_a_debt_that_the_next_ones_work_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simindex.changes.merges.is_free", lambda *_: False)
    with unmerged(tmp_path / "i", 12) as (index, merges), index._store.reading() as txn:
        view = index._reader.committed_view(txn)
        manifest, done = view.manifest, []
        for _ in range(200):
            merged = merges.advance(manifest, manifest.segments, lambda: 10, view)
            done.append(sum(len(value) for _, value in merged.puts))
            merges.note_stored(merged)
            if len(merged.manifest.segments) < len(manifest.segments):
                break
            manifest = merged.manifest
        assert max(done) > 10
        for number, spent in enumerate(done[:-1]):
            # A step only begins when nothing is owed: ten bytes a commit, one step ahead at most.
            assert sum(done[:number]) <= 10 * (number + 1) or spent == 0
        assert done.count(0) > len(done) / 2


def test_merge_is_not_begun_of_segments_that_are_not_stored_yet(tmp_path: Path) -> None:
    with unmerged(tmp_path / "i", 3) as (index, merges), index._store.reading() as txn:
        view = index._reader.committed_view(txn)
        merged = merges.advance(view.manifest, (), lambda: 1 << 20, view)
        assert (merged.manifest, merges.under_way) == (view.manifest, [])
        merged = merges.advance(view.manifest, view.manifest.segments, lambda: 1 << 20, view)
        assert len(merged.manifest.segments) < 3


def unnamed(index: Index) -> set[int]:
    with index._store.reading() as txn:
        return set(unnamed_segments(txn, index._session.writer().manifest))


def test_merges_that_are_broken_off_leave_no_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their ids are given to no other segment while their chunks are there."""
    left = 0
    with simindex.open(tmp_path / "i", "x", SMALL, layout=Layout(4, 8, 400)) as index:
        for batch in range(40):
            with full_disk(monkeypatch), pytest.raises(IndexFullError):
                insert(index, batch)
            left += len(unnamed(index))
            insert(index, batch)
            check(index, range(batch + 1))
            begun = {merge.entry.id for merge in index._session.writer().merges.under_way}
            assert unnamed(index) <= begun
    assert left


def test_segment_of_which_more_than_half_is_dead_is_rewritten(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL, layout=Layout(64, 64, 1000)) as index:
        insert(index, 0)
        insert(index, 1)
        merges = index._session.writer().merges
        index.remove_many(range(2))
        assert index.stats().entries["keys"] == 2 * BATCH
        index.remove(2)
        insert(index, 2)
        assert index.stats().entries["keys"] == 3 * BATCH - 3
        assert not merges._dead
        check(index, range(3), range(3))


def test_what_a_merge_writes_leaves_the_memory_where_its_sources_were_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables and sketches only: filters are what every query reads."""
    tables: set[int] = set()

    def let_go(txn: ReadTransaction, database: str, keys: list[bytes]) -> None:
        tables.update(map(table_of, keys))
        assert all(txn.get(database, key) is not None for key in keys), "it is stored by then"

    monkeypatch.setattr(ReadTransaction, "let_go", let_go)
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        for batch in range(4):
            insert(index, batch)
        assert not tables
        monkeypatch.setattr(Merge, "reads_from_disk", True)
        for batch in range(4, 14):
            insert(index, batch)
        check(index, range(14))
        assert tables >= {KEY_TABLE, index._session.scheme.tables.count}
        assert max(tables) < FILTERS


def test_merges_are_begun_as_if_each_commit_looked_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit looks only where a run can be due; single ones, batches, removals and merges in many steps."""
    random = Random(1)
    steps = [(random.choice([0, 1, 1, 1, 3, 12]), random.random() < 0.4) for _ in range(70)]

    def manifests(path: Path) -> list[Manifest]:
        seen, count = [], 0
        with simindex.open(path, "x", SMALL, layout=Layout(4, 8, 400)) as index:
            for size, is_broken_off in steps:
                rows = [(number, document(number)) for number in range(count, count + size)]
                count += size
                index.insert_many(rows, workers=1) if rows else index.remove(next(iter(index)))
                writer = index._session.writer()
                assert writer.merges._tiers == tiers_of(writer.manifest.segments, 4)
                with index._store.reading() as txn:
                    assert stored_manifest(txn) == encode_manifest(writer.manifest)
                if is_broken_off:
                    with full_disk(monkeypatch), pytest.raises(IndexFullError):
                        index.insert("too much", document(0))
                seen.append(writer.manifest._replace(tail_time=0, recent=NO_CHANGES))
        return seen

    calm = manifests(tmp_path / "calm")
    monkeypatch.setattr(Merges, "is_due", lambda *_: True)
    assert calm == manifests(tmp_path / "looking")


def test_live_segment_is_never_removed_whatever_is_said_to_be_gone(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    put_all(store, "segments", {segment_key(segment, 1, 0): b"x" for segment in (3, 4)})
    manifest = Manifest(60, 6, 20, 0, segments=(SegmentEntry(4, 40, 10, 10, 0, 10, 10, 10),))
    store.commit(Merged(manifest, Counter(), [3, 4]).store)
    assert held(store, "segments").keys() == {segment_key(4, 1, 0)}
    store.close()
