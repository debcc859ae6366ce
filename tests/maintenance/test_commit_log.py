"""A journal: what was acknowledged is in the store, and comes back with what the backup has."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.indexes import TINY, problems_of, records_of, texts

import simindex
from simindex import BackupTargetError, Config, CorruptIndexError, Index
from simindex.maintenance.backup import backup_index
from simindex.maintenance.commit_log import CommitLog
from simindex.maintenance.object_store import FolderObjects, StoreError
from simindex.maintenance.restore import restore_index


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path, Path]:
    return tmp_path / "index", tmp_path / "stores" / "backup", tmp_path / "restored"


@contextmanager
def journalled(path: Path, store: Path, config: Config | None = None) -> Iterator[tuple[Index, CommitLog]]:
    with simindex.open(path, layout=TINY, config=config) as index:
        journal = CommitLog(index._session, store)
        try:
            yield index, journal
        finally:
            journal.close()


def begun(path: Path, store: Path) -> None:
    """Make an index of ten documents, and its journal."""
    with journalled(path, store) as (index, journal):
        index.insert_many(texts(0, 10))
        journal.settle()


def batches_in(store: Path) -> list[str]:
    return sorted(path.name for path in (store / "journal").glob("*"))


CONFIGS = [
    Config(seed=1),
    Config(seed=1, simhash=None),
    Config(seed=1, num_perm=0),
    Config(seed=1, keep_shingles=50),
    Config(seed=1, containment=4),
]


@pytest.mark.parametrize("config", CONFIGS, ids=["both", "minhash", "simhash", "kept", "sampled"])
def test_nothing_settled_is_lost_with_the_folder(paths: tuple[Path, Path, Path], config: Config) -> None:
    path, store, restored = paths
    with journalled(path, store, config) as (index, journal):
        index.insert_many(texts(0, 40), batch_size=10)
        index.replace(3, "another text altogether", {"now": "other"})
        index.insert(b"bytes", {"ready", "shingles"})
        index.remove_many([5, 6, 7])
        index.touch(1, 2)
        index.insert_many(texts(5, 2))
        index.insert_many_if_new([*texts(0, 3), *texts(100, 5)], on_conflict="skip")
        with index.transaction():
            index.insert("in", "a transaction")
            index.insert("out", "of it")
            index.remove("out")
            index.remove(20)
        assert index.expire(before=index[10].inserted_at) > 2
        journal.settle()
    before = records_of(path)
    shutil.rmtree(path)

    report = restore_index(store, restored)
    assert records_of(restored) == before
    assert report.documents == len(before)
    assert report.batches >= 10
    assert not problems_of(restored)


def test_a_backup_takes_up_the_batches(paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    with journalled(path, store) as (index, journal):
        index.insert_many(texts(0, 40), batch_size=10)
        journal.settle()
        assert [int(name) for name in batches_in(store)] == [1, 2, 3, 4, 5]  # the first one opens it
        report = journal.backup()
        assert report.removed_objects == 5
        assert batches_in(store) == []
        index.insert_many(texts(40, 20), batch_size=10)
        journal.settle()
        assert [int(name) for name in batches_in(store)] == [6, 7]
    assert restore_index(store, restored).batches == 2
    assert records_of(restored) == records_of(path)


def test_a_commit_between_the_position_and_the_snapshot_may_come_twice(
    paths: tuple[Path, Path, Path],
) -> None:
    """The backup holds it, and so does the journal."""
    path, store, restored = paths
    with journalled(path, store) as (index, journal):
        index.insert_many(texts(0, 20))

        def meanwhile() -> int:
            position = journal.settled()
            index.insert_many(texts(20, 5))
            index.replace(3, "another text")
            index.remove(4)
            index.touch(5)
            return position

        backup_index(path, store, position=meanwhile)
        journal.settle()
    assert restore_index(store, restored).batches == 4
    assert records_of(restored) == records_of(path)
    assert not problems_of(restored)


def test_what_cannot_be_put_is_not_acknowledged_and_is_tried_again(
    paths: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store, restored = paths
    with journalled(path, store) as (index, journal):
        with monkeypatch.context() as patched:

            def fail(self: FolderObjects, name: str, _: bytes) -> bool:
                raise StoreError(self.uri_of(name), "the network is gone")

            patched.setattr(FolderObjects, "create", fail)
            index.insert_many(texts(0, 10))
            for _ in range(2):
                with pytest.raises(StoreError, match=r"journal/000000000002: the network is gone"):
                    journal.settle()
        index.insert_many(texts(10, 10))
        journal.settle()  # both
    assert restore_index(store, restored).documents == 20


def test_what_lies_behind_a_gap_is_not_done_again(paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    with journalled(path, store) as (index, journal):
        for number in range(4):
            index.insert_many(texts(number, 1))
        journal.settle()
    (store / "journal" / batches_in(store)[2]).unlink()
    assert restore_index(store, restored).batches == 2
    assert list(records_of(restored)) == [0]


@pytest.mark.parametrize("lost", [1, 2])
def test_what_a_killed_process_did_not_put_is_backed_up_at_the_next_opening(
    paths: tuple[Path, Path, Path], lost: int
) -> None:
    path, store, restored = paths
    with journalled(path, store) as (index, journal):
        for number in range(4):
            index.insert_many(texts(number, 1))
        journal.settle()
    for name in batches_in(store)[-lost:]:
        (store / "journal" / name).unlink()
    with journalled(path, store) as (index, journal):
        assert len(batches_in(store)) == 1
        index.insert_many(texts(4, 1))
        journal.settle()
    restore_index(store, restored)
    assert records_of(restored) == records_of(path)


def test_who_opens_again_goes_on_without_a_backup(
    paths: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store, restored = paths
    begun(path, store)
    monkeypatch.setattr(CommitLog, "backup", None)
    with journalled(path, store) as (index, journal):
        index.insert_many(texts(10, 10))
        journal.settle()
    assert restore_index(store, restored).batches == 4
    assert records_of(restored) == records_of(path)


def test_who_was_thought_dead_acknowledges_nothing_any_more(paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    with journalled(path, store) as (index, journal):
        index.insert_many(texts(0, 10))
        journal.settle()
        restore_index(store, restored)
        with journalled(restored, store) as (elsewhere, its_journal):
            index.insert_many(texts(10, 1))
            for _ in range(2):
                with pytest.raises(StoreError, match="the index was restored elsewhere, and goes on there"):
                    journal.settle()
            elsewhere.insert_many(texts(20, 1))
            its_journal.settle()
    assert restore_index(store, restored.with_name("again")).documents == 11


def test_what_came_between_the_restoring_and_the_opening_is_not_forgotten(
    paths: tuple[Path, Path, Path],
) -> None:
    path, store, restored = paths
    with journalled(path, store) as (index, journal):
        index.insert_many(texts(0, 10))
        journal.settle()
        restore_index(store, restored)
        index.insert_many(texts(10, 1))
        journal.settle()
    with simindex.open(restored) as late, pytest.raises(BackupTargetError, match="found later batches"):
        CommitLog(late._session, store)
    assert restore_index(store, restored.with_name("again")).documents == 11


def test_a_damaged_batch_is_named(paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    begun(path, store)
    batch = store / "journal" / batches_in(store)[1]
    content = bytearray(batch.read_bytes())
    content[len(content) // 2] ^= 1
    batch.write_bytes(content)
    with pytest.raises(CorruptIndexError, match=str(batch)):
        restore_index(store, restored)
    assert not restored.exists()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 12), st.integers(1, 4)),
        st.tuples(st.just("remove"), st.integers(0, 12), st.integers(1, 4)),
        st.tuples(st.just("touch"), st.integers(0, 12), st.just(1)),
        st.tuples(st.sampled_from(["backup", "again", "compact"]), st.just(0), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=8)
@given(steps=STEPS)
def test_whatever_was_done_comes_back(steps: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, store, restored = (Path(folder) / name for name in ("index", "store", "restored"))
        index = simindex.open(path, layout=TINY, config=CONFIGS[0])
        journal = CommitLog(index._session, store)
        for name, first, number in steps:
            if name == "insert":
                index.insert_many(texts(first, number), on_conflict="replace")
            elif name == "remove":
                index.remove_many(range(first, first + number))
            elif name == "touch" and first in index:
                index.touch(first)
            elif name == "backup":
                journal.backup()
            elif name == "compact":
                index.compact()
            elif name == "again":
                journal.settle()
                journal.close()
                journal = CommitLog(index._session, store)
        journal.settle()
        journal.close()
        index.close()
        restore_index(store, restored)
        assert records_of(restored) == records_of(path)
