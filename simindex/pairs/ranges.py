"""Walk a range of sorted tables from its first entry to its last verified pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simindex.format.layout import Geometry
from simindex.format.rows import LONG_RUN, PAIR_ROW
from simindex.pairs.fetched import ABSENT, FetchedSketches, PieceEntries, Sketches
from simindex.pairs.pair import Bounded
from simindex.pairs.plan import PairPlan
from simindex.pairs.runs import Block, runs_of
from simindex.pairs.table_walk import EqualSketches, TableWalk
from simindex.pairs.tables import Piece, SketchSource, Slice, Source
from simindex.pairs.union_find import Forest, edges_between
from simindex.pairs.walk_plan import Earlier, Edges, LongRuns, WalkPlan

HANDED_ON = 1 << 16
"""Pairs of a batch, about."""

_KEY_BITS = 64


class RangeEnd(NamedTuple):
    """What a range has cost that was walked to its end; nothing where long runs are put off.

    Attributes:
        bounded: what was not compared all with all.
    """

    compared: int = 0
    bounded: Bounded = Bounded()
    long_runs: np.ndarray = np.zeros(0, dtype=LONG_RUN)


def walk_range(
    walk_plan: WalkPlan, tables: Sequence[int], source: Source, place: int, earlier: Earlier | None = None
) -> Iterator[Edges | RangeEnd]:
    """Yield what the `place`-th range of some tables has, and at the end what it has cost.

    Args:
        tables: from 0; one alone where long runs are not put off, for those of the tables before count.
        earlier: what the walks before have found. Where equal sketches are folded and it does not have
            them, they alone are found.
    """
    assert walk_plan.puts_off or len(tables) == 1
    plan, end = walk_plan.plan, RangeEnd()
    slices = {
        table: Slice(plan.first_table + table, first, behind)
        for table in tables
        for first, behind in (walk_plan.bounds(table, place),)
        if first < behind
    }
    if walk_plan.puts_off:
        entries_of = zip(slices, source.slices(list(slices.values()), plan.capacity), strict=True)
        found = compared_tables(entries_of, plan, source, walk_plan.geometry)
        yield from _together(found, forests=walk_plan.forests)
        yield end
        return
    for table, wanted in slices.items():
        pieces = next(source.slices([wanted], plan.capacity))
        sketches = FetchedSketches(source, walk_plan.geometry)
        known = earlier or Earlier(LongRuns.none(table))
        if walk_plan.folds and known.copies is None:
            equal = EqualSketches(plan, PieceEntries(pieces, _KEY_BITS, plan), sketches)
            yield from _together((Edges(copies=rows) for rows in equal.steps()), forests=False)
            continue
        entries = PieceEntries(pieces, plan.bits[table], plan, known.copies)
        walk = TableWalk(plan, table, entries, sketches, known.longs)
        yield from _together(map(Edges, walk.steps()), forests=walk_plan.forests)
        end = RangeEnd(walk.compared, walk.bounded, walk.long_runs)
    yield end


def compared_tables(
    tables: Iterable[tuple[int, Iterator[Piece]]], plan: PairPlan, source: SketchSource, geometry: Geometry
) -> Iterator[Edges]:
    """Yield the pairs of some tables run by run, and the documents of their long runs, which are put off.

    A pair comes in the first table in which both stand in one run that is compared.

    Args:
        tables: number of each, ascending, and its entries in order.
    """
    sketches, longs = FetchedSketches(source, geometry), LongRuns.none()
    for table, pieces in tables:
        longs = longs.up_to(table)
        firsts: list[np.ndarray] = []
        for part in runs_of(pieces, plan.bits[table], plan.max_run):
            if not isinstance(part, Block):
                firsts += [part.numbers[:1]] * part.is_first
                yield Edges.put_off(part)
                continue
            entries = PieceEntries(iter([(part.keys, part.numbers)]), plan.bits[table], plan)
            yield from map(Edges, TableWalk(plan, table, entries, sketches, longs).steps())
        if firsts:
            longs = longs.with_table(_put_off(plan, table, Sketches.fetched(source, np.concatenate(firsts))))


def _put_off(plan: PairPlan, table: int, firsts: Sketches) -> np.ndarray:
    """Return runs of which nothing was compared as rows of LONG_RUN, by the sketch of a document of each."""
    rows = np.full(len(firsts.numbers), ABSENT, dtype=LONG_RUN)
    keys = firsts.words[:, table] if plan.method == "minhash" else firsts.fingerprints
    rows["prefix"] = keys & plan.masks[table]
    return rows


def _together(found: Iterator[Edges], *, forests: bool) -> Iterator[Edges]:
    """Hand on many pairs at a time; of forests those alone that hold documents together."""
    pairs: list[np.ndarray] = []
    copies: list[np.ndarray] = []
    count = 0

    def joined() -> Edges:
        edges = Edges(np.concatenate([Edges().pairs, *pairs]), np.concatenate([Edges().copies, *copies]))
        return _forest(edges) if forests else edges

    for some in found:
        if len(some.waiting):
            yield some
            continue
        pairs.append(some.pairs)
        copies.append(some.copies)
        count += len(some.pairs) + len(some.copies)
        if count >= HANDED_ON:
            yield joined()
            pairs, copies, count = [], [], 0
    if count:
        yield joined()


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
