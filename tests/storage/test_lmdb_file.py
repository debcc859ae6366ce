"""Opening a data file, whether all of it is there, and errors of LMDB and of files, each as what a user can
do something about."""

import errno
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import lmdb
import pytest
from support.indexes import READING_AND_ADDING, problems_of
from support.processes import end, pipes_of, start
from support.stored import give_back, with_page
from support.texts import SMALL, Held, assert_holds, batch

import simindex
from simindex import (
    CorruptIndexError,
    DiskError,
    FormatError,
    IndexFullError,
    Layout,
    ReadOnlyError,
    SimIndexError,
)
from simindex.storage.lmdb_file import DATABASES, MAX_READERS, databases_of, open_lmdb, read_only, translated
from simindex.storage.page_file import PageFile
from simindex.storage.page_walk import Walked, walk_file
from simindex.storage.store import Store


def first_pages(folder: Path) -> bytes:
    """What LMDB writes when it makes a file, before any commit."""
    folder.mkdir()
    lmdb.open(str(folder), lib_version=0).close()
    return (folder / "data.mdb").read_bytes()


@pytest.mark.parametrize("longer", [0, 4096, 40_000])
@pytest.mark.parametrize("kept", ["none", "first", "second", "a part"])
def test_index_whose_making_a_power_cut_broke_off_is_made_anew(
    tmp_path: Path, kept: str, longer: int
) -> None:
    """The meta pages are synced with the first commit, so any part of them may be on the disk before."""
    whole = first_pages(tmp_path / "made")
    assert len(whole) == 2 * 4096
    found = bytearray(len(whole) + longer)
    parts = {"none": (0, 0), "first": (0, 4096), "second": (4096, 8192), "a part": (512, 4608)}
    begin, end = parts[kept]
    found[begin:end] = whole[begin:end]
    path = tmp_path / "i"
    path.mkdir()
    (path / "data.mdb").write_bytes(found)
    for mode in ("r", "r+"):
        with pytest.raises(FileNotFoundError, match="an index that was never completed"):
            simindex.open(path, mode)
    assert (path / "data.mdb").read_bytes() == found
    with simindex.open(path, "a", SMALL) as index:
        index.insert("a", ["a"])
    with simindex.open(path, "r") as index:
        assert list(index) == ["a"]


@pytest.mark.parametrize("lost", [0, 1])
def test_index_that_has_lost_a_meta_page_is_not_made_anew(tmp_path: Path, lost: int) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many(batch("a"))
    data = with_page((tmp_path / "i" / "data.mdb").read_bytes(), lost)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "data.mdb").write_bytes(data)
    with pytest.raises(CorruptIndexError, match=f"page {lost}"):
        simindex.open(copy, "a")
    assert (copy / "data.mdb").read_bytes() == data


def test_file_that_ends_before_its_last_page_opens_where_that_page_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page taken and given back in one commit is not written: the file is shorter than its page count.

    The writer lengthens it at once; a kill in between leaves such a file, which must not pass for one that
    was cut short.
    """
    path = tmp_path / "i"
    documents: Held = {}
    copies: list[tuple[Path, Held, int]] = []

    def data_bytes(folder: Path) -> int:
        return (folder / "data.mdb").stat().st_size

    with simindex.open(path, "x", SMALL, layout=Layout(2, 1000, 20_000)) as index:
        monkeypatch.setattr(Store, "_lengthen_file", lambda *_: None)
        for number in range(2):
            index.insert_many(batch("a", number), workers=1)
            documents |= batch("a", number)
            needed = give_back(index._store)
            copies.append((shutil.copytree(path, tmp_path / f"copy {number}"), dict(documents), needed))
    monkeypatch.undo()
    for copy, held, needed in copies:
        assert data_bytes(copy) < needed
        assert problems_of(copy) == problems_of(copy, "quick") == []
        assert simindex.repair(copy, tmp_path / f"saved {needed}").documents == len(held)
        for is_private in (False, True):
            with simindex.open(copy, "r", untrusted=is_private) as reader:
                assert_holds(reader, held)
        with simindex.open(copy) as index:
            index.insert("b", ["b"])
            assert_holds(index, held | {"b": ["b"]})
            assert data_bytes(copy) >= needed
        (copy / "data.mdb").write_bytes((copy / "data.mdb").read_bytes()[: needed // 8])
        with pytest.raises(CorruptIndexError, match="cut short"):
            simindex.open(copy)


def test_file_that_is_replaced_while_it_is_walked_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends before its free last pages is walked through; what lies at its path by then is another
    file."""
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL) as index:
        index.insert_many((number, f"{number} is a number of its own") for number in range(500))
    short = shutil.copytree(path, tmp_path / "short")
    os.truncate(short / "data.mdb", 3 * 4096)

    def late(file: PageFile) -> Walked:
        walked = walk_file(file)
        os.rename(path / "data.mdb", short / "data.mdb")
        return walked

    monkeypatch.setattr("simindex.storage.check_at_open.walk_file", late)
    with simindex.open(short, "r") as reader:
        assert len(reader) == 500


