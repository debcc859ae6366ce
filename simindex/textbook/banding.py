"""Chapter 4: banding, from signatures to candidate pairs.

Sources: seeds 001 and 003; LSH Forest, Bawa et al. 2005.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

from simindex.textbook.hashes import djb2a


def band_words(rows: Sequence[int]) -> list[int]:
    """Pack 8-bit rows into 64-bit words, eight a word, row 1 in the most significant byte.

    Words that share their first 8*r bits agree in r rows (LSH Forest, Bawa et al. 2005). Raises ValueError
    where rows do not fill the last word.

    >>> [hex(word) for word in band_words([1, 2, 3, 4, 5, 6, 7, 255])]
    ['0x1020304050607ff']
    """
    if len(rows) % 8:
        raise ValueError(f"rows: expected a multiple of 8, found {len(rows)}")
    return [int.from_bytes(bytes(rows[at : at + 8]), "big") for at in range(0, len(rows), 8)]


def shares_prefix(rows: Sequence[int], others: Sequence[int], prefix_bits: int) -> bool:
    """Return whether two signatures of 8-bit rows have the same first `prefix_bits` bits, 1..64, in some band
    of eight rows. ValueError: different lengths, or no multiple of 8.

    >>> shares_prefix([1, 2, 3, 4, 5, 6, 7, 8], [1, 3, 3, 4, 5, 6, 7, 8], 15)
    True
    >>> shares_prefix([1, 2, 3, 4, 5, 6, 7, 8], [1, 3, 3, 4, 5, 6, 7, 8], 16)
    False
    """
    pairs = zip(band_words(rows), band_words(others), strict=True)
    return any((word ^ other) >> 64 - prefix_bits == 0 for word, other in pairs)


def pick_bands(threshold: float, num_hashes: int) -> int:
    """Return the least b with b ln b >= -n ln t, n hashes, t the threshold (seed 001).

    With n/b rows a band, the S-curve then rises at about (1/b)**(b/n) = t. ValueError: t outside (0, 1].

    >>> pick_bands(0.5, 100)
    23
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold: expected above 0 and at most 1, found {threshold}")
    bands = 1
    while bands * math.log(bands) < -num_hashes * math.log(threshold):
        bands += 1
    return bands


def band_buckets(signature: Sequence[int], bands: int, rows: int) -> list[tuple[int, ...]]:
    """Return the bucket of each band: its rows themselves, so that only equal bands meet (seed 003).

    Rows left over are in no band. ValueError: fewer rows than the bands take.

    >>> band_buckets([1, 2, 3, 4], bands=2, rows=2)
    [(1, 2), (3, 4)]
    """
    if bands < 1 or rows < 1 or bands * rows > len(signature):
        raise ValueError(f"expected bands * rows in 1..{len(signature)}, found {bands} * {rows}")
    return [tuple(signature[band * rows : (band + 1) * rows]) for band in range(bands)]


def band_hashes(signature: Sequence[int], bands: int) -> list[int]:
    """Return the djb2a hash of each band, its rows in decimal with dots between (seed 001).

    A band has len(signature) // bands rows; rows left over are in no band. ValueError: `bands` outside
    1..len(signature).

    >>> band_hashes([1, 2, 3, 4, 5], 2) == [djb2a(b"1.2"), djb2a(b"3.4")]
    True
    """
    buckets = band_buckets(signature, bands, len(signature) // max(bands, 1))
    return [djb2a(".".join(map(str, bucket)).encode()) for bucket in buckets]


def candidate_pairs(signatures: Sequence[Sequence[int]], bands: int, rows: int) -> list[tuple[int, int]]:
    """Return the sorted pairs (a, b), a < b, of signatures, numbered from 0, that are equal in some band
    (seed 003). ValueError: a signature with fewer than bands * rows rows.

    >>> candidate_pairs([[1, 2, 3, 4], [1, 2, 9, 9], [3, 4, 9, 8]], bands=2, rows=2)
    [(0, 1)]
    """
    members: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for number, signature in enumerate(signatures):
        for index in enumerate(band_buckets(signature, bands, rows)):
            members[index].append(number)
    return sorted({pair for numbers in members.values() for pair in combinations(numbers, 2)})


def candidate_probability(s: float, b: int, r: int) -> float:
    """Return 1 - (1 - s**r)**b: the S-curve of b bands of r rows at the similarity s (seed 003).

    >>> round(candidate_probability(0.5, b=20, r=5), 3)
    0.47
    """
    return 1 - (1 - s**r) ** b


def prefix_probability(s: float, prefix_bits: int) -> float:
    """Return the probability that a band of 8-bit rows has the same first bits, at the similarity s.

    (s + (1 - s)/2**8)**r * (s + (1 - s)/2**d) for r whole rows and d bits of the next: a row agrees with
    probability s, and what is unequal by chance (Li and Koenig 2010).

    >>> agree = prefix_probability(0.4, 12)
    >>> round(agree, 3), round(candidate_probability(agree, b=16, r=1), 3)
    (0.176, 0.955)
    """
    rows, bits = divmod(prefix_bits, 8)
    whole, begun = s + (1 - s) / 2**8, s + (1 - s) / 2**bits
    return float(whole**rows * begun)
