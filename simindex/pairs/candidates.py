"""Find candidates in one range of all tables: pairs that share a prefix, compared column by column.

For walks that put long runs off and compare rows; the others compare run by run (table_walk.py). Invariant: a
pair comes in one range, that of the first table in which both stand in one run; there twice at most, where
its candidates were too many to be held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simindex.format.rows import PAIR_ROW
from simindex.pairs.fetched import Sketches
from simindex.pairs.runs import Block, edges_of_runs, runs_among, runs_of
from simindex.pairs.tables import Slice, Source
from simindex.pairs.union_find import ends_of
from simindex.pairs.walk_plan import Edges, WalkPlan

CANDIDATES = 1 << 20
"""That are held, 8 bytes each and twice that while they are sorted."""

PAIRS = 1 << 17
"""Whose sketches are in memory together: 256 bytes a pair at most."""

_AT_ONCE = 1 << 12
"""Pairs that are compared in one go: their sketches stay in the cache of a core."""

_SEVEN_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ROWS_OF_WORD = 8


def verified_candidates(
    walk_plan: WalkPlan, place: int, tables: Sequence[int], source: Source, wanted: Sequence[Slice]
) -> Iterator[Edges]:
    """Yield the pairs of a range, and the documents of its long runs.

    Args:
        tables, wanted: those of the range, from 0 on; the slices of each.
    """
    plan = walk_plan.plan
    bounds = _bounds(walk_plan, place)
    edges, count = list[np.ndarray](), 0
    for table, pieces in zip(tables, source.slices(wanted, plan.capacity), strict=True):
        for part in runs_of(pieces, plan.bits[table], plan.max_run):
            if not isinstance(part, Block):
                yield Edges.put_off(part)
                continue
            begins, sizes = runs_among(part.keys, 64 - plan.bits[table])
            for some in edges_of_runs(part.numbers, begins, sizes):
                edges.append(some)
                count += len(some)
                if count >= CANDIDATES:
                    yield from _verified(walk_plan, bounds, edges, source)
                    edges, count = [], 0
    yield from _verified(walk_plan, bounds, edges, source)


def _bounds(walk_plan: WalkPlan, place: int) -> np.ndarray:
    """Return the lowest and the highest key of a range, of each table."""
    bounds = (walk_plan.bounds(table, place) for table in walk_plan.tables)
    each = [(first, behind - 1) if first < behind else (1, 0) for first, behind in bounds]
    return np.array(each, dtype=np.uint64).T


def _verified(
    walk_plan: WalkPlan, bounds: np.ndarray, edges: list[np.ndarray], source: Source
) -> Iterator[Edges]:
    if not edges:
        return
    every = np.concatenate(edges)
    every.sort()  # a quarter of the time of np.unique
    different = every[np.concatenate([[True], every[1:] != every[:-1]])]
    for first in range(0, len(different), PAIRS):
        later, earlier = (ends.astype(np.uint32) for ends in ends_of(different[first : first + PAIRS]))
        sketches = Sketches.fetched(source, np.concatenate([later, earlier]))
        some, others = sketches.local(earlier), sketches.local(later)
        found = [
            _compared(walk_plan, bounds, sketches, some[at : at + _AT_ONCE], others[at : at + _AT_ONCE])
            for at in range(0, len(some), _AT_ONCE)
        ]
        yield Edges(np.concatenate(found))


def _compared(
    walk_plan: WalkPlan, bounds: np.ndarray, sketches: Sketches, some: np.ndarray, others: np.ndarray
) -> np.ndarray:
    """Return the pairs that are alike, and whose first table with one prefix has them in this range.

    Args:
        bounds: the lowest and the highest key of the range, of each table.
    """
    plan = walk_plan.plan
    left, right = sketches.words[some], sketches.words[others]
    agree = equal_rows(left, right).sum(axis=1, dtype=np.uint32)
    first = (((left ^ right) & plan.masks) == 0).argmax(axis=1)
    keys = left[np.arange(len(left)), first]
    is_here = (agree >= plan.min_agree) & (keys >= bounds[0][first]) & (keys <= bounds[1][first])
    rows = np.zeros(int(is_here.sum()), dtype=PAIR_ROW)
    a, b = some[is_here], others[is_here]
    rows["a"], rows["b"], rows["agree"] = sketches.numbers[a], sketches.numbers[b], agree[is_here]
    rows["distance"] = np.bitwise_count(sketches.fingerprints[a] ^ sketches.fingerprints[b])
    return rows


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
