"""Items taken apart into columns, and their keys packed: against the same in plain Python."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simindex import _kernel
from simindex.format.keys import encode_key, key_hashes, pack_keys

TUPLES = st.one_of(
    st.tuples(st.integers(), st.text()),
    st.tuples(st.text(), st.sampled_from(["a", b"b", 3]), st.sampled_from([None, {"m": 1}])),
)
NO_ITEMS: list[Any] = [(), ("k",), (1, 2, 3, 4), "ab", None, {"k": "text", "l": "m"}]


def split(items: list[Any]) -> Any:
    """The plain twin of `split_items`."""
    if not all(isinstance(item, tuple | list) and 2 <= len(item) <= 3 for item in items):
        return None
    metadata = [item[2] if len(item) == 3 else None for item in items]
    return (
        [item[0] for item in items],
        [item[1] for item in items],
        metadata if any(one is not None for one in metadata) else None,
        {type(item[1]) for item in items},
    )


@given(st.lists(st.one_of(TUPLES, TUPLES.map(list)), max_size=20), st.booleans(), st.sampled_from(NO_ITEMS))
def test_items_are_split_as_in_plain_python(items: list[Any], is_bad: bool, bad: Any) -> None:
    some = [*items, bad] if is_bad else items
    assert _kernel.split_items(some) == split(some)


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
