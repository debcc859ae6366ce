"""Rows of an input: what comes before a bad row, and what ends there."""

from collections.abc import Iterator
from typing import Any

import pytest

from simindex.cli.reading import rows_and_failure
from simindex.inputs import BadRowError, InputError, Row

ROWS = [Row(number, "x", None) for number in range(7)]
BAD = BadRowError("f:9", "reason")


def failing(rows: list[Row], error: BaseException) -> Iterator[Row]:
    yield from rows
    raise error


def found(rows: Any) -> list[Any]:
    return list(rows_and_failure(rows))


@pytest.mark.parametrize("num_before", range(3))
def test_rows_end_at_a_bad_row_after_the_rows_before_it(num_before: int) -> None:
    assert found([*ROWS[:num_before], BAD, *ROWS]) == [*ROWS[:num_before], BAD]
    assert found(ROWS) == ROWS


def test_rows_end_where_the_input_raises() -> None:
    error = InputError("f", "cannot be read")
    assert found(failing(ROWS[:4], error)) == [*ROWS[:4], error]


def test_rows_let_an_interrupt_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        found(failing(ROWS, KeyboardInterrupt()))
