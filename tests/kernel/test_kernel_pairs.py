"""Pairs and copies of the kernel against a comparison of all with all, over made-up directories."""

from collections.abc import Callable
from itertools import combinations
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import MadeUp, MadeUpSegment, Stored

from simindex import _kernel
from simindex.format.kernel_structs import COPY_CURSOR, LONG_RUN, PAIR_CURSOR, PAIR_ROW

pytestmark = pytest.mark.usefixtures("each_variant")

ALL = 2**64 - 1
BANDS = 2
FOUND, NEED_ENTRIES, NEED_ROOM = 0, 1, 2
REPRESENTATIVES = _kernel.REPRESENTATIVES

Row = tuple[int, int, int, int]
Runs = list[list[int]]


class Method(NamedTuple):
    """How pairs are found: by words, or by fingerprints of which a table's key is a rotation."""

    by_words: bool
    bits: int
    min_agree: int = 0
    max_distance: int = 64
    max_run: int = REPRESENTATIVES

    def key(self, sketch: Stored, table: int) -> int:
        if self.by_words:
            return sketch.words[table]
        return (sketch.fingerprint << 16 * table | sketch.fingerprint >> 64 - 16 * table) & ALL

    @property
    def masks(self) -> np.ndarray:
        top = ALL - (ALL >> self.bits)
        turned = [(top >> 16 * table | top << 64 - 16 * table) & ALL for table in range(BANDS)]
        return np.array([top] * BANDS if self.by_words else turned, np.uint64)

    def figures(self, a: Stored, b: Stored) -> tuple[int, int]:
        distance = (a.fingerprint ^ b.fingerprint).bit_count()
        pairs = zip(a.words, b.words, strict=True)
        return sum((x ^ y) >> 8 * row & 255 == 0 for x, y in pairs for row in range(8)), distance

    def takes(self, agree: int, distance: int) -> bool:
        return agree >= self.min_agree if self.by_words else distance <= self.max_distance

    def how(self, table: int, is_last: bool) -> np.ndarray:
        figures = self.bits, self.by_words, self.min_agree, self.max_distance, self.max_run, is_last
        return np.array([table, *figures], np.uint64)


# Few bytes and many equal ones, so that prefixes are shared, and in several tables.
crowded = st.integers(0, 2) | st.sampled_from([1 << 56, 1 << 56 | 1, 2 << 56 | 1 << 48, ALL])
sketches_of = st.lists(
    st.builds(Stored, st.just(0), st.tuples(crowded, crowded), crowded), min_size=1, max_size=60
)
methods = st.builds(
    Method,
    st.booleans(),
    st.sampled_from([1, 8, 16, 64]),
    st.sampled_from([0, 5, 14, 16]),
    st.sampled_from([0, 1, 3, 64]),
    st.sampled_from([REPRESENTATIVES, 20, 100]),
)


def made_up(sketches: list[Stored], method: Method, cut: int) -> tuple[MadeUp, np.ndarray]:
    """(directory, offsets) of two segments, of which the first has `cut` of the sketches."""
    cut = min(cut, len(sketches))
    segments = []
    for part in (sketches[:cut], sketches[cut:]):
        tables = [[(method.key(s, table), n) for n, s in enumerate(part)] for table in range(BANDS)]
        segments.append(MadeUpSegment(len(part), tables, [s._replace(number=n) for n, s in enumerate(part)]))
    return MadeUp(segments, num_tables=BANDS, bands=BANDS), np.array([0, cut, len(sketches)], np.uint64)


def entries_of(sketches: list[Stored], method: Method, table: int) -> list[tuple[int, int]]:
    return sorted((method.key(sketch, table), rank) for rank, sketch in enumerate(sketches))


def runs_of(entries: list[tuple[int, int]], bits: int) -> Runs:
    runs: dict[int, list[int]] = {}
    for key, rank in entries:
        runs.setdefault(key >> 64 - bits, []).append(rank)
    return list(runs.values())


