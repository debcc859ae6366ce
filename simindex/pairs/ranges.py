"""Walk a range of sorted tables from its first entry to its last verified pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from simindex.errors import SimIndexError
from simindex.format.layout import Geometry
from simindex.format.rows import LONG_RUN, PAIR_ROW
from simindex.pairs.fetched import ABSENT, FetchedSketches, PieceEntries, Sketches
from simindex.pairs.plan import PairPlan
from simindex.pairs.runs import Block, runs_of
from simindex.pairs.table_walk import EqualSketches, TableWalk
from simindex.pairs.tables import Piece, SketchSource, Slice, Source
from simindex.pairs.union_find import Forest, edges_between
from simindex.pairs.walk_plan import Edges, LongRuns, WalkPlan

HANDED_ON = 1 << 16
"""Pairs of a batch, about."""

_KEY_BITS = 64


def walk_range(walk_plan: WalkPlan, source: Source, place: int) -> Iterator[Edges]:
    """Yield the pairs that the `place`-th range of all tables has; long runs are put off."""
    plan = walk_plan.plan
    slices = {
        table: Slice(plan.first_table + table, first, behind)
        for table in walk_plan.tables
        for first, behind in (walk_plan.bounds(table, place),)
        if first < behind
    }
    entries_of = zip(slices, source.slices(list(slices.values()), plan.capacity), strict=True)
    yield from _together(compared_tables(entries_of, plan, source, walk_plan.geometry))


def walk_table(
    walk_plan: WalkPlan, table: int, source: Source, place: int, copies: np.ndarray | None
) -> Iterator[Edges]:
    """Yield the pairs that the `place`-th range of one table has. `copies`: a bit for each number that is
    left out, if any are."""
    plan = walk_plan.plan
    entries = PieceEntries(_pieces(walk_plan, table, source, place), plan.bits[table], plan, copies)
    walk = TableWalk(plan, table, entries, FetchedSketches(source, walk_plan.geometry), LongRuns.none(table))

    def steps() -> Iterator[Edges]:
        for rows in walk.steps():
            if walk.bounded.runs:
                raise SimIndexError(
                    f"expected at most {plan.max_run:,} documents of one prefix, found more in table "
                    f"{table}: what such a group is compared with goes by the ages of documents, which "
                    "partitions do not share; give a larger max_run, or merge the partitions into one index"
                )
            yield Edges(rows)

    yield from _together(steps(), forests=walk_plan.forests)


def equal_sketches(walk_plan: WalkPlan, source: Source, place: int) -> Iterator[Edges]:
    """Yield the sketches that are equal in what is compared, of the `place`-th range of the first table."""
    plan = walk_plan.plan
    entries = PieceEntries(_pieces(walk_plan, 0, source, place), _KEY_BITS, plan)
    equal = EqualSketches(plan, entries, FetchedSketches(source, walk_plan.geometry))
    yield from _together(Edges(copies=rows) for rows in equal.steps())


def _pieces(walk_plan: WalkPlan, table: int, source: Source, place: int) -> Iterator[Piece]:
    plan, (first, behind) = walk_plan.plan, walk_plan.bounds(table, place)
    wanted = [Slice(plan.first_table + table, first, behind)] if first < behind else []
    return chain.from_iterable(source.slices(wanted, plan.capacity))


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


def _together(found: Iterator[Edges], *, forests: bool = False) -> Iterator[Edges]:
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
