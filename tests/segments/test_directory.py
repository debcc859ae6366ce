"""Searching damaged segments: the error has the place in attributes."""

import numpy as np
import pytest
from support.stored import damaged_segment, place_of

from simindex.errors import CorruptIndexError
from simindex.format.keys import segment_key
from simindex.format.layout import FENCES, FILTERS, KEY_TABLE
from simindex.segments.directory import Directory


@pytest.mark.parametrize("chunk", [0, 1, 3])
def test_damage_in_a_chunk_names_its_place(chunk: int) -> None:
    """What repairs an index goes by attributes, not by the text of a message."""
    geometry, _, segment = damaged_segment(segment_key(0, KEY_TABLE, chunk))
    first = geometry.entries_per_chunk * chunk
    with pytest.raises(CorruptIndexError) as raised:
        list(Directory(geometry, [segment]).find_keys(KEY_TABLE, np.array([first << 53], np.uint64), 1))
    assert place_of(raised.value) == (0, "keys", chunk, 0, None)


def test_damaged_fences_are_an_error() -> None:
    """They say which block is read, and no block says otherwise."""
    geometry, _, segment = damaged_segment(segment_key(0, FENCES + KEY_TABLE, 0))
    with pytest.raises(
        CorruptIndexError, match="segment 0, table fences of keys, chunk 0, block 0"
    ) as raised:
        list(Directory(geometry, [segment]).find_keys(KEY_TABLE, np.array([1500 << 53], np.uint64), 1))
    assert place_of(raised.value) == (0, "fences of keys", 0, 0, None)


def test_a_damaged_filter_is_an_error() -> None:
    """What a filter denies nobody looks at again, so it must not deny by damage."""
    geometry, _, segment = damaged_segment(segment_key(0, FILTERS + KEY_TABLE, 1))
    keys = np.array([n << 53 for n in range(2000)], np.uint64)
    with pytest.raises(CorruptIndexError, match="segment 0, table filter of keys, chunk 1, block 0"):
        list(Directory(geometry, [segment]).find_keys(KEY_TABLE, keys + np.uint64(1), 1))
