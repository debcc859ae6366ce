"""The kernel moves the rows of a segment that is one value to where value and memory lie, against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import uint64s

from simindex import _kernel


@settings(max_examples=50)
@given(st.lists(st.tuples(uint64s, st.integers(0, 1), st.integers(0, 1)), max_size=40))
def test_rows_are_placed_as_by_numpy(marked: list[tuple[int, int, int]]) -> None:
    form, in_value, in_memory = (np.array([row[n] for row in marked], np.uint64) for n in range(3))
    value, memory = b"some value", np.zeros(len(marked) + 3, np.uint64)
    place = _kernel.place_rows(form, in_value, in_memory, len(marked), value, memory)
    assert place == _kernel.address(memory)
    with np.errstate(over="ignore"):
        expected = form + in_value * np.uint64(_kernel.address(value)) + in_memory * np.uint64(place)
    assert memory.tolist() == [*expected.tolist(), 0, 0, 0]


def test_rows_are_not_placed_where_memory_or_marks_are_too_short() -> None:
    form, short = np.zeros(4, np.uint64), np.zeros(3, np.uint64)
    with pytest.raises(ValueError, match="memory"):
        _kernel.place_rows(form, form, form, 4, b"", bytearray(31))
    for marks in ((short, form, 4), (form, short, 4), (form, form, 5)):
        with pytest.raises(ValueError, match="form"):
            _kernel.place_rows(form, *marks, b"", bytearray(32))