def expected(sketches: list[Stored], method: Method) -> tuple[list[Row], tuple[int, int]]:
    """The pairs in their order, and what is bounded, with every compared pair remembered."""
    compared: set[tuple[int, int]] = set()
    rows, bounded_runs, bounded_entries = [], 0, 0
    for table in range(BANDS):
        for run in runs_of(entries_of(sketches, method, table), method.bits):
            is_long = len(run) > method.max_run
            bounded_runs, bounded_entries = bounded_runs + is_long, bounded_entries + len(run) * is_long
            for index, right in enumerate(run):
                lefts = run[: min(index, REPRESENTATIVES)] if is_long else run[:index]
                for left in lefts:
                    a, b = sorted((left, right))
                    figures = method.figures(sketches[a], sketches[b])
                    if (a, b) not in compared and method.takes(*figures):
                        rows.append((a, b, *figures))
                    compared.add((a, b))
    return rows, (bounded_runs, bounded_entries)


class Walker:
    """Feeds the kernel with the entries of all tables, `capacity` of them at a time."""

    def __init__(self, sketches: list[Stored], method: Method, cut: int, capacity: int, room: int) -> None:
        self.sketches, self.method, self.capacity = sketches, method, capacity
        self.directory, self.offsets = made_up(sketches, method, cut)
        self.longs, self.firsts = np.zeros(1, LONG_RUN), [0]
        self.found = np.zeros(room, PAIR_ROW)
        self.bounded = 0, 0
        self.rows: list[Row] = []

    def walk(self) -> list[Row]:
        for table in range(BANDS):
            self._walk_table(table)
        return self.rows

    def _walk_table(self, table: int) -> None:
        entries, first = entries_of(self.sketches, self.method, table), 0
        cursor = np.zeros(1, PAIR_CURSOR)
        cursor["num_longs"] = self.firsts[-1]
        while True:
            outcome, count = self._call(table, cursor, entries[first : first + self.capacity], first)
            self.rows += [tuple(row) for row in self.found[:count].tolist()]
            if outcome == NEED_ROOM:
                self.longs = np.concatenate([self.longs, np.zeros_like(self.longs)])
            elif outcome == NEED_ENTRIES:
                if first + self.capacity >= len(entries):
                    break
                first += int(cursor["begin"][0])
                cursor["begin"] = cursor["end"] = cursor["right"] = cursor["left"] = 0
        assert cursor["begin"] == len(entries) - first
        here = self.longs[self.firsts[-1] : int(cursor["num_longs"][0])]
        here[:] = here[np.argsort(here["prefix"])]
        self.firsts.append(int(cursor["num_longs"][0]))
        runs, in_them = self.bounded
        self.bounded = runs + int(cursor["bounded_runs"][0]), in_them + int(cursor["bounded_entries"][0])

    def _call(
        self, table: int, cursor: np.ndarray, entries: list[tuple[int, int]], first: int
    ) -> tuple[int, int]:
        is_last = first + self.capacity >= len(self.sketches)
        keys = np.array([key for key, _ in entries], np.uint64)
        ranks = np.array([rank for _, rank in entries], np.uint32)
        arguments = self.offsets, self.method.masks, self.method.how(table, is_last), keys, ranks, cursor
        firsts = np.array(self.firsts, np.uint64)
        return _kernel.find_pairs(self.directory.header, *arguments, firsts, self.longs, self.found)


@settings(max_examples=300)
@given(sketches_of, methods, st.integers(0, 60), st.integers(1, 60), st.integers(1, 50))
def test_pairs_equal_a_comparison_that_remembers_what_was_compared(
    sketches: list[Stored], method: Method, cut: int, more: int, room: int
) -> None:
    walker = Walker(sketches, method, cut, method.max_run + more, room)
    rows, bounded = expected(sketches, method)
    assert walker.walk() == rows
    assert walker.bounded == bounded


@pytest.mark.parametrize("by_words", [True, False])
def test_pairs_of_one_long_run_are_those_of_its_first_entries(by_words: bool) -> None:
    sketches = [Stored(0, (n, n << 1), n) for n in range(200)]
    walker = Walker(sketches, Method(by_words, 8), 77, 50, 30)
    first = {(a, b) for a, b in combinations(range(200), 2) if a < REPRESENTATIVES}
    assert {row[:2] for row in walker.walk()} == first
    assert len(walker.rows) == len(first)
    assert walker.bounded == (2, 400)


