"""The merges of a writer: how far a commit advances them, and what they leave to do."""

from pathlib import Path

import pytest
from merging import SMALL, insert

import simindex
from simindex import IndexFullError, Layout
from simindex.storage.store import Store


def test_dead_documents_are_counted_by_commits_that_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