@pytest.mark.parametrize(
    "names", [[], [b"meta"], [b"meta", b"documents", b"segments", b"removed", b"groups"], [b"users"]]
)
def test_foreign_lmdb_environment_is_refused_and_left_alone(tmp_path: Path, names: list[bytes]) -> None:
    path = tmp_path / "foreign"
    with lmdb.open(str(path), max_dbs=8, lib_version=0) as env:
        databases: list[Any] = [env.open_db(name) for name in names] or [None]
        with env.begin(write=True) as txn:
            for database in databases:
                txn.put(b"config", b"precious", db=database)
    before = (path / "data.mdb").read_bytes()
    for mode in READING_AND_ADDING:
        with pytest.raises(FormatError, match=r"(an LMDB environment, but )?not a(n| simindex) index"):
            simindex.open(path, mode)
    with pytest.raises(FileExistsError):
        simindex.open(path, "x")
    assert (path / "data.mdb").read_bytes() == before
    with lmdb.open(str(path), max_dbs=8, lib_version=0) as env:
        databases = [env.open_db(names[0], create=False) if names else None]
        with env.begin() as txn:
            assert txn.get(b"config", db=databases[0]) == b"precious"


@pytest.mark.parametrize(
    "data",
    [b"garbage " * 2_000, bytes(100_000), b"short", b"\xff" * 8_192, bytes(20) + b"x" * 200],
    ids=range(5),
)
def test_data_file_that_is_no_lmdb_file_is_refused_and_left_alone(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "i"
    path.mkdir()
    (path / "data.mdb").write_bytes(data)
    for mode in READING_AND_ADDING:
        with pytest.raises(FormatError, match=r"data.mdb is not an LMDB file that simindex can read"):
            simindex.open(path, mode)
    assert (path / "data.mdb").read_bytes() == data


def test_open_lmdb_takes_a_smaller_map_where_the_system_grants_no_larger_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    map_sizes, really_open = [], lmdb.open

    def stingy(path: str, map_size: int, **options: Any) -> lmdb.Environment:
        map_sizes.append(map_size)
        if map_size > 1 << 28:
            raise lmdb.MemoryError("Cannot allocate memory")
        return really_open(path, map_size, **options)

    monkeypatch.setattr(lmdb, "open", stingy)
    env, writable = open_lmdb(str(tmp_path / "data.mdb"), 1 << 30, create=True)
    assert (map_sizes, writable) == ([1 << 30, 1 << 29, 1 << 28], True)
    assert env.info()["map_size"] == 1 << 28
    env.close()


def test_open_lmdb_without_any_address_space_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise lmdb.MemoryError("Cannot allocate memory")

    monkeypatch.setattr(lmdb, "open", none_left)
    with pytest.raises(SimIndexError, match="no address space for a map of"):
        open_lmdb(str(tmp_path / "data.mdb"), 1 << 36, create=True)


def test_opening_beside_a_commit_of_another_process_lets_the_other_threads_run(tmp_path: Path) -> None:
    """Who waits for the writer must not hold the GIL: here the commit ends when another thread says so."""
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL) as index:
        index.insert("a", ["a"])
    commits = start(
        "import lmdb, select, sys\n"
        "env = lmdb.open(sys.argv[1] + '/data.mdb', subdir=False, max_dbs=8, lib_version=0)\n"
        "with env, env.begin(write=True):\n"
        "    print('begun', flush=True)\n"
        "    told = select.select([sys.stdin], [], [], 10)[0]\n"
        "    print('told' if told else 'never told', flush=True)\n",
        path,
    )
    asks, answers = pipes_of(commits)
    assert answers.readline() == "begun\n"
    found: list[int] = []

    def look() -> None:
        with simindex.open(path, "r") as reader:
            found.append(len(reader))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)  # for them to come to wait; it fails less often otherwise, and never wrongly
    asks.write("go on\n")
    asks.flush()
    for thread in threads:
        thread.join()
    assert answers.readline() == "told\n"
    end(commits)
    assert found == [1, 1]


