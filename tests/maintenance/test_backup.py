"""A backup is the index at one commit, whatever happened since the one before."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import bound, set_bound
from support.indexes import TINY, Content, content_of, filled, problems_of, texts
from support.stored import data_of, flipped, forget, leaves, store_values, stored_values

import simindex
from simindex import (
    BackupReport,
    BackupTargetError,
    Config,
    ConfigMismatchError,
    CorruptIndexError,
    FormatError,
    Index,
    IndexFullError,
    IndexLockedError,
    TransactionOpenError,
)


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "index", tmp_path / "copies" / "backup"


class Target(NamedTuple):
    """Where backups go: a folder, or a store in it."""

    kind: str
    root: Path

    def make(self, path: Path, progress: Callable[[int], object] = lambda _: None) -> BackupReport:
        uri = f"file://{self.root}" if self.kind == "store" else self.root
        with simindex.open(path, "r") as index:
            return index.backup(uri, lambda done, _: progress(done))

    def content(self) -> Content:
        if self.kind == "folder":
            return content_of(self.root)
        with tempfile.TemporaryDirectory() as folder:
            simindex.restore(self.root, folder)
            assert not problems_of(folder)
            return content_of(Path(folder))


@pytest.fixture(params=["folder", "store"])
def target(paths: tuple[Path, Path], request: pytest.FixtureRequest) -> Target:
    return Target(request.param, paths[1])


def test_first_backup_holds_what_the_index_holds(paths: tuple[Path, Path], target: Target) -> None:
    path, done = paths[0], list[int]()
    with filled(path) as index:
        index.insert("copy", texts(7, 1)[0][1])
        index.remove(50)
        index.touch(3)
        report = target.make(path, done.append)
        segments = index.stats().segments
    assert target.content() == content_of(path)
    assert (report.created, report.documents, report.copied_segments) == (True, 100, segments)
    assert (report.reused_segments, report.reused_bytes) == (0, 0)
    assert done == sorted(done)
    assert 0 <= report.pinned_seconds <= report.seconds
    assert [entry.name for entry in target.root.parent.iterdir()] == ["backup"]
    assert report.path == str(target.root)
    if target.kind == "folder":
        values = [
            value for (database, _), value in content_of(path).items() if database not in ("main", "meta")
        ]
        assert report.copied_bytes == sum(map(len, values))


def test_later_backup_copies_what_is_new_and_keeps_the_rest(
    paths: tuple[Path, Path], target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "bytes of a part of a backup", 4096)
    path = paths[0]
    with filled(path, 300) as index:
        index.compact()  # or the next commit might end a merge of what the first backup has
        first = target.make(path)
        index.insert_many(texts(300, 3))
        index.remove_many([3, 30, 299])
        index.touch(5, 6)
        later, second = target.make(path), target.make(path)
    assert target.content() == content_of(path)
    assert not later.created
    assert (later.reused_segments, later.copied_segments) == (first.copied_segments, 1)
    # A store takes parts of records, some hundred of them here, and a folder the records.
    assert 0 < later.copied_bytes < first.copied_bytes / (20 if target.kind == "folder" else 2)
    assert (second.copied_bytes, second.copied_segments) == (0, 0)
    assert second.reused_segments == later.reused_segments + 1


@settings(max_examples=40)
@given(st.data())
def test_backup_equals_the_index_after_any_changes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path, target = (folder := tmp_path_factory.mktemp("any")) / "index", folder / "backup"
    changes: dict[str, Callable[[Index, int], object]] = {
        "insert": lambda index, n: index.insert_many(texts(1000 * n, 5 * n)),
        "copies": lambda index, n: index.insert_many((f"copy {n} {i}", "one text") for i in range(n)),
        "large": lambda index, n: index.insert_many(
            ((f"large {n} {i}", f"text {i}", "x" * (97 * i % 5_000)) for i in range(30 * n)),
            on_conflict="replace",
        ),
        "remove": lambda index, n: index.remove_many(list(index)[:: n + 1]),
        "replace": lambda index, n: index.insert_many(
            [(key, "another text") for key in list(index)[:n]], on_conflict="replace"
        ),
        "touch": lambda index, n: index.touch(*list(index)[n::3]),
        "compact": lambda index, _: index.compact(),
        "empty": lambda index, _: index.remove_many(list(index)),
        "backup": lambda index, _: index.backup(target),
    }
    steps = st.lists(st.tuples(st.sampled_from(sorted(changes)), st.integers(1, 9)), max_size=8)
    done = set[tuple[str, int]]()
    with bound("bytes of a part of a backup", 20_000), simindex.open(path, layout=TINY) as index:
        for name, n in data.draw(steps):
            if name in ("insert", "copies") and (name, n) in done:
                continue  # the keys are there
            done.add((name, n))
            changes[name](index, n)
        index.backup(target)
    assert content_of(target) == content_of(path)
    with simindex.open(target) as restored:
        restored.insert("new", "restoring is opening it")
        assert "new" in restored
    shutil.rmtree(folder)


def test_restored_backup_goes_on_as_an_index_of_its_own(paths: tuple[Path, Path]) -> None:
    path, target = paths
    with filled(path) as index:
        index.backup(target)
    with simindex.open(target, "r+") as restored:
        assert restored.query(texts(7, 1)[0][1])[0].key == 7
        restored.insert("new", "written after the restore")
        report = restored.backup(path.parent / "next")
    assert report.documents == 101
    assert content_of(path.parent / "next") == content_of(target)
    refused(path, target, BackupTargetError, "changed since", target)


def test_backup_by_a_reader_beside_a_writer(paths: tuple[Path, Path]) -> None:
    path, target = paths
    with filled(path) as index, simindex.open(path, "r") as reader:
        reader.backup(target)
        index.insert("new", "by the writer")
        assert reader.backup(target).documents == 101
    with simindex.open(path, "r", refresh="manual") as pinned, simindex.open(path) as index:
        assert len(pinned) == 101
        index.insert("later", "what a pinned reader does not see")
        assert pinned.backup(path.parent / "pinned").documents == 101


def test_readers_of_a_backup_see_the_old_state_or_the_new_one(paths: tuple[Path, Path]) -> None:
    path, target = paths
    with filled(path) as index:
        index.backup(target)
        with simindex.open(target, "r") as reader:
            assert len(reader) == 100
            index.insert_many(texts(100, 5))
            index.backup(target)
            assert len(reader) == len(list(reader)) == 105
            assert reader.query(texts(104, 1)[0][1])[0].key == 104


def test_backups_while_a_writer_writes_removes_and_compacts(paths: tuple[Path, Path]) -> None:
    """Each is one commit: those have ten documents each, and take away the ten of three before."""
    path, target = paths
    begun, stop = threading.Event(), threading.Event()

    def write() -> None:
        with simindex.open(path, layout=TINY) as index:
            number = 3
            while not stop.is_set():
                with index.transaction():
                    index.insert_many(texts(10 * number, 10))
                    index.remove_many(range(10 * (number - 3), 10 * (number - 2)))
                number += 1
                begun.set()
                if number % 7 == 0:
                    index.compact()

    with simindex.open(path, "x", layout=TINY) as index:
        index.insert_many(texts(0, 30))
    writer = threading.Thread(target=write)
    writer.start()
    assert begun.wait(60)
    try:
        last = 0
        with simindex.open(path, "r") as index:
            for number in range(20):
                where = target if number % 5 else path.parent / f"backup {number}"
                report = index.backup(where)
                with simindex.open(where, "r") as copy:
                    keys = [key for key in copy if isinstance(key, int)]
                    assert len(copy) == report.documents == 30
                    assert keys == list(range(keys[0], keys[0] + 30))
                    assert keys[0] % 10 == 0
                    assert keys[0] >= max(last, 10)  # since the writer began
                    last = keys[0]
                    assert copy.query(texts(keys[3], 1)[0][1])[0].key == keys[3]
    finally:
        stop.set()
        writer.join(60)


def test_index_can_be_compacted_in_the_middle_of_a_backup(
    paths: tuple[Path, Path], target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two steps nothing of the index is held: a compaction here would wait for ever."""
    set_bound(monkeypatch, "bytes of a part of a backup", 3_000)
    path, calls = paths[0], list[int]()
    with filled(path, 300) as index:

        def progress(done: int) -> None:
            calls.append(done)
            if len(calls) in (4, 20):
                index.remove_many(range(len(calls), len(calls) + 3))
                index.compact()

        report = target.make(path, progress)
        assert report.documents in (294, 297, 300)  # as of the snapshot
        steps = list[tuple[int, int]]()
        index.backup(path.parent / "again", lambda *step: steps.append(step))
        assert all(done <= total for done, total in steps)
        assert steps[-1][0] == steps[-1][1]
    assert len(calls) > 20
    assert len(target.content()) > 0


