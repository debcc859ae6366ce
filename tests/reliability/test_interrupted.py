"""A change that is broken off in the middle: by Ctrl-C in a merge, by a commit that fails.

Merges go on over many commits, so what such a call leaves behind is met by the calls after it.
"""

from pathlib import Path

import pytest
from support.faults import broken_off
from support.indexes import BATCHES, LAYOUT, SMALL, check, insert, keys_of

import simindex
from simindex import IndexFullError, _kernel


class Interrupting:
    """The kernel with a Ctrl-C in the n-th of its merging calls."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __getattr__(self, name: str) -> object:
        function = getattr(_kernel, name)
        if name not in ("merge", "copy_sketches"):
            return function

        def interrupted(*arguments: object) -> object:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return function(*arguments)

        return interrupted


@pytest.mark.parametrize("at", [1, 2, 5, 17, 40, 83, 120, 166, 190])
def test_interrupted_merge_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
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
def test_interrupted_compaction_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
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
def test_failed_commit_leaves_no_chunks_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The merges under way begin anew; what they had stored is removed by the next commit."""
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        broken_off(monkeypatch, "commit", at, IndexFullError("no space"))
        for batch in range(BATCHES):
            try:
                insert(index, batch)
            except IndexFullError:
                insert(index, batch)
            check(index, range(batch + 1))


@pytest.mark.parametrize("at", range(1, BATCHES + 1))
def test_ctrl_c_at_the_end_of_a_commit_keeps_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """It is raised when the commit is durable already: the handle must know what is stored."""
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        commits = broken_off(monkeypatch, "commit", at, KeyboardInterrupt(), is_done=True)
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
def test_ctrl_c_between_preparation_and_commit_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Steps of merges were taken whose chunks are not stored."""
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        commits = broken_off(monkeypatch, "commit of the writer", at, KeyboardInterrupt())
        for batch in range(BATCHES):
            if len(commits) == at - 1:
                with pytest.raises(KeyboardInterrupt):
                    insert(index, batch)
            insert(index, batch)
        check(index, range(BATCHES))
    with simindex.open(tmp_path / "i") as index:
        check(index, range(BATCHES))


@pytest.mark.parametrize("at", range(1, BATCHES))
def test_ctrl_c_behind_a_commit_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """The commit has succeeded, the writer was about to take note of it; then a preparation is broken off."""

    class Interrupting(list[int]):
        def clear(self) -> None:
            super().clear()
            raise KeyboardInterrupt

    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        for batch in range(BATCHES):
            if batch == at:
                merges = index._session.writer().merges
                merges._abandoned = Interrupting(merges._abandoned)
                with pytest.raises(KeyboardInterrupt):
                    insert(index, batch)
                with monkeypatch.context() as patch:
                    patch.setattr("simindex.changes.writer.fold_copies", lambda *_: 1 // 0)
                    with pytest.raises(ZeroDivisionError):
                        index.insert("never", ["stored"])
            else:
                insert(index, batch)
        check(index, range(BATCHES))
    with simindex.open(tmp_path / "i") as index:
        check(index, range(BATCHES))
