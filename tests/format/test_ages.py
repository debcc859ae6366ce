"""Runs of ages: they come back as they were stored, and the tail grows without losing a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex import CorruptIndexError
from simindex.format.records import (
    MAX_INSERTED_AT,
    RUN_DOCUMENTS,
    Run,
    decode_run,
    decode_runs,
    encode_run,
    run_key,
)
from simindex.format.seals import seal

times = st.integers(0, MAX_INSERTED_AT)


@given(times, st.integers(0, 2**62), st.integers(1, 2**62))
def test_run_comes_back_as_it_was_encoded(time: int, first: int, count: int) -> None:
    run = Run(time, first, first + count)
    key, value = run_key(time, first), encode_run(run)
    assert (len(key), len(value)) == (16, 16)
    assert decode_run(key, value, run.behind) == run
    with pytest.raises(CorruptIndexError, match=f"numbers below {run.behind - 1}"):
        decode_run(key, value, run.behind - 1)
    with pytest.raises(CorruptIndexError, match="seal"):
        decode_run(run_key(time, first + 1), value, run.behind)


@given(st.lists(st.tuples(times, st.integers(0, 2**62)), unique=True, max_size=8))
def test_keys_of_runs_are_in_order_of_age(places: list[tuple[int, int]]) -> None:
    assert sorted(run_key(*place) for place in places) == [run_key(*place) for place in sorted(places)]


@pytest.mark.parametrize(
    ("key", "content"),
    [
        (run_key(1, 5), b"\5" + bytes(7)),
        (run_key(1, 5), b"\7"),
        (run_key(1, 5), b"\7" + bytes(8)),
        (run_key(1, 5)[:15], b"\7" + bytes(7)),
        (run_key(1, 5) + b"\0", b"\7" + bytes(7)),
        (run_key(MAX_INSERTED_AT + 1, 5), b"\7" + bytes(7)),
    ],
)
def test_nonsense_under_a_right_seal_is_damage(key: bytes, content: bytes) -> None:
    with pytest.raises(CorruptIndexError, match=r"run of ages .*: expected a time and numbers below 9"):
        decode_run(key, seal("ages", key, content), 9)


def test_runs_that_do_not_ascend_are_damage() -> None:
    runs = [Run(1, 5, 6), Run(1, 7, 9), Run(2, 0, 9), Run(2, 0, 3)]
    items = [(run_key(run.time, run.first), memoryview(encode_run(run))) for run in runs]
    assert list(decode_runs(items[:3], 9)) == runs[:3]
    for disorder in (items, items[1::-1]):
        with pytest.raises(CorruptIndexError, match="ages: expected ascending runs"):
            list(decode_runs(disorder, 9))


@given(st.lists(st.tuples(st.integers(0, 2 * RUN_DOCUMENTS), times), max_size=30))
def test_tail_and_stored_runs_hold_every_number_under_a_time_not_behind_its_own(
    commits: list[tuple[int, int]],
) -> None:
    tail, stored, given_times = Run(0, 0, 0), list[Run](), list[int]()
    for count, time in commits:
        tail, ended = tail.grown(count, time)
        stored += [] if ended is None else [ended]
        given_times += count * [time]
    runs = [*stored, tail]
    assert [run.first for run in runs[1:]] == [run.behind for run in runs[:-1]]
    assert (runs[0].first, tail.behind) == (0, len(given_times))
    for run in runs:
        assert run.time == min(given_times[run.first : run.behind], default=0)
        is_one_commit = len(set(given_times[run.first : run.behind])) <= 1
        assert is_one_commit or run.behind - run.first <= RUN_DOCUMENTS
    assert len(stored) <= len([count for count, _ in commits if count])