# ---- what is refused ----


def refused(
    path: Path, target: Path, error: type[Exception], match: str, before: Path | None = None
) -> BaseException:
    """The backup raises, and leaves the target as it was and nothing beside it."""
    found = content_of(before) if before else None
    with simindex.open(path, "r") as index, pytest.raises(error, match=match) as caught:
        index.backup(target)
    if before:
        assert content_of(before) == found
    assert not list(target.parent.glob(".*"))
    return caught.value


def test_another_index_is_no_target(paths: tuple[Path, Path], target: Target) -> None:
    path, other = paths[0], paths[0].parent / "other"
    filled(path).close()
    filled(other).close()
    target.make(other)
    before = target.content()
    with pytest.raises(BackupTargetError, match=r"expected a backup of .*, found (one of )?another index"):
        target.make(path)
    assert target.content() == before
    shutil.rmtree(other)
    simindex.open(other, config=Config(num_perm=64, seed=2)).close()
    error = refused(path, other, ConfigMismatchError, "num_perm: 64 there, 128 here; seed: 2 there", other)
    assert isinstance(error, ConfigMismatchError)
    assert error.fields == {"num_perm": (64, 128), "seed": (2, 1)}


def test_newer_backup_is_no_target(paths: tuple[Path, Path], target: Target) -> None:
    path, older = paths[0], paths[0].parent / "older"
    with filled(path) as index:
        index.backup(older)
        index.insert("new", "what the older one has not")
        target.make(path)
    before = target.content()
    message = "found a newer one .documents up to doc id 101 there, 100"
    with pytest.raises(BackupTargetError, match=message):
        target.make(older)
    assert target.content() == before


