"""The family of hash functions behind the rows of a signature, and the words that rows are packed into.

Sources: MinHash, Broder 1997; Fast Similarity Sketching, Dahlgaard, Knudsen and Thorup 2017; SplitMix64,
Steele et al. 2014; b-bit MinHash, Li and Koenig 2010. Invariant: the same bits on every machine; they are a
contract, docs/hashing.md.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from simindex import _kernel

ROUNDS, BLOCK_ROWS = _kernel.ROUNDS, _kernel.BLOCK_ROWS
"""Rounds in which each shingle goes to one row, and the rows among which a round chooses."""

_ROUND_DRAWS_FROM = 2 * 1024
"""The draws before are the coefficients of as many rows as a signature can have."""


def splitmix64(seed: int, count: int) -> np.ndarray:
    """Return the first `count` draws of SplitMix64 started at `seed`, 0..2**64-1: uint64, shape (count,).

    >>> splitmix64(1234567, 2).tolist()
    [6457827717110365317, 3203168211198807973]

    Source: Steele, Lea and Flood 2014.
    """
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def row_coefficients(num_perm: int, seed: int) -> np.ndarray:
    """Return a_i (odd) and b_i of each row i, whose hash is h_i(x) = a_i x + b_i mod 2^32.

    Args:
        seed: 0..2**64-1.

    Returns:
        uint32, shape (2, num_perm). Those of fewer rows are the first of more.

    >>> row_coefficients(8, 1234567)[:, 0].tolist()
    [1503580183, 745795716]

    Source: universal hashing, Carter and Wegman 1979, with the modulus 2^32.
    """
    high = (splitmix64(seed, 2 * num_perm) >> np.uint64(32)).astype(np.uint32)
    return np.ascontiguousarray(np.stack([high[0::2] | np.uint32(1), high[1::2]]))


def round_multipliers(num_perm: int, seed: int) -> np.ndarray:
    """Return the multiplier of each round of each block of 128 rows.

    The top 7 bits of its product with a hash, mod 2^64, choose the row, and the next 30 are the value.

    Returns:
        uint64, all odd, shape (blocks, 3). Those of fewer rows are the first of more.

    >>> [hex(one) for one in round_multipliers(8, 1)[0, :2]]
    ['0x3e03ca0c2bc3e563', '0xdac8138e8eedb30d']

    Source: multiply-shift, Dietzfelbinger et al. 1997.
    """
    blocks = -(-num_perm // BLOCK_ROWS)
    draws = splitmix64(seed, _ROUND_DRAWS_FROM + ROUNDS * blocks)[_ROUND_DRAWS_FROM:]
    return (draws | np.uint64(1)).reshape(blocks, ROUNDS)


@lru_cache(64)
def hash_functions(num_perm: int, seed: int) -> bytes:
    """Return the functions of all rows as the kernel takes them: the multipliers, then the coefficients."""
    return round_multipliers(num_perm, seed).tobytes() + row_coefficients(num_perm, seed).tobytes()


def band_words(rows: np.ndarray) -> np.ndarray:
    """Pack MinHash rows into 64-bit band words, eight rows a word, row 1 in the top byte.

    Args:
        rows: any integer dtype, shape (..., num_perm), num_perm a multiple of 8; the low 8 bits count.

    Returns:
        uint64, shape (..., num_perm // 8). Words that share their first 8r bits agree in r rows.

    Raises:
        ValueError: another number of rows.

    >>> hex(band_words(np.arange(0x101, 0x109))[0])
    '0x102030405060708'

    Source: b-bit minwise hashing, Li and Koenig 2010; prefix order, LSH Forest, Bawa et al. 2005.
    """
    low = np.ascontiguousarray((rows & 0xFF).astype(np.uint8))
    return low.view(">u8").astype(np.uint64)
