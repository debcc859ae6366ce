"""The pairs of one range of all tables: first what shares a prefix, then all of it compared in one go.

Owns what is a candidate, and in which range a pair is told. For those who put long runs off, and compare by
rows; the others walk run by run (walk.py). Must not know where entries and sketches come from. Invariant: a
pair comes in one range, that of the first table in which both stand in one run; there twice at most, where
its candidates were too many to be held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simindex.corpus.dedup.sorting.candidates import edges_of_runs, runs_among
from simindex.corpus.dedup.sorting.scored_edges import equal_rows
from simindex.format.rows import PAIR_ROW
from simindex.pairs.union_find import ends_of
from simindex.scaleout.ranges.runs import Block
from simindex.scaleout.ranges.source import Slice, Source
from simindex.scaleout.ranges.walk import Asked, Found, RangeWalk, Sketches

CANDIDATES = 1 << 20
"""That are held, 8 bytes each and twice that while they are sorted."""

PAIRS = 1 << 17
"""Whose sketches are in memory together: 256 bytes a pair at most."""

_AT_ONCE = 1 << 12
"""Pairs that are compared in one go: their sketches stay in the cache of a core."""


def alike(
    asked: Asked, place: int, walks: Sequence[RangeWalk], source: Source, wanted: Sequence[Slice]
) -> Iterator[Found]:
    """Yield the pairs of a range, and the documents of its long runs.

    Args:
        walks, wanted: of each table, which are those from 0 on; the slices of the range.
    """
    bounds = _bounds(asked, place)
    edges, count = list[np.ndarray](), 0
    for walk, pieces in zip(walks, source.slices(wanted, asked.plan.capacity), strict=True):
        for part in walk.parts(pieces):
            if not isinstance(part, Block):
                yield from walk.of_long(part)
                continue
            begins, sizes = runs_among(part.keys, 64 - asked.plan.bits[walk.table])
            for some in edges_of_runs(part.numbers, begins, sizes):
                edges.append(some)
                count += len(some)
                if count >= CANDIDATES:
                    yield from _verified(asked, bounds, edges, source)
                    edges, count = [], 0
    yield from _verified(asked, bounds, edges, source)


def _bounds(asked: Asked, place: int) -> np.ndarray:
    """Return the lowest and the highest key of a range, of each table."""
    bounds = (asked.bounds(table, place) for table in asked.tables)
    each = [(first, behind - 1) if first < behind else (1, 0) for first, behind in bounds]
    return np.array(each, dtype=np.uint64).T


def _verified(asked: Asked, bounds: np.ndarray, edges: list[np.ndarray], source: Source) -> Iterator[Found]:
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
            _compared(asked, bounds, sketches, some[at : at + _AT_ONCE], others[at : at + _AT_ONCE])
            for at in range(0, len(some), _AT_ONCE)
        ]
        yield Found.of_pairs(np.concatenate(found))


def _compared(
    asked: Asked, bounds: np.ndarray, sketches: Sketches, some: np.ndarray, others: np.ndarray
) -> np.ndarray:
    """Return the pairs that are alike, and whose first table with one prefix has them in this range.

    Args:
        bounds: the lowest and the highest key of the range, of each table.
        some, others: places among the sketches.
    """
    plan = asked.plan
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
