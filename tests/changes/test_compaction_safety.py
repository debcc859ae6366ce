"""Compaction loses nothing: a lost document is reported, and the new file is synced before the rename."""

import contextlib
import os
import struct
from pathlib import Path

import pytest
from support.faults import set_bound
from support.indexes import problems_of
from support.processes import ask, end, start
from support.stored import PAGE, bare_store, copy_in_place, held, put

import simindex
from simindex import CorruptIndexError

_LEAF = 2  # P_LEAF, and no other flag
_HEADER_BYTES = 16

_HOLDS_THE_LOCK_FILE = (
    "import sys, lmdb\n"
    "from simindex.storage.lmdb_file import ENGINE\n"
    "with lmdb.open(sys.argv[1], readonly=True, lib_version=ENGINE):\n"
    "    for line in sys.stdin: print('open', flush=True)\n"
)


def test_lost_document_is_reported_and_the_old_file_stays(tmp_path: Path) -> None:
    """A leaf that has lost an entry: the count that the tree's record has is still the right one."""
    path = tmp_path / "i"
    with simindex.open(path, "x") as index:
        for number in range(5):
            index.insert(number, f"{number} is a number of its own")
    whole = (path / "data.mdb").read_bytes()
    identity = (path / "data.mdb").stat().st_ino
    reported = []
    for at in range(0, len(whole), PAGE):
        _, _, flags, lower = struct.unpack_from("<QHHH", whole, at)
        if flags != _LEAF or lower != _HEADER_BYTES + 2 * 5:
            continue
        data = bytearray(whole)
        struct.pack_into("<H", data, at + 12, lower - 2)
        (path / "data.mdb").write_bytes(data)
        with contextlib.suppress(CorruptIndexError), simindex.open(path) as index:
            try:
                index.compact()
            except CorruptIndexError as error:
                reported.append(str(error))
                assert (path / "data.mdb").stat().st_ino == identity
    assert any("documents: expected 5 of them, found 4" in message for message in reported), reported


@pytest.mark.parametrize("commits", range(4))
def test_reader_takes_the_newer_meta_page_of_a_replaced_file(tmp_path: Path, commits: int) -> None:
    """LMDB chooses by the number in the lock file, which another process keeps."""
    with contextlib.closing(bare_store(tmp_path)) as store:
        other = start(_HOLDS_THE_LOCK_FILE, store.path)
        assert ask(other) == "open"
        for number in range(20 + commits):
            put(store, "meta", count=b"%d" % number)

        copy_in_place(store)
        assert held(store, "meta")[b"copied"] == b"2"
        end(other)


def test_new_file_is_synced_before_it_takes_the_place_of_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    replaced = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(file: int) -> None:
        fsync(file)
        synced.add(os.fstat(file).st_ino)

    def recorded_replace(new: Path, old: Path) -> None:
        if old.name == "data.mdb":
            replaced.append(os.stat(new).st_ino in synced)
        replace(new, old)

    with simindex.open(tmp_path / "i", "x") as index:
        index.insert("a", "one page of some words")
        monkeypatch.setattr(os, "fsync", recorded_fsync)
        monkeypatch.setattr(os, "replace", recorded_replace)
        index.compact()
    assert replaced == [True]


def test_sketch_of_a_removed_document_stays_for_a_copy_in_a_later_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of segments that compaction merges may have no key left, and the sketch of a later copy."""
    set_bound(monkeypatch, "segments of a merge", 1)  # one run takes 4,096 commits
    text = "one page of some words that has a copy"
    with simindex.open(tmp_path / "i", "x") as index:
        index.insert("leader", text)
        index.insert("copy", text)
        index.remove("leader")
        index.compact()
        assert [match.key for match in index.query(text, threshold=0.9)] == ["copy"]
        assert not problems_of(index.path)
