"""Chapter 3: MinHash, from sets to signatures and from signatures to estimated similarities.

Sources: seeds 000 to 004; Broder 1997; Fast Similarity Sketching, Dahlgaard, Knudsen and Thorup 2017; b-bit
minwise hashing, Li and König 2010; bottom-k sketches, Cohen and Kaplan 2007.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations, islice
from typing import TypeVar

from simindex.textbook.hashes import MASK32, MASK64, splitmix64

Key = TypeVar("Key", bound=Hashable)

ROUNDS, BLOCK_ROWS = 3, 128
"""Rounds of Fast Similarity Sketching, and the rows among which a round chooses."""

_ROUND_DRAWS_FROM = 2048
"""The draws of SplitMix64 before this one are the coefficients of 1,024 rows."""


def boolean_matrix(sets: Sequence[Set[object]], universe: Iterable[object]) -> list[list[int]]:
    """Return a row an element and a column a set, 1 where it is a member (seeds 000, 003 and 004).

    >>> boolean_matrix([{"a", "d"}, {"c"}], "acd")
    [[1, 0], [0, 1], [1, 0]]
    """
    return [[int(element in members) for members in sets] for element in universe]


def columns(matrix: Sequence[Sequence[int]]) -> list[set[int]]:
    """Return for each column the rows (from 0) that hold a 1: what `boolean_matrix` was given.

    >>> columns([[1, 0], [0, 1], [1, 0]])
    [{0, 2}, {1}]
    """
    return [{row for row, bit in enumerate(column) if bit} for column in zip(*matrix, strict=True)]


def permutation_minhash(matrix: Sequence[Sequence[int]], permutation: Sequence[int]) -> list[float]:
    """Return for each column the least permutation[row] of its 1s (seeds 000, 003, 004; Broder 1997).

    A column without a 1 has infinity.

    >>> permutation_minhash([[1, 0], [0, 1], [1, 0]], [3, 2, 1])
    [1, 2]
    """
    return [min((permutation[row] for row in rows), default=math.inf) for rows in columns(matrix)]


def first_rows(matrix: Sequence[Sequence[int]], order: Sequence[int]) -> list[int | None]:
    """Return for each column its first row (from 0) with a 1 in `order`, or None (seeds 002 and 004).

    The same MinHash as `permutation_minhash`, but naming the row, not its place.

    >>> first_rows([[1, 0], [0, 1], [1, 0]], [2, 1, 0])
    [2, 1]
    """
    return [next((row for row in order if row in rows), None) for rows in columns(matrix)]


def row_hashing(
    matrix: Sequence[Sequence[int]], functions: Sequence[Callable[[int], int]], first_row: int = 0
) -> Iterator[list[list[float]]]:
    """Yield the slots, a list for each function with one for each column, after each row (seeds 002 to 004).

    One pass: a hash function of the row's number, from `first_row` on, stands in for each permutation. The
    last slots are the signatures.

    >>> list(row_hashing([[1, 0], [0, 1], [1, 1]], [lambda x: 2 * x % 3]))
    [[[0, inf]], [[0, 2]], [[0, 1]]]
    """
    slots = [[math.inf] * len(matrix[0]) for _ in functions]
    for number, row in enumerate(matrix, first_row):
        for slot, function in zip(slots, functions, strict=True):
            for column, bit in enumerate(row):
                if bit:
                    slot[column] = min(slot[column], function(number))
        yield [list(slot) for slot in slots]


def row_coefficients(num_perm: int, seed: int) -> list[tuple[int, int]]:
    """Return (a, b) for each MinHash row: the upper halves of two SplitMix64 draws, `a` made odd.

    >>> row_coefficients(1, 1234567)
    [(1503580183, 745795716)]
    """
    draws = [draw >> 32 for draw in islice(splitmix64(seed), 2 * num_perm)]
    return [(a | 1, b) for a, b in zip(draws[::2], draws[1::2], strict=True)]


def minhash_rows(hashes: Collection[int], coefficients: Iterable[tuple[int, int]]) -> list[int]:
    """Return the least (a*x + b) mod 2**32 for each (a, b), x the low 32 bits of a hash.

    The universal family with modulus 2**32: an odd `a` makes it a permutation. No hash, no signature:
    raises ValueError.

    >>> minhash_rows([5, 2**32 + 7], [(1, 0), (3, 2**32 - 20)])
    [5, 1]
    """
    if not hashes:
        raise ValueError("hashes: expected one or more, found none")
    return [min((a * x + b) & MASK32 for x in hashes) for a, b in coefficients]


def round_multipliers(num_perm: int, seed: int) -> list[list[int]]:
    """Return for each begun block of 128 rows the odd 64-bit multipliers of its three rounds: the draws of
    `splitmix64` from number 2048 on, made odd.

    >>> [[hex(one) for one in block[:2]] for block in round_multipliers(8, 1)]
    [['0x3e03ca0c2bc3e563', '0xdac8138e8eedb30d']]
    """
    blocks = -(-num_perm // BLOCK_ROWS)
    draws = islice(splitmix64(seed), _ROUND_DRAWS_FROM, _ROUND_DRAWS_FROM + ROUNDS * blocks)
    odd = [draw | 1 for draw in draws]
    return [odd[first : first + ROUNDS] for first in range(0, len(odd), ROUNDS)]


def mix32(value: int) -> int:
    """Return a permutation of the 32-bit numbers that spreads each bit over all (MurmurHash3, Appleby).

    >>> hex(mix32(1))
    '0x514e28b7'
    """
    value = (value ^ value >> 16) * 0x85EBCA6B & MASK32
    value = (value ^ value >> 13) * 0xC2B2AE35 & MASK32
    return value ^ value >> 16


def similarity_rows(hashes: Collection[int], num_perm: int, seed: int) -> list[int]:
    """Return the 32-bit rows of a set by Fast Similarity Sketching (Dahlgaard, Knudsen and Thorup 2017).

    In each round every hash x goes to one row of 128, the top 7 bits of m*x mod 2**64 for the round's
    multiplier m, with the next 30 bits for its value. A row takes the least value of the first round that
    brings it one. A row that no round fills takes the least (a*x + b) mod 2**32 of all hashes, without its
    low 2 bits. So the key of a hash in a row is (round, value), and the row is the least key, mixed.

    Why two sets agree in a row with the probability of their Jaccard similarity: in a fixed row the keys of
    the members of the union are drawn independently and from one distribution, so that each member is equally
    likely to have the least; and the rows agree when that member is in both sets. Rows of one round have
    different members, so they are draws without replacement: the estimate varies less than with independent
    rows, and never more.

    More than 128 rows are several such blocks, with multipliers of their own; fewer are the first of a block.
    So the rows of a smaller `num_perm` are the first of a larger. No hash, no signature: raises ValueError.

    >>> draws = list(islice(splitmix64(1), 100))
    >>> signature_agreement(similarity_rows(draws[:90], 128, 1), similarity_rows(draws[10:], 128, 1))
    0.8125
    >>> similarity_rows([7], 8, seed=1) == similarity_rows([7], 16, seed=1)[:8]
    True
    """
    if not hashes:
        raise ValueError("hashes: expected one or more, found none")
    keys = [ROUNDS << 30 | least >> 2 for least in minhash_rows(hashes, row_coefficients(num_perm, seed))]
    for block, multipliers in enumerate(round_multipliers(num_perm, seed)):
        for number, multiplier in enumerate(multipliers):
            for x in hashes:
                product = multiplier * x & MASK64
                row, key = block * BLOCK_ROWS + (product >> 57), number << 30 | product >> 27 & 0x3FFFFFFF
                if row < num_perm:
                    keys[row] = min(keys[row], key)
    return [mix32(key) for key in keys]


def estimated_size(hashes: Iterable[int], seed: int) -> int:
    """Return about how many different hashes there are, from the first round of `similarity_rows`.

    Each of 128 rows meets a Poisson number of them, with values uniform in 0..1, and has the least; k rows
    meet one. The likeliest mean is k over the sum of what the rows have, where a row that meets none adds 1
    (Epstein and Sobel, Life testing, 1953; least values of parts: Giroire 2009). The standard error is a
    tenth or less. Of each value 24 bits count.

    >>> [estimated_size(list(islice(splitmix64(1), n)) * 2, seed=1) for n in (0, 1, 10, 100)]
    [0, 1, 10, 98]
    """
    multiplier, least = round_multipliers(BLOCK_ROWS, seed)[0][0], [1 << 24] * BLOCK_ROWS
    for x in hashes:
        product = multiplier * x & MASK64
        least[product >> 57] = min(least[product >> 57], product >> 33 & 0xFFFFFF)
    met, total = sum(value < 1 << 24 for value in least), sum(least)
    return ((met * BLOCK_ROWS << 24) + total // 2) // (total or 1)


def row_values(minima: Iterable[int]) -> list[int]:
    """Return the low 8 bits of each minimum (b-bit minwise hashing, Li and König 2010).

    >>> row_values([0x1234, 7])
    [52, 7]
    """
    return [minimum & 0xFF for minimum in minima]


def jaccard(a: Iterable[object], b: Iterable[object]) -> float:
    """Return the size of the intersection over that of the union (all seeds); 0.0 for two empty sets.

    Each is taken as a set, so that shingles go in as they were cut. TypeError: a text, which is not cut.

    Seed 004 asks what two empty sets should give; here an empty document is like nothing.

    >>> jaccard({"ab", "bc", "ca"}, {"ab", "bc", "cd"})
    0.5
    >>> jaccard(["a", "rose", "is", "a", "rose"], ["a", "rose"])
    0.6666666666666666
    """
    for name, shingles in (("a", a), ("b", b)):
        if isinstance(shingles, str):
            raise TypeError(f"{name}: expected shingles, found the text {shingles!r:.80}; cut it first")
    set_a, set_b = set(a), set(b)
    return len(set_a & set_b) / len(set_a | set_b) if set_a or set_b else 0.0


def signature_agreement(signature_a: Sequence[object], signature_b: Sequence[object]) -> float:
    """Return the share of rows in which two signatures agree (seeds 000 to 004). ValueError: they have
    different lengths, or no rows.

    >>> signature_agreement([2, 2, 1, 5], [2, 4, 1, 5])
    0.75
    """
    if not signature_a or len(signature_a) != len(signature_b):
        raise ValueError(f"expected equally many rows, found {len(signature_a)} and {len(signature_b)}")
    return sum(a == b for a, b in zip(signature_a, signature_b, strict=True)) / len(signature_a)


def estimated_jaccard(rows_a: Sequence[int], rows_b: Sequence[int]) -> float:
    """Return the Jaccard estimate, 0 to 1, from 8-bit rows, 1 in 256 of which agree by chance.

    Li and König 2010, for b = 8 and sets that are small in their universe.

    >>> estimated_jaccard([1, 2, 3, 4], [1, 2, 3, 5])
    0.7490196078431373
    """
    estimate = (signature_agreement(rows_a, rows_b) - 1 / 256) / (1 - 1 / 256)
    return min(1.0, max(0.0, estimate))


def bottom_hashes(hashes: Iterable[int], n: int) -> list[int]:
    """Return the `n` least distinct values of the top 38 bits of the hashes, ascending (Cohen, Kaplan 2007).

    >>> bottom_hashes([9 << 26, (4 << 26) + 7, (4 << 26) + 1, 7 << 26], 2)
    [4, 7]
    """
    return sorted({x >> 26 for x in hashes})[:n]


def kept_jaccard(kept_a: Iterable[int], kept_b: Iterable[int], n: int) -> float:
    """Return the Jaccard similarity of two sets from the `n` bottom hashes of each.

    Exact when both kept fewer than n, hence all. Else the share of the n least of the union that is in
    both (bottom-k estimate, Broder 1997; Cohen and Kaplan 2007).

    >>> kept_jaccard([1, 2], [2, 3], n=5), kept_jaccard([1, 2, 3, 4], [2, 3, 4, 5], n=4)
    (0.3333333333333333, 0.75)
    """
    set_a, set_b = set(kept_a), set(kept_b)
    if len(set_a) < n and len(set_b) < n:
        return jaccard(set_a, set_b)
    return len(set_a & set_b & set(sorted(set_a | set_b)[:n])) / n


def spread(num_perm: int, shingles: int) -> float:
    """Return the variance of the share of equal `similarity_rows`, divided by that of independent rows.

    Args:
        shingles: how many distinct ones both sets have together; below 2 the answer is 1.0.

    Two rows that the same round fills first have different shingles, drawn without replacement; with
    probability S they are such two. Others are independent. For 128 rows it is 1 - 127 S / (shingles - 1).

    >>> [round(spread(128, shingles), 2) for shingles in (1, 22, 144, 1667)]
    [1.0, 0.68, 0.55, 0.92]
    """
    if shingles < 2:
        return 1.0
    one_empty, both_empty = (1 - 1 / BLOCK_ROWS) ** shingles, (1 - 2 / BLOCK_ROWS) ** shingles
    same_round = (1 - 2 * one_empty + both_empty) * sum(both_empty**number for number in range(ROUNDS))
    blocks, rest = divmod(num_perm, BLOCK_ROWS)
    others = (blocks * BLOCK_ROWS * (BLOCK_ROWS - 1) + rest * (rest - 1)) / num_perm
    return 1 - others * same_round / (shingles - 1)


def best_jaccard(
    rows_a: Sequence[int], rows_b: Sequence[int], kept_a: Iterable[int], kept_b: Iterable[int], n: int
) -> float:
    """Return the Jaccard similarity from the 8-bit rows and the `n` bottom hashes of two sets.

    Exact when both kept fewer than n, hence all. Else all hashes of both below the least n-th one are known:
    of u of the union, c are in both (Cohen and Kaplan 2009). They are a share f of all, so c/u counts for
    u / (1 - f) rows in the mean with `estimated_jaccard`, whose rows count for more the fewer shingles there
    are (`spread`): each is weighted by its inverse variance.

    >>> best_jaccard([1] * 8, [1] * 8, [1, 2], [2, 3], n=5)
    0.3333333333333333
    >>> round(best_jaccard([1] * 8, [1] * 8, [1, 2, 2**37], [2, 3, 2**37], n=3), 3)
    0.715
    """
    set_a, set_b = set(kept_a), set(kept_b)
    if len(set_a) < n and len(set_b) < n:
        return jaccard(set_a, set_b)
    bound = min(max(hashes) for hashes in (set_a, set_b) if len(hashes) == n)
    below_a, below_b = ({x for x in hashes if x < bound} for hashes in (set_a, set_b))
    share, union = bound / 2**38, len(below_a | below_b)
    weight = union / (1 - share)
    rows = len(rows_a) / spread(len(rows_a), round(union / share) if share else 0)
    by_rows = rows * estimated_jaccard(rows_a, rows_b)
    return (by_rows + weight * jaccard(below_a, below_b)) / (rows + weight)


def brute_force_matches(
    query: Set[object], sets: Mapping[Key, Set[object]], threshold: float
) -> list[tuple[Key, float]]:
    """Return (key, similarity) of every set at least `threshold` like the query, the most similar first.

    Equal similarities keep the order of `sets`.

    >>> brute_force_matches({1, 2}, {"a": {1}, "b": {3}, "c": {1, 2}}, 0.5)
    [('c', 1.0), ('a', 0.5)]
    """
    found = [(key, jaccard(query, members)) for key, members in sets.items()]
    return sorted((match for match in found if match[1] >= threshold), key=lambda match: -match[1])


def brute_force_pairs(sets: Mapping[Key, Set[object]], threshold: float) -> list[tuple[Key, Key, float]]:
    """Return (key, later key, similarity) of every pair at least `threshold` alike, the most similar first,
    then in the order of `sets`.

    >>> brute_force_pairs({"a": {1}, "b": {1, 2}, "c": {1, 2}}, 0.9)
    [('b', 'c', 1.0)]
    """
    found = [(a, b, jaccard(sets[a], sets[b])) for a, b in combinations(sets, 2)]
    return sorted((pair for pair in found if pair[2] >= threshold), key=lambda pair: -pair[2])
