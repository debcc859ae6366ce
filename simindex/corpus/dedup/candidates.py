"""Find candidates, rows that share a prefix, by sorting one column after the other; compare their sketches.

A column is read in its order, twice at most for many pairs: never a sketch here and a sketch there. Source:
sorting in place of a table of buckets, Broder, Glassman, Manasse and Zweig, Syntactic Clustering of the Web,
1997.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.batching import ahead
from simindex.corpus.dedup.sketches import SketchFiles, band_name
from simindex.format.rows import NO_VALUE, PAIR_ROW
from simindex.pairs.edges import edges_between, ends_of
from simindex.pairs.plan import PairPlan
from simindex.sketching.permutations import PermutationPlan

ENTRIES = 2 << 20
"""Entries of a table that are sorted in one go: 40 bytes each meanwhile, and then 30."""

LONG_RUN = 128
"""Rows of one prefix that are compared two by two; of more, each is compared with those that stay."""

LONG_RUN_OF_FINGERPRINTS = 1_024
"""The same of fingerprints: two keys differ as they do, and short prefixes are shared by chance."""

_KEY_BITS = 64

Keys = Callable[[], Iterator[tuple[int, np.ndarray]]]


class Copies(NamedTuple):
    """Rows whose sketch is that of an earlier one."""

    leaders: np.ndarray  # uint32: the first row of that sketch, of each
    copies: np.ndarray  # uint32: the row


def copies_among(sketches: SketchFiles, compared: np.ndarray, entries: int = ENTRIES) -> Copies:
    """Return the rows whose sketches are equal to an earlier one; `compared`: whether each row takes part."""
    leaders, copies = [np.empty(0, dtype=np.uint32)], [np.empty(0, dtype=np.uint32)]
    digests = partial(sketches.parts, "digests")
    for keys, numbers in sorted_entries(Table(digests, _KEY_BITS), compared, entries):
        begins, sizes = _runs_among(keys, 0)
        places = _places_within(begins, sizes)
        members = numbers[places]
        firsts = np.minimum.reduceat(members, np.cumsum(sizes) - sizes) if len(sizes) else members
        firsts = np.repeat(firsts, sizes)
        is_copy = members != firsts
        leaders.append(firsts[is_copy])
        copies.append(members[is_copy])
    found = Copies(np.concatenate(leaders), np.concatenate(copies))
    if not len(found.copies):
        return found
    is_equal = sketches.present(found.leaders) == sketches.present(found.copies)
    for column in sketches.columns:  # a digest may be that of two sketches
        words = sketches.column(column)
        is_equal &= words[found.leaders] == words[found.copies]
    if sketches.has_kept:
        for place in np.flatnonzero(is_equal).tolist():
            pair = found.leaders[place], found.copies[place]
            is_equal[place] = len(set(map(sketches.packed_kept, map(int, pair)))) == 1
    return Copies(found.leaders[is_equal], found.copies[is_equal])


class Table(NamedTuple):
    """A table to be sorted."""

    keys: Keys  # yields them by number, some at a time, each time with the number of the first
    prefix_bits: int  # rows whose keys begin with the same ones are candidates


def tables_of(sketches: SketchFiles, plan: PairPlan, permutations: PermutationPlan) -> list[Table]:
    """Return the tables of what is compared: a band each, or fingerprints whose blocks are permuted."""
    if plan.method == "minhash":
        columns = map(band_name, range(sketches.bands))
        return [
            Table(partial(sketches.parts, name), bits) for name, bits in zip(columns, plan.bits, strict=True)
        ]
    orders = zip(permutations.orders, permutations.prefix_bits, strict=True)
    singles = [replace(permutations, orders=(order,), prefix_bits=(bits,)) for order, bits in orders]
    return [Table(partial(_permuted, sketches, one), one.prefix_bits[0]) for one in singles]


def _permuted(sketches: SketchFiles, permutation: PermutationPlan) -> Iterator[tuple[int, np.ndarray]]:
    for first, fingerprints in sketches.parts("fingerprints"):
        yield first, permutation.permute(fingerprints)[0]


def candidates(
    tables: list[Table], plan: PairPlan, compared: np.ndarray, threads: int, entries: int = ENTRIES
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield the pairs of rows that share a prefix in a table, once for each table, as edges
    (`edges_between`); and the rows of long runs, a run each, which are in no pair.
    """
    is_by_bands = plan.method == "minhash"
    most = LONG_RUN if is_by_bands else LONG_RUN_OF_FINGERPRINTS
    ranges = ((table, *some) for table in tables for some in sorted_entries(table, compared, entries))
    for table, keys, numbers in ahead(ranges, 1) if threads > 1 else ranges:
        begins, sizes = _runs_among(keys, _KEY_BITS - table.prefix_bits)
        is_long = sizes > most
        runs = zip(begins[is_long].tolist(), sizes[is_long].tolist(), strict=True)
        yield np.empty(0, dtype=np.uint64), [np.sort(numbers[begin : begin + size]) for begin, size in runs]
        begins, sizes = begins[~is_long], sizes[~is_long]
        if is_by_bands:
            for edges in _edges_of_runs(numbers, begins, sizes):
                yield edges, []
            continue
        for edges in _edges_of_runs(np.arange(len(keys)), begins, sizes):
            a, b = ends_of(edges)
            is_near = np.bitwise_count(keys[a] ^ keys[b]) <= plan.max_distance
            yield edges_between(numbers[a[is_near]], numbers[b[is_near]]), []


