"""A change that is broken off in the middle: by Ctrl-C in a merge, by a commit that fails.

Merges go on over many commits, so what such a call leaves behind is met by the calls after it.
"""

import errno
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import simindex
from simindex import Config, IndexFullError, Layout, _kernel
from simindex.changes.writer import Writer
from simindex.format.keys import segment_of
from simindex.parallel import in_order
from simindex.storage.gate import Gate
from simindex.storage.store import Store

SMALL = Config(num_perm=16)
LAYOUT = Layout(2, 8, 400)
BATCHES = 14
BATCH = 5


def document(number):
    return [f"{number} {letter}" for letter in "abcde"]


def keys_of(batch):
    return range(batch * BATCH, (batch + 1) * BATCH)


class Interrupting:
    """The kernel with a Ctrl-C in the n-th of its merging calls."""

    def __init__(self, at):
        self.left = at

    def __getattr__(self, name):
        function = getattr(_kernel, name)
        if name not in ("merge", "copy_sketches"):
            return function

        def interrupted(*arguments):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return function(*arguments)

        return interrupted


def broken_off(call, at, error, *, is_done):
    """(`call` with an error in its n-th run, before it or when all of it is done; a list, one item a run)."""
    runs = []

    def broken(*arguments):
        if is_done:
            call(*arguments)
        runs.append(None)
        if len(runs) == at:
            raise error
        if not is_done:
            call(*arguments)

    return broken, runs


def check(index, batches, removed=()):
    """Everything is there and found, and no chunk lies about that nobody will use."""
    expected = [key for batch in batches for key in keys_of(batch) if key not in removed]
    assert list(index) == expected
    for key, matches in zip(expected, index.query_many(map(document, expected), 0.9), strict=True):
        assert [match.key for match in matches] == [key]
    writer = index._session.writer()
    with index._store.reading() as txn:
        found = {segment_of(key) for key, _ in txn.items("segments")}
    live = {shape.id for shape in writer.manifest.segments}
    assert live <= found <= live | {merge.entry.id for merge in writer.merges.under_way}


def insert(index, batch):
    index.insert_many([(key, document(key)) for key in keys_of(batch)], batch_size=BATCH, workers=1)


@pytest.mark.parametrize("at", [1, 2, 5, 17, 40, 83, 120, 166, 190])
def test_interrupted_merge_costs_nothing(tmp_path, monkeypatch, at):
    interrupting = Interrupting(at)
    monkeypatch.setattr("simindex.segments.merge._kernel", interrupting)
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        for batch in range(BATCHES):
            try:
                insert(index, batch)
            except KeyboardInterrupt:
                assert keys_of(batch)[0] not in index
                insert(index, batch)
            if batch == 5:
                index.remove_many(range(3, 20))
        assert interrupting.left <= 0
        check(index, range(BATCHES), range(3, 20))


@pytest.mark.parametrize("at", [1, 2, 9, 20, 33])
def test_interrupted_compaction_costs_nothing(tmp_path, monkeypatch, at):
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        for batch in range(BATCHES):
            insert(index, batch)
        monkeypatch.setattr("simindex.segments.merge._kernel", Interrupting(at))
        with pytest.raises(KeyboardInterrupt):
            index.compact()
        check(index, range(BATCHES))
        index.compact()
        check(index, range(BATCHES))
        assert index.stats().segments == 1


@pytest.mark.parametrize("at", range(1, BATCHES + 1))
def test_failed_commit_leaves_no_chunks_behind(tmp_path, monkeypatch, at):
    """The merges under way begin anew; what they had stored is removed by the next commit."""
    failing, _ = broken_off(Store.commit, at, IndexFullError("no space"), is_done=False)
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        monkeypatch.setattr(Store, "commit", failing)
        for batch in range(BATCHES):
            try:
                insert(index, batch)
            except IndexFullError:
                insert(index, batch)
            check(index, range(batch + 1))


@pytest.mark.parametrize("at", range(1, BATCHES + 1))
def test_ctrl_c_at_the_end_of_a_commit_keeps_the_commit(tmp_path, monkeypatch, at):
    """It is raised when the commit is durable already: the handle must know what is stored."""
    interrupted, commits = broken_off(Store.commit, at, KeyboardInterrupt(), is_done=True)
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        monkeypatch.setattr(Store, "commit", interrupted)
        for batch in range(BATCHES):
            if len(commits) == at - 1:
                with pytest.raises(KeyboardInterrupt):
                    insert(index, batch)
            else:
                insert(index, batch)
            assert [number for number in keys_of(batch) if number in index] == list(keys_of(batch))
        index.remove_many(keys_of(3))
        check(index, range(BATCHES), keys_of(3))
        index.compact()
        check(index, range(BATCHES), keys_of(3))


