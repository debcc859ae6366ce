"""The methods of simindex in plain Python: what the tests compare with, and what to read first.

Owns one short definition of every step from a text to its candidates, in the order a document takes them.
Imports nothing of simindex and nothing compiled, so that no error elsewhere can hide here. Must not be
fast; the library must not call it. Sources are the papers that the docstrings name and the five documents
that simindex implements, named by their numbers:

    seed 000  Finding Similar Items (2), course slides (MPEI, Aveiro, 2018): MinHash by permutations
    seed 001  MinHashing and LSH, part 2 (Hanna and Hunt, 2015): hash functions, choice of bands
    seed 002  Finding Near Duplicates, slides after Motwani and Ullman: row hashing in one pass
    seed 003  Busca por Similaridade, slides (Soares da Silva, 2013, after Ullman): banding, the S-curve
    seed 004  Алгоритмы MinHash и SimHash, a lecture (Gorshkov): bags of words, SimHash, sorted lists

Invariant: what a result depends on (`normalize` to `band_words`, `estimated_jaccard`, `kept_jaccard`,
`simhash`, `permutation_orders`) equals the library bit for bit. Character tables are those of the running
Python; the library's stand still at Unicode 14.0, so texts with later characters may be cut otherwise.
"""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations, islice, pairwise
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

_MASK32, _MASK64 = 2**32 - 1, 2**64 - 1

# --- Text to shingles -----------------------------------------------------------------------------

# Scripts written without spaces between words, by how the names of their characters begin.
_ALONE_NAMES = (
    "AHOM ", "BOPOMOFO ", "CJK ", "HALFWIDTH KATAKANA", "HENTAIGANA ", "HIRAGANA ", "IDEOGRAPHIC ",
    "KATAKANA", "KHITAN SMALL SCRIPT", "KHMER ", "LAO ", "MASU MARK", "MYANMAR ", "NEW TAI LUE ", "NUSHU ",
    "TAI LE ", "TAI THAM ", "TAI VIET ", "TANGUT ", "THAI ", "VERTICAL IDEOGRAPHIC ", "VERTICAL KANA ",
    "YI SYLLABLE ",
)  # fmt: skip


def _without_surrogates(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def normalize(text: str, steps: Collection[str]) -> str:
    """Return `text` with lone surrogates as U+FFFD, then by NFKC, case folding and white space as named.

    They are applied in this order, whatever that of `steps` (Unicode, annex 15 and section 3.13).

    >>> normalize("  Ein  ﬁnes\\tMaß ", ("nfkc", "casefold", "whitespace"))
    'ein fines mass'
    """
    if unknown := set(steps) - {"nfkc", "casefold", "whitespace"}:
        raise ValueError(f"steps: expected nfkc, casefold, whitespace, found {sorted(unknown)}")
    text = _without_surrogates(text)
    if "nfkc" in steps:
        text = unicodedata.normalize("NFKC", text)
    if "casefold" in steps:
        text = text.casefold()
    return " ".join(text.split()) if "whitespace" in steps else text


def character_class(char: str) -> str:
    """Return "word", "alone", "mark" or "other", by the Unicode category and name of a character.

    >>> [character_class(char) for char in ("a", "_", "語", "\\u0301", "-")]
    ['word', 'word', 'alone', 'mark', 'other']
    """
    category = unicodedata.category(char)[0]
    if (category == "L" or char == "〇") and unicodedata.name(char, "").startswith(_ALONE_NAMES):
        return "alone"
    if category in "LN" or char == "_":
        return "word"
    return "mark" if category == "M" else "other"


def words(text: str) -> list[str]:
    """Cut normalised text to words: runs of letters, digits and ``_``, ideographs and the like one by one.

    A mark continues the word just before it and never begins one (bag of words, seed 004).

    >>> words("in mother Russia, car_2 drives 日本!")
    ['in', 'mother', 'Russia', 'car_2', 'drives', '日', '本']
    """
    found: list[str] = []
    before = "other"  # the class of the word that the next character may continue
    for char in text:
        now = character_class(char)
        if (now == "mark" and before != "other") or before == now == "word":
            found[-1] += char
        elif now in ("word", "alone"):
            found.append(char)
            before = now
        else:
            before = "other"
    return found


def _starts(length: int, size: int) -> range:
    if size < 1:
        raise ValueError(f"size: expected 1 or more, found {size}")
    return range(max(length - size + 1, min(length, 1)))


def word_shingles(tokens: Sequence[str], size: int) -> list[str]:
    """Return the runs of `size` words, joined by a space, in order and with repeats (seed 004).

    Fewer words are one shingle of all of them; no word, no shingle.

    >>> word_shingles(["a", "bump", "on", "the"], 3)
    ['a bump on', 'bump on the']
    """
    return [" ".join(tokens[start : start + size]) for start in _starts(len(tokens), size)]


def character_shingles(text: str, size: int) -> list[str]:
    """Return the runs of `size` code points, in order and with repeats (seeds 000, 001 and 003).

    >>> character_shingles("abcab", 2)
    ['ab', 'bc', 'ca', 'ab']
    """
    return [text[start : start + size] for start in _starts(len(text), size)]


# --- Shingles to hashes ---------------------------------------------------------------------------

_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5,
)  # fmt: skip