def sorted_entries(
    table: Table, compared: np.ndarray, entries: int = ENTRIES
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (keys, numbers) of a table in ascending order, a range of keys of about `entries` at a time."""
    # Keys are hashes, but for equal ones: a range may have more than its share of them. No prefix is cut.
    bits = min(max(-(-len(compared) // entries) - 1, 0).bit_length(), table.prefix_bits)
    for place in range(1 << bits):
        keys, numbers = _of_range(table.keys(), compared, bits, place)
        ordered = np.empty((1, len(keys)), dtype=np.uint64)
        places = np.empty((1, len(keys)), dtype=np.uint32)
        _kernel.sort_tables(keys[None], len(keys), ordered, places)
        del keys
        yield ordered[0], numbers[places[0]]


def _of_range(
    parts: Iterator[tuple[int, np.ndarray]], compared: np.ndarray, bits: int, place: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (keys, numbers) of the rows whose keys begin with so many bits of a value."""
    keys, numbers = [np.empty(0, dtype=np.uint64)], [np.empty(0, dtype=np.uint32)]
    for first, some in parts:
        wanted = compared[first : first + len(some)]
        if bits:
            wanted = wanted & (some >> np.uint64(_KEY_BITS - bits) == place)
        here = np.flatnonzero(wanted)
        keys.append(some[here])
        numbers.append((here + first).astype(np.uint32))
    return np.concatenate(keys), np.concatenate(numbers)


def _runs_among(keys: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (where each begins, how many are in it) of the runs of two or more keys that are equal but for
    their last bits."""
    is_equal = (keys[1:] ^ keys[:-1]) >> np.uint64(shift) == 0
    at = np.flatnonzero(is_equal)
    begins = np.flatnonzero(np.diff(at, prepend=-2) != 1)
    return at[begins], np.diff(np.append(begins, len(at))) + 1


def _edges_of_runs(numbers: np.ndarray, begins: np.ndarray, sizes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the pairs of rows that stand in one run of two rows or more, as edges (`edges_between`)."""
    distance = 1
    while len(begins):
        places = _places_within(begins, sizes - distance)
        yield edges_between(numbers[places], numbers[places + distance])
        distance += 1
        begins, sizes = begins[sizes > distance], sizes[sizes > distance]


def _places_within(begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return begin..begin+size-1 of each, one after the other."""
    ends = np.cumsum(sizes)
    return np.repeat(begins - (ends - sizes), sizes) + np.arange(int(ends[-1]) if len(ends) else 0)


PAIRS = 1 << 20
"""Pairs that are compared in one go: some 50 bytes each."""

_SEVEN_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ROWS_OF_WORD = 8


def verified(
    sketches: SketchFiles, edges: Iterator[np.ndarray], min_agree: int, pairs: int = PAIRS
) -> Iterator[np.ndarray]:
    """Yield the pairs that agree in enough rows, PAIR_ROW, of ascending edges that may come several times."""
    waiting, count = [np.empty(0, dtype=np.uint64)], 0
    newest = None
    for some in edges:
        if not len(some):
            continue
        is_new = np.ones(len(some), dtype=bool)
        is_new[1:] = some[1:] != some[:-1]
        is_new[0] = newest is None or some[0] != newest
        newest = some[-1]
        different = some[is_new]
        for first in range(0, len(different), pairs):
            waiting.append(different[first : first + pairs])
            count += len(waiting[-1])
            if count >= pairs:
                yield _compared(sketches, np.concatenate(waiting), min_agree)
                waiting, count = [waiting[0]], 0
    if count:
        yield _compared(sketches, np.concatenate(waiting), min_agree)


def _compared(sketches: SketchFiles, edges: np.ndarray, min_agree: int) -> np.ndarray:
    later, earlier = (places.astype(np.uint32) for places in ends_of(edges))
    by_earlier = np.argsort(earlier, kind="stable")
    ascending = earlier[by_earlier]
    agree = np.full(len(edges), 0 if sketches.bands else NO_VALUE, dtype=np.uint32)
    other = np.empty(len(edges), dtype=np.uint64)
    for band in range(sketches.bands):
        words = sketches.column(band_name(band))
        other[by_earlier] = words[ascending]
        agree += equal_rows(words[later], other)
    is_match = agree >= min_agree
    found = np.zeros(int(is_match.sum()), dtype=PAIR_ROW)
    found["a"], found["b"], found["agree"] = earlier[is_match], later[is_match], agree[is_match]
    if sketches.has_fingerprints:
        fingerprints = sketches.column("fingerprints")
        found["distance"] = np.bitwise_count(fingerprints[found["a"]] ^ fingerprints[found["b"]])
    return found


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
