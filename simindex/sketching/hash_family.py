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

_ROWS_OF_WORD = 8
_SEVEN_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)

_ROUND_DRAWS_FROM = 2 * 1024
"""The draws before are the coefficients of as many rows as a signature can have."""


def splitmix64(seed: int, count: int) -> np.ndarray:
    """Return the first `count` draws of SplitMix64 (Steele, Lea and Flood 2014) started at `seed`: uint64."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))


def row_coefficients(num_perm: int, seed: int) -> np.ndarray:
    """Return a_i (odd) and b_i of each row i, where h_i(x) = a_i x + b_i mod 2^32: uint32, (2, num_perm).

    Those of fewer rows are the first of more. Source: universal hashing, Carter and Wegman 1979.
    """
    high = (splitmix64(seed, 2 * num_perm) >> np.uint64(32)).astype(np.uint32)
    return np.ascontiguousarray(np.stack([high[0::2] | np.uint32(1), high[1::2]]))


def round_multipliers(num_perm: int, seed: int) -> np.ndarray:
    """Return the multiplier of each round of each block of 128 rows: uint64, all odd, shape (blocks, 3).

    The top 7 bits of its product with a hash, mod 2^64, choose the row, and the next 30 are the value. Those
    of fewer rows are the first of more. Source: multiply-shift, Dietzfelbinger et al. 1997.
    """
    blocks = -(-num_perm // BLOCK_ROWS)
    draws = splitmix64(seed, _ROUND_DRAWS_FROM + ROUNDS * blocks)[_ROUND_DRAWS_FROM:]
    return (draws | np.uint64(1)).reshape(blocks, ROUNDS)


@lru_cache(64)
def hash_functions(num_perm: int, seed: int) -> bytes:
    """Return the functions of all rows as the kernel takes them: the multipliers, then the coefficients."""
    return round_multipliers(num_perm, seed).tobytes() + row_coefficients(num_perm, seed).tobytes()


def band_words(rows: np.ndarray) -> np.ndarray:
    """Pack the low 8 bits of MinHash rows into 64-bit band words, eight rows a word along the last axis, row
    1 in the top byte: uint64.

    Words that share their first 8r bits agree in r rows. Source: b-bit minwise hashing, Li and Koenig 2010;
    prefix order, LSH Forest, Bawa et al. 2005.
    """
    low = np.ascontiguousarray(rows.astype(np.uint8))
    return low.view(">u8").astype(np.uint64)


def equal_rows(words: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return for each word how many of its eight bytes are equal to the byte in the same position of the
    other word.

    >>> equal_rows(np.array([0x0102030405060708], dtype=np.uint64), np.array([0x01FF0304], dtype=np.uint64))
    array([0], dtype=uint8)
    >>> equal_rows(np.array([0x0102030405060708], dtype=np.uint64), np.array([0x05060700], dtype=np.uint64))
    array([3], dtype=uint8)
    """
    unlike = words ^ others
    # The top bit of each byte that is not 0 (Warren, Hacker's Delight, 6-1).
    unlike = (((unlike & _SEVEN_BITS) + _SEVEN_BITS) | unlike) & ~_SEVEN_BITS
    equal: np.ndarray = np.uint8(_ROWS_OF_WORD) - np.bitwise_count(unlike)
    return equal
