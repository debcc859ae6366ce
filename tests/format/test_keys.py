"""Keys: kinds and values stay apart, and numbers come back."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.texts import external_keys, numbers

from simindex import CorruptIndexError, Key
from simindex.format.keys import (
    WHOLE_SEGMENT,
    decode_keys,
    doc_id_key,
    doc_id_of,
    encode_key,
    key_hashes,
    numbered,
    pack_keys,
    segment_key,
    segment_of,
    segment_prefix,
    whole_segment_key,
)
from simindex.format.seals import unpack


@given(st.lists(external_keys, max_size=20))
def test_encoded_keys_tell_kinds_and_values_apart(some: list[Key]) -> None:
    encoded = list(pack_keys(some)[0])
    assert encoded == [encode_key(key) for key in some]
    assert [unpack(key) for key in encoded] == some == decode_keys(len(encoded), b"".join(encoded))
    assert len(set(encoded)) == len({(type(key), key) for key in some})
    assert key_hashes(encoded).dtype == np.uint64


@given(numbers)
def test_number_comes_back_from_its_key(number: int) -> None:
    assert doc_id_of(doc_id_key(number)) == number


@given(numbers, st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1))
def test_keys_of_a_segment_begin_with_its_prefix(segment: int, table: int, chunk: int) -> None:
    key = segment_key(segment, table, chunk)
    assert key.startswith(segment_prefix(segment))
    assert segment_of(key) == segment
    assert whole_segment_key(segment) == segment_key(segment, WHOLE_SEGMENT, 0)


@given(st.binary(max_size=20))
def test_key_of_another_length_is_damage(key: bytes) -> None:
    if len(key) != 8 or key >= b"\x80":
        with pytest.raises(CorruptIndexError, match="expected a number of 8 bytes"):
            doc_id_of(key)
    if len(key) != 14 or key >= b"\x80":
        with pytest.raises(CorruptIndexError, match="expected segment, table and chunk in 14 bytes"):
            segment_of(key)


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(0, 20))
def test_walk_is_refused_where_numbers_do_not_ascend(found: list[int], first: int) -> None:
    items = [(doc_id_key(number), memoryview(b"%d" % number)) for number in found]
    if all(a < b for a, b in pairwise([first - 1, *found])):
        walked = [(number, bytes(value)) for number, value in numbered(items, "removed", first)]
        assert walked == [(n, b"%d" % n) for n in found]
    else:
        with pytest.raises(CorruptIndexError, match="removed: expected ascending doc ids"):
            list(numbered(items, "removed", first))
