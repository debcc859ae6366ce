"""Prepared: a commit as plain values, which can be stored again from the start."""

from collections import Counter
from pathlib import Path
from typing import Any

from support.stored import bare_store, held, put_all

from simindex.changes.merges import Merged
from simindex.changes.writer import Prepared
from simindex.format.keys import number_key, segment_key
from simindex.format.layout import SegmentEntry
from simindex.format.manifest import Manifest, decode_manifest
from simindex.format.records import decode_flags, decode_group_size
from simindex.storage.lmdb_file import DATABASES
from simindex.storage.store import Store
from simindex.storage.transactions import WriteTransaction


def entry(segment: int) -> SegmentEntry:
    return SegmentEntry(segment, 10 * segment, 10, 10, 0, 10, 10, 10)


def prepared(**options: Any) -> Prepared:
    """A commit that takes segment 3 away, stores 5, and has something of everything else."""
    manifest = Manifest(60, 6, 20, 0, segments=(entry(4), entry(5)))
    merged = Merged(manifest, Counter(), [3], [(segment_key(5, 0, 0), b"merged")], unmarked=[30])
    return Prepared(
        merged,
        records=[(number_key(50), b"record 50"), (number_key(51), b"record 51")],
        segment=[(segment_key(4, 0, 0), b"new")],
        removed=[7],
        flags={7: 3},
        groups={8: 2, 9: 0},
        **options,
    )


def store_before(path: Path, **options: Any) -> Store:
    store = bare_store(path, **options)
    put_all(store, "documents", {number_key(7): b"record 7", number_key(8): b"record 8"})
    put_all(store, "segments", {segment_key(3, table, 0): b"old" for table in (0, 1)})
    put_all(store, "removed", {number_key(30): b"mark"})
    put_all(store, "groups", {number_key(9): b"group"})
    return store


def everything(store: Store) -> dict[str, dict[bytes, bytes]]:
    return {name: held(store, name) for name in DATABASES}


def test_store_puts_everything_in_its_place(tmp_path: Path) -> None:
    store = store_before(tmp_path / "i")
    commit = prepared()
    store.commit(commit.store)
    after = everything(store)
    assert after["documents"] == {
        number_key(8): b"record 8",
        number_key(50): b"record 50",
        number_key(51): b"record 51",
    }
    assert after["segments"] == {segment_key(4, 0, 0): b"new", segment_key(5, 0, 0): b"merged"}
    assert after["removed"].keys() == {number_key(7)}
    assert decode_flags(7, after["removed"][number_key(7)]) == 3
    assert after["groups"].keys() == {number_key(8)}
    assert decode_group_size(8, after["groups"][number_key(8)]) == 2
    assert decode_manifest(after["meta"][b"manifest"]) == commit.manifest == commit.merged.manifest
    assert after["meta"][b"manifest"] == commit.encoded_manifest
    store.close()


def test_store_that_runs_again_gives_the_same_databases(tmp_path: Path) -> None:
    """As it does when the map has to grow in the middle of it."""
    once, again = store_before(tmp_path / "once"), store_before(tmp_path / "again")
    commit = prepared()
    once.commit(commit.store)
    runs = []

    class NoSpaceError(Exception):
        pass

    def interrupted(txn: WriteTransaction) -> None:
        runs.append(txn)
        commit.store(txn)
        raise NoSpaceError

    for _ in range(2):
        try:
            again.commit(interrupted)
        except NoSpaceError:
            continue
    assert len(runs) == 2
    again.commit(commit.store)
    assert everything(again) == everything(once)
    once.close()
    again.close()


def test_store_is_replayed_while_the_map_grows(tmp_path: Path) -> None:
    store = store_before(tmp_path / "i", map_bytes=1 << 20)
    commit = prepared()
    commit.merged.puts += [(segment_key(5, 0, chunk), bytes(1 << 16)) for chunk in range(1, 60)]
    runs: list[WriteTransaction] = []

    def counted(txn: WriteTransaction) -> None:
        runs.append(txn)
        commit.store(txn)

    store.commit(counted)
    assert len(runs) > 1
    assert len(held(store, "segments")) == 61
    assert held(store, "documents").keys() == {number_key(number) for number in (8, 50, 51)}
    store.close()


def test_live_segment_is_never_removed_whatever_is_said_to_be_gone(tmp_path: Path) -> None:
    store = store_before(tmp_path / "i")
    put_all(store, "segments", {segment_key(4, 1, 0): b"live"})
    commit = prepared()
    commit.merged.gone.append(4)
    store.commit(commit.store)
    assert held(store, "segments")[segment_key(4, 1, 0)] == b"live"
    store.close()


def test_commit_of_merging_alone_stores_the_manifest(tmp_path: Path) -> None:
    store = store_before(tmp_path / "i")
    before = everything(store)
    manifest = Manifest(next_number=9)
    store.commit(Prepared(Merged(manifest, Counter(), [])).store)
    after = everything(store)
    assert decode_manifest(after["meta"].pop(b"manifest")) == manifest
    before["meta"].pop(b"manifest")
    assert after == before
    store.close()
