"""The documents of one range of one table, compared run by run.

Owns the way from entries to verified pairs, by the kernel that walks one index, and what becomes of long
runs. Must not know where sketches come from. Invariant: a pair of one range comes in no other, but from a run
that was put off: two sketches show by themselves whether they share a prefix in an earlier table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import xxhash

from simindex import _kernel
from simindex.config import Config
from simindex.format.layout import Geometry, Layout
from simindex.format.rows import LONG_RUN, NO_FIGURE, PAIR_CURSOR, PAIR_ROW
from simindex.pairs.plan import PairPlan
from simindex.pairs.runs import BLOCK, Block, LongPart, bounds_of, runs_of
from simindex.pairs.tables import Piece, Source
from simindex.queries.scheme import Scheme
from simindex.segments.directory import Directory
from simindex.segments.memory import sketch_segment
from simindex.sketching.permutations import plan_for

_FOUND = 16_384
"""Pairs that a step of the kernel returns at most."""

_KNOWN_EQUAL = 1 << 15
"""Different sketches of a long run among which equal ones are told."""

_NEED_ENTRIES, _NEED_ROOM = 1, 2

ABSENT = 2**32 - 1


@dataclass(frozen=True)
class WalkPlan:
    """What is compared in all ranges of the tables.

    Attributes:
        plan: of the pairs: tables, prefixes, where is cut.
        geometry: of the partitions.
        count: ranges of each table.
        folds: whether of equal sketches only the first is compared with others.
        puts_off: whether the documents of long runs are handed on as they are, for somebody who knows more
            of them; else they are compared with the first of their run.
        forests: whether of the pairs only so many are handed on as hold the same documents together.
    """

    plan: PairPlan
    geometry: Geometry
    count: int
    folds: bool
    puts_off: bool
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


class LongRuns(NamedTuple):
    """Long runs of earlier tables, by documents' numbers: rows of LONG_RUN, those of each table by prefix.

    Attributes:
        firsts: place of the first of each table; one more for the end.
        rows: all of them, 72 bytes each.
    """

    firsts: list[int]
    rows: np.ndarray

    @classmethod
    def none(cls, tables: int = 0) -> LongRuns:
        """Return those of so many tables that have none."""
        return cls([0] * (tables + 1), np.zeros(0, dtype=LONG_RUN))

    def with_table(self, rows: np.ndarray) -> LongRuns:
        """Return them with those of the next table."""
        rows = rows[np.argsort(rows["prefix"])]
        return LongRuns([*self.firsts, self.firsts[-1] + len(rows)], np.concatenate([self.rows, rows]))


class Edges(NamedTuple):
    """Some of what a range has.

    Attributes:
        pairs: PAIR_ROW, verified, by numbers; the lower is `a`.
        copies: PAIR_ROW, the first of equal sketches with each other one; of the first table, where it folds.
        waiting: uint32, the documents of a long run, or some of them, that are put off.
        begins: whether these are the first of their run.
    """

    pairs: np.ndarray
    copies: np.ndarray
    waiting: np.ndarray
    begins: bool = False

    @classmethod
    def of_pairs(cls, pairs: np.ndarray) -> Edges:
        """Return pairs that were found."""
        return cls(pairs, np.zeros(0, dtype=PAIR_ROW), np.zeros(0, dtype=np.uint32))


@dataclass
class Counts:
    """What a range has cost, and what was bounded.

    Attributes:
        entries: that were read.
        compared: pairs of sketches.
        fetched: sketches.
        bounded_runs, bounded_entries: as in `Bounded`.
    """

    entries: int = 0
    compared: int = 0
    fetched: int = 0
    bounded_runs: int = 0
    bounded_entries: int = 0

    def add(self, other: Counts) -> None:
        """Count what another one has counted."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


_NO_PAIRS = np.zeros(0, dtype=PAIR_ROW)
_NO_NUMBERS = np.zeros(0, dtype=np.uint32)


