"""Find the pairs of sketches that lie in columns: candidates of sorted tables first, then a column at a time.

A column is read in its order, twice at most for many pairs: never a sketch here and a sketch there. Source:
sorting in place of a table of buckets, Broder, Glassman, Manasse and Zweig, Syntactic Clustering of the Web,
1997.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simindex.all_pairs.edges import edges_between, ends_of
from simindex.all_pairs.plan import PairPlan, WalkPlan
from simindex.all_pairs.tables import Tables
from simindex.format.kernel_structs import NO_VALUE, PAIR_ROW
from simindex.sketching.hash_family import equal_rows

PAIRS = 1 << 20
"""Pairs that are compared in one go: some 50 bytes each."""


def edges_of_runs(
    keys: np.ndarray, numbers: np.ndarray, sizes: np.ndarray, plan: PairPlan
) -> Iterator[np.ndarray]:
    """Yield, as edges in no order, the pairs of entries that share a run; where runs are of fingerprints,
    only the pairs that are near. `sizes` are those of the runs, two or more entries each, which lie one after
    the other."""
    begins = np.cumsum(sizes) - sizes
    distance = 1
    while len(begins):
        left = indices_within(begins, sizes - distance)
        right = left + distance
        if plan.method == "simhash":
            is_near = np.bitwise_count(keys[left] ^ keys[right]) <= plan.max_distance
            left, right = left[is_near], right[is_near]
        yield edges_between(numbers[left], numbers[right])
        distance += 1
        begins, sizes = begins[sizes > distance], sizes[sizes > distance]


def indices_within(begins: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the indices begin..begin+size-1 of each range, one range after the other; a size may be 0."""
    ends = np.cumsum(sizes)
    return np.repeat(begins - (ends - sizes), sizes) + np.arange(int(ends[-1]) if len(ends) else 0)


def verified(
    source: Tables, plan: PairPlan, bands: int, edges: Iterator[np.ndarray], pairs: int = PAIRS
) -> Iterator[np.ndarray]:
    """Yield, of ascending edges that may come several times, the pairs that agree in enough rows, each once
    and in the order of the edges: PAIR_ROW, the lower number as `a`. The distance is filled in, and leaves
    out no pair. `bands`: how many columns are band words; `pairs`: how many are compared in one go, about."""
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
                yield _compared(source, plan, bands, np.concatenate(waiting))
                waiting, count = [waiting[0]], 0
    if count:
        yield _compared(source, plan, bands, np.concatenate(waiting))


def _compared(source: Tables, plan: PairPlan, bands: int, edges: np.ndarray) -> np.ndarray:
    later, earlier = (ends.astype(np.uint32) for ends in ends_of(edges))
    agree = np.full(len(edges), 0 if bands else NO_VALUE, dtype=np.uint32)
    distance = np.zeros(0, dtype=np.uint8)
    for index, (words, others) in enumerate(_columns(source, later, earlier)):
        if index < bands:
            agree += equal_rows(words, others)
        else:
            distance = np.bitwise_count(words ^ others)
    is_match = agree >= plan.min_agree
    found = np.zeros(int(is_match.sum()), dtype=PAIR_ROW)
    for name, values in (("a", earlier), ("b", later), ("agree", agree), ("distance", distance)):
        found[name] = values[is_match]
    return found


def _columns(
    source: Tables, ascending: np.ndarray, others: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield each sketch column of `ascending` beside the same column of `others`, which may come in any
    order. The second array is filled anew at the next step."""
    order, turned = np.argsort(others, kind="stable"), np.empty(len(others), dtype=np.uint64)
    for own, found in zip(source.columns_of(ascending), source.columns_of(others[order]), strict=True):
        turned[order] = found
        yield own, turned


def first_met(source: Tables, walk: WalkPlan, index: int, pairs: np.ndarray) -> np.ndarray:
    """Return the pairs, PAIR_ROW as `verified` yields them, whose prefix in the first table in which they
    share one is in the `index`-th range of keys: so each is in one range only."""
    if walk.count == 1 or not len(pairs):
        return pairs
    is_here, is_open = np.zeros(len(pairs), dtype=bool), np.ones(len(pairs), dtype=bool)
    columns = _columns(source, pairs["b"], pairs["a"])
    if walk.plan.method == "simhash":
        *_, (own, others) = columns
        permute = walk.scheme.plan.permute
        columns = zip(permute(own), permute(others), strict=True)
    for table, (own, others) in zip(walk.tables, columns, strict=False):
        first, end = walk.bounds(table, index)
        is_common = (own ^ others) >> np.uint64(64 - walk.plan.bits[table]) == 0
        if first < end:
            is_here |= is_open & is_common & (own - np.uint64(first) <= np.uint64(end - first - 1))
        is_open &= ~is_common
    return pairs[is_here]
