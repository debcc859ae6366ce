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
from simindex.errors import SimIndexError
from simindex.format.layout import Geometry, Layout
from simindex.format.rows import LONG_RUN, PAIR_ROW
from simindex.pairs.edges import Forest, edges_between
from simindex.pairs.plan import PairPlan
from simindex.pairs.table_walk import EqualSketches, LongRuns, TableWalk
from simindex.pairs.tables import EVERY_KEY, Piece, SketchSource, Tables, bits_of
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
        copies: PAIR_ROW, the first of equal sketches with each other one, which is `b`.
        waiting: uint32, the documents of a long run, or some of them, that are put off.
        begins: whether these are the first of their run.
    """

    pairs: np.ndarray = _NO_PAIRS
    copies: np.ndarray = _NO_PAIRS
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


class PieceEntries:
    """The entries of a range that comes in pieces, a buffer at a time; see `Entries`.

    What is alone with its prefix is left out, so that its sketch is not fetched.

    Args:
        pieces: in order.
        plan: how many entries may be in memory, and the room that a run needs.
        copies: a bit for each number that is left out, if any are.
    """

    total = done = 0

    def __init__(
        self, pieces: Iterator[Piece], bits: int, plan: PairPlan, copies: np.ndarray | None = None
    ) -> None:
        if copies is not None:
            left_out = copies
            pieces = (_without(piece, left_out) for piece in pieces)
        self._pieces = entries_in_runs(pieces, bits)
        self._room = min(plan.capacity, max(BLOCK, 2 * plan.max_run))
        self._rest: Piece | None = None
        self.keys, self.numbers = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32)
        self.is_last = False

    def refill(self, begin: int) -> None:
        """Drop the entries before `begin` and read more behind the others, as many as there is room for."""
        keys, numbers = [self.keys[begin:]], [self.numbers[begin:]]
        room = self._room - len(keys[0])
        while room:
            piece = self._rest or next(self._pieces, None)
            if piece is None:
                self.is_last = True
                break
            keys.append(piece[0][:room])
            numbers.append(piece[1][:room])
            self._rest = (piece[0][room:], piece[1][room:]) if len(piece[0]) > room else None
            room -= len(keys[-1])
        self.keys, self.numbers = np.concatenate(keys), np.concatenate(numbers)


def _without(piece: Piece, left_out: np.ndarray) -> Piece:
    stays = ~bits_of(left_out, piece[1])
    return piece[0][stays], piece[1][stays]


def entries_in_runs(pieces: Iterator[Piece], bits: int) -> Iterator[Piece]:
    """Yield the entries that have their prefix with a neighbour. `pieces`: entries in order."""
    free = np.uint64(64 - bits)
    keys, numbers = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint32)
    has_left = False
    """Whether the last entry so far has its prefix with the one before it; it waits for the next one."""
    for more_keys, more_numbers in pieces:
        if not len(more_keys):
            continue
        keys, numbers = np.concatenate([keys, more_keys]), np.concatenate([numbers, more_numbers])
        is_equal = (keys[1:] ^ keys[:-1]) >> free == 0
        is_in = np.zeros(len(keys), dtype=bool)
        is_in[1:] |= is_equal
        is_in[:-1] |= is_equal
        is_in[0] |= has_left
        has_left = bool(is_in[-1])
        is_in[-1] = False
        yield keys[is_in], numbers[is_in]
        keys, numbers = keys[-1:], numbers[-1:]
    if has_left:
        yield keys, numbers


HANDED_ON = 1 << 16
"""Pairs of a batch, about."""

_KEY_BITS = 64


def walk_range(walk_plan: WalkPlan, source: Tables, place: int) -> Iterator[Edges]:
    """Yield the pairs that the `place`-th range of all tables has; long runs are put off."""
    entries = ((table, _pieces(walk_plan, table, source, place)) for table in walk_plan.tables)
    yield from _together(compared_tables(entries, walk_plan.plan, source, walk_plan.geometry))


def walk_table(
    walk_plan: WalkPlan, table: int, source: Tables, place: int, copies: np.ndarray | None
) -> Iterator[Edges]:
    """Yield the pairs that the `place`-th range of one table has. `copies`: a bit for each number that is
    left out, if any are."""
    plan = walk_plan.plan
    entries = PieceEntries(_pieces(walk_plan, table, source, place), plan.bits[table], plan, copies)
    walk = TableWalk(
        plan, table, entries, partial(Sketches, source, walk_plan.geometry), LongRuns.none(table)
    )

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


def equal_sketches(walk_plan: WalkPlan, source: Tables, place: int) -> Iterator[Edges]:
    """Yield the sketches that are equal in what is compared, of the `place`-th range of the first table."""
    plan = walk_plan.plan
    entries = PieceEntries(_pieces(walk_plan, 0, source, place), _KEY_BITS, plan)
    equal = EqualSketches(plan, entries, partial(Sketches, source, walk_plan.geometry))
    yield from _together(Edges(copies=rows) for rows in equal.steps())


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
            entries = PieceEntries(iter([(part.keys, part.numbers)]), plan.bits[table], plan)
            yield from map(Edges, TableWalk(plan, table, entries, sketches, longs).steps())
        if firsts:
            longs = longs.with_table(_put_off(plan, table, sketches(*firsts)))


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