@dataclass
class Sketches:
    """Sketches that are at hand, of ascending numbers."""

    numbers: np.ndarray
    words: np.ndarray
    fingerprints: np.ndarray

    @classmethod
    def fetched(cls, source: Source, numbers: np.ndarray) -> Sketches:
        """Return those of some documents."""
        wanted = np.unique(numbers)
        words, fingerprints = source.sketches(wanted)
        return cls(wanted, np.ascontiguousarray(words), np.ascontiguousarray(fingerprints))

    def of(self, numbers: np.ndarray) -> Sketches:
        """Return those of some documents that are here."""
        wanted = np.unique(numbers)
        if len(wanted) == len(self.numbers):
            return self
        places = np.searchsorted(self.numbers, wanted)
        return Sketches(wanted, self.words[places], self.fingerprints[places])

    def local(self, numbers: np.ndarray) -> np.ndarray:
        """Return the places of numbers, `ABSENT` for those that are not here."""
        places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[places] == numbers, places, ABSENT).astype(np.uint32)


@dataclass
class _LongRun:
    """The long run that is under way."""

    row: np.ndarray
    seen: dict[bytes, _First] = field(default_factory=dict)
    count: int = 0


class TableWalk:
    """A range of a table while it is walked.

    Memory: `PairPlan.capacity` entries, 48 bytes each, and the sketches of some 65,536 of them.

    Args:
        walk_plan: the tables and what is done with runs.
        table: number of the method's table, from 0.
        source: of entries and sketches.
        longs: the long runs of the tables before; unless these are put off.

    Attributes:
        table: the same.
        counts: so far.
        long_runs: rows of LONG_RUN, by numbers, of this range.
    """

    def __init__(
        self, walk_plan: WalkPlan, table: int, source: Source, longs: LongRuns | None = None
    ) -> None:
        self._walk_plan, self._plan, self.table, self._source = walk_plan, walk_plan.plan, table, source
        self._longs = longs or LongRuns.none(table)
        self._long: _LongRun | None = None
        self._buffer = np.zeros(_FOUND, dtype=PAIR_ROW)
        self.counts = Counts()
        self.long_runs: list[np.ndarray] = []

    def parts(self, pieces: Iterator[Piece]) -> Iterator[Block | LongPart]:
        """Yield the runs among the entries of the range."""
        return runs_of(map(self._counted, pieces), self._plan.bits[self.table], self._plan.max_run)

    def _counted(self, piece: Piece) -> Piece:
        self.counts.entries += len(piece[0])
        return piece

    # ---- runs ----

    def of_block(self, block: Block, sketches: Sketches) -> Iterator[Edges]:
        """Yield what whole runs have.

        Args:
            sketches: of their documents, and of no others.
        """
        keys, numbers, copies = self._folded(block.keys, block.numbers, sketches, None)
        yield Edges(_NO_PAIRS, copies, _NO_NUMBERS)
        yield from map(Edges.of_pairs, self._compared(keys, numbers, sketches, None))

    def of_long(self, part: LongPart) -> Iterator[Edges]:
        """Yield what a part of a long run has."""
        if self._walk_plan.puts_off:
            yield Edges(_NO_PAIRS, _NO_PAIRS, part.numbers, part.is_first)
            return
        if part.is_first:
            self._long = None
        known = self._long or _LongRun(np.zeros(1, dtype=LONG_RUN))
        # The first part whole, for it is compared whole; of one that goes on as much as of other runs.
        size = len(part.keys) if not known.count else BLOCK
        for first in range(0, len(part.keys), size):
            keys, numbers = part.keys[first : first + size], part.numbers[first : first + size]
            others = known.row["ranks"][0] if known.count else _NO_NUMBERS
            sketches = Sketches.fetched(self._source, np.concatenate([numbers, others]))
            self.counts.fetched += len(sketches.numbers)
            keys, numbers, copies = self._folded(keys, numbers, sketches, known.seen)
            yield Edges(_NO_PAIRS, copies, _NO_NUMBERS)
            if len(keys):
                yield from map(Edges.of_pairs, self._compared(keys, numbers, sketches, known))

    # ---- equal sketches ----

    def _folded(
        self, keys: np.ndarray, numbers: np.ndarray, sketches: Sketches, seen: dict[bytes, _First] | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Leave out all but the first of equal sketches: they stand in one run of each table. Returns keys,
        numbers and, of the first table, the pairs of the first with the others.

        Args:
            seen: sketches of earlier parts of the run; ``None`` where it is whole.
        """
        if not self._walk_plan.folds:
            return keys, numbers, _NO_PAIRS
        compared = sketches.words if self._plan.method == "minhash" else sketches.fingerprints[:, None]
        places = np.arange(len(compared)) if seen is not None else _likely_equal(compared)
        seen = {} if seen is None else seen
        is_copy = np.zeros(len(compared), dtype=bool)
        rows = []
        for place in places.tolist():
            digest = xxhash.xxh3_128_digest(compared[place])
            own = _First(
                int(sketches.numbers[place]), sketches.words[place], int(sketches.fingerprints[place])
            )
            first = seen.get(digest)
            if first is None:
                if len(seen) < _KNOWN_EQUAL:
                    seen[digest] = own
            elif first.number != own.number:
                is_copy[place] = True
                rows.append(self._row_of(first, own))
        if not rows:
            return keys, numbers, _NO_PAIRS
        stays = ~is_copy[sketches.local(numbers)]
        copies = np.array(rows if self.table == 0 else [], dtype=PAIR_ROW)
        return keys[stays], numbers[stays], copies

    def _row_of(self, first: _First, other: _First) -> tuple[int, int, int, int]:
        low, high = sorted((first.number, other.number))
        agree = _kernel.agreement(first.words, other.words) if len(first.words) else NO_FIGURE
        return low, high, agree, (first.fingerprint ^ other.fingerprint).bit_count()

    # ---- comparison ----

    def _compared(
        self, keys: np.ndarray, numbers: np.ndarray, sketches: Sketches, long: _LongRun | None
    ) -> Iterator[np.ndarray]:
        """Yield the pairs of whole runs, or of a part of a long one with the first of it."""
        plan, table, firsts = self._plan, self.table, self._longs.firsts
        directory = Directory(
            self._walk_plan.geometry,
            [sketch_segment(self._walk_plan.geometry, sketches.words, sketches.fingerprints)],
        )
        offsets = np.array([0, len(sketches.numbers)], dtype=np.uint64)
        longs = np.concatenate([self._longs.rows, np.zeros(1, dtype=LONG_RUN) if long is None else long.row])
        longs["ranks"] = sketches.local(longs["ranks"])
        cursor = np.zeros(1, dtype=PAIR_CURSOR)
        cursor["num_longs"] = firsts[table]
        if long is not None and long.count:
            cursor["is_long"], cursor["nth"] = 1, long.count
            cursor["num_longs"] = firsts[table] + 1
            cursor["prefix"] = keys[0] >> np.uint64(64 - plan.bits[table])
        by_words = plan.method == "minhash"
        figures = plan.bits[table], by_words, plan.min_agree, plan.max_distance, plan.max_run, True
        how = np.array([table, *figures], dtype=np.uint64)
        ranks = sketches.local(numbers)
        entries = offsets, plan.masks, how, keys, ranks, cursor, np.array(firsts, dtype=np.uint64), longs
        outcome = None
        while outcome != _NEED_ENTRIES:
            outcome, count = directory.run(_kernel.find_pairs, *entries, self._buffer)
            rows = self._buffer[:count].copy()
            for side in ("a", "b"):
                rows[side] = sketches.numbers[rows[side]]
            if count:
                yield rows
        self.counts.compared += int(cursor["compared"][0])
        self.counts.bounded_runs += int(cursor["bounded_runs"][0])
        self.counts.bounded_entries += int(cursor["bounded_entries"][0])
        if long is not None:
            self._went_on(long, longs[-1:], sketches, len(keys), is_long=bool(cursor["is_long"][0]))

    def _went_on(
        self, long: _LongRun, row: np.ndarray, sketches: Sketches, count: int, *, is_long: bool
    ) -> None:
        """Take note of a part of a long run, and of those that represent it."""
        if not is_long:
            return  # what is left of it without copies is none
        if not long.count:
            long.row = row.copy()
            long.row["ranks"] = sketches.numbers[row["ranks"]]
            self.long_runs.append(long.row)
            self._long = long
        long.count += count


class _First(NamedTuple):
    """A sketch that others may be equal to."""

    number: int
    words: np.ndarray
    fingerprint: int


def _likely_equal(rows: np.ndarray) -> np.ndarray:
    """Return the places of the rows that another one may be equal to, ascending."""
    factors = np.random.default_rng(1).integers(0, 2**63, rows.shape[1], dtype=np.uint64) | np.uint64(1)
    _, inverse, counts = np.unique(rows @ factors, return_inverse=True, return_counts=True)
    return np.flatnonzero(counts[inverse] > 1)
