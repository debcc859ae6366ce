"""Pitfalls of LMDB that no other test is about: flags, engines, its lock file, reader slots, maps."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import lmdb
import pytest
from support import stored as lmdb_pages
from support.faults import set_bound
from support.indexes import problems_of
from support.processes import ask, printed, start

import simindex
from simindex import ClosedError, Config, Index, SimIndexError

SMALL = Config(num_perm=16)


def text(number: int) -> str:
    return f"the text {number} of the word {number * 7} and the word {number * 11}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert_many((number, text(number)) for number in range(20))
    return tmp_path / "i"


def check_whole(path: Path) -> None:
    with simindex.open(path, "r+") as index:
        assert list(index) == list(range(20))
        assert [match.key for match in index.query(text(3), 0.9)] == [3]


# ---- flags and engines ----


def test_lmdb_is_opened_with_the_flags_that_a_power_cut_stands(path: Path) -> None:
    with simindex.open(path) as index:
        flags = index._store.environment().env.flags()
    assert {name for name in ("sync", "metasync", "lock") if flags[name]} == {
        "sync",
        "metasync",
        "lock",
    }
    assert not flags["writemap"]
    assert not flags["map_async"]


@pytest.mark.parametrize("engine", ["0", "1"])
def test_engine_is_the_same_whatever_the_environment_says(path: Path, engine: str) -> None:
    code = "import simindex, sys; index = simindex.open(sys.argv[1], 'r+'); print(len(index)); index.close()"
    assert printed(code, path, env={**os.environ, "LMDB_DEFAULT_LIB_VERSION": engine}) == "20\n"


def test_sixteen_databases_of_later_versions_are_left_alone(path: Path) -> None:
    with lmdb.open(str(path), max_dbs=len(lmdb_pages.DATABASES) + 16, lib_version=0) as env:
        for number in range(16):
            env.open_db(f"later {number}".encode())
    check_whole(path)


def test_index_with_leaked_pages_is_compacted(path: Path, tmp_path: Path) -> None:
    """LMDB's own compacting copy refuses such a file; ours takes values, not pages."""
    sound = lmdb_pages.compacted(path, tmp_path / "leaky")
    longer = bytearray((sound / "data.mdb").read_bytes() + bytes(lmdb_pages.PAGE))
    for meta in (0, 1):
        at = meta * lmdb_pages.PAGE + 16 + 24 + 96
        longer[at : at + 8] = (int.from_bytes(longer[at : at + 8], "little") + 1).to_bytes(8, "little")
    (sound / "data.mdb").write_bytes(longer)
    assert any("neither used nor free" in str(problem) for problem in problems_of(sound))
    with simindex.open(sound) as index:
        index.compact()
    assert not problems_of(sound)
    check_whole(sound)