def copies_of(sketches: list[Stored], method: Method, cut: int, capacity: int, room: int) -> list[Row]:
    directory, offsets = made_up(sketches, method, cut)
    entries, first, rows = entries_of(sketches, method, 0), 0, list[Row]()
    cursor, found = np.zeros(1, COPY_CURSOR), np.zeros(room, PAIR_ROW)
    slots, used = np.full(128, ALL, np.uint64), np.zeros(64, np.uint32)
    for first in range(0, len(entries), capacity):
        part = entries[first : first + capacity]
        keys = np.array([key for key, _ in part], np.uint64)
        ranks = np.array([rank for _, rank in part], np.uint32)
        how = method.how(0, first + capacity >= len(entries))
        cursor["next"] = 0
        while cursor["next"] < len(part):
            arguments = offsets, method.masks, how, keys, ranks, cursor, slots, used, found
            count = _kernel.find_copies(directory.header, *arguments)
            rows += [tuple(row) for row in found[:count].tolist()]
    return rows


@settings(max_examples=200)
@given(sketches_of, st.booleans(), st.booleans(), st.integers(0, 60), st.integers(1, 60), st.integers(1, 50))
def test_copies_are_those_whose_compared_half_or_all_an_earlier_one_has(
    sketches: list[Stored], by_words: bool, whole: bool, cut: int, capacity: int, room: int
) -> None:
    method = Method(by_words, 64, int(by_words or whole), 64 if by_words and not whole else 0)
    halves = slice(0 if by_words or whole else 1, 1 if by_words and not whole else 2)
    compared: Callable[[Stored], object] = lambda s: (s.words, s.fingerprint)[halves]  # noqa: E731
    firsts: dict[object, int] = {}
    rows = []
    for _, rank in entries_of(sketches, method, 0):
        first = firsts.setdefault(compared(sketches[rank]), rank)
        if first != rank:
            rows.append((first, rank, *method.figures(sketches[first], sketches[rank])))
    assert copies_of(sketches, method, cut, capacity, room) == rows


@pytest.mark.parametrize("call", ["pairs", "copies"])
def test_damaged_sketches_are_no_answer(call: str) -> None:
    random = Random(7)
    sketches = [Stored(0, (5, random.getrandbits(64)), 1) for _ in range(20)]
    walker = Walker(sketches, Method(True, 8, max_run=30), 20, 40, 50)
    walker.directory.arrays[(0, BANDS, 0, "keys")][3, 1] ^= np.uint64(4)
    keys, ranks = np.full(20, 5, np.uint64), np.arange(20, dtype=np.uint32)
    arguments = walker.offsets, walker.method.masks, walker.method.how(0, True), keys, ranks
    memory = np.full(64, ALL, np.uint64), np.zeros(32, np.uint32)
    cursor, found = np.zeros(1, COPY_CURSOR), np.zeros(50, PAIR_ROW)

    def find_copies() -> None:
        _kernel.find_copies(walker.directory.header, *arguments, cursor, *memory, found)

    with pytest.raises(_kernel.Damage) as caught:
        walker.walk() if call == "pairs" else find_copies()
    assert caught.value.args == (0, BANDS, 0, 0)


def test_what_is_out_of_range_is_refused() -> None:
    walker = Walker([Stored(0, (5, 6), 1)] * 3, Method(True, 8), 3, 40, 50)
    entries = [(5, 0), (5, 3)]
    with pytest.raises(ValueError, match="ranks: out of range"):
        walker._call(0, np.zeros(1, PAIR_CURSOR), entries, 0)
    with pytest.raises(ValueError, match="how: out of range"):
        walker._call(2, np.zeros(1, PAIR_CURSOR), entries[:1], 0)
    cursor = np.zeros(1, PAIR_CURSOR)
    cursor["end"] = 2
    with pytest.raises(ValueError, match="cursor: out of range"):
        walker._call(0, cursor, entries[:1], 0)
