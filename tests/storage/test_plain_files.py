"""What may lie in the folder of an index, and who may read its files."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.faults import around
from support.indexes import ALL_MODES, Mode

import simindex
from simindex import Config, FormatError, Index

SMALL = Config(num_perm=16)
FILES = ["data.mdb", "header", "data.mdb-lock", "writer.lock"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An index of one document."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert(1, ["one"])
    return tmp_path / "i"


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """The umask of this process, for the length of a test."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def dangling_link(file: Path) -> None:
    file.symlink_to(file.parent.parent / "target")


def link_to_a_file(file: Path) -> None:
    target = file.parent.parent / "moved"
    target.write_bytes(b"precious")
    file.symlink_to(target)


def named_socket(file: Path) -> None:
    before = Path.cwd()
    os.chdir(file.parent)  # the path of a socket has a hundred bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(file.name)
    finally:
        os.chdir(before)


OTHERS: list[tuple[str, Callable[[Path], None]]] = [
    ("a symbolic link", dangling_link),
    ("a symbolic link", link_to_a_file),
    ("a pipe", os.mkfifo),
    ("a socket", named_socket),
    ("a folder", os.mkdir),
]

# In a process of its own: opening a pipe would wait for ever.


@pytest.mark.parametrize("name", [*FILES, "header.new"])
@pytest.mark.parametrize(("kind", "make"), OTHERS)
def test_other_than_a_plain_file_is_refused_by_name_in_every_mode(
    path: Path, name: str, kind: str, make: Callable[[Path], None]
) -> None:
    (path / name).unlink(missing_ok=True)
    make(path / name)
    before = os.lstat(path / name)
    for mode in ALL_MODES:
        with pytest.raises(FormatError) as raised:
            simindex.open(path, mode)
        assert str(raised.value).startswith(
            f"{path / name}: expected a file, found {kind}; it was left alone"
        )
    after = os.lstat(path / name)
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (
        before.st_ino,
        before.st_mode,
        before.st_mtime_ns,
    )
    assert not (path.parent / "target").exists()


@pytest.mark.parametrize("make", [dangling_link, os.mkfifo, Path.mkdir])
def test_other_than_a_file_in_the_place_of_the_copy_is_refused(
    path: Path, make: Callable[[Path], None]
) -> None:
    make(path / "compact.tmp")
    for mode in ALL_MODES:
        with pytest.raises(FormatError, match=r"compact\.tmp: expected a file, found a "):
            simindex.open(path, mode)


@pytest.mark.parametrize("name", ["data.mdb", "compact.tmp"])
def test_link_that_came_later_stops_a_compaction_before_anything_is_changed(path: Path, name: str) -> None:
    with simindex.open(path) as index:
        index.insert(2, ["two"])
        target = path.parent / "target"
        if name == "data.mdb":
            (path / name).rename(target)
        (path / name).symlink_to(target)
        with pytest.raises(FormatError, match="found a symbolic link"):
            index.compact()
        assert index.stats().segments == 2
        assert (path / name).is_symlink()
        (path / name).unlink()
        if name == "data.mdb":
            target.rename(path / name)
        index.compact()
        assert list(index) == [1, 2]


@pytest.mark.parametrize(
    ("wanted", "folder"), [(None, None), (0o600, 0o700), (0o640, 0o750), (0o664, 0o775), (0o660, 0o770)]
)
def test_new_index_has_the_permissions_asked_for_whatever_the_umask(
    tmp_path: Path, umask: int, wanted: int | None, folder: int | None
) -> None:
    path, of_files = tmp_path / "above" / "i", wanted or 0o644 & ~umask
    with simindex.open(path, config=SMALL, permissions=wanted) as index:
        index.insert(1, ["one"])
        assert {name: permissions(path / name) for name in FILES} == dict.fromkeys(FILES, of_files)
        index.compact()
    files = [name.replace("data.mdb", "data.1.mdb") for name in FILES]
    assert {file.name: permissions(file) for file in path.iterdir()} == dict.fromkeys(files, of_files)
    assert permissions(path) == (folder or 0o777 & ~umask)
    assert permissions(tmp_path / "above") == 0o777 & ~umask