# ---- the lock file ----


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_lock_file_of_lmdb_that_is_gone_is_noticed(
    path: Path, mode: Literal["r", "r+"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who opens the index now makes a new one, and writer and readers know nothing of one another."""
    set_bound(monkeypatch, "seconds between looks for a new file", 0.0)
    with simindex.open(path, mode) as index:
        assert len(index) == 20
        (path / "data.mdb-lock").unlink()
        with pytest.raises(ClosedError, match=r"data\.mdb-lock was replaced or removed") as raised:
            index.insert(20, text(20)) if mode == "r+" else len(index)
        assert raised.value.path == str(path)
    check_whole(path)


WATCHED = """
import sys, tempfile
import simindex
opened = []
def watch(event, arguments):
    if event == "open" and str(arguments[0]).endswith("-lock"):
        opened.append(arguments)
sys.addaudithook(watch)
path, folder = sys.argv[1:]
with simindex.open(path, "r+") as index, simindex.open(path, "r", refresh="manual") as reader:
    index.insert("new", "a text of several words")
    index.query("a text of several words")
    index.stats(), list(reader), reader.refresh()
    index.backup(folder + "/backup")
    index.backup(folder + "/backup")
    index.check()
    index.compact()
    list(reader)
    simindex.merge([path, folder + "/backup"], folder + "/merged", "skip")
    simindex.repair(path, folder + "/repaired")
    with simindex.open(path, "r", untrusted=True) as private:
        len(private)
print(opened)
"""


def test_nothing_but_lmdb_opens_its_lock_file(path: Path, tmp_path: Path) -> None:
    """A process that closes any descriptor of a file loses all its `fcntl` locks on it: POSIX."""
    assert printed(WATCHED, path, tmp_path) == "[]\n"


# ---- reader slots ----

PINNED = (
    "import simindex, sys\n"
    "with simindex.open(sys.argv[1], 'r', refresh='manual') as reader:\n"
    "    for line in sys.stdin: print(len(reader), flush=True)\n"
)


@pytest.fixture
def keeper(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """A handle that has made a lock file with room for few readers, which holds for all who come later."""
    (path / "data.mdb-lock").unlink()
    set_bound(monkeypatch, "readers of a file", 5)
    with simindex.open(path, "r") as index:
        yield index


def lock_file_of(index: Index) -> dict[str, Any]:
    return dict(index._store.environment().env.info())


def test_slots_of_killed_readers_are_taken_again(keeper: Index, path: Path) -> None:
    slots = lock_file_of(keeper)["max_readers"]
    assert slots == 5
    readers = [start(PINNED, path) for _ in range(2)]  # one after the other, for opening takes two
    assert [ask(reader) for reader in readers] == ["20"] * 2
    held = [keeper._store.environment().env.begin() for _ in range(slots - 2)]
    with pytest.raises(SimIndexError, match=r"reader slots are taken.*close some readers"):
        len(keeper)
    for reader in readers:
        reader.kill()
        reader.communicate()
    assert len(keeper) == 20
    for txn in held:
        txn.abort()


def test_kept_errors_keep_no_slot(keeper: Index) -> None:
    """A transaction that something refers to keeps its slot, and a traceback refers to much."""
    errors = []
    for number in range(20):
        try:
            keeper[f"absent {number}"]
        except KeyError as error:
            errors.append(error)
    assert len(errors) == len(keeper) == 20
    assert lock_file_of(keeper)["num_readers"] <= 2


def test_file_grows_no_longer_once_a_killed_reader_is_noticed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "seconds between looks for dead readers", 0.0)
    reader = start(PINNED, path)
    assert ask(reader) == "20"
    with simindex.open(path) as index:

        def grown(rounds: int) -> int:
            before = (path / "data.mdb").stat().st_size
            for number in range(rounds):
                index.replace(3, text(3), bytes(200_000) + bytes([number]))
            return (path / "data.mdb").stat().st_size - before

        index.replace(3, text(3), bytes(200_000))
        assert grown(6) > 500_000  # nothing of what is freed may be used again
        reader.kill()
        reader.communicate()
        grown(4)
        assert grown(6) == 0


@pytest.mark.parametrize("is_other_process", [False, True])
def test_writer_warns_once_of_an_old_snapshot_beside_which_the_file_grows(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_other_process: bool
) -> None:
    """By ten times what is live, 10 MiB or more, in a time in which the snapshot stays the same."""
    set_bound(monkeypatch, "seconds between looks for dead readers", 0.0)
    with simindex.open(path) as index, ExitStack() as stack:

        def replace(times: int) -> None:
            for number in range(times):
                index.replace(3, text(3), bytes(200_000) + bytes([number]))

        replace(70)  # beside nobody
        if is_other_process:
            reader = start(PINNED, path)
            stack.callback(reader.communicate)
            stack.callback(reader.kill)
            assert ask(reader) == "20"
            process = reader.pid
        else:
            pinned = stack.enter_context(simindex.open(path, "r", refresh="manual"))
            replace(40)
            pinned.refresh()
            assert len(pinned) == 20
            process = os.getpid()
        replace(40)  # nor beside two snapshots, one after the other
        with pytest.warns(RuntimeWarning, match=rf"snapshot of process {process}, older than") as warned:
            replace(70)
        assert len(warned) == 1
    assert problems_of(path) == []


# ---- transactions ----


def test_paused_iteration_holds_no_snapshot_and_the_index_can_be_changed_in_it(path: Path) -> None:
    with simindex.open(path) as index:
        keys = iter(index)
        assert next(keys) == 0
        assert index._store.environment().env.readers() == "(no active readers)\n"
        index.insert("behind", text(20))
        assert list(keys) == [*range(1, 20)]


def test_answers_hold_nothing_of_the_map(path: Path) -> None:
    """A view of LMDB's pages shows other bytes after some commits, and ends the process after a close."""
    with simindex.open(path) as index:
        index.insert("large", text(3), bytes(100_000))
        record, matches = index["large"], index.query(text(3), 0.9)
        sketch, fresh = record.sketch, index[3].sketch
        for number in range(20):
            index.replace("large", text(number), bytes(100_000 + number))
    assert record.metadata == bytes(100_000)
    assert [match.key for match in matches] == [3, "large"]
    assert sketch == fresh