@pytest.mark.parametrize("at", range(1, BATCHES + 1))
def test_ctrl_c_between_preparation_and_commit_costs_nothing(tmp_path, monkeypatch, at):
    """Steps of merges were taken whose chunks are not stored."""
    interrupted, commits = broken_off(Writer.commit, at, KeyboardInterrupt(), is_done=False)
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        monkeypatch.setattr(Writer, "commit", interrupted)
        for batch in range(BATCHES):
            if len(commits) == at - 1:
                with pytest.raises(KeyboardInterrupt):
                    insert(index, batch)
            insert(index, batch)
        check(index, range(BATCHES))
    with simindex.open(tmp_path / "i") as index:
        check(index, range(BATCHES))


@pytest.mark.parametrize("at", range(1, BATCHES))
def test_ctrl_c_behind_a_commit_costs_nothing(tmp_path, monkeypatch, at):
    """The commit has succeeded, the writer was about to take note of it; then a preparation is broken off."""

    class Interrupting(list):
        def clear(self):
            super().clear()
            raise KeyboardInterrupt

    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        for batch in range(BATCHES):
            if batch == at:
                merges = index._session.writer().merges
                merges.abandoned = Interrupting(merges.abandoned)
                with pytest.raises(KeyboardInterrupt):
                    insert(index, batch)
                with monkeypatch.context() as patch:
                    patch.setattr("simindex.changes.writer.removal_marks", lambda *_: 1 // 0)
                    with pytest.raises(ZeroDivisionError):
                        index.insert("never", ["stored"])
            else:
                insert(index, batch)
        check(index, range(BATCHES))
    with simindex.open(tmp_path / "i") as index:
        check(index, range(BATCHES))


def test_call_that_was_broken_off_does_not_stay_inside(tmp_path, monkeypatch):
    """Or closing, growing and forking would wait for it for ever."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        insert(index, 0)
        environment = index._store.environment()
        reading = index._store.reading()
        reading.__enter__()  # Ctrl-C comes before the block begins
        assert not environment.gate.is_empty
        del reading
        assert environment.gate.is_empty
        with index._store.reading(), monkeypatch.context() as patch:
            patch.setattr(Gate, "_wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                environment.stop()
            with pytest.raises(KeyboardInterrupt), environment.alone():
                pass
        check(index, [0])


def test_threads_end_before_what_they_work_on_goes_away(monkeypatch):
    running = []
    shutdown = ThreadPoolExecutor.shutdown

    def work(part):
        running.append(part)
        time.sleep(0.02)
        running.remove(part)

    def interrupted(*_, **__):
        monkeypatch.setattr(ThreadPoolExecutor, "shutdown", shutdown)
        raise KeyboardInterrupt

    parts = in_order(work, range(50), 3, 3)
    next(parts)
    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", interrupted)
    with pytest.raises(KeyboardInterrupt):
        parts.close()
    assert running == []


def test_dead_documents_are_counted_by_commits_that_succeed(tmp_path, monkeypatch):
    """A segment that is more than half dead is rewritten, also when the first attempt fails."""
    with simindex.open(tmp_path / "i", "x", SMALL, layout=Layout(64, 8, 400)) as index:
        insert(index, 0)
        insert(index, 1)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "commit", lambda *_: (_ for _ in ()).throw(IndexFullError("no space")))
            with pytest.raises(IndexFullError):
                index.remove_many(range(4))
        index.remove_many(range(4))
        with monkeypatch.context() as patch:
            patch.setattr(Store, "commit", lambda *_: (_ for _ in ()).throw(IndexFullError("no space")))
            with pytest.raises(IndexFullError):
                insert(index, 2)  # its preparation has rewritten the first segment
        insert(index, 2)
        insert(index, 3)
        assert index.stats().documents == 16
        assert [shape.num_keys for shape in index._session.writer().manifest.segments] == [1, 5, 5, 5]


def test_compaction_without_space_is_an_error_and_leaves_the_index_as_it_was(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        for batch in range(BATCHES):
            insert(index, batch)
        with monkeypatch.context() as patch:
            patch.setattr("simindex.storage.replacement.os.fsync", full)
            with pytest.raises(IndexFullError, match="No space left"):
                index.compact()
        assert {path.name for path in (tmp_path / "i").iterdir()} == {
            "ballast",
            "data.mdb",
            "lock.mdb",
            "writer.lock",
        }
        check(index, range(BATCHES))
        mode = (tmp_path / "i" / "data.mdb").stat().st_mode
        index.compact()
        check(index, range(BATCHES))
        assert (tmp_path / "i" / "data.mdb").stat().st_mode == mode