def _rotate(value: int, left: int) -> int:
    value &= _MASK64
    return (value << left | value >> (64 - left)) & _MASK64


def _round(accumulator: int, lane: int) -> int:
    return _rotate(accumulator + lane * _P2, 31) * _P1 & _MASK64


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit XXH64 hash of `data` (Collet, the xxHash specification).

    >>> hex(xxh64(b""))
    '0xef46db3751d8e999'
    """
    at = 0
    if len(data) >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= len(data):
            for i in range(4):
                lanes[i] = _round(lanes[i], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        value = sum(_rotate(lane, left) for lane, left in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            value = (value ^ _round(0, lane)) * _P1 + _P4
    else:
        value = seed + _P5
    value = (value + len(data)) & _MASK64
    while at + 8 <= len(data):
        value ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        value = (_rotate(value, 27) * _P1 + _P4) & _MASK64
        at += 8
    if at + 4 <= len(data):
        value ^= int.from_bytes(data[at : at + 4], "little") * _P1
        value = (_rotate(value, 23) * _P2 + _P3) & _MASK64
        at += 4
    for byte in data[at:]:
        value = _rotate(value ^ byte * _P5, 11) * _P1 & _MASK64
    for right, prime in ((33, _P2), (29, _P3), (32, 1)):
        value = (value ^ value >> right) * prime & _MASK64
    return value


def shingle_hash(shingle: str | bytes, seed: int) -> int:
    """Return the XXH64 of a shingle: of its UTF-8 with lone surrogates as U+FFFD, or of bytes as they are.

    >>> shingle_hash("мир", 1) == shingle_hash("мир".encode(), 1)
    True
    """
    return xxh64(_without_surrogates(shingle).encode() if isinstance(shingle, str) else shingle, seed)


def djb2a(data: bytes) -> int:
    """Return Bernstein's 32-bit hash: from 5381 on, times 33, xor the byte (seed 001).

    >>> djb2a(b"he")
    5861128
    """
    value = 5381
    for byte in data:
        value = (value * 33 ^ byte) & _MASK32
    return value


def universal_hash(x: int, a: int, b: int, p: int, n: int) -> int:
    """Return ((a*x + b) mod p) mod n, p a prime above n (seeds 000, 001, 004; Carter and Wegman 1979).

    >>> [universal_hash(x, a=3, b=1, p=5, n=5) for x in range(5)]
    [1, 4, 2, 0, 3]
    """
    return (a * x + b) % p % n


def splitmix64(seed: int) -> Iterator[int]:
    """Yield the uint64 draws of SplitMix64 without end (Steele, Lea and Flood 2014).

    >>> next(splitmix64(1234567))
    6457827717110365317
    """
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _MASK64
        value = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
        value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK64
        yield value ^ value >> 31


# --- MinHash: signatures --------------------------------------------------------------------------


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
    """Yield the slots [function][column] after each row; the last are the signatures (seeds 002 to 004).

    One pass: a hash function of the row's number stands in for each permutation.

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
    return [min((a * x + b) & _MASK32 for x in hashes) for a, b in coefficients]


def row_values(minima: Iterable[int]) -> list[int]:
    """Return the low 8 bits of each minimum (b-bit minwise hashing, Li and König 2010).

    >>> row_values([0x1234, 7])
    [52, 7]
    """
    return [minimum & 0xFF for minimum in minima]


