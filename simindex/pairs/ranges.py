"""Walk a range of sorted tables from its first entry to its last verified pair.

The entries of several partitions are cut into runs of one prefix, and the sketches of a buffer of them are
fetched. Invariant: a piece of the range is in memory, and a run up to `max_run`, however long the runs are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

import numpy as np

from simindex.config import Config
from simindex.format.layout import Geometry, Layout
from simindex.format.rows import LONG_RUN, PAIR_ROW
from simindex.pairs.edges import Forest, edges_between
from simindex.pairs.plan import PairPlan
from simindex.pairs.table_walk import LongRuns, TableWalk
from simindex.pairs.tables import EVERY_KEY, Piece, SketchSource, Tables
from simindex.queries.scheme import Scheme
from simindex.segments.directory import Directory
from simindex.segments.memory import sketch_segment
from simindex.sketching.permutations import plan_for

BLOCK = 1 << 16
"""Entries whose sketches are in memory at a time, about."""


class Block(NamedTuple):
    """Whole runs of two documents up to `max_run`.

    Attributes:
        keys, numbers: of their entries, in order.
    """

    keys: np.ndarray
    numbers: np.ndarray


class LongPart(NamedTuple):
    """A part of a run of more than `max_run` documents; its parts follow one another.

    Attributes:
        keys, numbers: of the entries, in order; of a first part more than `max_run`.
        is_first: whether the run begins here.
    """

    keys: np.ndarray
    numbers: np.ndarray
    is_first: bool


def bounds_of(place: int, count: int, bits: int) -> tuple[int, int]:
    """Return (first, behind) of a range of keys: the `place`-th of `count`, cut where prefixes change.

    >>> [hex(key) for key in bounds_of(1, 3, 8)]
    ['0x5500000000000000', '0xaa00000000000000']
    """
    free = 64 - bits
    return (place * EVERY_KEY // count >> free << free), ((place + 1) * EVERY_KEY // count >> free << free)


def runs_of(pieces: Iterator[Piece], bits: int, max_run: int) -> Iterator[Block | LongPart]:
    """Cut entries into runs; those of one document alone are left out.

    Args:
        pieces: entries in order.
        max_run: of a run that is whole in memory.
    """
    free = np.uint64(64 - bits)
    keys, numbers = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32)
    begun: int | None = None
    """The prefix of the long run that is under way."""
    for more_keys, more_numbers in pieces:
        keys, numbers = np.concatenate([keys, more_keys]), np.concatenate([numbers, more_numbers])
        prefixes = keys >> free
        last = int(np.searchsorted(prefixes, prefixes[-1]))
        # More may follow of the last run: it waits, unless it is a long one.
        waits = int(prefixes[-1]) != begun and len(keys) - last <= max_run
        end = last if waits else len(keys)
        yield from _cut(keys[:end], numbers[:end], prefixes[:end], max_run, begun)
        begun = begun if end == 0 else int(prefixes[-1]) if not waits else None
        keys, numbers = keys[end:], numbers[end:]
    yield from _cut(keys, numbers, keys >> free, max_run, begun)


def _cut(
    keys: np.ndarray, numbers: np.ndarray, prefixes: np.ndarray, max_run: int, begun: int | None
) -> Iterator[Block | LongPart]:
    if not len(keys):
        return
    begins = np.flatnonzero(np.concatenate([[True], prefixes[1:] != prefixes[:-1]]))
    sizes = np.diff(np.append(begins, len(keys)))
    is_long = sizes > max_run
    is_long[0] |= begun is not None and int(prefixes[0]) == begun
    for place in np.flatnonzero(is_long).tolist():
        here = slice(int(begins[place]), int(begins[place] + sizes[place]))
        yield LongPart(keys[here], numbers[here], place > 0 or int(prefixes[0]) != begun)
    wanted = (sizes > 1) & ~is_long
    if not wanted.any():
        return
    is_in = np.repeat(wanted, sizes)
    keys, numbers, sizes = keys[is_in], numbers[is_in], sizes[wanted]
    ends = np.cumsum(sizes)
    first = 0
    while first < len(keys):
        place = int(np.searchsorted(ends, first + BLOCK, side="right")) - 1
        behind = max(
            int(ends[place]) if place >= 0 else 0, int(ends[np.searchsorted(ends, first, side="right")])
        )
        yield Block(keys[first:behind], numbers[first:behind])
        first = behind


_NO_PAIRS = np.zeros(0, dtype=PAIR_ROW)
_NO_NUMBERS = np.zeros(0, dtype=np.uint32)


@dataclass(frozen=True)
class WalkPlan:
    """What is compared in all ranges of the tables.

    Attributes:
        plan: of the pairs: tables, prefixes, where is cut.
        forests: whether only so many pairs are yielded as hold the same documents together.
    """

    plan: PairPlan
    geometry: Geometry
    count: int
    forests: bool = False

    @property
    def tables(self) -> range:
        """The tables of the method, from 0."""
        return range(len(self.plan.bits))

    def bounds(self, table: int, place: int) -> tuple[int, int]:
        """Return the keys of a range: (first, behind)."""
        return bounds_of(place, self.count, self.plan.bits[table])


def scheme_of_config(config: Config) -> Scheme:
    """Return the scheme of a partition, wherever its segments are cut."""
    blocks = plan_for(config.simhash)
    return Scheme.of(config, Layout(), len(blocks.widths) if blocks else 0)


class Edges(NamedTuple):
    """Some of what a range has.

    Attributes:
        pairs: PAIR_ROW, verified, by numbers; the lower is `a`.
        waiting: uint32, the documents of a long run, or some of them, that are put off.
        begins: whether these are the first of their run.
    """

    pairs: np.ndarray = _NO_PAIRS
    waiting: np.ndarray = _NO_NUMBERS
    begins: bool = False

    @classmethod
    def put_off(cls, part: LongPart) -> Edges:
        """Return the documents of a part of a long run."""
        return cls(waiting=part.numbers, begins=part.is_first)


_T = TypeVar("_T")

ABSENT = 2**32 - 1
"""Place of a number whose sketch is not at hand."""


class Sketches:
    """Sketches that were fetched, by ascending numbers; see `SketchesAtHand`."""

    def __init__(self, source: SketchSource, geometry: Geometry, *numbers: np.ndarray) -> None:
        self.numbers = np.unique(np.concatenate(numbers))
        self.words, self.fingerprints = map(np.ascontiguousarray, source.sketches(self.numbers))
        self._geometry = geometry
        self._offsets = np.array([0, len(self.numbers)], dtype=np.uint64)

    @cached_property
    def _directory(self) -> Directory:
        segment = sketch_segment(self._geometry, self.words, self.fingerprints)
        return Directory(self._geometry, [segment])

    def local(self, numbers: np.ndarray) -> np.ndarray:
        """Return the places of numbers, `ABSENT` for those that are not here."""
        places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[places] == numbers, places, ABSENT).astype(np.uint32)

    def numbers_of(self, ranks: np.ndarray) -> np.ndarray:
        """Return the numbers at some places."""
        numbers: np.ndarray = self.numbers[ranks]
        return numbers

    def run(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Call a function of the kernel on these sketches."""
        return self._directory.run(function, self._offsets, *arguments)