def test_permissions_count_at_creation_only_and_leave_a_folder_that_is_there(path: Path) -> None:
    before = {name: permissions(path / name) for name in FILES}
    simindex.open(path, permissions=0o600).close()
    assert {name: permissions(path / name) for name in FILES} == before
    empty = path.parent / "empty"
    empty.mkdir(mode=0o755)
    was = permissions(empty)
    simindex.open(empty, "x", SMALL, permissions=0o600).close()
    assert permissions(empty) == was
    assert permissions(empty / "data.mdb") == 0o600


@pytest.mark.parametrize("mode", ["r", "a"])
def test_files_that_are_made_later_are_as_private_as_the_data_file(path: Path, mode: Mode) -> None:
    for name in FILES:
        if name != "data.mdb":
            (path / name).unlink()
    (path / "data.mdb").chmod(0o600)
    simindex.open(path, mode).close()
    found = {file.name: permissions(file) for file in path.iterdir()}
    assert found == dict.fromkeys(found, 0o600)
    assert {"data.mdb", "data.mdb-lock"} <= found.keys()


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ("0600", TypeError, "permissions: expected an int, found str"),
        (True, TypeError, "permissions: expected an int, found bool"),
        (-1, ValueError, "permissions: expected 0..511, found -1"),
        (0o1600, ValueError, "permissions: expected 0..511, found 896"),
        (0o400, ValueError, "owner reads and writes"),
        (0o700, ValueError, "no user executes"),
        (600, ValueError, "found 0o1130|0..511"),
    ],
)
def test_wrong_permissions_are_refused(
    tmp_path: Path, wrong: object, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        simindex.open(tmp_path / "i", permissions=wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "i").exists()


def compacted(index: Index, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Compact; returns the permissions of the copy and its lock file before they get those of the old one."""
    seen: list[int] = []

    def looking(keep_owner: Callable[..., None], file: str, old: os.stat_result) -> None:
        seen.append(permissions(Path(file)))
        keep_owner(file, old)

    with monkeypatch.context() as patch:
        around(patch, "give a file to the owner of the old one", looking)
        index.compact()
    return seen


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666])
def test_data_file_keeps_its_permissions_and_the_copy_is_never_more_readable(
    path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    (path / "data.mdb").chmod(mode)
    (path / "data.mdb-lock").chmod(lock := 0o666)  # so that more users may read
    with simindex.open(path) as index:
        assert compacted(index, monkeypatch) == [0o600, 0o600]
        assert list(index) == [1]
    assert permissions(path / "data.1.mdb") == mode
    assert permissions(path / "data.1.mdb-lock") == lock


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_data_file_keeps_its_owner_and_group(path: Path) -> None:
    for name in ("data.mdb", "data.mdb-lock"):
        os.chown(path / name, 12_345, 23_456)
        (path / name).chmod(0o660)
    with simindex.open(path) as index:
        index.compact()
        assert list(index) == [1]
    for name in ("data.1.mdb", "data.1.mdb-lock"):
        found = (path / name).stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12_345, 23_456, 0o660)


@pytest.mark.parametrize(("old", "new"), [(0o640, 0o600), (0o660, 0o600), (0o664, 0o644), (0o666, 0o666)])
def test_copy_whose_group_cannot_be_kept_lets_no_other_group_read(
    path: Path, monkeypatch: pytest.MonkeyPatch, old: int, new: int
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("simindex.storage.replacement.os.chown", forbidden)
    (path / "data.mdb").chmod(old)
    with simindex.open(path) as index:
        index.compact()
    assert permissions(path / "data.1.mdb") == new
