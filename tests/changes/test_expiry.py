"""Touch and expiry: documents seen last before a time go, oldest first, a commit for each batch."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import bound, broken_off, set_bound
from support.indexes import problems_of
from support.stored import flipped, store_values, stored_values
from support.texts import SMALL

import simindex
from simindex import CorruptIndexError, Index, RemovalLimitError


@pytest.mark.parametrize("seconds", [-1, -(10**9), 10**12])
def test_clock_outside_of_the_years_that_are_stored_counts_as_the_nearest_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        index.insert("now", ["a", "b"])
        monkeypatch.setattr("time.time_ns", lambda: seconds * 10**9 - 1)
        index.insert("one", ["a"])
        index.insert_many([("many", ["b"])])
        index.insert_if_new("new", ["c"], 0.9)
        assert index.touch("one") == 1
        year = 1970 if seconds < 0 else 9999
        assert {index[key].inserted_at.year for key in ("one", "many", "new")} == {year}
        assert index.expire(older_than=timedelta(days=1)) == (seconds > 0)
    assert not problems_of(tmp_path / "i")


class Clock:
    """The time of an index's changes, in seconds since 2020."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0
        monkeypatch.setattr("time.time_ns", lambda: (START_SECONDS + self.seconds) * 10**9)

    def at(self, seconds: int) -> datetime:
        return datetime.fromtimestamp(START_SECONDS + seconds, UTC)


START_SECONDS = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def index(tmp_path: Path, clock: Clock) -> Iterator[Index]:
    """Documents 0 to 9, inserted at seconds 0 to 9; the clock stands at 10."""
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        for number in range(10):
            clock.seconds = number
            index.insert(number, [str(number)])
        clock.seconds = 10
        yield index


def test_time_counts_by_the_microsecond_and_in_any_zone(index: Index, clock: Clock) -> None:
    assert index.expire(clock.at(3) + timedelta(microseconds=1)) == 4
    east = clock.at(6).astimezone(datetime.fromisoformat("2020-01-01T00:00:00+09:00").tzinfo)
    assert index.expire(east) == 2


