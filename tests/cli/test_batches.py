"""Rows in batches: what comes before a bad row, and what ends there."""

from collections.abc import Iterator

import pytest

from simindex.cli.reading import Batches
from simindex.inputs import BadRowError, InputError, Row

ROWS = [Row(number, "x", None) for number in range(7)]
BAD = BadRowError("f:9", "reason")


def failing(rows: list[Row], error: BaseException) -> Iterator[Row]:
    yield from rows
    raise error


def test_batches_are_whole_but_the_last() -> None:
    batches = Batches(ROWS, 3)
    assert list(batches) == [ROWS[:3], ROWS[3:6], ROWS[6:]]
    assert batches.failure is None
    assert list(Batches(ROWS[:6], 3)) == [ROWS[:3], ROWS[3:6]]
    assert list(Batches([], 3)) == []


@pytest.mark.parametrize("num_before", range(8))
def test_batches_end_at_a_bad_row_after_the_rows_before_it(num_before: int) -> None:
    batches = Batches([*ROWS[:num_before], BAD, *ROWS], 3)
    found = []
    for batch in batches:
        assert (batches.failure is not None) == (len(batch) < 3)
        found += batch
    assert found == ROWS[:num_before]
    assert batches.failure is BAD


def test_batches_end_where_the_input_raises() -> None:
    error = InputError("f", "cannot be read")
    batches = Batches(failing(ROWS[:4], error), 3)
    assert list(batches) == [ROWS[:3], ROWS[3:4]]
    assert batches.failure is error


def test_batches_let_an_interrupt_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        list(Batches(failing(ROWS, KeyboardInterrupt()), 3))


def test_batches_pass_over_bad_rows_and_hand_them_on() -> None:
    passed: list[BadRowError] = []
    batches = Batches([BAD, *ROWS[:2], BAD, *ROWS[2:4], BAD], 3, passed.append)
    assert list(batches) == [ROWS[:3], ROWS[3:4]]
    assert passed == [BAD] * 3
    assert batches.failure is None