def test_backup_of_a_state_that_the_index_never_had_is_no_target(paths: tuple[Path, Path]) -> None:
    """The index was restored from an older backup, and has gone on otherwise."""
    path, target = paths
    with filled(path) as index:
        index.backup(path.parent / "older")
        index.insert("lost", "what the restored one has not")
        index.backup(target)
    with simindex.open(path.parent / "older") as restored:
        restored.insert("other", "instead of what was lost")
        restored.insert("more", "and more")
    refused(path.parent / "older", target, BackupTargetError, "expected segment .* found another one", target)


def test_what_is_no_backup_is_no_target(paths: tuple[Path, Path]) -> None:
    path, copy = paths
    filled(path).close()
    shutil.copytree(path, copy)
    refused(path, copy, BackupTargetError, "changed since, or made otherwise", copy)
    (path.parent / "link").symlink_to(path)
    for target in (path, path / "backup", path.parent / "link"):
        refused(path, target, ValueError, "expected a folder outside of the index", path)
    (copy.parent / "file").write_text("mine")
    (copy.parent / "folder" / "mine").mkdir(parents=True)
    for name in ("file", "folder"):
        refused(path, copy.parent / name, FormatError, "expected a backup, an empty folder or nothing")


def test_empty_folder_and_a_link_to_one_are_targets(paths: tuple[Path, Path]) -> None:
    path, target = paths
    target.mkdir(parents=True)
    (path.parent / "link").symlink_to(target)
    with filled(path) as index:
        assert index.backup(path.parent / "link").path == str(target)
    assert content_of(target) == content_of(path)


def test_backup_inside_a_transaction_is_refused(paths: tuple[Path, Path]) -> None:
    path, target = paths
    with filled(path) as index, index.transaction(), pytest.raises(TransactionOpenError, match="backup"):
        index.backup(target)
    assert not target.exists()