def test_each_batch_is_a_commit_oldest_first(
    index: Index, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(monkeypatch, "commit", 3, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        index.expire(clock.at(9), batch_size=2)
    assert list(index) == list(range(4, 10))


def stored_runs(index: Index) -> list[tuple[int, int, int]]:
    """(second, first, end) of the stored runs of ages."""
    with index._store.reading() as txn:
        view = index._reader.committed_view(txn)
        return [(run.time // 10**6 - START_SECONDS, run.first, run.end) for run in view.runs()]


def test_touch_renews_the_age_and_nothing_else(index: Index, clock: Clock) -> None:
    before = index[3]
    assert before.seen_at == before.inserted_at == clock.at(3)
    assert index.touch(3, 5, "absent", 3) == 2
    after = index[3]
    assert after.seen_at == clock.at(10)
    assert replace(after, seen_at=before.seen_at) == before
    assert index.query(["3"])[0].key == 3
    assert index.expire(clock.at(8)) == 6
    assert list(index) == [3, 5, 8, 9]
    clock.seconds = 20
    assert index.touch(8) == 1
    assert index.expire(clock.at(11)) == 3
    assert list(index) == [8]


def test_touch_of_many_is_one_commit_and_of_none_is_no_commit(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = broken_off(monkeypatch, "commit")
    assert index.touch(*range(100)) == 10
    assert len(commits) == 1
    assert index.touch() == index.touch("absent") == 0
    assert len(commits) == 1


@pytest.mark.parametrize("keys", [["a", "b"], ("a",), {"a"}, {"a": 1}.keys()])
def test_touch_of_a_collection_names_the_star(index: Index, keys: Any) -> None:
    with pytest.raises(TypeError, match=r"^touch: expected keys, found a .*; many .* as touch\(\*keys\)$"):
        index.touch(keys)


def test_metadata_leader_and_kept_shingles_survive_a_touch(tmp_path: Path, clock: Clock) -> None:
    for kept in (0, 4):
        config = simindex.Config(num_perm=16, keep_shingles=kept)
        metadata = {"title": "ü", "list": [1, None, b"\xff"]}
        with simindex.open(tmp_path / str(kept), "x", config) as index:
            index.insert("a", "one text that comes twice here", metadata)
            index.insert("copy", "one text that comes twice here", metadata)
            for _ in range(3):
                clock.seconds += 1
                assert index.touch("a", "copy") == 2
                found = index.query("one text that comes twice here", 0.9, exact=bool(kept))
                assert {match.key: match.metadata for match in found} == {"a": metadata, "copy": metadata}
            index.compact()
            assert index["copy"].seen_at == clock.at(clock.seconds)
            assert index.stats().copies == (0 if kept else 1)
            index.remove("a")
            assert [match.key for match in index.query("one text that comes twice here")] == ["copy"]


changes = st.one_of(
    st.tuples(st.just("insert"), st.sampled_from([1, 1, 1, 2, 4])),
    st.tuples(st.just("insert"), st.sampled_from([1, 1, 1, 2, 4])),
    st.tuples(st.just("touch"), st.lists(st.integers(0, 30), min_size=1, max_size=6)),
    st.tuples(st.just("remove"), st.lists(st.integers(0, 30), min_size=1, max_size=4)),
    st.tuples(st.just("expire"), st.integers(-2, 12)),
)
ticks = st.sampled_from([-4, 0, 1, 2, 3])


@settings(max_examples=60)
@given(st.lists(st.tuples(changes, ticks), min_size=10, max_size=20), st.integers(1, 4), st.booleans())
def test_expiry_after_any_changes_removes_exactly_what_is_older(
    steps: list[tuple[tuple[str, Any], int]], batch_size: int, in_transaction: bool
) -> None:
    seen_at: dict[int, int] = {}
    with ExitStack() as stack:
        clock = Clock(stack.enter_context(pytest.MonkeyPatch.context()))
        stack.enter_context(bound("documents of a run of ages", 3))
        folder = stack.enter_context(TemporaryDirectory(prefix="simindex-test-"))
        index = stack.enter_context(simindex.open(Path(folder) / "i", "x", SMALL))
        clock.seconds = now = 100
        inserted = 0
        for number, ((change, what), tick) in enumerate([*steps, (("expire", -1000), 0)]):
            clock.seconds += tick
            if number <= len(steps) // 2 or not in_transaction:
                now = clock.seconds
            if in_transaction and number == len(steps) // 2:
                stack.enter_context(index.transaction())
            if change == "insert":
                keys = range(inserted, inserted + what)
                inserted += what
                index.insert_many(((key, [str(key)]) for key in keys), workers=1)
                seen_at |= dict.fromkeys(keys, now)
            elif change == "touch":
                assert index.touch(*what) == len(seen_at.keys() & set(what))
                seen_at |= {key: max(seen_at[key], now) for key in what if key in seen_at}
            elif change == "remove":
                index.remove_many(what)
                seen_at = {key: seen for key, seen in seen_at.items() if key not in what}
            else:
                limit = clock.seconds - what
                kept = {key: seen for key, seen in seen_at.items() if seen >= limit}
                assert index.expire(clock.at(limit), batch_size=batch_size) == len(seen_at) - len(kept)
                seen_at = kept
            assert {key: index[key].seen_at for key in index} == {
                key: clock.at(seen) for key, seen in seen_at.items()
            }
        assert in_transaction or not stored_runs(index)


def test_expiry_looks_at_what_it_removes_and_a_run_more(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        for second in range(20):
            clock.seconds = second
            index.insert_many((f"{second} {n}", [str(n)]) for n in range(500))
        assert [run[2] - run[1] for run in stored_runs(index)] == [1_000] * 9
        looked_at = broken_off(monkeypatch, "read a record")
        assert index.expire(clock.at(3), batch_size=100) == 1_500
        assert len(looked_at) == 2_000
        assert index.expire(clock.at(3)) == 0
        assert len(looked_at) == 2_000
        clock.seconds = 30
        index.touch(*(f"19 {n}" for n in range(200)))
        looked_at.clear()
        assert index.expire(clock.at(4)) == 500
        assert len(looked_at) == 500


def test_documents_inserted_one_by_one_share_runs(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "documents of a run of ages", 8)
    with simindex.open(tmp_path / "i", "x", SMALL) as index:
        for number in range(30):
            clock.seconds = number
            index.insert(number, [str(number)])
        assert stored_runs(index) == [(0, 0, 8), (8, 8, 16), (16, 16, 24)]
        with index.transaction():
            for number in range(30, 90):
                index.insert(number, [str(number)])
        index.insert(90, ["90"])
        assert stored_runs(index)[3:] == [(24, 24, 30), (29, 30, 90)]


def test_document_touched_every_day_has_one_run(index: Index, clock: Clock) -> None:
    for day in range(11, 15):
        clock.seconds = day
        index.touch(2, 3, 4, 8)
        index.touch(6)
    assert stored_runs(index) == [(14, 2, 5), (14, 6, 7), (14, 8, 9)]
    index.remove_many([2, 3, 4])
    index.replace(8, ["other"])
    assert stored_runs(index) == [(14, 6, 7)]
    assert index[8].seen_at == clock.at(14)


@pytest.mark.parametrize("leaves", ["touched", "removed"])
@pytest.mark.parametrize("which", [2, 3, 4])
def test_run_of_a_touch_stays_while_one_of_its_documents_lies_in_it(
    index: Index, clock: Clock, leaves: str, which: int
) -> None:
    """That of their insert is gone by then, so nothing else knows how old the others are."""
    clock.seconds = 12
    index.touch(2, 3, 4)
    clock.seconds = 15
    if leaves == "touched":
        index.touch(which)
    else:
        index.remove(which)
    assert index.expire(clock.at(11)) == 7
    assert problems_of(index.path) == []
    assert index.expire(clock.at(13)) == 2
    assert list(index) == ([which] if leaves == "touched" else [])
    assert problems_of(index.path) == []


def test_touch_inside_a_transaction_is_seen_there_and_rolled_back_with_it(
    index: Index, clock: Clock, tmp_path: Path
) -> None:
    with simindex.open(tmp_path / "i", "r") as reader:
        with suppress(RuntimeError), index.transaction():
            assert index.touch(1) == 1
            assert index[1].seen_at == clock.at(10)
            assert reader[1].seen_at == clock.at(1)
            assert index.expire(clock.at(5)) == 4
            assert list(index) == [1, *range(5, 10)]
            raise RuntimeError
        assert list(index) == list(range(10))
        assert index[1].seen_at == clock.at(1)
        with index.transaction():
            index.touch(1, 2)
            index.replace(2, ["again"])
            index.insert("new", ["new"])
            assert index.touch("new", 2) == 2
            index.remove(1)
            assert index.touch(1) == 0
            assert index.expire(clock.at(10), batch_size=1) == 8
        assert list(index) == list(reader) == [2, "new"]
        assert index.expire(clock.at(11)) == 2
        assert not stored_runs(index)


def test_expire_takes_a_time_or_a_duration_and_nothing_else(index: Index, clock: Clock) -> None:
    assert index.expire(older_than=timedelta(seconds=7)) == 3
    assert index.expire(older_than=timedelta(days=100_000)) == 0
    both = "either before=... or older_than=..., found "
    day: Any = timedelta(days=1)
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({}, TypeError, both + "neither"),
        ({"before": clock.at(5), "older_than": day}, TypeError, both + "both"),
        ({"before": day}, TypeError, "found a timedelta; give a duration as older_than="),
        ({"before": "2020-01-01"}, TypeError, "before: expected a datetime, found str"),
        ({"older_than": 30}, TypeError, "older_than: expected a timedelta, found int"),
        ({"older_than": -day}, ValueError, "older_than: expected a duration of 0 or more"),
        ({"before": datetime(2020, 1, 1)}, ValueError, "with a time zone"),
        ({"before": clock.at(5), "batch_size": 0}, ValueError, "batch_size"),
    ]
    for options, error, message in wrong:
        with pytest.raises(error, match=message):
            index.expire(**options)
    assert len(index) == 7


def test_runs_survive_compaction_and_opening(index: Index, clock: Clock, tmp_path: Path) -> None:
    index.touch(0, 7)
    index.expire(clock.at(4))
    index.compact()
    runs = stored_runs(index)
    assert runs == [(10, 0, 1), (10, 7, 8)]
    index.close()
    with simindex.open(tmp_path / "i") as reopened:
        assert stored_runs(reopened) == runs
        assert reopened.expire(clock.at(10)) == 5
        assert list(reopened) == [0, 7]


@pytest.mark.parametrize("bit", [0, 40, 63, 64, 127])
def test_damaged_run_is_an_error_and_nothing_is_removed(
    index: Index, clock: Clock, tmp_path: Path, bit: int
) -> None:
    index.touch(3, 8)
    index.expire(clock.at(1))
    index.close()
    path = tmp_path / "i"
    runs = [(name, key, value) for name, key, value in stored_values(path) if name == "ages"]
    assert len(runs) == 2
    for name, key, value in runs:
        store_values(path, [(name, key, flipped(value, bit))])
        with simindex.open(path) as reopened:
            with pytest.raises(CorruptIndexError, match=rf"run of ages {key.hex()}.*seal"):
                reopened.expire(clock.at(100))
            assert len(reopened) == 9
        store_values(path, [(name, key, value)])
    (name, key, value), (_, other, _) = runs
    for damage in ([(name, other, value)], [(name, key[:-1], value)], [(name, key + b"\0", value)]):
        copy = shutil.copytree(path, tmp_path / "copy")
        store_values(copy, damage)
        with simindex.open(copy) as reopened, pytest.raises(CorruptIndexError, match="run of ages"):
            reopened.expire(clock.at(100))
        shutil.rmtree(copy)


def test_lost_run_keeps_its_documents_and_nothing_else(index: Index, clock: Clock, tmp_path: Path) -> None:
    index.touch(3, 8)
    index.close()
    path = tmp_path / "i"
    (lost, *_) = [(name, key, None) for name, key, _ in stored_values(path) if name == "ages"]
    store_values(path, [lost])
    with simindex.open(path) as reopened:
        clock.seconds = 20
        assert reopened.expire(clock.at(10)) == 8
        assert reopened.expire(clock.at(20)) == 1
        assert list(reopened) == [3]


def test_expiry_of_more_than_the_share_that_is_allowed_removes_nothing(
    index: Index, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simindex.changes.expiry.DEFAULT_BATCH_SIZE", 3)  # runs of several batches
    stored, clock.seconds = list(index), 20
    index.touch(3)
    clock.seconds = 30
    index.touch(3, 8)  # each but 8 is old now; 3 lies in three runs, and counts once
    with pytest.raises(RemovalLimitError) as caught:
        index.expire(clock.at(31), batch_size=2, at_most=0.9)
    assert (caught.value.found, caught.value.stored, caught.value.at_most) == (10, 10, 0.9)
    assert sorted(index) == sorted(stored)
    assert index.expire(clock.at(25), batch_size=2, at_most=0.8) == 8  # just the share
    assert sorted(index) == [3, 8]
    clock.seconds = 40
    with index.transaction():
        index.insert("new", ["a"])
        with pytest.raises(RemovalLimitError):
            index.expire(clock.at(50), at_most=0.99)
        assert index.expire(clock.at(35), at_most=0.7) == 2
    assert list(index) == ["new"]
    assert index.expire(clock.at(35), at_most=0.1) == 0
    assert index.expire(clock.at(50), at_most=1) == 1


@pytest.mark.parametrize("hundredths", [7, 29, 57, 58])
def test_just_the_share_that_is_allowed_is_removed(hundredths: int, clock: Clock) -> None:
    """29 of 100 are 0.29 of them; the product of floats is 28.999999999999996."""
    for is_expiry in (False, True):
        with simindex.open(":memory:") as index:
            index.insert_many((n, [str(n)]) for n in range(hundredths))
            clock.seconds += 10
            index.insert_many((n, [str(n)]) for n in range(hundredths, 100))
            share = hundredths / 100
            if is_expiry:
                assert index.expire(clock.at(clock.seconds - 5), at_most=share) == hundredths
            else:
                assert index.remove_many(range(hundredths), at_most=share) == hundredths


def test_removal_of_more_than_the_share_that_is_allowed_removes_nothing(index: Index) -> None:
    keys = sorted(index)
    for asked in (keys[:6], [*keys[:6], *keys[:6], "unknown"]):
        with pytest.raises(RemovalLimitError, match=r"at most 0\.5 of the 10 stored .* found 6; nothing"):
            index.remove_many(asked, at_most=0.5)
        assert sorted(index) == keys
    assert index.remove_many([*keys[:5], *keys[:5], "unknown", "other"], at_most=0.5) == 5
    with index.transaction():
        index.remove(keys[5])
        with pytest.raises(RemovalLimitError):
            index.remove_many(keys[4:8], at_most=0.25)
        assert index.remove_many(keys[4:7], at_most=0.25) == 1
    assert sorted(index) == keys[7:]
    for wrong in (0, -1, 1.5, "half"):
        with pytest.raises((TypeError, ValueError), match="at_most"):
            index.remove_many(keys, at_most=wrong)  # type: ignore[arg-type]
    assert index.remove_many(keys, at_most=1) == 3
