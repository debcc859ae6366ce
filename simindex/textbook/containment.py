"""Chapter 8: containment, from sampled hashes to how much of one document is in another.

Sources: mod m sketches, Broder 1997, section 5; FracMinHash and `scaled` of sourmash, Irber et al. 2022; the
correction of its bias, Hera, Pierce-Ward and Koslicki 2023; MurmurHash3's finalizer, Appleby 2011.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set

from simindex.textbook.hashes import MASK64


def containment(a: Set[object], b: Set[object]) -> float:
    """Return which share of `a` is in `b`, 0.0 where `a` is empty (Broder 1997).

    >>> containment({"a", "b"}, {"b", "c", "d"}), containment({"b", "c", "d"}, {"a", "b"})
    (0.5, 0.3333333333333333)
    """
    return len(a & b) / len(a) if a else 0.0


def mix64(x: int) -> int:
    """Return MurmurHash3's permutation of 64 bits: hashes of another order, independent of the first.

    >>> hex(mix64(1))
    '0xb456bcfc34c2cb2c'
    """
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD & MASK64
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53 & MASK64
    return x ^ x >> 33


def sample_hash(x: int) -> int:
    """Return what samples have of a shingle's hash: the upper 38 bits of `mix64` of it, where they are, and 0
    in the other 26, so that a doc id fits into the same word.

    >>> hex(sample_hash(1))
    '0xb456bcfc34000000'
    """
    return mix64(x) >> 26 << 26


def sampled_hashes(hashes: Iterable[int], one_in: int, floor: int = 8) -> list[int]:
    """Return the distinct sample hashes below 2^64 / one_in, ascending, and the `floor` least in any case.

    By its value alone, so that what two sets share is sampled in both or in neither.

    >>> [len(sampled_hashes(range(1000), m)) for m in (1, 8, 64)], len(sampled_hashes(range(20), 64))
    ([1000, 124, 18], 8)
    """
    distinct = sorted(set(map(sample_hash, hashes)))
    return [x for index, x in enumerate(distinct) if x < 2**64 // one_in or index < floor]


def estimated_containment(sample_a: Set[int], sample_b: Set[int]) -> float:
    """Return the share of the sample of `a` that is in the sample of `b`, 0.0 where that of `a` is empty.

    Given that the sample of `a` is not empty, its expected value is the containment itself: each hash of
    `a` is as likely as any other to be in it.

    >>> estimated_containment({1, 2, 3, 4}, {2, 3, 4, 5, 6})
    0.75
    """
    return containment(sample_a, sample_b)


def corrected_containment(sample_a: Set[int], sample_b: Set[int], num_a: int, one_in: int) -> float:
    """Return the estimate whose mean over all hash functions is the containment, empty samples counted as 0.
    `num_a`: the size of the set `a`; 0.0 where it is empty.

    Of a set of n, a share of (1 - 1/m)^n of the hash functions samples nothing, and the plain estimate is 0
    there. Dividing by the others' share makes the mean right, as where values of many pairs are averaged; of
    one pair with a sample it is too large by that factor (Hera, Pierce-Ward and Koslicki 2023, theorem 1).

    >>> round(corrected_containment({1, 2}, {2, 3}, num_a=10, one_in=8), 4)
    0.6785
    """
    share = estimated_containment(sample_a, sample_b)
    return share / (1 - (1 - 1 / one_in) ** num_a) if num_a else 0.0


def containment_error(share: float, num_sampled: int, num_all: int) -> float:
    """Return the standard error of a share that `num_sampled` elements (1 or more) out of `num_all` give.

    They are drawn without replacement, so a whole sample has none (Cochran 1977, section 3.2).

    >>> [round(containment_error(0.8, k, 160), 3) for k in (1, 20, 160)]
    [0.399, 0.084, 0.0]
    """
    return math.sqrt(share * (1 - share) / num_sampled * (1 - num_sampled / num_all))


def meeting_probability(num_shared: int, one_in: int) -> float:
    """Return the chance that at least one of so many shared hashes is sampled: 1 - (1 - 1/m)^k.

    About 1 - exp(-k/m), from which it differs by less than 0.03 at m = 8.

    >>> [round(meeting_probability(k, 8), 3) for k in (5, 25, 50)], meeting_probability(1, 1)
    ([0.487, 0.965, 0.999], 1.0)
    """
    return 1.0 - (1.0 - 1.0 / one_in) ** num_shared
