"""A file of SQLite names itself when the disk does not take more."""

import errno
import resource
import sqlite3
from pathlib import Path
from threading import Thread

import pytest

from simindex import Config
from simindex.corpus.sqlite_files import TextFile, opened_sqlite


def fill(path: str) -> None:
    with opened_sqlite(path) as file:
        file.executescript("create table a (b blob); pragma max_page_count = 9;")
        file.executemany("insert into a values (?)", [(b"x" * 50_000,)] * 9)


def test_full_disk_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "some.sqlite")
    with pytest.raises(OSError, match="No space left") as failure:
        fill(path)
    assert (failure.value.errno, failure.value.filename) == (errno.ENOSPC, path)
    with pytest.raises(sqlite3.OperationalError, match="no such table"), opened_sqlite(path) as file:
        file.execute("select * from none")


def test_disk_that_takes_no_texts_at_all_is_named(tmp_path: Path) -> None:
    path, limits = str(tmp_path / "texts.sqlite"), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="disk I/O error") as failure:
            TextFile(path, Config())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (failure.value.errno, failure.value.filename) == (errno.EIO, path)


def test_block_that_a_thread_has_begun_is_left_in_another(tmp_path: Path) -> None:
    """As that of a job which failed in a thread, and whose error goes later."""
    block = opened_sqlite(str(tmp_path / "some.sqlite"))
    (thread := Thread(target=block.__enter__)).start()
    thread.join()
    block.__exit__(None, None, None)