def test_databases_of_another_kind_are_refused(tmp_path: Path) -> None:
    """The names are right, but one database keeps many values a key."""
    env, _ = open_lmdb(str(tmp_path / "data.mdb"), 1 << 20, create=True)
    for name in DATABASES:
        env.open_db(name.encode(), dupsort=name == "groups")
    with pytest.raises(FormatError, match="database 'groups' has unknown flags"):
        databases_of(env, str(tmp_path))
    env.close()


# ---- errors ----


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (lmdb.DiskError("mdb_txn_commit: No space left"), IndexFullError, "nothing of it is stored"),
        (OSError(errno.ENOSPC, "No space left on device"), IndexFullError, "Free some space"),
        (OSError(errno.EDQUOT, "Quota exceeded"), IndexFullError, "Free some space"),
        (OSError(errno.EFBIG, "File too large"), IndexFullError, "Free some space"),
        (OSError(errno.EIO, "Input/output error"), DiskError, "Look at the system's log"),
        (lmdb.Error("mdb_txn_commit: MDB_SHORT_WRITE"), IndexFullError, "Free some space"),
        (lmdb.CursorFullError("mdb_cursor_get"), CorruptIndexError, "damaged pages"),
        (lmdb.PageFullError("mdb_put"), CorruptIndexError, "damaged pages"),
        (lmdb.BadTxnError("mdb_stat"), CorruptIndexError, "damaged pages"),
        (lmdb.InvalidError("MDB_INVALID"), FormatError, "data.mdb is not an LMDB file"),
        (lmdb.VersionMismatchError("MDB_VERSION_MISMATCH"), FormatError, "data.mdb is not an LMDB file"),
        (lmdb.Error("Bad file descriptor"), FormatError, "data.mdb is not an LMDB file"),
        (lmdb.CorruptedError("MDB_CORRUPTED"), CorruptIndexError, "damaged pages .*restore a backup"),
        (lmdb.PageNotFoundError("MDB_PAGE_NOTFOUND"), CorruptIndexError, "damaged pages"),
        (lmdb.ReadonlyError("Permission denied"), ReadOnlyError, "no permission to write"),
        (lmdb.ReadersFullError("MDB_READERS_FULL"), SimIndexError, f"all {MAX_READERS} reader slots"),
        (OSError(errno.EACCES, "Permission denied"), SimIndexError, "Permission denied"),
    ],
    ids=lambda value: str(value) if isinstance(value, Exception) else None,
)
def test_error_becomes_one_of_simindex_that_names_the_path(
    error: lmdb.Error | OSError, kind: type[SimIndexError], says: str
) -> None:
    made = translated(error, "/data/news")
    assert type(made) is kind
    with pytest.raises(kind, match=f"^/data/news: .*{says}"):
        raise made


def test_read_only_says_how_to_open_it() -> None:
    made = read_only("/data/news")
    assert type(made) is ReadOnlyError
    assert str(made) == '/data/news: opened with mode "r"; open it with mode "a" to change it'
