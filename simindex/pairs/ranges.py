"""A range of some tables, walked from its first entry to its last verified pair.

Owns how much comes together: the slices of all of its tables are asked for at once, and the sketches of many
runs, of whatever table, in one go. Must not know where they come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simindex.format.rows import PAIR_ROW
from simindex.pairs.candidates import verified_candidates
from simindex.pairs.runs import BLOCK, Block
from simindex.pairs.table_walk import Counts, Edges, LongRuns, Sketches, TableWalk, WalkPlan
from simindex.pairs.tables import Slice, Source
from simindex.pairs.union_find import Forest, edges_between

HANDED_ON = 1 << 16
"""Pairs that are handed on in one go, about."""


class RangeEnd(NamedTuple):
    """What is to be known of a range that was walked to its end.

    Attributes:
        counts: of all of its tables.
        long_runs: rows of LONG_RUN of its table, where long runs are not put off.
    """

    counts: Counts
    long_runs: list[np.ndarray]


def walk_range(
    walk_plan: WalkPlan, tables: Sequence[int], source: Source, place: int, longs: LongRuns | None = None
) -> Iterator[Edges | RangeEnd]:
    """Yield what the `place`-th range of some tables has, and at the end what it has cost.

    Args:
        tables: from 0; one alone where long runs are not put off, for those of the tables before count.
        longs: these.
    """
    assert walk_plan.puts_off or len(tables) == 1
    total, long_runs = Counts(), list[np.ndarray]()
    wanted, walks = [], []
    for table in tables:
        first, behind = walk_plan.bounds(table, place)
        if first < behind:
            wanted.append(Slice(walk_plan.plan.first_table + table, first, behind))
            walks.append(TableWalk(walk_plan, table, source, longs))
    if walk_plan.puts_off and not walk_plan.folds and walk_plan.plan.method == "minhash":
        each = verified_candidates(walk_plan, place, walks, source, wanted)
    else:
        each = _of_walks(walks, source, wanted, walk_plan.plan.capacity)
    together = _together(each)
    yield from (_forest(found) for found in together) if walk_plan.forests else together
    for walk in walks:
        total.add(walk.counts)
        long_runs += walk.long_runs
    yield RangeEnd(total, long_runs)


def _of_walks(walks: list[TableWalk], source: Source, wanted: list[Slice], capacity: int) -> Iterator[Edges]:
    waiting, count = list[tuple[TableWalk, Block]](), 0
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


def _compared(waiting: list[tuple[TableWalk, Block]], source: Source) -> Iterator[Edges]:
    if not waiting:
        return
    sketches = Sketches.fetched(source, np.concatenate([block.numbers for _, block in waiting]))
    waiting[0][0].counts.fetched += len(sketches.numbers)
    for walk, block in waiting:
        yield from walk.of_block(block, sketches.of(block.numbers))


def _together(found: Iterator[Edges]) -> Iterator[Edges]:
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
            yield Edges(np.concatenate(pairs), np.concatenate(copies), np.empty(0, dtype=np.uint32))
            pairs, copies, count = [], [], 0
    if count:
        yield Edges(np.concatenate(pairs), np.concatenate(copies), np.empty(0, dtype=np.uint32))


def _forest(found: Edges) -> Edges:
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