def band_words(rows: Sequence[int]) -> list[int]:
    """Pack 8-bit rows into 64-bit words, eight a word, row 1 in the most significant byte.

    Words that share their first 8*r bits agree in r rows (LSH Forest, Bawa et al. 2005).

    >>> [hex(word) for word in band_words([1, 2, 3, 4, 5, 6, 7, 255])]
    ['0x1020304050607ff']
    """
    if len(rows) % 8:
        raise ValueError(f"rows: expected a multiple of 8, found {len(rows)}")
    return [int.from_bytes(bytes(rows[at : at + 8]), "big") for at in range(0, len(rows), 8)]


# --- MinHash: similarity --------------------------------------------------------------------------


def jaccard(set_a: Set[object], set_b: Set[object]) -> float:
    """Return the size of the intersection over that of the union (all seeds); 0.0 for two empty sets.

    Seed 004 asks what two empty sets should give; here an empty document is like nothing.

    >>> jaccard({"ab", "bc", "ca"}, {"ab", "bc", "cd"})
    0.5
    """
    return len(set_a & set_b) / len(set_a | set_b) if set_a or set_b else 0.0


def signature_agreement(signature_a: Sequence[object], signature_b: Sequence[object]) -> float:
    """Return the share of rows in which two signatures of one length agree (seeds 000 to 004).

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
    """Return the `n` least distinct low halves (32 bits) of the hashes, ascending (Cohen, Kaplan 2007).

    >>> bottom_hashes([9, 4, 2**32 + 4, 7], 2)
    [4, 7]
    """
    return sorted({x & _MASK32 for x in hashes})[:n]


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
    """Return (key, key, similarity) of every pair at least `threshold` alike, the most similar first.

    >>> brute_force_pairs({"a": {1}, "b": {1, 2}, "c": {1, 2}}, 0.9)
    [('b', 'c', 1.0)]
    """
    found = [(a, b, jaccard(sets[a], sets[b])) for a, b in combinations(sets, 2)]
    return sorted((pair for pair in found if pair[2] >= threshold), key=lambda pair: -pair[2])


# --- MinHash: banding -----------------------------------------------------------------------------


def pick_bands(threshold: float, num_hashes: int) -> int:
    """Return the least b with b ln b >= -n ln t, n hashes, t the threshold (seed 001).

    With n/b rows a band, the S-curve then rises at about (1/b)**(b/n) = t.

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

    >>> band_buckets([1, 2, 3, 4], bands=2, rows=2)
    [(1, 2), (3, 4)]
    """
    if bands < 1 or rows < 1 or bands * rows > len(signature):
        raise ValueError(f"expected bands * rows in 1..{len(signature)}, found {bands} * {rows}")
    return [tuple(signature[band * rows : (band + 1) * rows]) for band in range(bands)]


def band_hashes(signature: Sequence[int], bands: int) -> list[int]:
    """Return the djb2a hash of each band, its rows in decimal with dots between (seed 001).

    A band has len(signature) // bands rows; rows left over are in no band.

    >>> band_hashes([1, 2, 3, 4, 5], 2) == [djb2a(b"1.2"), djb2a(b"3.4")]
    True
    """
    buckets = band_buckets(signature, bands, len(signature) // bands)
    return [djb2a(".".join(map(str, bucket)).encode()) for bucket in buckets]


def candidate_pairs(signatures: Sequence[Sequence[int]], bands: int, rows: int) -> list[tuple[int, int]]:
    """Return the sorted pairs of signatures (numbered from 0) with a band in common (seed 003).

    >>> candidate_pairs([[1, 2, 3, 4], [1, 2, 9, 9], [3, 4, 9, 8]], bands=2, rows=2)
    [(0, 1)]
    """
    members: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for number, signature in enumerate(signatures):
        for place in enumerate(band_buckets(signature, bands, rows)):
            members[place].append(number)
    return sorted({pair for numbers in members.values() for pair in combinations(numbers, 2)})


def candidate_probability(s: float, b: int, r: int) -> float:
    """Return 1 - (1 - s**r)**b: the S-curve of b bands of r rows at the similarity s (seed 003).

    >>> round(candidate_probability(0.5, b=20, r=5), 3)
    0.47
    """
    return 1 - (1 - s**r) ** b


# --- SimHash --------------------------------------------------------------------------------------


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
    """Return the fingerprint of (hash, weight): a set bit adds the weight, a clear one takes it off.

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


