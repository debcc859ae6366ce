"""Sorting of keys with their positions against NumPy's stable sort."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import uint64s

from simindex import _kernel

# Runs of equal keys, of keys that differ in one byte alone, and uniform ones.
crowded = st.integers(0, 3) | st.integers(0, 255).map(lambda byte: 7 << 56 | byte << 16) | uint64s


def sorted_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keys, positions = np.empty_like(rows), np.empty(rows.shape, np.uint32)
    _kernel.sort_tables(rows, rows.shape[1], keys, positions)
    return keys, positions


def assert_stable(rows: np.ndarray) -> None:
    keys, positions = sorted_rows(rows)
    assert np.array_equal(positions, np.argsort(rows, axis=1, kind="stable"))
    assert np.array_equal(keys, np.sort(rows, axis=1))
    alone = np.empty_like(rows)
    _kernel.sort_tables(rows, rows.shape[1], alone, None)
    assert np.array_equal(alone, keys)


@settings(max_examples=150)
@given(st.lists(crowded, min_size=1, max_size=300), st.integers(1, 3))
def test_sort_equals_a_stable_sort(keys: list[int], tables: int) -> None:
    count = len(keys) // tables
    if count:
        assert_stable(np.array(keys[: count * tables], np.uint64).reshape(tables, count))


@pytest.mark.parametrize("count", [1, 2, 47, 48, 49, 50, 1000])
@pytest.mark.parametrize("differing", [0xFF, 0xFF00FF, 2**52 - 1])
def test_sort_of_one_run_equals_a_stable_sort_on_both_sides_of_the_short_run(
    count: int, differing: int
) -> None:
    """All keys share their leading bits: one run, by insertion up to 48 and by radix above."""
    random = np.random.default_rng(count)
    rows = random.integers(0, 2**64, (2, count), np.uint64) & np.uint64(differing)
    assert_stable(rows)
    assert_stable(rows | np.uint64(0xABC << 52))


@pytest.mark.parametrize("count", [5_000, 70_000, 300_000])
def test_sort_of_many_hashes_equals_a_stable_sort(count: int) -> None:
    """Digits in front of 9, of 11 and of 12 bits."""
    assert_stable(np.random.default_rng(count).integers(0, 2**64, (1, count), np.uint64))


def test_sort_refuses_room_that_is_too_small() -> None:
    rows = np.zeros((2, 10), np.uint64)
    with pytest.raises(ValueError, match="out_indices: expected at least 80 bytes, found 76"):
        _kernel.sort_tables(rows, 10, np.empty_like(rows), np.empty(19, np.uint32))
