"""The environments of this process: one a file, and what fork() does to them."""

import os
import sys
from pathlib import Path
from typing import cast

import lmdb
import pytest
from support.faults import set_bound
from support.indexes import BATCHES, LAYOUT, SMALL, check, insert, problems_of
from support.processes import Tell, everything_from, forked
from support.stored import bare_store, held, put

import simindex
from simindex import SimIndexError
from simindex.storage.environment import Environment, calls
from simindex.storage.folder import identity_of
from simindex.storage.registry import registry
from simindex.storage.store import Store


def test_handles_of_one_file_share_an_environment_until_the_last_is_closed(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    (tmp_path / "link").symlink_to(tmp_path / "i")
    reader = Store(tmp_path / "link", "r")
    identity = identity_of(store.data)
    environment = store.environment()
    assert reader.environment() is environment is registry.environments[identity]
    del environment
    store.close()
    assert registry.environments[identity] is reader.environment()
    assert held(reader, "meta") == {b"config": b"header"}
    reader.close()
    assert identity not in registry.environments


def test_child_that_opens_the_file_takes_no_snapshot_from_the_parents_threads(tmp_path: Path) -> None:
    store = bare_store(tmp_path / "i")
    env = store.environment().env
    pinned = Store(tmp_path / "i", "r", pinned=True)
    assert held(pinned, "meta")
    read, write = os.pipe()

    def work(tell: Tell) -> None:
        os.read(read, 1)
        with Store(tmp_path / "i", "r").reading() as txn:
            tell(bytes(txn.get("main", b"manifest") or b"").decode())

    pid, pipe = forked(work)
    with store.reading() as one, store.reading() as other:
        before = env.readers()
        assert len(before.splitlines()) == 4  # with the heading
        os.write(write, b".")
        assert os.waitpid(pid, 0)[1] == 0
        assert env.readers() == before
        for found in (one, other):
            assert bytes(found.get("main", b"manifest") or b"") == b"one"
    assert everything_from(pipe) == ["one"]
    pinned.close()
    store.close()
    os.close(read)
    os.close(write)


def test_file_of_a_call_that_the_fork_came_in_the_middle_of_is_not_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler may fork on the thread that is inside; closing what it inherits would harm it."""
    set_bound(monkeypatch, "seconds that a fork waits", 0.01)
    store = bare_store(tmp_path / "i")

    def work(tell: Tell) -> None:
        with pytest.raises(SimIndexError, match="in the middle of a call on it when it forked"):
            Store(tmp_path / "i", "r")
        tell("refused")

    with store.reading() as txn:
        pid, pipe = forked(work)
        assert os.waitpid(pid, 0)[1] == 0
        assert bytes(txn.get("main", b"manifest") or b"") == b"one"
    assert everything_from(pipe) == ["refused"]
    put(store, "groups", key=b"value")
    store.close()


def test_lmdb_is_asked_nothing_that_a_fork_would_not_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """py-lmdb counts calls under way: a child that inherits a count would wait for ever when it closes."""
    outside = list[str]()

    def env_of(environment: Environment) -> lmdb.Environment:
        if not calls.of(environment) and not registry.lock.locked():
            outside.append(sys._getframe(1).f_code.co_qualname)
        return cast("lmdb.Environment", vars(environment)["env"])

    def set_env(environment: Environment, env: lmdb.Environment) -> None:
        vars(environment)["env"] = env

    monkeypatch.setattr(Environment, "env", property(env_of, set_env), raising=False)
    set_bound(monkeypatch, "seconds between looks for dead readers", -1.0)
    with (
        simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index,
        simindex.open(tmp_path / "i", "r", refresh="manual") as pinned,
    ):
        for batch in range(BATCHES):
            insert(index, batch)
        assert len(pinned) == 0
        index.remove_many([0, 1])
        index.compact()
        pinned.refresh()
        check(index, range(BATCHES), removed=[0, 1])
        index.backup(tmp_path / "copy")
        assert index.stats().file_bytes
        assert not problems_of(index.path)
        pinned.query(["a"])
    assert outside == []
