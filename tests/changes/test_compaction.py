"""Compaction: a new file with one segment in place of many, and without free pages; it loses nothing."""

import contextlib
import os
import signal
import struct
from pathlib import Path

import pytest
from support.faults import bound, set_bound
from support.indexes import BATCH, BATCHES, LAYOUT, SMALL, check, document, insert, problems_of
from support.processes import Tell, ask, end, everything_from, forked, start
from support.stored import PAGE, data_of, record_key

import simindex
from simindex import CorruptIndexError, Index, Layout, SimIndexError


@pytest.fixture
def segmented(tmp_path: Path) -> Index:
    """An index of many segments, open for writing."""
    index = simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT)
    for batch in range(BATCHES):
        insert(index, batch)
    return index


def test_compaction_makes_one_segment_without_the_removed(segmented: Index) -> None:
    with segmented as index:
        index.remove_many(range(10, 30))
        index.compact()
        stats = index.stats()
        assert (stats.segments, stats.entries["keys"]) == (1, BATCH * BATCHES - 20)
        check(index, range(BATCHES), range(10, 30))
        with index._store.reading() as txn:
            assert list(txn.items("removed")) == []


@pytest.mark.parametrize("step", [1, 1 << 23])
def test_progress_goes_up_to_the_total(segmented: Index, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    set_bound(monkeypatch, "bytes of a step of a compaction", step)
    progress_calls: list[tuple[int, int]] = []
    with segmented as index:
        index.compact(lambda done, total: progress_calls.append((done, total)))
    done, totals = zip(*progress_calls, strict=True)
    assert list(done) == sorted(done)
    assert len(set(totals)) == 1
    assert progress_calls[-1] == (totals[0], totals[0])
    assert done[0] > 0
    assert (len(progress_calls) > 10) == (step == 1)


def test_compaction_refuses_a_progress_that_cannot_be_called_before_it_begins(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        insert(index, 0)
        insert(index, 1)
        segments = index.stats().segments
        with pytest.raises(TypeError, match="progress: expected a callable or None, found int"):
            index.compact(5)  # type: ignore[arg-type]
        assert index.stats().segments == segments > 1
        check(index, range(2))


def test_compaction_of_nothing_and_of_one_segment_merges_nothing(tmp_path: Path) -> None:
    progress_calls: list[tuple[int, int]] = []
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        index.compact(lambda *figures: progress_calls.append(figures))
        assert progress_calls == [(0, 0)]
        insert(index, 0)
        (before,) = index._session.writer().manifest.segments
        index.compact()
        assert index._session.writer().manifest.segments == (before,)
        check(index, [0])


def test_compaction_rewrites_a_single_segment_that_has_removed_documents(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        insert(index, 0)
        index.remove(0)
        index.compact()
        assert index.stats().entries["keys"] == BATCH - 1
        index.remove_many(range(1, BATCH))
        index.compact()
        assert (index.stats().segments, len(index)) == (0, 0)


def test_compaction_inside_a_transaction_is_refused(segmented: Index) -> None:
    with segmented as index:
        with index.transaction(), pytest.raises(SimIndexError, match="compact: expected no open transaction"):
            index.compact()
        check(index, range(BATCHES))


def test_inserts_between_the_steps_of_a_compaction_stay(segmented: Index) -> None:
    """A progress function may call the index; the compaction then begins anew."""
    more = iter(range(BATCHES, BATCHES + 3))

    def insert_more(_: int, __: int) -> None:
        batch = next(more, None)
        if batch is not None:
            insert(segmented, batch)

    with segmented as index:
        index.compact(insert_more)
        index.compact()
        check(index, range(BATCHES + 3 - len(list(more))))
        assert index.stats().segments == 1


def test_compaction_changes_nothing_of_the_old_file_and_has_one_other_beside_it(
    segmented: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(segmented.path)
    found: list[tuple[bool, int, int]] = []
    before = (path / "data.mdb").read_bytes()

    def look(*_: int) -> None:
        files = len([name for name in os.listdir(path) if name.startswith("compact.tmp")])
        unchanged = (path / "data.mdb").read_bytes() == before
        found.append((unchanged, files, (path / "compact.tmp").stat().st_size))

    set_bound(monkeypatch, "bytes of a step of a compaction", 1)
    with segmented as index:
        index.compact(lambda *_: look() if (path / "compact.tmp").exists() else None)
        assert len(found) > 10
        assert all(unchanged and files == 2 for unchanged, files, _ in found)  # LMDB's lock file is one
        assert max(new for _, _, new in found) <= data_of(path).stat().st_size


@pytest.mark.parametrize("at", [1, 3, 20])
def test_compaction_that_is_killed_leaves_the_old_index(
    segmented: Index, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    path, left = segmented.path, iter(range(1, at))
    segmented.close()

    def work(_: Tell) -> None:
        set_bound(monkeypatch, "bytes of a step of a compaction", 1)
        with simindex.open(path) as index:
            index.compact(lambda *_: None if next(left, 0) else os.kill(os.getpid(), signal.SIGKILL))

    pid, pipe = forked(work)
    assert everything_from(pipe) == []
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGKILL
    assert (Path(path) / "compact.tmp").exists()
    with simindex.open(path) as index:
        assert not (Path(path) / "compact.tmp").exists()
        assert index.stats().segments > 1
        check(index, range(BATCHES))
        index.compact()
        check(index, range(BATCHES))


def test_commits_after_a_compaction_of_more_commits_than_the_index_had_are_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process keeps LMDB's lock file, and the number of the last transaction in it."""
    set_bound(monkeypatch, "bytes of a step of a compaction", 1)
    path = tmp_path / "i"
    with simindex.open(path, "x", SMALL, layout=Layout(2, 8, 400)) as index:
        index.insert_many([(key, document(key)) for key in range(2 * BATCH)], batch_size=2 * BATCH)
        insert(index, 2)
        code = (
            "import sys, simindex\n"
            "reader = simindex.open(sys.argv[1], 'r')\n"
            "for line in sys.stdin:\n"
            "    print(len(reader), flush=True)\n"
        )
        reader = start(code, path)
        assert ask(reader) == str(3 * BATCH)
        index.compact()
        insert(index, 3)  # one commit: two would have overwritten both of LMDB's meta pages
        assert ask(reader) == str(4 * BATCH)
    end(reader)
    with simindex.open(path) as index:
        check(index, range(4))


def test_compaction_of_too_many_segments_for_one_merge_takes_rounds(
    segmented: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "segments of a merge", 2)
    with segmented as index:
        insert(index, BATCHES)
        assert index.stats().segments > 2
        index.compact()
        assert index.stats().segments == 1
        check(index, range(BATCHES + 1))


def test_compaction_that_misses_documents_is_damage_and_leaves_the_index_as_it_was(segmented: Index) -> None:
    with segmented as index:
        with bound("changes of a commit that wait", 0):
            insert(index, BATCHES)
        index._store.commit(lambda txn: txn.delete("documents", record_key(3)))
        identity = (Path(index.path) / "data.mdb").stat().st_ino
        with pytest.raises(CorruptIndexError, match=rf"expected {BATCH * (BATCHES + 1)} of them, found"):
            index.compact()
        assert (Path(index.path) / "data.mdb").stat().st_ino == identity
        assert not (Path(index.path) / "compact.tmp").exists()
        insert(index, BATCHES + 1)
        assert BATCH * (BATCHES + 1) in index


# ---- nothing is lost ----


_LEAF = 2  # P_LEAF, and no other flag
_HEADER_BYTES = 16


def test_lost_document_is_reported_and_the_old_file_stays(tmp_path: Path) -> None:
    """A leaf that has lost an entry: the count that the tree's record has is still the right one."""
    path = tmp_path / "i"
    with simindex.open(path, "x") as index, bound("changes of a commit that wait", 0):
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


def test_new_file_is_synced_before_it_takes_the_place_of_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    replaced = []
    fsync, replace = os.fsync, os.replace

    def recorded_fsync(file: int) -> None:
        fsync(file)
        synced.add(os.fstat(file).st_ino)

    def recorded_replace(new: str, old: str) -> None:
        if old.endswith("data.1.mdb"):
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