# --- SimHash: permutation tables ------------------------------------------------------------------


def blocks(bits: int, num_blocks: int) -> list[int]:
    """Return the widths of the blocks of a fingerprint: as equal as can be, the wider ones first.

    >>> blocks(64, 5)
    [13, 13, 13, 13, 12]
    """
    if not 1 <= num_blocks <= bits:
        raise ValueError(f"num_blocks: expected 1..{bits}, found {num_blocks}")
    width, wider = divmod(bits, num_blocks)
    return [width + 1] * wider + [width] * (num_blocks - wider)


def permutation_orders(num_blocks: int, max_distance: int) -> list[tuple[int, ...]]:
    """Return an order of the blocks (from 0) for each choice of m - k leading ones, lexicographic.

    Behind these: the blocks before the first of them, after the last, and between, each ascending. For
    m = 4 and k = 2 the six lists of seed 004 (Manku, Jain and Das Sarma 2007, section 3).

    >>> ["".join("ABCD"[block] for block in order) for order in permutation_orders(4, 2)]
    ['ABCD', 'ACDB', 'ADBC', 'BCAD', 'BDAC', 'CDAB']
    """
    if not 0 <= max_distance < num_blocks:
        raise ValueError(f"max_distance: expected 0..{num_blocks - 1}, found {max_distance}")
    orders = []
    for leading in combinations(range(num_blocks), num_blocks - max_distance):
        first, last = leading[0], leading[-1]
        between = (block for block in range(first, last) if block not in leading)
        orders.append((*leading, *range(first), *range(last + 1, num_blocks), *between))
    return orders


def permute(fingerprint: int, widths: Sequence[int], order: Iterable[int]) -> int:
    """Return the fingerprint with its blocks in `order`; block 0 (A) is the most significant (seed 004).

    >>> hex(permute(0xABCD, [4, 4, 4, 4], (1, 3, 0, 2)))
    '0xbdac'
    """
    permuted = 0
    for block in order:
        part = fingerprint >> sum(widths[block + 1 :]) & ((1 << widths[block]) - 1)
        permuted = permuted << widths[block] | part
    return permuted


def restore(permuted: int, widths: Sequence[int], order: Sequence[int]) -> int:
    """Return what `permute` was given: the moved blocks in the inverse order.

    >>> hex(restore(0xBDAC, [4, 4, 4, 4], (1, 3, 0, 2)))
    '0xabcd'
    """
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return permute(permuted, [widths[block] for block in order], inverse)


class PermutationTables:
    """Sorted lists of permuted fingerprints that find every one within k = `max_distance` bits.

    k differing bits lie in at most k of the m blocks, and the other m - k lead one of the lists: there
    both fingerprints begin alike (seed 004; Manku, Jain and Das Sarma 2007, section 3).

    >>> PermutationTables([0b1111, 0b0000, 0b0111], num_blocks=4, max_distance=1, bits=4).near(0b1110)
    [(1, 0)]
    """

    def __init__(
        self, fingerprints: Iterable[int], num_blocks: int, max_distance: int, bits: int = 64
    ) -> None:
        self.widths = blocks(bits, num_blocks)
        self.max_distance = max_distance
        self.tables: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        numbered = list(enumerate(fingerprints))
        for order in permutation_orders(num_blocks, max_distance):
            self.tables[order] = sorted((permute(f, self.widths, order), number) for number, f in numbered)

    def near(self, fingerprint: int) -> list[tuple[int, int]]:
        """Return (distance, number) of every fingerprint near enough, each once, the nearest first."""
        found = set()
        for order, table in self.tables.items():
            behind = sum(self.widths[block] for block in order[len(order) - self.max_distance :])
            probe = permute(fingerprint, self.widths, order)
            prefix = probe >> behind
            start = bisect_left(table, (prefix << behind, 0))
            stop = bisect_left(table, ((prefix + 1) << behind, 0))
            found |= {(hamming(probe, permuted), number) for permuted, number in table[start:stop]}
        return sorted(match for match in found if match[0] <= self.max_distance)
