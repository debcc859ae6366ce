"""Which rows may be alike: those that share a prefix, found by sorting one column after the other.

Owns the tables, which are sorted in memory, some keys at a time where they are many. Must not compare
sketches but for being equal. Source: sorting in place of a table of buckets, Broder, Glassman, Manasse and
Zweig, Syntactic Clustering of the Web, 1997.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from simindex import _kernel
from simindex.corpus.dedup.sorting.sketches import SketchFiles, band_name
from simindex.pairs.runs import edges_of_runs, places_within, runs_among
from simindex.parallel import ahead

ENTRIES = 2 << 20
"""Entries of a table that are sorted in one go: 40 bytes each meanwhile, and then 30."""

LONG_RUN = 128
"""Rows of one prefix that are compared two by two; of more, each is compared with those that stay."""

_KEY_BITS = 64


class Copies(NamedTuple):
    """Rows whose sketch is that of an earlier one.

    Attributes:
        leaders: uint32: the first row of that sketch, of each.
        copies: uint32: the row.
    """

    leaders: np.ndarray
    copies: np.ndarray


def copies_among(sketches: SketchFiles, compared: np.ndarray, entries: int = ENTRIES) -> Copies:
    """Return the rows whose sketches are equal to an earlier one.

    Args:
        compared: bool, by number: which rows have something to compare.
    """
    leaders, copies = [np.empty(0, dtype=np.uint32)], [np.empty(0, dtype=np.uint32)]
    for keys, numbers in _sorted(sketches, "digests", compared, entries, _KEY_BITS):
        begins, sizes = runs_among(keys, 0)
        places = places_within(begins, sizes)
        members = numbers[places]
        firsts = np.minimum.reduceat(members, np.cumsum(sizes) - sizes) if len(sizes) else members
        firsts = np.repeat(firsts, sizes)
        is_copy = members != firsts
        leaders.append(firsts[is_copy])
        copies.append(members[is_copy])
    found = Copies(np.concatenate(leaders), np.concatenate(copies))
    if not len(found.copies):
        return found
    is_equal = np.ones(len(found.copies), dtype=bool)
    for band in range(sketches.bands):  # a digest may be that of two sketches
        words = sketches.band(band)
        is_equal &= words[found.leaders] == words[found.copies]
    return Copies(found.leaders[is_equal], found.copies[is_equal])


def candidates(
    sketches: SketchFiles, prefix_bits: int, compared: np.ndarray, threads: int, entries: int = ENTRIES
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield the pairs of rows that share a prefix in a band, once for each band, as edges (`edges_between`);
    and the rows of long runs, a run each, which are in no pair.

    Args:
        compared: bool, by number: which rows take part.
        threads: two or more: one is a range ahead.
        entries: how many are sorted at a time.
    """
    tables = chain.from_iterable(
        _sorted(sketches, band_name(band), compared, entries, prefix_bits) for band in range(sketches.bands)
    )
    for keys, numbers in ahead(tables, 1) if threads > 1 else tables:
        begins, sizes = runs_among(keys, _KEY_BITS - prefix_bits)
        is_long = sizes > LONG_RUN
        runs = zip(begins[is_long].tolist(), sizes[is_long].tolist(), strict=True)
        yield np.empty(0, dtype=np.uint64), [np.sort(numbers[begin : begin + size]) for begin, size in runs]
        for edges in edges_of_runs(numbers, begins[~is_long], sizes[~is_long]):
            yield edges, []


def _sorted(
    sketches: SketchFiles, column: str, compared: np.ndarray, entries: int, most_bits: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (keys, numbers) of a column in ascending order, a range of keys at a time, which `most_bits` of
    them tell from others at most."""
    # Keys are hashes, but for equal ones: a range may have more than its share of them.
    bits = min(max(-(-sketches.count // entries) - 1, 0).bit_length(), most_bits)
    for place in range(1 << bits):
        keys, numbers = _of_range(sketches, column, compared, bits, place)
        ordered = np.empty((1, len(keys)), dtype=np.uint64)
        places = np.empty((1, len(keys)), dtype=np.uint32)
        _kernel.sort_tables(keys[None], len(keys), ordered, places)
        del keys
        yield ordered[0], numbers[places[0]]


def _of_range(
    sketches: SketchFiles, column: str, compared: np.ndarray, bits: int, place: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (keys, numbers) of the rows whose keys begin with so many bits of a value."""
    keys, numbers = [np.empty(0, dtype=np.uint64)], [np.empty(0, dtype=np.uint32)]
    for first, some in sketches.parts(column):
        wanted = compared[first : first + len(some)]
        if bits:
            wanted = wanted & (some >> np.uint64(_KEY_BITS - bits) == place)
        here = np.flatnonzero(wanted)
        keys.append(some[here])
        numbers.append((here + first).astype(np.uint32))
    return np.concatenate(keys), np.concatenate(numbers)
