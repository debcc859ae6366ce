"""Count the rows in which sketches agree, many at a time."""

from __future__ import annotations

import numpy as np

_SEVEN_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ROWS_OF_WORD = 8


def equal_rows(words: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return how many of the eight bytes of each word are those of the other.

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
