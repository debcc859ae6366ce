"""Take fingerprints of other programs, as numbers or hexadecimal text.

Invariant: two forms of the same 64 bits are one fingerprint: unsigned, as two's complement (a bigint of SQL),
hexadecimal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

_HEXADECIMAL = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,16}")

_MASK_64 = 2**64 - 1


def fingerprint_of(value: object) -> int:
    """Return a fingerprint as an int of 0..2**64-1.

    Args:
        value: an int of -2**63..2**64-1, a negative one as two's complement, or hexadecimal text.

    Raises:
        TypeError: neither an int nor a str.
        ValueError: an int out of range, or a str that is not 1 to 16 hexadecimal digits.

    >>> fingerprint_of(-1) == fingerprint_of("0xffffffffffffffff") == 2**64 - 1
    True
    """
    if isinstance(value, str):
        if not _HEXADECIMAL.fullmatch(value):
            raise ValueError(f"fingerprint: expected 1 to 16 hexadecimal digits, found {value!r:.40}")
        return int(value, 16)
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"fingerprint: expected an int or hexadecimal text, found {type(value).__name__}")
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"fingerprint: expected -2**63..2**64-1, found {value}")
    return int(value) & _MASK_64


def fingerprints_of(values: Iterable[Any]) -> np.ndarray:
    """Return fingerprints as a new array: uint64, shape (n,).

    Args:
        values: an array of 64-bit integers, signed or not; or an iterable of what `fingerprint_of` takes.

    Raises:
        TypeError, ValueError: another array, or a value that is none; the message names its place.

    >>> fingerprints_of(np.array([-1, 5])).tolist()
    [18446744073709551615, 5]
    """
    if isinstance(values, str | bytes | bytearray) or not isinstance(values, Iterable):
        raise TypeError(
            f"fingerprints: expected an array or an iterable of them, found {type(values).__name__}; "
            "one comes as Sketch.from_fingerprint"
        )
    if hasattr(values, "__array__"):
        array = np.asarray(values)
        if array.ndim != 1:
            raise ValueError(f"fingerprints: expected an array of 1 dimension, found {array.ndim}")
        if array.dtype in (np.uint64, np.int64):
            return array.astype(np.uint64)  # a copy, with the same bits
        values = array.tolist()
    made = []
    for place, value in enumerate(values):
        try:
            made.append(fingerprint_of(value))
        except (TypeError, ValueError) as exc:
            raise type(exc)(f"place {place}: {exc}") from None
    return np.array(made, dtype=np.uint64)
