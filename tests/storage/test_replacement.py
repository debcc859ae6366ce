"""A compacted file beside the old one: readers change over, and nothing else is seen of it."""

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.faults import around
from support.indexes import BATCH, BATCHES, LAYOUT, SMALL, check, insert
from support.processes import ask, end, start
from support.stored import bare_store, data_of, held, put

import simindex
from simindex import IndexFullError
from simindex.changes.session import clear_unnamed
from simindex.format.meta import Manifest
from simindex.storage.folder import COMPACT_FILE, data_file
from simindex.storage.store import Store


def test_compact_is_followed_by_reading_processes(tmp_path: Path) -> None:
    """Readers that were there before, that come while it happens, and the writer go on."""
    path = tmp_path / "i"
    code = (
        "import sys, simindex\n"
        "reader = simindex.open(sys.argv[1], 'r')\n"
        "for line in sys.stdin:\n"
        "    with simindex.open(sys.argv[1], 'r') as late:\n"
        "        print(len(reader), len(late), reader.query('one page of some words')[0].key, flush=True)\n"
    )
    with simindex.open(path) as index:
        index.insert("page", "one page of some words")
        child = start(code, path)
        for number in range(12):
            for more in range(number % 4 + 1):
                index.insert(f"{number}-{more}", f"text number {number} {more} of the test")
            if number % 3 != 1:
                index.compact()
            assert ask(child) == f"{len(index)} {len(index)} page"
        end(child)
    with simindex.open(path) as index:
        assert len(index) == 1 + sum(number % 4 + 1 for number in range(12))
        index.insert("after", "still takes inserts")


@pytest.mark.parametrize("step", ["sync", "_open"])
def test_compaction_without_space_is_an_error_and_leaves_the_index_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, layout=LAYOUT) as index:
        for batch in range(BATCHES):
            insert(index, batch)
        with monkeypatch.context() as patch:
            patch.setattr(f"simindex.storage.replacement.{step}", full)
            with pytest.raises(IndexFullError, match="No space left") as raised:
                index.compact()
        assert (raised.value.errno, str(raised.value).count(str(path))) == (errno.ENOSPC, 1)
        files = {"data.mdb", "header", "data.mdb-lock", "writer.lock"}
        assert {file.name for file in path.iterdir()} == files
        mode = data_of(path).stat().st_mode
        for _ in range(2):
            check(index, range(BATCHES))
            index.compact()
        assert data_of(path).stat().st_mode == mode


def test_mark_in_a_file_that_is_in_its_place_counts_for_nothing_and_is_taken_back(tmp_path: Path) -> None:
    """What a compaction leaves that was killed just before the rename."""
    store = bare_store(tmp_path / "i")
    put(store, "meta", moved=b"1")
    (tmp_path / "i" / COMPACT_FILE).write_bytes(b"half a copy")
    reader = Store(tmp_path / "i", "r")
    assert held(reader, "meta")[b"moved"] == b"1"
    clear_unnamed(store, Manifest())
    assert held(reader, "meta") == {b"config": b"header"}
    assert not (tmp_path / "i" / COMPACT_FILE).exists()
    clear_unnamed(store, Manifest())  # without effect
    reader.close()
    store.close()


def test_file_that_a_killed_compaction_has_left_is_removed_by_the_next_writer(tmp_path: Path) -> None:
    """It was killed just before it removed the old file: readers go by the newer one."""
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, layout=LAYOUT) as index:
        insert(index, 0)
        old = data_of(path).read_bytes()
        index.compact()
        insert(index, 1)
    (path / "data.mdb").write_bytes(old)
    with simindex.open(path, "r") as reader:
        assert len(reader) == 2 * BATCH
    with simindex.open(path) as index:
        check(index, range(2))
    assert {file.name for file in path.iterdir()} == {
        "data.1.mdb",
        "data.1.mdb-lock",
        "header",
        "writer.lock",
    }


def test_file_that_the_last_user_leaves_is_closed(tmp_path: Path) -> None:
    """Its space is free then: a pinned handle holds it until its refresh."""
    path = tmp_path / "i"

    def open_files() -> set[str]:
        links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
        found = [os.readlink(link) for link in links if os.path.islink(link)]
        return {os.path.basename(name) for name in found if name.startswith(f"{path}/data")}

    with simindex.open(path, "x", SMALL, layout=LAYOUT) as index:
        insert(index, 0)
        with simindex.open(path, "r", refresh="manual") as pinned:
            index.compact()
            insert(index, 1)
            assert len(pinned) == BATCH
            assert len(open_files()) == 4
            pinned.refresh()
            assert len(pinned) == 2 * BATCH
            assert open_files() == {"data.1.mdb", "data.1.mdb-lock"}
    assert open_files() == set()


def test_data_file_that_a_compaction_removes_while_the_folder_is_listed_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.2.mdb").touch()
    listings = iter([["header", "data.1.mdb"], ["header"], ["header", "data.2.mdb"]])
    monkeypatch.setattr("os.listdir", lambda _: next(listings))
    assert data_file(tmp_path) == str(tmp_path / "data.2.mdb")


def test_compactions_while_a_thread_goes_on_with_a_newer_file_are_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One makes its file an older one, the next closes that which it has just opened."""
    left, reading = 2, threading.current_thread()
    with simindex.open(tmp_path / "i", layout=LAYOUT) as index:
        index.insert_many((number, f"text {number}") for number in range(BATCH))

        def compact_meanwhile() -> None:
            nonlocal left
            if left and threading.current_thread() is reading:
                left -= 1
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(index.compact).result()

        def looking(step: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            compact_meanwhile()
            return step(*arguments, **options)

        def opening(step: Callable[..., Any], *arguments: Any) -> Any:
            opened = step(*arguments)
            compact_meanwhile()
            return opened

        around(monkeypatch, "look whether the file is marked", looking)
        around(monkeypatch, "open the newest data file", opening)
        assert index.get(3) is not None
        assert left == 0
        index.insert("last", "after them")
        assert data_file(index.path).endswith("data.2.mdb")
    with simindex.open(tmp_path / "i", "r") as index:
        assert "last" in index


def test_backup_begins_while_a_compaction_removes_the_file_that_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simindex.open(tmp_path / "i") as index, simindex.open(tmp_path / "i", "r") as reader:
        index.insert("first", "a text")
        is_found = False

        def finding(step: Callable[..., Any], path: str) -> str:
            nonlocal is_found
            found: str = step(path)
            if not is_found:
                is_found = True
                index.compact()
            return found

        around(monkeypatch, "find the data file", finding)
        reader.backup(tmp_path / "copy")
    with simindex.open(tmp_path / "copy", "r") as copy:
        assert list(copy) == ["first"]
