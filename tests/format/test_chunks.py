"""Chunks: as long as their counts say."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.texts import uint64s

from simindex.format.chunks import encode_chunk, encode_sketch_chunk, table_key
from simindex.format.keys import segment_key, segment_of
from simindex.format.layout import Column


@given(st.integers(0, 300), st.sampled_from([None, 0, 1, 16]))
def test_chunk_has_the_length_that_its_count_gives(count: int, bands: int | None) -> None:
    key = segment_key(1, 2, 3)
    column = Column(2, count, 300, (8, 0, 4) if bands is None else (8 * bands, 8, 4))
    some, some_numbers = np.arange(count, dtype=np.uint64), np.arange(count, dtype=np.uint32)
    if bands is None:
        chunk = encode_chunk(key, some, some_numbers)
    else:
        words = np.arange(count * bands, dtype=np.uint64).reshape(count, bands)
        chunk = encode_sketch_chunk(key, words, some, some_numbers)
    assert len(chunk) == column.chunk_bytes(count)
    assert segment_of(key) == 1


@given(uint64s)
def test_table_key_is_what_an_array_of_it_holds(value: int) -> None:
    assert table_key(value) == np.array([value], dtype="<u8").tobytes()
