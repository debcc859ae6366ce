"""A range of some tables, walked from its first entry to its last verified pair.

Owns how much comes together: the slices of all of its tables are asked for at once, and the sketches of many
runs, of whatever table, in one go. Must not know where they come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simindex.format.rows import PAIR_ROW
from simindex.pairs.union_find import Forest, edges_between
from simindex.scaleout.ranges.alike import alike
from simindex.scaleout.ranges.runs import BLOCK, Block
from simindex.scaleout.ranges.source import Slice, Source
from simindex.scaleout.ranges.walk import Asked, Counts, Found, LongRuns, RangeWalk, Sketches

HANDED_ON = 1 << 16
"""Pairs that are handed on in one go, about."""


class Swept(NamedTuple):
    """What is to be known of a range that was walked to its end.

    Attributes:
        counts: of all of its tables.
        long_runs: rows of LONG_RUN of its table, where long runs are not put off.
    """

    counts: Counts
    long_runs: list[np.ndarray]


def sweep(
    asked: Asked, tables: Sequence[int], source: Source, place: int, longs: LongRuns | None = None
) -> Iterator[Found | Swept]:
    """Yield what the `place`-th range of some tables has, and at the end what it has cost.

    Args:
        tables: from 0; one alone where long runs are not put off, for those of the tables before count.
        longs: these.
    """
    assert asked.puts_off or len(tables) == 1
    total, long_runs = Counts(), list[np.ndarray]()
    wanted, walks = [], []
    for table in tables:
        first, behind = asked.bounds(table, place)
        if first < behind:
            wanted.append(Slice(asked.plan.first_table + table, first, behind))
            walks.append(RangeWalk(asked, table, source, longs))
    if asked.puts_off and not asked.folds and asked.plan.method == "minhash":
        each = alike(asked, place, walks, source, wanted)
    else:
        each = _of_walks(walks, source, wanted, asked.plan.capacity)
    together = _together(each)
    yield from (_forest(found) for found in together) if asked.forests else together
    for walk in walks:
        total.add(walk.counts)
        long_runs += walk.long_runs
    yield Swept(total, long_runs)


def _of_walks(walks: list[RangeWalk], source: Source, wanted: list[Slice], capacity: int) -> Iterator[Found]:
    waiting, count = list[tuple[RangeWalk, Block]](), 0
    for walk, pieces in zip(walks, source.slices(wanted, capacity), strict=True):
        for part in walk.parts(pieces):
            if not isinstance(part, Block):
                yield from walk.of_long(part)
                continue
            waiting.append((walk, part))
            count += len(part.keys)
            if count >= BLOCK:
                yield from _compared(waiting, source)
                waiting, count = [], 0
    yield from _compared(waiting, source)


def _compared(waiting: list[tuple[RangeWalk, Block]], source: Source) -> Iterator[Found]:
    if not waiting:
        return
    sketches = Sketches.fetched(source, np.concatenate([block.numbers for _, block in waiting]))
    waiting[0][0].counts.fetched += len(sketches.numbers)
    for walk, block in waiting:
        yield from walk.of_block(block, sketches.of(block.numbers))


def _together(found: Iterator[Found]) -> Iterator[Found]:
    """Hand on many pairs at a time."""
    pairs: list[np.ndarray] = []
    copies: list[np.ndarray] = []
    count = 0
    for some in found:
        if len(some.waiting):
            yield some
            continue
        pairs.append(some.pairs)
        copies.append(some.copies)
        count += len(some.pairs) + len(some.copies)
        if count >= HANDED_ON:
            yield Found(np.concatenate(pairs), np.concatenate(copies), np.empty(0, dtype=np.uint32))
            pairs, copies, count = [], [], 0
    if count:
        yield Found(np.concatenate(pairs), np.concatenate(copies), np.empty(0, dtype=np.uint32))


def _forest(found: Found) -> Found:
    """Return pairs that hold the same documents together, fewer than there are documents; without figures."""
    some, half = np.concatenate([found.pairs, found.copies]), len(found.pairs) + len(found.copies)
    numbers, places = np.unique(np.concatenate([some["a"], some["b"]]), return_inverse=True)
    forest, every = Forest(len(numbers)), np.arange(len(numbers), dtype=np.uint32)
    forest.join(edges_between(places[:half], places[half:]))
    roots = forest.roots(every)
    is_joined = roots != every
    pairs = np.zeros(int(is_joined.sum()), dtype=PAIR_ROW)
    pairs["a"], pairs["b"] = numbers[roots[is_joined]], numbers[is_joined]
    return found._replace(pairs=pairs, copies=found.copies[:0])
