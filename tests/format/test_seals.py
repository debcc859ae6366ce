"""Values and seals: what goes in comes out, what was changed is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import metadata_values

from simindex import CorruptIndexError
from simindex.format.seals import pack, seal, unpack, unseal


def equal(a, b):
    """Equality in which a NaN equals itself."""
    return pack(a) == pack(b)


@settings(max_examples=60)
@given(metadata_values)
def test_value_comes_back_as_it_was_packed(value):
    assert equal(unpack(pack(value)), value)


@given(st.binary(max_size=40), st.binary(max_size=200), st.data())
def test_sealed_value_is_refused_when_any_bit_of_it_or_its_key_is_flipped(key, content, data):
    sealed = seal(key, content)
    assert bytes(unseal(key, sealed, "test")) == content
    place = data.draw(st.integers(0, 8 * (len(key) + len(sealed)) - 1))
    both = bytearray(key + sealed)
    both[place // 8] ^= 1 << place % 8
    with pytest.raises(CorruptIndexError, match="test: expected a value that fits its seal") as raised:
        unseal(bytes(both[: len(key)]), bytes(both[len(key) :]), "test")
    assert raised.value.key == both[: len(key)]


@given(st.binary(max_size=40), st.binary(max_size=200), st.integers(1, 20))
def test_sealed_value_is_refused_when_it_is_cut_short(key, content, cut):
    sealed = seal(key, content)
    with pytest.raises(CorruptIndexError):
        unseal(key, sealed[: max(0, len(sealed) - cut)], "test")
