"""Items taken apart into columns, and their keys packed: against the same in plain Python."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex import _kernel
from simindex.batching import bytes_of
from simindex.format.keys import encode_key, key_hashes, pack_keys

VALUES = st.one_of(st.text(), st.binary(), st.none(), st.integers(), st.lists(st.text(), max_size=3))
ITEMS = st.one_of(st.tuples(st.integers(), VALUES), st.tuples(st.text(), VALUES, st.none() | VALUES))
NO_ITEMS: list[Any] = [(), ("k",), (1, 2, 3, 4), "ab", None, {"k": "text", "l": "m"}]


def taken(items: list[Any], size: int, room: int) -> tuple[list[Any], list[Any], list[Any], set[type], int]:
    """The plain twin of `take_items`."""
    some: list[Any] = []
    for item in items[:size]:
        some.append([*item, None][:3])
        room -= bytes_of(some[-1][1]) + (0 if some[-1][2] is None else bytes_of(some[-1][2]))
        if room <= 0:
            break
    keys, documents, metadata = map(list, zip(*some, strict=True)) if some else ([], [], [])
    return keys, documents, metadata, set(map(type, documents)), room


@given(st.lists(ITEMS | ITEMS.map(list), max_size=12), st.integers(0, 15), st.integers(1, 2_000))
def test_items_are_taken_apart_and_counted_as_in_plain_python(items: list[Any], size: int, room: int) -> None:
    iterator = iter(items)
    found = _kernel.take_items(iterator, size, room, str.__sizeof__, bytes_of)
    assert found == taken(items, size, room)
    assert list(iterator) == items[len(found[0]) :]


@pytest.mark.parametrize("bad", [*NO_ITEMS, "x" * 200])
def test_what_is_no_item_is_named(bad: Any) -> None:
    with pytest.raises(TypeError) as error:
        _kernel.take_items(iter([("k", "text"), bad]), 5, 1_000, str.__sizeof__, bytes_of)
    assert (
        str(error.value) == f"item: expected (key, document) or (key, document, metadata), found {bad!r:.80}"
    )


LIMITS = [2**bits + more for bits in (0, 5, 7, 8, 15, 16, 31, 32, 63) for more in (-1, 0, 1)]
KEYS = st.one_of(
    st.text(max_size=300),
    st.binary(max_size=300),
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from(
        [sign * limit for limit in LIMITS for sign in (1, -1) if -(2**63) <= sign * limit < 2**64]
    ),
    st.sampled_from(["", "a" * 31, "a" * 32, "\u00e9" * 16, "\ud800", "b" * 255, "b" * 256, "b" * 65_535]),
    st.sampled_from(["c" * 65_536, b"d" * 65_536, np.int32(-5), np.uint64(2**64 - 1), np.str_("e")]),
)


@given(st.lists(KEYS, max_size=20))
def test_keys_are_packed_and_hashed_as_each_by_itself(keys: list[Any]) -> None:
    packed, hashes = pack_keys(keys)
    assert list(packed) == [encode_key(key) for key in keys]
    assert hashes.tolist() == key_hashes(list(packed)).tolist()


@pytest.mark.parametrize("bad", [True, 1.5, None, 2**64, -(2**63) - 1, "f" * 65_537])
def test_a_key_that_is_none_is_refused_as_by_itself(bad: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as expected:
        encode_key(bad)
    with pytest.raises(expected.type) as found:
        pack_keys(["good", bad, "good"])
    assert str(found.value) == str(expected.value)


def test_buffers_for_too_few_keys_are_refused() -> None:
    for room in ((1, 2), (2, 1)):
        with pytest.raises(ValueError, match="expected at least 16 bytes"):
            _kernel.pack_keys(["a", "b"], encode_key, *(np.empty(count, np.uint64) for count in room))
