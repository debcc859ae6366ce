"""Chapter 2: shingles to hashes, and where the numbers of further hash functions come from.

Sources: wyhash, Wang Yi; XXH3, Collet; seeds 000, 001 and 004; Carter and Wegman 1979; SplitMix64, Steele,
Lea and Flood 2014.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from simindex.textbook.shingles import without_surrogates

MASK32, MASK64 = 2**32 - 1, 2**64 - 1

_GOLDEN = 0x9E3779B97F4A7C15
_DRAWS_BEFORE = 4_096


def folded_hash(data: bytes, seed: int) -> int:
    """Return the 64-bit hash of a shingle's bytes (after wyhash, Wang Yi).

    Words of eight bytes are taken in one by one: the product of what was made so far and the next word has
    128 bits, and its upper half xor its lower one is what is made then. The seed gives two numbers to change
    both factors by. The last lines are XXH3's finalizer (Collet).

    >>> hex(folded_hash(b"fox", 1))
    '0x54b6a3d7d7fdb613'
    """
    left, right = islice(splitmix64(seed + _DRAWS_BEFORE * _GOLDEN), 2)
    padded = data.ljust(max(16, -(-len(data) // 8) * 8), b"\0")
    value, *words = (int.from_bytes(padded[at : at + 8], "little") for at in range(0, len(padded), 8))
    for word in words:
        product = (value ^ left) * (word ^ right)
        value = product >> 64 ^ product & MASK64
    value = (value + len(data)) & MASK64
    value = (value ^ value >> 37) * 0x165667919E3779F9 & MASK64
    return value ^ value >> 32


def shingle_hash(shingle: str | bytes | int, seed: int) -> int:
    """Return the hash of a shingle: of its UTF-8 with lone surrogates as U+FFFD, or of bytes as they are.

    An int is the shingle of its decimal digits.

    >>> shingle_hash("мир", 1) == shingle_hash("мир".encode(), 1)
    True
    >>> shingle_hash(-7, 1) == shingle_hash("-7", 1)
    True
    """
    if isinstance(shingle, int):
        shingle = str(shingle)
    return folded_hash(without_surrogates(shingle).encode() if isinstance(shingle, str) else shingle, seed)


def word_shingle_hash(shingle: str, seed: int) -> int:
    """Return the hash of a shingle of words, which are joined by spaces.

    That of one word is its `shingle_hash`; that of several the hash of theirs, 8 bytes each, the least
    significant first. So each word is hashed once.

    >>> word_shingle_hash("fox", 1) == shingle_hash("fox", 1)
    True
    >>> word_shingle_hash("a fox", 1) == shingle_hash("a fox", 1)
    False
    """
    words = shingle.split(" ")
    if len(words) == 1:
        return shingle_hash(shingle, seed)
    return folded_hash(b"".join(shingle_hash(word, seed).to_bytes(8, "little") for word in words), seed)


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
    """Yield the draws of SplitMix64 from a seed, 0..2**64 - 1, without end (Steele, Lea and Flood 2014).

    >>> next(splitmix64(1234567))
    6457827717110365317
    """
    state = seed
    while True:
        state = (state + _GOLDEN) & MASK64
        value = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & MASK64
        value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK64
        yield value ^ value >> 31
