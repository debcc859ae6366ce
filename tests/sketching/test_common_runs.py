"""Common runs of two rows of numbers."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simindex.sketching.common_runs import CommonRun, common_runs

rows = st.lists(st.integers(0, 5), max_size=40).map(lambda row: np.array(row, dtype=np.int64))


@given(rows, rows)
def test_runs_agree_and_end_where_the_rows_do_not(a: np.ndarray, b: np.ndarray) -> None:
    runs = common_runs(a, b)
    assert len(set(runs)) == len(runs)
    for first_a, first_b, length in runs:
        assert length >= 1
        assert np.array_equal(a[first_a : first_a + length], b[first_b : first_b + length])
        assert len(a[first_a : first_a + length]) == length
        end_a, end_b = first_a + length, first_b + length
        assert end_a == len(a) or end_b == len(b) or a[end_a] != b[end_b]
        assert first_a == 0 or first_b == 0 or a[first_a - 1] != b[first_b - 1]


@given(rows, rows)
def test_every_shared_number_is_in_a_run_and_no_other(a: np.ndarray, b: np.ndarray) -> None:
    runs = common_runs(a, b)
    in_a = {place for run in runs for place in range(run.first_a, run.first_a + run.length)}
    in_b = {place for run in runs for place in range(run.first_b, run.first_b + run.length)}
    assert in_a == set(np.flatnonzero(np.isin(a, b)).tolist())
    assert in_b == set(np.flatnonzero(np.isin(b, a)).tolist())


def test_equal_rows_are_one_run() -> None:
    row = np.array([1, 2, 1, 2, 1, 1, 2])
    assert common_runs(row, row) == [CommonRun(0, 0, 7)]


def test_longest_occurrence_is_taken() -> None:
    runs = common_runs(np.array([1, 2, 3]), np.array([1, 9, 1, 2, 9, 1, 2, 3]))
    assert runs == [CommonRun(0, 0, 1), CommonRun(0, 2, 2), CommonRun(0, 5, 3)]


def test_run_reaches_back_over_the_one_before() -> None:
    runs = common_runs(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 9, 2, 3, 4]))
    assert runs == [CommonRun(0, 0, 3), CommonRun(1, 4, 3)]


def test_rows_of_one_number_give_few_runs() -> None:
    assert len(common_runs(np.zeros(50_000, np.int64), np.zeros(20_000, np.int64))) <= 4
