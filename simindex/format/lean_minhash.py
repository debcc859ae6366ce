"""The bytes of datasketch: how it hashes a value with SHA-1, and how it writes a `LeanMinHash`.

Layout, in the byte order asked for, with the padding of a C struct where that is the machine's own ("@"):

    i64 seed | i32 number of values, negated where a scheme follows | u8 scheme | values, u32 or u64

Without a scheme the values are "legacy" ones, as datasketch wrote them before its 2.0.
"""

from __future__ import annotations

import struct
from hashlib import sha1

import numpy as np

_SCHEMES = {"affine32": (1, "I"), "affine64": (2, "Q")}
"""Scheme -> (its number, the letter of a value)."""


def sha1_hash32(data: bytes) -> int:
    """Return the first 4 bytes of the SHA-1 of a value, as a little-endian int."""
    return int.from_bytes(sha1(data).digest()[:4], "little")


def sha1_hash64(data: bytes) -> int:
    """Return the first 8 bytes of the SHA-1 of a value, as a little-endian int."""
    return int.from_bytes(sha1(data).digest()[:8], "little")


def lean_bytes(seed: int, scheme: str, hashvalues: np.ndarray, byteorder: str = "@") -> bytes:
    """Return a signature as datasketch writes it; a scheme other than "affine32" and "affine64" is written as
    legacy. Raises ValueError where the seed or a value does not fit, or for another byte order."""
    count, values = len(hashvalues), hashvalues.tolist()
    number, letter = _SCHEMES.get(scheme, (0, "I"))
    head = (count,) if not number else (-count, number)
    try:
        return struct.pack(f"{byteorder}qi{'B' if number else ''}{count}{letter}", seed, *head, *values)
    except struct.error as exc:
        raise ValueError(
            f'expected a seed of 64 bits and a byte order of "@", "=", "<", ">" or "!"; found {seed} and '
            f"{byteorder!r} ({exc})"
        ) from exc


def read_lean(data: bytes | bytearray | memoryview, byteorder: str = "@") -> tuple[int, str, list[int]]:
    """Return (seed, scheme, values) of bytes that `lean_bytes` or datasketch wrote, "legacy" where they name
    no scheme; more bytes may follow. Raises ValueError for an unknown scheme or too few bytes."""
    head, scheme, letter = f"{byteorder}qi", "legacy", "I"
    try:
        seed, count = struct.unpack_from(head, data)
        if count < 0:
            (number,) = struct.unpack_from(f"{byteorder}B", data, struct.calcsize(head))
            known = {n: (name, letter) for name, (n, letter) in _SCHEMES.items()}
            if number not in known:
                raise ValueError(f"scheme of a LeanMinHash: expected one of {sorted(known)}, found {number}")
            scheme, letter = known[number]
            head += f"B0{letter}" if byteorder == "@" else "B"
        values = struct.unpack_from(f"{byteorder}{abs(count)}{letter}", data, struct.calcsize(head))
    except struct.error as exc:
        raise ValueError(f"expected the bytes of a LeanMinHash, found {len(data)} bytes: {exc}") from exc
    return seed, scheme, list(values)
