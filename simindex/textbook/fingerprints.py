"""Chapter 5: SimHash, from hashes to a fingerprint, and the distance of two.

Sources: seed 004; Charikar 2002; Manku, Jain and Das Sarma 2007, section 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise


def simhash_counters(hashes: Iterable[int], bits: int = 64) -> list[int]:
    """Return for each bit j, of value 2**j, how many hashes have it less how many have not (seed 004).

    >>> simhash_counters([0b11, 0b10], bits=2)
    [0, 2]
    """
    counters = [0] * bits
    for value in hashes:
        for j in range(bits):
            counters[j] += 1 if value >> j & 1 else -1
    return counters


def _fingerprint(counters: Sequence[float]) -> int:
    return sum(1 << j for j, counter in enumerate(counters) if counter >= 0)


def simhash(hashes: Collection[int], bits: int = 64) -> int:
    """Return the fingerprint: bit j is 0 when its counter is below zero, else 1 (seed 004; Charikar 2002).

    Every occurrence of a feature counts. No hash, no fingerprint: raises ValueError.

    >>> bin(simhash([0b110, 0b100, 0b011], bits=3))
    '0b110'
    """
    if not hashes:
        raise ValueError("hashes: expected one or more, found none")
    return _fingerprint(simhash_counters(hashes, bits))


def weighted_simhash(weighted: Iterable[tuple[int, float]], bits: int = 64) -> int:
    """Return the fingerprint of (hash, weight): a set bit adds the weight, a clear one takes it off,
    and bit j is 0 when its sum is below zero, else 1.

    The entries are summed sorted, so that their order cannot change the rounding; weights are finite. No
    entry: raises ValueError (Manku, Jain and Das Sarma 2007, section 2).

    >>> bin(weighted_simhash([(0b01, 1.0), (0b10, 2.5)], bits=2))
    '0b10'
    """
    entries = sorted(weighted)
    if not entries:
        raise ValueError("weighted: expected one entry or more, found none")
    counters = [0.0] * bits
    for value, weight in entries:
        for j in range(bits):
            counters[j] += weight if value >> j & 1 else -weight
    return _fingerprint(counters)


def hamming(a: int, b: int) -> int:
    """Return the number of bits in which two fingerprints differ (seed 004).

    >>> hamming(0b00101011, 0b00111011)
    1
    """
    return (a ^ b).bit_count()


def sorted_neighbours(fingerprints: Iterable[int]) -> list[tuple[int, int | None]]:
    """Return the sorted fingerprints, each with its distance to the one before (seed 004).

    >>> sorted_neighbours([0b111, 0b000, 0b001])
    [(0, None), (1, 1), (7, 2)]
    """
    ordered = sorted(fingerprints)
    return [*((first, None) for first in ordered[:1]), *((b, hamming(a, b)) for a, b in pairwise(ordered))]
