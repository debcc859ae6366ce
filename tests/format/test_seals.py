"""Values and seals: what goes in comes out, what was changed is refused."""

from datetime import UTC, datetime

import msgpack  # type: ignore[import-untyped] # it carries no type information
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts import metadata_values

from simindex import CorruptIndexError
from simindex.format.seals import SEAL_SEEDS, pack, seal, unpack, unseal

databases = st.sampled_from(sorted(SEAL_SEEDS))


def equal(a: object, b: object) -> bool:
    """Equality in which a NaN equals itself."""
    return pack(a) == pack(b)


@settings(max_examples=60)
@given(metadata_values)
def test_value_comes_back_as_it_was_packed(value: object) -> None:
    assert equal(unpack(pack(value)), value)


@given(databases, databases, st.binary(max_size=40), st.binary(max_size=200), st.data())
def test_sealed_value_is_refused_when_it_or_its_key_or_its_database_is_another(
    database: str, other: str, key: bytes, content: bytes, data: st.DataObject
) -> None:
    sealed = seal(database, key, content)
    assert bytes(unseal(database, key, sealed, "test")) == content
    flipped = bytearray(key + sealed)
    bit = data.draw(st.integers(0, 8 * len(flipped) - 1))
    flipped[bit // 8] ^= 1 << bit % 8
    wrong = [
        (database, bytes(flipped[: len(key)]), bytes(flipped[len(key) :])),
        (database, key, sealed[: -data.draw(st.integers(1, len(sealed)))]),
        *([(other, key, sealed)] if other != database else []),
    ]
    for where, found_key, value in wrong:
        with pytest.raises(CorruptIndexError, match="test: expected a value that fits its seal") as raised:
            unseal(where, found_key, value, "test")
        assert raised.value.key == found_key


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x81\x91\x01\x02", b"\x91" * 1025 + b"\xc0", b"\xdd\xff\xff\xff\xff"]
)
def test_what_is_no_msgpack_value_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptIndexError, match="expected a msgpack value"):
        unpack(data)


@pytest.mark.parametrize(
    "packed",
    [
        pack(msgpack.Timestamp(2**40)),
        pack([msgpack.Timestamp(-(2**62))]),
        b"\xc7\x0c\xff" + b"\xff" * 12,
        b"\xc7\x03\xff\x00\x00\x00",
    ],
)
def test_timestamp_that_is_no_datetime_is_damage(packed: bytes) -> None:
    with pytest.raises(CorruptIndexError, match=r"expected a msgpack value, found \d+ other bytes"):
        unpack(packed)


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.timezones()))
def test_aware_datetime_comes_back_as_the_same_instant(time: datetime) -> None:
    assert unpack(pack(time)) == time
    assert unpack(pack(time)).tzinfo is UTC
