"""Expiry: documents inserted before a time go, oldest first, a commit for each batch."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from batches import SMALL

import simindex
from simindex import Index
from simindex.storage.store import Store


def filled(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Index, list[datetime]]:
    """An index of ten documents inserted a second apart, and those times."""
    index = simindex.open(path, "x", SMALL)
    start = datetime(2020, 1, 1, tzinfo=UTC)
    times = [start + timedelta(seconds=number) for number in range(10)]
    for number, time in enumerate(times):
        monkeypatch.setattr("time.time_ns", lambda time=time: int(time.timestamp()) * 10**9)
        index.insert(number, [str(number)])
    assert [index[number].inserted_at for number in range(10)] == times
    return index, times


@pytest.mark.parametrize("batch_size", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("behind", [0, 1, 4, 10])
def test_documents_before_a_time_go_and_the_one_at_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int, behind: int
) -> None:
    index, times = filled(tmp_path / "i", monkeypatch)
    with index:
        before = times[behind] if behind < 10 else times[-1] + timedelta(microseconds=1)
        assert index.expire(before, batch_size=batch_size) == behind
        assert list(index) == list(range(behind, 10))
        assert index.expire(before, batch_size=batch_size) == 0


def test_time_counts_by_the_microsecond_and_in_any_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, times = filled(tmp_path / "i", monkeypatch)
    with index:
        assert index.expire(times[3] + timedelta(microseconds=1)) == 4
        east = times[6].astimezone(datetime.fromisoformat("2020-01-01T00:00:00+09:00").tzinfo)
        assert index.expire(east) == 2


def test_each_batch_is_a_commit_oldest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is broken off has removed the oldest."""
    index, times = filled(tmp_path / "i", monkeypatch)
    commit, commits = Store.commit, []

    def failing(*arguments: object) -> object:
        commits.append(arguments)
        if len(commits) == 3:
            raise KeyboardInterrupt
        return commit(*arguments)  # type: ignore[arg-type]

    with index:
        monkeypatch.setattr(Store, "commit", failing)
        with pytest.raises(KeyboardInterrupt):
            index.expire(times[-1], batch_size=2)
        assert list(index) == list(range(4, 10))


def test_expiry_inside_a_transaction_takes_its_own_documents_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, _ = filled(tmp_path / "i", monkeypatch)
    with index:
        with index.transaction():
            index.insert("new", ["new"])
            assert index.expire(datetime.now(UTC) + timedelta(days=1), batch_size=4) == 11
            assert list(index) == []
        assert len(index) == 0
