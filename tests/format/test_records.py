"""Records, flags and small values come back as they were encoded."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import external_keys, metadata_values, numbers, uint64s

from simindex import CorruptIndexError
from simindex.format.keys import encode_key, number_key
from simindex.format.records import (
    NIL,
    decode_kept,
    decode_record,
    decode_small,
    encode_kept,
    encode_records,
    encode_rest,
    encode_small,
    flags_unverified,
)
from simindex.format.seals import pack


@settings(max_examples=60)
@given(
    numbers,
    external_keys,
    metadata_values,
    st.integers(2**32, 2**63),
    st.integers(0, 3),
    st.none() | numbers,
    st.none() | st.binary(),
)
def test_record_comes_back_as_it_was_encoded(number, key, value, inserted_at, present, leader, kept):
    rest = encode_rest(inserted_at, present, leader, kept)
    ((database_key, sealed),) = encode_records(
        np.array([number], np.uint64), [encode_key(key)], [pack(value)], [rest]
    )
    assert database_key == number_key(number) == number.to_bytes(8, "big")
    record = decode_record(number, sealed)
    assert (type(record.key), record.key) == (type(key), key)
    assert pack(record.metadata) == pack(value)  # packed, for a NaN does not equal itself
    assert (record.inserted_at, record.present, record.leader, record.kept) == (
        inserted_at,
        present,
        leader,
        kept,
    )
    with pytest.raises(
        CorruptIndexError, match=f"document {number + 1}: expected a value that fits its seal"
    ):
        decode_record(number + 1, sealed)


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_kept_shingles_come_back_as_they_were_encoded(hashes):
    packed = encode_kept(np.array(hashes, dtype=np.uint32))
    assert packed == b"".join(value.to_bytes(4, "little") for value in hashes)
    assert decode_kept(packed).tolist() == hashes


@given(numbers, uint64s)
def test_small_value_comes_back_as_it_was_encoded(number, value):
    assert decode_small(number, encode_small(number, value), "test") == value
    with pytest.raises(CorruptIndexError):
        decode_small(number + 1, encode_small(number, value), "test")


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_unverified_flags_are_those_that_were_encoded(flags):
    value = encode_small(5, flags)
    assert flags_unverified(value) == flags_unverified(memoryview(value)) == flags
    assert flags_unverified(b"") == 0


def test_nil_is_the_packed_none():
    assert pack(None) == NIL
