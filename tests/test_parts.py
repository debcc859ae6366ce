"""An input in parts: none is lost, and none holds more than it may and the value that ends it."""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.faults import bound, set_bound

from simindex.batching import bytes_of, bytes_of_item, in_order, in_parts


@given(st.lists(st.integers(0, 300)), st.integers(1, 7))
def test_parts_are_the_input_and_stay_within_both_bounds(values: list[int], size: int) -> None:
    with bound("bytes of a batch", 500):
        parts = list(in_parts(iter(values), size, lambda value: value))
    assert [value for part in parts for value in part.values] == values
    for part in parts:
        assert 1 <= len(part.values) <= size
        assert part.num_bytes == sum(part.values)
        assert sum(part.values[:-1]) < 500
        assert part.is_full == (len(part.values) == size or part.num_bytes >= 500)
    assert all(part.is_full for part in parts[:-1])


def test_part_is_read_no_further_than_the_value_that_ends_it() -> None:
    taken = itertools.count()
    long = ("x" * (1 << 20) for _ in iter(lambda: next(taken), 1_000))
    first = next(in_parts(long, 4_000, bytes_of))
    assert (len(first.values), next(taken)) == (16, 16)


@pytest.mark.parametrize("keeps_rest", [False, True])
@pytest.mark.parametrize("num_before", range(8))
def test_part_of_values_before_a_failure_is_kept_where_it_is_wanted(
    num_before: int, keeps_rest: bool
) -> None:
    def failing(error: BaseException) -> Iterator[int]:
        yield from range(num_before)
        raise error

    def taken(error: BaseException, found: list[int]) -> None:
        for part in in_parts(failing(error), 3, int, keeps_rest=keeps_rest):
            found += part.values

    found: list[int] = []
    with pytest.raises(OSError, match="of the disk"):
        taken(OSError("of the disk"), found)
    assert found == list(range(num_before if keeps_rest else num_before // 3 * 3))
    with pytest.raises(KeyboardInterrupt):
        taken(KeyboardInterrupt(), found)


TEXT = "x" * 10_000


@pytest.mark.parametrize(
    ("value", "held"),
    [
        pytest.param(TEXT, 1, id="ascii"),
        pytest.param("ü" * 10_000, 1, id="latin"),
        pytest.param("語" * 10_000, 2, id="two bytes a character"),
        pytest.param("😀" * 10_000, 4, id="four bytes a character"),
        pytest.param(TEXT.encode(), 1, id="bytes"),
        pytest.param([TEXT, "y" * 10_000], 2, id="list"),
        pytest.param({TEXT, "y" * 10_000}, 2, id="set"),
        pytest.param(frozenset([b"x" * 10_000]), 1, id="frozenset"),
        pytest.param({TEXT: 1.5, "y" * 10_000: 2}, 2, id="weights"),
        pytest.param(Counter([TEXT]), 1, id="counter"),
        pytest.param({"a": [{"b": TEXT}, (TEXT, None)], "c": 7}, 2, id="nested"),
        pytest.param(7, 0, id="number"),
        pytest.param(None, 0, id="none"),
        pytest.param((word for word in [TEXT]), 0, id="generator"),
    ],
)
def test_bytes_are_about_those_of_all_that_is_held(value: object, held: int) -> None:
    assert held * 10_000 <= bytes_of(value) < held * 10_000 + 1_200
    assert bytes_of_item(("key", value)) == bytes_of_item(["key", value]) == bytes_of(value)
    assert bytes_of_item(("key", value, {"m": TEXT})) - bytes_of_item(("key", value)) > 10_000


def test_bytes_of_what_contains_itself_or_goes_deep_are_counted_once() -> None:
    around: list[Any] = [TEXT]
    around.append(around)
    assert bytes_of(around) < 11_000
    deep: list[Any] = [TEXT]
    for _ in range(5_000):
        deep = [deep]
    assert bytes_of(deep) > 10_000


@pytest.mark.parametrize("item", [None, 7, "k", (), ("key",), {"a": 1}, object()])
def test_what_is_no_item_takes_nothing(item: object) -> None:
    assert bytes_of_item(item) == 0


def test_threads_take_only_so_many_bytes_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "bytes of batches ahead", 100)
    taken = itertools.count()

    def lengths() -> Iterator[int]:
        for _ in range(50):
            next(taken)
            yield 40

    results = in_order(lambda part: part, lengths(), 8, 8, int)
    assert next(results) == 40
    assert next(taken) == 3  # of forty bytes each: the third goes over
    assert list(results) == [40] * 49