def test_backup_that_somebody_writes_to_is_locked(paths: tuple[Path, Path]) -> None:
    path, target = paths
    with filled(path) as index:
        index.backup(target)
        with simindex.open(target), pytest.raises(IndexLockedError):
            index.backup(target)
        assert index.backup(target).documents == 100


# ---- damage, space, permissions ----


@pytest.mark.parametrize("database", ["segments", "documents", "removed", "groups", "ages", "main"])
def test_damaged_value_is_found_and_no_backup_made(
    paths: tuple[Path, Path], target: Target, database: str
) -> None:
    """And an older backup stays as it was."""
    path = paths[0]
    with filled(path) as index:
        target.make(path)
        index.insert_many(texts(100, 40))
        index.insert_many((f"copy {n}", "the same text") for n in range(3))
        index.touch(3, 104)
        with bound("changes of a commit that wait", 0):
            index.remove_many([0, 2, 105, "copy 0"])
    *_, (name, key, value) = [
        entry for entry in stored_values(path) if entry[0] == database and entry[1] != b"config"
    ]
    store_values(path, [(name, key, flipped(value, 13))])
    before, new = target.content(), Target(target.kind, path.parent / "new")
    for where in (target, new):
        with pytest.raises(CorruptIndexError):
            where.make(path)
        assert not list(where.root.parent.glob(".*"))
    assert target.content() == before
    assert not (new.root / "data.mdb").exists()
    assert not (new.root / "manifest").exists()


def test_lost_record_is_found(paths: tuple[Path, Path]) -> None:
    path, target = paths
    filled(path).close()
    store_values(path, [("documents", bytes(7) + b"\x07", None)])
    with (
        pytest.raises(CorruptIndexError, match="count of the 89 records that are stored, found 90"),
        simindex.open(path, "r") as index,
    ):
        index.backup(target)
    assert not target.exists()


@pytest.mark.parametrize("database", ["documents", "removed", "groups", "ages"])
def test_entries_that_a_page_has_lost_cost_no_older_backup(
    paths: tuple[Path, Path], target: Target, database: str
) -> None:
    """LMDB's count does not show it, as where a page is back in the state of an earlier commit."""
    path = paths[0]
    with filled(path, 300) as index:
        target.make(path)
        index.insert_many((f"copy {n}", f"the same text {n % 3}") for n in range(9))
        with bound("changes of a commit that wait", 0):
            index.touch(3, 104)
            index.remove_many([0, 2, 105])
    before, data = target.content(), bytearray(data_of(path).read_bytes())
    forget(data, leaves(bytes(data), database)[0])
    data_of(path).write_bytes(data)
    with pytest.raises(CorruptIndexError, match=f"entries of {database} for the backup, found"):
        target.make(path)
    assert target.content() == before


def test_backup_whose_kept_segment_is_damaged_is_not_built_upon(paths: tuple[Path, Path]) -> None:
    path, target = paths
    filled(path).close()
    with simindex.open(path, "r") as index:
        index.backup(target)
    name, key, value = next(entry for entry in stored_values(target) if entry[0] == "segments")
    store_values(target, [(name, key, flipped(value, 8 * len(value) - 5))])
    refused(path, target, BackupTargetError, "the backup is damaged")


def test_full_disk_is_told_before_anything_is_written(
    paths: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, target = paths
    with filled(path) as index:
        found = os.statvfs(path)
        scarce = os.statvfs_result((*found[:4], 10, *found[5:]))
        monkeypatch.setattr(os, "statvfs", lambda _: scarce)
        with pytest.raises(IndexFullError, match="nothing was changed") as caught:
            index.backup(target)
    assert caught.value.needed_bytes is not None
    assert caught.value.needed_bytes > 10 * found.f_frsize
    assert not list(target.parent.iterdir())


def test_backup_has_the_permissions_of_its_index(paths: tuple[Path, Path]) -> None:
    path, target = paths
    with simindex.open(path, permissions=0o640) as index:
        index.insert("a", "some text")
        report: BackupReport = index.backup(target)
    assert report.documents == 1
    assert (target / "data.mdb").stat().st_mode & 0o777 == 0o640
    assert target.stat().st_mode & 0o777 == 0o750
