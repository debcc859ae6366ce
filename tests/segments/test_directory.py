"""A segment of one value whose keys are in no order. Other damage: tests/reliability/test_damage.py."""

import numpy as np
import pytest
from support.stored import table_only

from simindex import Layout
from simindex.errors import CorruptIndexError
from simindex.format.layout import Geometry
from simindex.format.seals import SEAL_BYTES, seal
from simindex.segments.build import segment_puts
from simindex.segments.directory import Segment


def test_segment_of_one_value_with_keys_in_no_order_is_damage_whatever_its_seal_says() -> None:
    geometry, data = Geometry(0, 0, Layout()), table_only(0, [5, 6, 7])
    entry, ((key, value),) = segment_puts(geometry, data.entry(7), data)
    keys = np.array([5, 7, 6], np.uint64).tobytes()
    harmful = seal("segments", key, keys + value[len(keys) : -SEAL_BYTES])
    with pytest.raises(CorruptIndexError, match="segment 7, table keys: expected keys in asc") as raised:
        Segment(geometry, entry, {key: harmful}.get)
    assert (raised.value.segment, raised.value.table) == (7, "keys")
