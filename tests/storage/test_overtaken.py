"""Readers that the system halts while they begin, beside a writer that commits twice meanwhile.

LMDB notes a reader's number before it copies the state that the number stands for, so such a reader gets a
later state under an earlier number (`environment.begun`).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb

from simindex.storage.environment import begun

_COUNT = b"count"


class Watched:
    """LMDB's environment, and what happens each time that somebody has begun to read."""

    def __init__(self, env: lmdb.Environment, happens: Callable[[], object]) -> None:
        self.info, self._env, self._happens = env.info, env, happens
        self.numbers: list[int] = []

    def begin(self, **options: Any) -> lmdb.Transaction:
        txn = self._env.begin(**options)
        self.numbers.append(txn.id())
        self._happens()
        return txn


def opened(path: Path) -> lmdb.Environment:
    return lmdb.open(str(path), map_size=1 << 28, max_spare_txns=0, sync=False, lib_version=0)


def commit(env: lmdb.Environment) -> None:
    """Store the commit's own number."""
    with env.begin(write=True) as txn:
        txn.put(_COUNT, b"%d" % txn.id())


def read(env: Any, *, buffers: bool = False) -> tuple[int, int]:
    """The number that a reader has, and that of what it reads."""
    txn = begun(env, buffers=buffers)
    stored = txn.get(_COUNT)
    assert stored is not None
    found = txn.id(), int(bytes(stored))
    txn.abort()
    return found


def test_reader_that_commits_have_overtaken_begins_anew(tmp_path: Path) -> None:
    env = opened(tmp_path)
    commit(env)

    def commit_some() -> None:
        for _ in range(next(commits, 0)):
            commit(env)

    watched = Watched(env, commit_some)
    for buffers in (False, True):
        first = env.info()["last_txnid"]
        commits = iter([2, 1])
        assert read(watched, buffers=buffers) == (first + 3, first + 3)
    assert watched.numbers == [1, 3, 4, 4, 6, 7]
    assert env.readers() == "(no active readers)\n"
    env.close()


def test_reader_beside_a_commit_that_is_not_durable_yet_keeps_its_state(tmp_path: Path) -> None:
    """The meta page has the number of the next commit before the lock file has."""
    env = opened(tmp_path)
    commit(env)
    watched = Watched(env, lambda: None)
    watched.info = lambda: {**env.info(), "last_txnid": 2}
    assert read(watched) == (1, 1)
    assert watched.numbers == [1, 1]
    assert env.readers() == "(no active readers)\n"
    env.close()
