"""Chapter 2: shingles to hashes, and where the numbers of further hash functions come from.

Sources: XXH64, Collet, the xxHash specification; seeds 000, 001 and 004; Carter and Wegman 1979;
SplitMix64, Steele, Lea and Flood 2014.
"""

from __future__ import annotations

from collections.abc import Iterator

from simindex.textbook.shingles import without_surrogates

MASK32, MASK64 = 2**32 - 1, 2**64 - 1

_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip


def _rotate(value: int, left: int) -> int:
    value &= MASK64
    return (value << left | value >> (64 - left)) & MASK64


def _round(accumulator: int, lane: int) -> int:
    return _rotate(accumulator + lane * _P2, 31) * _P1 & MASK64


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit XXH64 hash of `data` (Collet, the xxHash specification).

    >>> hex(xxh64(b""))
    '0xef46db3751d8e999'
    """
    at = 0
    if len(data) >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= len(data):
            for i in range(4):
                lanes[i] = _round(lanes[i], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        value = sum(_rotate(lane, left) for lane, left in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            value = (value ^ _round(0, lane)) * _P1 + _P4
    else:
        value = seed + _P5
    value = (value + len(data)) & MASK64
    while at + 8 <= len(data):
        value ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        value = (_rotate(value, 27) * _P1 + _P4) & MASK64
        at += 8
    if at + 4 <= len(data):
        value ^= int.from_bytes(data[at : at + 4], "little") * _P1
        value = (_rotate(value, 23) * _P2 + _P3) & MASK64
        at += 4
    for byte in data[at:]:
        value = _rotate(value ^ byte * _P5, 11) * _P1 & MASK64
    for right, prime in ((33, _P2), (29, _P3), (32, 1)):
        value = (value ^ value >> right) * prime & MASK64
    return value


def shingle_hash(shingle: str | bytes | int, seed: int) -> int:
    """Return the XXH64 of a shingle: of its UTF-8 with lone surrogates as U+FFFD, or of bytes as they are.

    An int is the shingle of its decimal digits.

    >>> shingle_hash("мир", 1) == shingle_hash("мир".encode(), 1)
    True
    >>> shingle_hash(-7, 1) == shingle_hash("-7", 1)
    True
    """
    if isinstance(shingle, int):
        shingle = str(shingle)
    return xxh64(without_surrogates(shingle).encode() if isinstance(shingle, str) else shingle, seed)


def word_shingle_hash(shingle: str, seed: int) -> int:
    """Return the hash of a shingle of words, which are joined by spaces.

    That of one word is its `shingle_hash`; that of several the XXH64 of theirs, 8 bytes each, the least
    significant first. So each word is hashed once.

    >>> word_shingle_hash("fox", 1) == shingle_hash("fox", 1)
    True
    >>> word_shingle_hash("a fox", 1) == shingle_hash("a fox", 1)
    False
    """
    words = shingle.split(" ")
    if len(words) == 1:
        return shingle_hash(shingle, seed)
    return xxh64(b"".join(shingle_hash(word, seed).to_bytes(8, "little") for word in words), seed)


def djb2a(data: bytes) -> int:
    """Return Bernstein's 32-bit hash: from 5381 on, times 33, xor the byte (seed 001).

    >>> djb2a(b"he")
    5861128
    """
    value = 5381
    for byte in data:
        value = (value * 33 ^ byte) & MASK32
    return value


def universal_hash(x: int, a: int, b: int, p: int, n: int) -> int:
    """Return ((a*x + b) mod p) mod n, p a prime above n (seeds 000, 001, 004; Carter and Wegman 1979).

    >>> [universal_hash(x, a=3, b=1, p=5, n=5) for x in range(5)]
    [1, 4, 2, 0, 3]
    """
    return (a * x + b) % p % n


def splitmix64(seed: int) -> Iterator[int]:
    """Yield the uint64 draws of SplitMix64 without end (Steele, Lea and Flood 2014).

    >>> next(splitmix64(1234567))
    6457827717110365317
    """
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK64
        value = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK64
        value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK64
        yield value ^ value >> 31
