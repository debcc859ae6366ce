"""Chapter 2 of the textbook against published values and seed 001.

Where a document prints a figure that its own method does not give, the test says which and pins both.
"""

import math
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from simindex import textbook

UINT64 = st.integers(0, 2**64 - 1)


def as_int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


@given(st.binary(max_size=40), st.binary(max_size=40), UINT64)
def test_folded_hash_tells_bytes_and_seeds_apart(data: bytes, other: bytes, seed: int) -> None:
    hashes = {textbook.folded_hash(each, seed) for each in {data, other, data + b"\0"}}
    assert len(hashes) == len({data, other, data + b"\0"})
    assert textbook.folded_hash(data, seed) != textbook.folded_hash(data, seed ^ 1)


def test_folded_hash_of_one_bit_more_changes_half_of_the_bits() -> None:
    """Of 64 bits 32 change, give or take 4: of the 192 counts of 1,000 the outermost are 4 errors away."""
    for length in (5, 8, 16, 20):
        changed = [0] * 64
        for number in range(1_000):
            data = (number * 2**20 + number % 7).to_bytes(length, "little")
            flipped = bytes([data[0] ^ 1 << number % 8]) + data[1:]
            difference = textbook.folded_hash(data, 1) ^ textbook.folded_hash(flipped, 1)
            for bit in range(64):
                changed[bit] += difference >> bit & 1
        assert min(changed) > 430, (length, changed)
        assert max(changed) < 570, (length, changed)


def test_textbook_shingle_hash_is_that_of_utf8_bytes() -> None:
    assert textbook.shingle_hash("три слова", 7) == textbook.folded_hash("три слова".encode(), 7)
    assert textbook.shingle_hash("a\udc80", 7) == textbook.shingle_hash("a\ufffd", 7)
    assert textbook.shingle_hash(b"\x80", 7) == textbook.folded_hash(b"\x80", 7)


def test_textbook_djb2a_of_he_is_5861128() -> None:
    assert textbook.djb2a(b"he") == 5861128  # seed 001
    assert textbook.djb2a(b"") == 5381
    assert textbook.djb2a(b"shingle") < 2**32


SEED_001_FUNCTIONS = [  # a, b and the printed value at djb2a("he")
    (-1460590454, 747279288, 480357896),
    (-1334692577, -539670452, 1614176836),
    (-501340078, -143413999, 543325601),
    (-435906689, -805361287, -1459947919),
    (749770455, -1541468361, 197787375),
    (-249298484, -338966450, -1314960722),
    (635996137, 90530340, 1201186924),
    (1369061647, -58898435, 1044615541),
    (-803104915, 442009989, -789411859),
    (-1559981388, -486785452, -145694732),
]


def test_textbook_universal_hash_shows_where_seed_001_overflowed() -> None:
    # Printed are the products wrapped to 32 signed bits: no wrapped value reaches p, so `mod p` did nothing.
    x, p = textbook.djb2a(b"he"), 999999999989
    for a, b, printed in SEED_001_FUNCTIONS:
        assert as_int32(a * x + b) == printed
        exact = textbook.universal_hash(x, a, b, p, p)
        assert 0 <= exact < p
        assert exact != printed


def test_textbook_universal_hash_fills_thirteen_buckets_evenly() -> None:
    # Seed 001 prints 25 buckets from -12 to 12: remainders of wrapped, hence also negative products, and the
    # two halves of bucket 0 together. The definition gives 13 buckets, each within 2 of 100,000 / 13.
    a, b, _ = SEED_001_FUNCTIONS[0]
    remainders = [math.fmod(as_int32(a * x + b), 13) for x in range(1, 100_001)]
    assert [remainders.count(bucket) for bucket in (0, 5, 10, -7, -12)] == [7704, 3861, 3854, 3840, 3839]
    exact = [textbook.universal_hash(x, a, b, 999999999989, 13) for x in range(1, 100_001)]
    assert {exact.count(bucket) for bucket in range(13)} == {7691, 7692, 7693, 7694}


def test_textbook_splitmix64_draws_the_published_values() -> None:
    assert list(islice(textbook.splitmix64(1234567), 5)) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [hex(draw) for draw in islice(textbook.splitmix64(0), 3)] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]
