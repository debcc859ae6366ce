"""Loading segments: a value that does not fit its entry or its seal is refused."""

import numpy as np
import pytest
from support.stored import place_of, table_only

from simindex import Layout
from simindex.errors import CorruptIndexError
from simindex.format.keys import segment_key
from simindex.format.layout import KEY_TABLE, Geometry
from simindex.format.seals import SEAL_BYTES, seal
from simindex.segments.build import segment_puts
from simindex.segments.directory import Segment


@pytest.mark.parametrize("changed", [None, b"", b"other bytes"])
def test_value_of_another_length_names_its_segment_and_key(changed: bytes | None) -> None:
    geometry, data = Geometry(0, 0, Layout(2, 512, 256)), table_only(0, [n << 53 for n in range(2000)])
    entry, puts = segment_puts(geometry, data.entry(7), data)
    at = segment_key(7, KEY_TABLE, 2)
    with pytest.raises(CorruptIndexError, match=f"segment 7, entry {at.hex()}: expected") as raised:
        Segment(geometry, entry, (dict(puts) | {at: changed}).get)
    assert place_of(raised.value) == (7, None, None, None, at)


def test_damaged_segment_of_one_value_names_its_key() -> None:
    geometry, data = Geometry(0, 0, Layout()), table_only(0, [5, 6, 7])
    entry, ((key, value),) = segment_puts(geometry, data.entry(7), data)
    with pytest.raises(CorruptIndexError, match="segment 7: expected a value that fits its seal") as raised:
        Segment(geometry, entry, {key: bytes(len(value))}.get)
    assert place_of(raised.value) == (7, None, None, None, key)


def test_segment_of_one_value_with_keys_in_no_order_is_damage_whatever_its_seal_says() -> None:
    geometry, data = Geometry(0, 0, Layout()), table_only(0, [5, 6, 7])
    entry, ((key, value),) = segment_puts(geometry, data.entry(7), data)
    keys = np.array([5, 7, 6], np.uint64).tobytes()
    harmful = seal("segments", key, keys + value[len(keys) : -SEAL_BYTES])
    with pytest.raises(CorruptIndexError, match="segment 7, table keys: expected keys in asc") as raised:
        Segment(geometry, entry, {key: harmful}.get)
    assert place_of(raised.value) == (7, "keys", None, None, None)
