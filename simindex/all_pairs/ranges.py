"""Walk a range of sorted tables from its first entry to its last verified pair.

The entries of several partitions are cut into runs of one prefix. Their pairs are written down and sorted, so
that each is compared once, by columns; where chance makes them too many, runs are compared where they stand.
Invariant: a piece of the range is in memory, and a run up to `max_run`, however long the runs are; what was
put off is then walked with the entries of one table in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from simindex.all_pairs.candidates import PAIRS, edges_of_runs, first_met, indices_within, verified
from simindex.all_pairs.edges import Forest, SortedEdges, edges_between
from simindex.all_pairs.pair import Bounded
from simindex.all_pairs.plan import PairPlan, WalkPlan
from simindex.all_pairs.table_walk import NO_LONG_RUNS, SketchesAtHand, TableWalk, table_walks
from simindex.all_pairs.tables import EVERY_KEY, Piece, SketchSource, Tables
from simindex.batching import ahead
from simindex.config import Config
from simindex.distinct import distinct
from simindex.format.kernel_structs import LONG_RUN, PAIR_ROW
from simindex.format.layout import Geometry, Layout
from simindex.queries.scheme import Scheme
from simindex.segments.directory import Directory
from simindex.segments.memory import sketch_segment
from simindex.sketching.permutations import plan_for

BLOCK = 1 << 16
"""Entries whose sketches are in memory at a time, about."""


class Block(NamedTuple):
    """Whole runs of two documents up to `max_run`: their entries in order, and how many each run has."""

    keys: np.ndarray
    numbers: np.ndarray
    sizes: np.ndarray


class LongPart(NamedTuple):
    """Entries of a run of more than `max_run` documents, in order; parts of one follow one another."""

    numbers: np.ndarray
    is_first: bool  # whether the run begins here


def runs_of(pieces: Iterator[Piece], bits: int, max_run: int) -> Iterator[Block | LongPart]:
    """Yield the runs of entries of one prefix: `Block`s of whole runs of two up to `max_run` entries, and
    longer ones in `LongPart`s, which may come before blocks of smaller keys. A run of one entry is left
    out. `pieces`: by ascending key from one to the next, none empty; `bits`: the prefix length, 1 to 64."""
    free = np.uint64(64 - bits)
    keys, numbers = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32)
    begun: int | None = None
    """The prefix of the long run that is under way."""
    for more_keys, more_numbers in pieces:
        keys, numbers = np.concatenate([keys, more_keys]), np.concatenate([numbers, more_numbers])
        prefix = keys[-1] >> free
        last = int(np.searchsorted(keys, prefix << free))
        # More may follow of the last run: it waits, unless it is a long one.
        waits = int(prefix) != begun and len(keys) - last <= max_run
        end = last if waits else len(keys)
        yield from _cut(keys[:end], numbers[:end], free, max_run, begun)
        begun = begun if end == 0 else int(prefix) if not waits else None
        keys, numbers = keys[end:], numbers[end:]
    yield from _cut(keys, numbers, free, max_run, begun)


def _cut(
    keys: np.ndarray, numbers: np.ndarray, free: np.uint64, max_run: int, begun: int | None
) -> Iterator[Block | LongPart]:
    if len(keys) and int(keys[0] >> free) == begun:
        end = int(np.searchsorted(keys >> free, np.uint64(begun), side="right"))
        yield LongPart(numbers[:end], is_first=False)
        keys, numbers = keys[end:], numbers[end:]
    # Few entries share a prefix with the next one, so what follows is of these alone.
    same = np.flatnonzero((keys[1:] ^ keys[:-1]) >> free == 0)
    firsts = np.flatnonzero(np.diff(same, prepend=-2) != 1)
    begins, sizes = same[firsts], np.diff(np.append(firsts, len(same))) + 1
    is_long = sizes > max_run
    for begin, size in zip(begins[is_long].tolist(), sizes[is_long].tolist(), strict=True):
        yield LongPart(numbers[begin : begin + size], is_first=True)
    begins, sizes = begins[~is_long], sizes[~is_long]
    indices, ends = indices_within(begins, sizes), np.cumsum(sizes)
    first = run = 0
    while first < len(indices):
        next_run = max(int(np.searchsorted(ends, first + BLOCK, side="right")), run + 1)
        here = indices[first : int(ends[next_run - 1])]
        yield Block(keys[here], numbers[here], sizes[run:next_run])
        first, run = first + len(here), next_run


_NO_PAIRS = np.zeros(0, dtype=PAIR_ROW)
_NO_NUMBERS = np.zeros(0, dtype=np.uint32)


def scheme_of_config(config: Config) -> Scheme:
    """Return the scheme of a partition, with the default layout, for no result depends on it."""
    blocks = plan_for(config.simhash)
    return Scheme.of(config, Layout(), len(blocks.widths) if blocks else 0)


class Edges(NamedTuple):
    """Some of what a range has."""

    pairs: np.ndarray = _NO_PAIRS  # PAIR_ROW, verified, by numbers; the lower is `a`
    waiting: np.ndarray = _NO_NUMBERS  # uint32, some documents of a long run, which are put off
    begins: bool = False  # whether these are the first of their run


ABSENT = 2**32 - 1
"""Place of a number whose sketch is not at hand."""


class Sketches(SketchesAtHand):
    """Sketches that were fetched, by ascending doc ids, whose ranks are their indices."""

    def __init__(self, source: SketchSource, geometry: Geometry, *numbers: np.ndarray) -> None:
        self.numbers = distinct(np.concatenate(numbers))
        self.words, self.fingerprints = map(np.ascontiguousarray, source.sketches(self.numbers))
        segment = sketch_segment(geometry, self.words, self.fingerprints)
        directory, offsets = Directory(geometry, [segment]), np.array([0, len(self.numbers)], dtype=np.uint64)
        super().__init__(lambda function, *arguments: directory.run(function, offsets, *arguments))

    def local(self, numbers: np.ndarray) -> np.ndarray:
        """Return the indices of numbers, `ABSENT` for those that are not here."""
        indices = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[indices] == numbers, indices, ABSENT).astype(np.uint32)

    def numbers_of(self, ranks: np.ndarray) -> np.ndarray:
        """Return the numbers at some indices, `ABSENT` for that."""
        return np.where(ranks == ABSENT, np.uint32(ABSENT), self.numbers.take(ranks, mode="clip"))


HANDED_ON = 1 << 16
"""Pairs of a batch, about."""


def walk_range(
    walk: WalkPlan,
    source: Tables,
    index: int,
    memory_bytes: int,
    *,
    folder: str | None = None,
    reads_ahead: bool = False,
) -> Iterator[Edges]:
    """Yield the edges of one range of keys, the `index`-th, over all tables: verified pairs, of which
    `walk.hands_on` says which, some at a time, and documents of long runs, which are not compared here. Edges
    that do not fit into `memory_bytes` are written to `folder` meanwhile; `reads_ahead`: another thread reads
    the next piece of a table."""
    plan = walk.plan
    pieces = ((table, piece) for table in walk.tables for piece in _pieces(walk, table, source, index))
    by_table = groupby(ahead(pieces, 1) if reads_ahead else pieces, key=itemgetter(0))
    tables = ((table, (piece for _, piece in some)) for table, some in by_table)
    if plan.is_by_chance:  # their runs are compared where they stand
        found = compared_tables(tables, plan, source, walk.scheme.tables)
    else:
        found = _by_columns(walk, source, index, tables, SortedEdges(memory_bytes, folder=folder))
    yield from _together(found, forests=walk.hands_on == "forest")


def _pieces(walk: WalkPlan, table: int, source: Tables, index: int) -> Iterator[Piece]:
    plan, (first, end) = walk.plan, walk.bounds(table, index)
    if first >= end:
        return iter(())
    return source.pieces(plan.first_table + table, first, end, plan.capacity)


def _by_columns(
    walk: WalkPlan,
    source: Tables,
    index: int,
    tables: Iterable[tuple[int, Iterator[Piece]]],
    edges: SortedEdges,
) -> Iterator[Edges]:
    plan = walk.plan
    with edges:
        for table, pieces in tables:
            for part in runs_of(pieces, plan.bits[table], plan.max_run):
                if isinstance(part, LongPart):
                    yield Edges(_NO_PAIRS, *part)
                    continue
                for some in edges_of_runs(*part, plan):
                    edges.add(some)
        for pairs in verified(source, plan, walk.scheme.tables.bands, edges.ascending()):
            is_once = walk.hands_on == "each pair once"
            yield Edges(first_met(source, walk, index, pairs) if is_once else pairs)


def compared_tables(
    tables: Iterable[tuple[int, Iterator[Piece]]], plan: PairPlan, source: SketchSource, geometry: Geometry
) -> Iterator[Edges]:
    """Yield the pairs of tables run by run; `tables` ascend by number. Documents of long runs come as
    `waiting` of an `Edges`, and their pairs are left to `compare_crowded`. A pair comes in the first table in
    which both stand in one run that is compared."""
    sketches, longs = partial(Sketches, source, geometry), [NO_LONG_RUNS] * len(plan.bits)
    for table, pieces in tables:
        firsts: list[np.ndarray] = []
        for part in runs_of(pieces, plan.bits[table], plan.max_run):
            if isinstance(part, LongPart):
                firsts += [part.numbers[:1]] * part.is_first
                yield Edges(_NO_PAIRS, *part)
                continue
            walk = TableWalk(plan, table, iter([part[:2]]), sketches, longs[:table])
            yield from map(Edges, walk.steps())
        if firsts:
            longs[table] = _put_off(plan, table, sketches(*firsts))


def _put_off(plan: PairPlan, table: int, firsts: Sketches) -> np.ndarray:
    """Return runs of which nothing was compared as rows of LONG_RUN, sorted by prefix, all their ranks
    ABSENT. `firsts`: the sketch of one document of each run."""
    rows = np.full(len(firsts.numbers), ABSENT, dtype=LONG_RUN)
    keys = firsts.words[:, table] if plan.method == "minhash" else firsts.fingerprints
    rows["prefix"] = np.sort(keys & plan.masks[table])
    return rows


def _together(found: Iterator[Edges], *, forests: bool) -> Iterator[Edges]:
    """Yield pairs joined to batches of `HANDED_ON` or more; of forests only as many as hold the same
    documents together. Documents of long runs are handed on as they come."""
    pairs, count = [_NO_PAIRS], 0
    for some in found:
        if len(some.waiting):
            yield some
            continue
        pairs.append(some.pairs)
        count += len(some.pairs)
        if count >= HANDED_ON:
            yield _joined(pairs, forests)
            pairs, count = [_NO_PAIRS], 0
    if count:
        yield _joined(pairs, forests)


def _joined(some: list[np.ndarray], forests: bool) -> Edges:
    pairs = np.concatenate(some)
    if not forests:
        return Edges(pairs)
    # Pairs that hold the same documents together, fewer than there are documents; without figures.
    numbers, inverse = np.unique(np.concatenate([pairs["a"], pairs["b"]]), return_inverse=True)
    forest, every = Forest(len(numbers)), np.arange(len(numbers), dtype=np.uint32)
    forest.join(edges_between(inverse[: len(pairs)], inverse[len(pairs) :]))
    roots = forest.roots(every)
    is_joined = roots != every
    pairs = np.zeros(int(is_joined.sum()), dtype=PAIR_ROW)
    pairs["a"], pairs["b"] = numbers[roots[is_joined]], numbers[is_joined]
    return Edges(pairs)


# ---- long runs ----


def compare_crowded(
    walk: WalkPlan, source: Tables, numbers: np.ndarray, ages: np.ndarray, edges: SortedEdges
) -> Bounded:
    """Add to `edges` the pairs that one index finds among documents that ranges have put off, all with all of
    them, and return what was bounded.

    One index has equal sketches as copies of the oldest: it alone is in runs, and stands for its copies.

    Args:
        numbers: of the documents, ascending, one at least: whole runs.
        ages: of every number, its rank by age, 0 the oldest.
    """
    plan, bands = walk.plan, walk.scheme.tables.bands
    leaders = _oldest_equal(source.columns_of(numbers), numbers, ages)
    if plan.copies == "all":
        copies = _Copies(leaders, numbers)
        edges.add_all(copies.between(copies.leaders, copies.leaders))
    else:
        edges.add(edges_between(leaders, numbers)[leaders != numbers])
        begin, end = (0, bands) if plan.method == "minhash" else (bands, None)
        compared = islice(source.columns_of(numbers), begin, end)
        firsts, is_leader = _oldest_equal(compared, numbers, ages), leaders == numbers
        edges.add(edges_between(firsts, numbers)[is_leader & (firsts != numbers)])
        leaders, copies = firsts, _Copies(numbers, numbers)
    stays = np.zeros(source.total, dtype=bool)
    stays[numbers[leaders == numbers]] = True

    def entries(table: int) -> Iterator[Piece]:
        pieces = source.pieces(plan.first_table + table, 0, EVERY_KEY, plan.capacity)
        own = [(keys[here], some[here]) for keys, some in pieces for here in [stays[some]]]
        keys, some = map(np.concatenate, zip(*own, strict=True))
        order = np.lexsort((ages[some], keys))
        for first in range(0, len(order), BLOCK):
            here = order[first : first + BLOCK]
            yield keys[here], some[here]

    def sketches(some: np.ndarray, more: np.ndarray) -> Sketches:
        return Sketches(source, walk.scheme.tables, some, more[more != ABSENT])

    cursors = list[np.ndarray]()
    for walked in table_walks(plan, entries, sketches):
        cursors.append(walked.cursor)
        for rows in walked.steps():
            edges.add_all(copies.between(rows["a"], rows["b"]))
    return Bounded.of(cursors)


def _oldest_equal(columns: Iterable[np.ndarray], numbers: np.ndarray, ages: np.ndarray) -> np.ndarray:
    """Return for each of the numbers the one among them with the least age that equals it in all columns.
    `columns` have a value for each of `numbers`; `ages` is indexed by number."""
    groups = np.zeros(len(numbers), dtype=np.uint64)
    for column in columns:
        _, own = np.unique(column, return_inverse=True)
        wide = groups.astype(np.uint64) << np.uint64(32) | own.astype(np.uint64)
        _, groups = np.unique(wide, return_inverse=True)
    order = np.lexsort((ages[numbers], groups))
    _, firsts = np.unique(groups[order], return_index=True)
    oldest: np.ndarray = numbers[order][firsts][groups]
    return oldest


class _Copies:
    """Numbers by the one that stands for them."""

    def __init__(self, leaders: np.ndarray, numbers: np.ndarray) -> None:
        order = np.argsort(leaders, kind="stable")
        self._numbers = numbers[order]
        self.leaders, self._begins, self._sizes = np.unique(
            leaders[order], return_index=True, return_counts=True
        )

    def between(self, a: np.ndarray, b: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the edges between two groups of documents, given by their leaders, for each pair of leaders
        in `a` and `b`: each document of one group with each of the other, but none with itself; of a group
        with itself both ways round, so that each edge comes twice."""
        left, right = np.searchsorted(self.leaders, a), np.searchsorted(self.leaders, b)
        ends = np.cumsum(self._sizes[left] * self._sizes[right])
        for first in range(0, int(ends[-1]) if len(ends) else 0, PAIRS):
            # Of many documents and one large group alike: so many edges at a time, wherever a group ends.
            at = np.arange(first, min(first + PAIRS, int(ends[-1])))
            pairs = np.searchsorted(ends, at, side="right")
            of_left, of_right = left[pairs], right[pairs]
            turns = np.divmod(ends[pairs] - at - 1, self._sizes[of_right])
            one, other = (
                self._numbers[self._begins[leader] + turn]
                for leader, turn in zip((of_left, of_right), turns, strict=True)
            )
            yield edges_between(one, other)[one != other]
