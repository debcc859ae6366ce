"""A change that is broken off in the middle: by Ctrl-C in a merge, by a commit that fails.

Merges go on over many commits, so what such a call leaves behind is met by the calls after it.
"""

from pathlib import Path

import pytest
from support.faults import broken_off
from support.indexes import BATCH, BATCHES, LAYOUT, SMALL, check, insert, keys_of

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


BREAKS: dict[str, tuple[str, BaseException, bool]] = {
    "a commit fails": ("commit", IndexFullError("no space"), False),
    "Ctrl-C before a commit": ("commit of the writer", KeyboardInterrupt(), False),
    "Ctrl-C at the end of a commit": ("commit", KeyboardInterrupt(), True),
}


@pytest.mark.parametrize("at", range(1, BATCHES + 1))
@pytest.mark.parametrize("what", BREAKS)
def test_commit_that_is_broken_off_is_stored_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, at: int
) -> None:
    """The merges under way begin anew; what they had stored is removed by the next commit."""
    step, error, is_done = BREAKS[what]
    broken = list[int]()
    with simindex.open(tmp_path / "i", "x", SMALL, layout=LAYOUT) as index:
        broken_off(monkeypatch, step, at, error, is_done=is_done)
        for batch in range(BATCHES):
            try:
                insert(index, batch)
            except type(error):
                broken.append(batch)
                assert (keys_of(batch)[0] in index) == is_done
                if not is_done:
                    insert(index, batch)
            assert list(index) == list(range((batch + 1) * BATCH))
            if not is_done:
                check(index, range(batch + 1))
        assert len(broken) == 1
        index.remove_many(keys_of(3))
        check(index, range(BATCHES), keys_of(3))
        index.compact()
    with simindex.open(tmp_path / "i") as index:
        check(index, range(BATCHES), keys_of(3))


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
                    patch.setattr("simindex.changes.session.fold_copies", lambda *_: 1 // 0)
                    with pytest.raises(ZeroDivisionError):
                        index.insert("never", ["stored"])
            else:
                insert(index, batch)
        check(index, range(BATCHES))
    with simindex.open(tmp_path / "i") as index:
        check(index, range(BATCHES))
