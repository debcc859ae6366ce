"""A backup in a store is the index at one commit, and what is restored from it equals it byte for byte."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.faults import set_bound
from support.indexes import content_of, filled, problems_of, texts
from support.samples import sample_of
from support.servers import store_at

import simindex
from simindex import (
    BackupReport,
    CorruptIndexError,
    FormatError,
    IndexLockedError,
    MissingObjectError,
    SimIndexError,
    StoreError,
)
from simindex.format.backup_objects import decode_backup, encode_backup
from simindex.maintenance import backup_parts
from simindex.maintenance.object_store import Objects


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """Where an index is, its backup, and what is restored. Parts are small, so that there are many."""
    set_bound(monkeypatch, "bytes of a part of a backup", 4096)
    return tmp_path / "index", tmp_path / "stores" / "backup", tmp_path / "restored"


def back_up(
    path: Path, store: Path | str, progress: Callable[[int, int], object] | None = None
) -> BackupReport:
    """Back up an index to a store: a uri, or a folder."""
    with simindex.open(path, "r") as index:
        return index.backup(f"file://{store}" if isinstance(store, Path) else store, progress)


def parts_of(store: Path) -> set[str]:
    return {path.name for path in (store / "parts").iterdir()}


@pytest.mark.parametrize("kind", ["folder", "memory", "s3"])
def test_what_is_restored_is_what_was_backed_up(kind: str, paths: tuple[Path, Path, Path]) -> None:
    path, _, restored = paths
    with store_at(kind, path.parent) as target:
        uri = f"file://{target}" if kind == "folder" else target
        with filled(path) as index:
            index.remove_many(range(0, 100, 7))
            index.touch(1, 2, 50)
            done = list[int]()
            report = back_up(path, uri, lambda some, _: done.append(some))
            segments = index.stats().segments
        steps = list[tuple[int, int]]()
        back = simindex.restore(uri, restored, progress=lambda *some: steps.append(some))
    assert content_of(restored) == content_of(path)
    assert not problems_of(restored)
    assert (report.created, report.documents, report.reused_segments) == (True, 85, 0)
    assert (report.copied_segments, report.path) == (segments, target)
    assert (back.documents, back.path) == (85, str(restored))
    assert done == sorted(done)
    assert done[-1] >= report.copied_bytes == back.num_bytes
    assert steps[-1] == (back.num_bytes, back.num_bytes)
    assert 0 <= report.pinned_seconds <= report.seconds
    assert not list(restored.parent.glob(".*"))


def test_what_a_backup_does_not_need_any_more_goes(paths: tuple[Path, Path, Path]) -> None:
    path, store, _ = paths
    with filled(path, 300) as index:
        back_up(path, store)
        index.remove_many(range(300))
        index.compact()
        report = back_up(path, store)
    assert (report.documents, parts_of(store)) == (0, set())


# ---- cut off, and side by side ----


def test_cut_off_anywhere_the_old_backup_stands(
    paths: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store, restored = paths
    put: Callable[[Objects, str, bytes], None] = Objects.put
    with filled(path, 100) as index:
        back_up(path, store)
        old = content_of_open(path)
        index.insert_many(texts(100, 60), batch_size=20)
        for most in count():
            calls = count()

            def counted(
                action: Callable[..., Any], most: int = most, calls: Iterator[int] = calls
            ) -> Callable[..., Any]:
                def call(*arguments: Any) -> Any:
                    if next(calls) >= most:
                        raise StoreError("nowhere", "the network is gone")
                    return action(*arguments)

                return call

            with monkeypatch.context() as patched:
                patched.setattr(Objects, "put", counted(put))
                try:
                    back_up(path, store)
                except StoreError:
                    pass
                else:
                    break
            simindex.restore(store, restored)
            assert content_of(restored) == old
            shutil.rmtree(restored)
        assert most > 1
        simindex.restore(store, restored)
        assert content_of(restored) == content_of_open(path)


def content_of_open(path: Path) -> Any:
    """Of an index that this process has open."""
    copy = path.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    return content_of(copy)


def test_what_was_uploaded_before_is_not_uploaded_again(
    paths: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store, _ = paths
    put = Objects.put

    def without_a_manifest(objects: Objects, name: str, content: bytes) -> None:
        if name == "manifest":
            raise StoreError("nowhere", "the network is gone")
        put(objects, name, content)

    with filled(path, 100):
        with monkeypatch.context() as patched:
            patched.setattr(Objects, "put", without_a_manifest)
            with pytest.raises(StoreError, match="the network is gone"):
                back_up(path, store)
        report = back_up(path, store)
    assert (report.created, report.copied_bytes) == (True, 0)


def test_of_two_backups_at_once_one_stands_whole(paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    with filled(path, 100) as index:

        def meanwhile(_: int, __: int, done: list[int] = []) -> None:  # noqa: B006 - it remembers that it was called
            if not done:
                done.append(1)
                index.insert_many(texts(100, 10))
                back_up(path, store)
                index.insert_many(texts(110, 10))

        with pytest.raises(StoreError, match="this one was given up"):
            back_up(path, store, progress=meanwhile)
    simindex.restore(store, restored)
    with simindex.open(restored, "r") as index:
        assert len(index) == 110
        assert not problems_of(index.path)


def test_a_backup_that_takes_the_place_of_the_one_that_is_read(paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    with filled(path, 100) as index:
        back_up(path, store)

        def meanwhile(_: int, __: int, done: list[int] = []) -> None:  # noqa: B006 - it remembers that it was called
            if not done:
                done.append(1)
                index.remove_many(range(50))
                index.compact()
                back_up(path, store)

        assert simindex.restore(store, restored, progress=meanwhile).documents == 50
    assert content_of(restored) == content_of(path)


# ---- damage ----


@pytest.mark.parametrize("stride", sample_of([6], [1]))
def test_each_damaged_object_is_named(paths: tuple[Path, Path, Path], stride: int) -> None:
    path, store, restored = paths
    with filled(path, 60):
        back_up(path, store)
    manifest = store / "manifest"
    parts = sorted((store / "parts").iterdir())
    assert len(parts) > 8
    for file in [manifest, *parts[::stride]]:
        sound = file.read_bytes()
        damaged = bytearray(sound)
        damaged[len(sound) // 2] ^= 1
        for content in (bytes(damaged), sound[:-40], sound + b"more", b""):
            file.write_bytes(content)
            with pytest.raises((CorruptIndexError, FormatError)) as raised:
                simindex.restore(store, restored)
            assert str(file) in str(raised.value)
        file.unlink()
        with pytest.raises(MissingObjectError, match="expected a") as missing:
            simindex.restore(store, restored)
        assert str(missing.value.path).startswith(str(store))
        file.write_bytes(sound)
    assert not restored.exists()
    assert not list(restored.parent.glob(".restored*"))
    simindex.restore(store, restored)


@pytest.mark.parametrize("kind", ["fifo", "device", "link to a device", "folder", "endless"])
def test_what_is_no_object_is_refused_and_not_waited_for(kind: str, paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    with filled(path, 60):
        back_up(path, store)
    for file in (store / "manifest", min((store / "parts").iterdir())):
        sound = file.read_bytes()
        file.unlink()
        if kind == "fifo":
            os.mkfifo(file)
        elif kind == "folder":
            file.mkdir()
        elif kind == "endless":
            with file.open("wb") as sparse:
                sparse.truncate(1 << 40)
        else:
            file.symlink_to("/dev/zero" if kind == "device" else "link")
            (file.parent / "link").unlink(missing_ok=True)
            (file.parent / "link").symlink_to("/dev/zero")
        with pytest.raises((CorruptIndexError, FormatError, StoreError), match=str(file)):
            simindex.restore(store, restored)
        (file.rmdir if kind == "folder" else file.unlink)()
        file.write_bytes(sound)
    assert simindex.restore(store, restored).documents == 60


def test_part_of_another_index_is_named(paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    other = path.with_name("other"), store.with_name("other")
    with filled(path, 60), simindex.open(other[0]) as index:
        index.insert_many(texts(500, 60))
        back_up(path, store)
        back_up(*other)
    file, foreign = min((store / "parts").iterdir()), min((other[1] / "parts").iterdir())
    shutil.copyfile(foreign, file)
    with pytest.raises(CorruptIndexError, match=str(file)):
        simindex.restore(store, restored)


@pytest.mark.parametrize("name", ["segments", "other", ""])
def test_a_manifest_with_parts_of_another_database_is_damage(
    name: str, paths: tuple[Path, Path, Path]
) -> None:
    path, store, restored = paths
    with filled(path, 20):
        back_up(path, store)
    manifest = store / "manifest"
    backup = decode_backup(manifest.read_bytes(), "")
    databases = {**backup.databases, name: backup.databases["documents"]}
    manifest.write_bytes(encode_backup(backup._replace(databases=databases)))
    with pytest.raises(CorruptIndexError, match="expected parts of documents, removed"):
        simindex.restore(store, restored)


@pytest.mark.parametrize("permissions", [0o600, 0o640])
def test_a_private_index_stays_private(permissions: int, paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    with simindex.open(path, permissions=permissions) as index:
        index.insert_many(texts(0, 60))
        back_up(path, store)
    simindex.restore(store, restored)
    simindex.open(restored).close()
    folder = 0o700 | (permissions & 0o040) >> 1 | permissions & 0o040 | (permissions & 0o040) >> 2
    for target in (store, restored):
        assert {stat.S_IMODE(one.stat().st_mode) for one in target.rglob("*") if one.is_file()} == {
            permissions
        }
    assert (stat.S_IMODE(restored.stat().st_mode) | stat.S_IMODE(store.stat().st_mode)) & ~folder == 0
    shutil.rmtree(restored)
    simindex.restore(store, restored, permissions=0o644)
    assert stat.S_IMODE((restored / "data.mdb").stat().st_mode) == 0o644


def test_a_part_that_the_store_has_lost_is_uploaded_again(paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    with filled(path, 100):
        back_up(path, store)
        lost = parts_of(store)
        for name in lost:
            (store / "parts" / name).unlink()
        back_up(path, store)
    assert parts_of(store) == lost
    simindex.restore(store, restored)
    assert content_of(restored) == content_of(path)


# ---- what is refused ----


def test_nothing_is_restored_over_something(paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    filled(path).close()
    with pytest.raises(MissingObjectError, match="expected a backup, found none"):
        simindex.restore(store, restored)
    back_up(path, store)
    with pytest.raises(FormatError, match="expected an empty folder or nothing"):
        simindex.restore(store, path)
    restored.mkdir()
    simindex.restore(store, restored)
    assert content_of(restored) == content_of(path)


@pytest.mark.parametrize(
    "make",
    [
        lambda path, _, made: back_up(path, str(made)),
        lambda path, _, made: simindex.merge([path], made),
        lambda path, _, made: simindex.repair(path, made),
        lambda path, _, made: simindex.resketch(path, made),
        lambda _, store, made: simindex.restore(store, made),
    ],
    ids=["backup", "merge", "repair", "resketch", "restore"],
)
def test_a_mount_point_is_no_place_for_a_new_index(
    paths: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, make: Callable[[Path, Path, Path], Any]
) -> None:
    path, store, restored = paths
    filled(path).close()
    back_up(path, store)
    restored.mkdir()
    is_mount = os.path.ismount
    monkeypatch.setattr(os.path, "ismount", lambda folder: Path(folder) == restored or is_mount(folder))
    with pytest.raises(FormatError, match="found a mount point; choose a folder in it"):
        make(path, store, restored)
    assert not [*restored.iterdir()]
    assert simindex.repair(path, restored / "in it").is_whole


def test_two_do_not_restore_to_one_place_at_once(paths: tuple[Path, Path, Path]) -> None:
    path, store, restored = paths
    filled(path).close()
    back_up(path, store)

    def meanwhile(*_: int) -> None:
        simindex.restore(store, restored)

    with pytest.raises(IndexLockedError):
        simindex.restore(store, restored, progress=meanwhile)
    simindex.restore(store, restored)


def test_a_manifest_of_a_later_version_is_refused(
    paths: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, store, restored = paths
    filled(path).close()
    monkeypatch.setattr("simindex.format.backup_objects.VERSION", 3)
    back_up(path, store)
    monkeypatch.undo()
    with pytest.raises(FormatError, match="expected a backup of version 2, found 3"):
        simindex.restore(store, restored)


def test_a_folder_without_an_index_has_no_backup(paths: tuple[Path, Path, Path]) -> None:
    path, store, _ = paths
    with pytest.raises((FileNotFoundError, SimIndexError)):
        back_up(path, store)
    assert not store.exists()


# ---- parts ----


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_where_parts_end_does_not_depend_on_how_entries_come(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "bytes of a part of a backup", 200)
    items = [((number * 997).to_bytes(8, "big"), b"v" * (number % 50)) for number in range(400)]
    whole = [*backup_parts.cut("documents", iter([items]))]
    some = [*backup_parts.cut("documents", iter([items[at : at + size] for at in range(0, 400, size)]))]
    assert whole == some
    assert [item for part in whole for item in part] == items
    assert all(part[0][0][:6] == part[-1][0][:6] for part in whole)


def test_a_change_moves_the_parts_of_its_own_numbers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "bytes of a part of a backup", 200)
    items = [((number * 997).to_bytes(8, "big"), b"value") for number in range(400)]
    before = [*backup_parts.cut("documents", iter([items]))]
    without = [item for item in items if item[0] != (100 * 997).to_bytes(8, "big")]
    after = [*backup_parts.cut("documents", iter([without]))]
    changed = [part for part in before if part not in after]
    assert {part[0][0][:6] for part in changed} == {(100 * 997 >> 16).to_bytes(6, "big")}