class BlockEntries:
    """The entries of a block, which are in memory; see `Entries`."""

    total = done = 0
    is_last = True

    def __init__(self, block: Block) -> None:
        self.keys, self.numbers = block

    def refill(self, begin: int) -> None:
        """Drop the entries before `begin`; no others follow."""
        self.keys, self.numbers = self.keys[begin:], self.numbers[begin:]


HANDED_ON = 1 << 16
"""Pairs of a batch, about."""


def walk_range(walk_plan: WalkPlan, source: Tables, place: int) -> Iterator[Edges]:
    """Yield the pairs that the `place`-th range of all tables has; long runs are put off."""
    entries = ((table, _pieces(walk_plan, table, source, place)) for table in walk_plan.tables)
    found = compared_tables(entries, walk_plan.plan, source, walk_plan.geometry)
    yield from _together(found, forests=walk_plan.forests)


def _pieces(walk_plan: WalkPlan, table: int, source: Tables, place: int) -> Iterator[Piece]:
    plan, (first, behind) = walk_plan.plan, walk_plan.bounds(table, place)
    if first >= behind:
        return iter(())
    return source.pieces(plan.first_table + table, first, behind, plan.capacity)


def compared_tables(
    tables: Iterable[tuple[int, Iterator[Piece]]], plan: PairPlan, source: SketchSource, geometry: Geometry
) -> Iterator[Edges]:
    """Yield the pairs of some tables run by run, and the documents of their long runs, which are put off.

    A pair comes in the first table in which both stand in one run that is compared.

    Args:
        tables: number of each, ascending, and its entries in order.
    """
    sketches, longs = partial(Sketches, source, geometry), LongRuns.none()
    for table, pieces in tables:
        longs = longs.up_to(table)
        firsts: list[np.ndarray] = []
        for part in runs_of(pieces, plan.bits[table], plan.max_run):
            if not isinstance(part, Block):
                firsts += [part.numbers[:1]] * part.is_first
                yield Edges.put_off(part)
                continue
            yield from map(Edges, TableWalk(plan, table, BlockEntries(part), sketches, longs).steps())
        if firsts:
            longs = longs.with_table(_put_off(plan, table, sketches(*firsts)))


def _put_off(plan: PairPlan, table: int, firsts: Sketches) -> np.ndarray:
    """Return runs of which nothing was compared as rows of LONG_RUN, by the sketch of a document of each."""
    rows = np.full(len(firsts.numbers), ABSENT, dtype=LONG_RUN)
    keys = firsts.words[:, table] if plan.method == "minhash" else firsts.fingerprints
    rows["prefix"] = keys & plan.masks[table]
    return rows


def _together(found: Iterator[Edges], *, forests: bool) -> Iterator[Edges]:
    """Hand on many pairs at a time; of forests those alone that hold documents together."""
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
    numbers, places = np.unique(np.concatenate([pairs["a"], pairs["b"]]), return_inverse=True)
    forest, every = Forest(len(numbers)), np.arange(len(numbers), dtype=np.uint32)
    forest.join(edges_between(places[: len(pairs)], places[len(pairs) :]))
    roots = forest.roots(every)
    is_joined = roots != every
    pairs = np.zeros(int(is_joined.sum()), dtype=PAIR_ROW)
    pairs["a"], pairs["b"] = numbers[roots[is_joined]], numbers[is_joined]
    return Edges(pairs)
