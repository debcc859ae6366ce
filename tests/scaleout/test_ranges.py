"""Ranges of the sorted tables of several partitions against one index, without Ray."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, combinations, product
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simindex
from simindex import Config, CorruptIndexError, Layout, SimHashConfig
from simindex.all_pairs.plan import WalkPlan, bounds_of, plan_pairs
from simindex.all_pairs.ranges import Sketches, scheme_of_config, walk_range
from simindex.all_pairs.table_walk import EqualSketches
from simindex.all_pairs.tables import EVERY_KEY, MergedTables, PinnedTables
from simindex.formulas.estimator import similarity_table

TINY = Layout(2, 7, 256)
letters = st.frozensets(st.sampled_from("abcdef"), min_size=0, max_size=6)
documents = st.lists(letters, max_size=40)


@contextmanager
def partitioned(
    contents: list[list[tuple[Any, Any]]], config: Config, layout: Layout | None = None, removed: Any = ()
) -> Iterator[list[PinnedTables]]:
    """Partitions with these documents, a few in each commit."""
    with TemporaryDirectory() as folder:
        opened = []
        for number, items in enumerate(contents):
            with simindex.open(f"{folder}/{number}", "x", config, layout=layout) as index:
                for first in range(0, len(items), 7):
                    index.insert_many(items[first : first + 7])
                for key in removed:
                    if key in index:
                        index.remove(key)
            opened.append(PinnedTables(f"{folder}/{number}"))
        try:
            yield opened
        finally:
            for each in opened:
                each.close()


def asked_of(pinned: PinnedTables, threshold: float, by: Any, count: int) -> WalkPlan:
    given = threshold if by == "minhash" else 0.8
    plan = plan_pairs(pinned.scheme, given, by, None, None, False, False, "all", 1_000, 64 << 20)
    return WalkPlan(plan, pinned.scheme, count, "each pair once")


def pairs_by_range(partitions: list[PinnedTables], walk_plan: WalkPlan) -> list[tuple[int, int, int, int]]:
    """All rows, range by range."""
    source = MergedTables(partitions)
    ranges = (walk_range(walk_plan, source, index, 1 << 20) for index in range(walk_plan.count))
    return [row for found in chain.from_iterable(ranges) for row in found.pairs.tolist()]


def keys_of(partitions: list[PinnedTables]) -> list[list[Any]]:
    """The keys of the live documents under each number."""
    keys = []
    for each in partitions:
        for some in each.documents(np.arange(each.ranks.total), 2**62):
            keys.append([document.key for document in some])
    return keys


def expected(
    contents: list[tuple[Any, Any]], config: Config, threshold: float, by: Any, removed: Any
) -> set[Any]:
    with TemporaryDirectory() as folder, simindex.open(folder + "/i", "x", config) as index:
        index.insert_many(contents)
        index.remove_many([key for key in removed if key in index])
        given: dict[str, Any] = {"threshold": threshold} if by == "minhash" else {"by": by}
        return {(frozenset((p.a, p.b)), p.similarity, p.distance) for p in index.pairs(copies="all", **given)}


@settings(max_examples=25, deadline=None)
@given(
    documents,
    st.integers(1, 4),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([0.3, 0.5, 0.8]),
    st.sampled_from(["minhash", "simhash"]),
    st.sampled_from([None, TINY]),
    st.lists(st.integers(0, 40), max_size=5, unique=True),
)
def test_pairs_of_partitions_by_ranges_are_those_of_one_index(
    contents: Any, num_partitions: int, count: int, threshold: float, by: Any, layout: Any, removed: Any
) -> None:
    config = Config(num_perm=32, simhash=SimHashConfig(3, shingles=simindex.WordShingles(1)))
    items = list(enumerate(contents))
    parts = [items[index::num_partitions] for index in range(num_partitions)]
    with partitioned(parts, config, layout, removed) as partitions:
        rows = pairs_by_range(partitions, asked_of(partitions[0], threshold, by, count))
        keys = keys_of(partitions)
    found = [
        (frozenset(pair), similarity_table(32)[agree], distance)
        for a, b, agree, distance in rows
        for pair in product(keys[a], keys[b])
    ]
    assert len(found) == len(set(found)), "a pair came twice"
    wanted = expected(items, config, threshold, by, removed)
    assert set(found) <= wanted
    # Copies within a partition are stored as such and in no table: they are not pairs of sketches.
    stored = {frozenset(pair) for some in keys for pair in combinations(some, 2)}
    assert {pair for pair, *_ in found} | stored == {pair for pair, *_ in wanted}


@pytest.mark.parametrize("count", [1, 2, 5])
def test_pair_with_the_first_or_last_key_of_all_is_in_one_range(count: int) -> None:
    """Fingerprints of equal bits have the same key, the first or the last one, in every table."""
    config = Config(num_perm=0, simhash=SimHashConfig(3))
    origin = simindex.Sketcher(config).sketch("").origin
    bits = [1, 0, 2**64 - 2, 2**64 - 1]
    items = [(key, simindex.Sketch(0, None, each, None, origin)) for key, each in enumerate(bits)]
    with partitioned([items], config) as partitions:
        rows = pairs_by_range(partitions, asked_of(partitions[0], 0.5, "simhash", count))
    assert sorted((a, b, distance) for a, b, _, distance in rows) == [(0, 1, 1), (2, 3, 1)]


def test_pairs_of_runs_that_are_put_off_come_from_the_next_table_with_a_short_run() -> None:
    """A run: the sketches that have a band word of a table in common."""
    dice = Random(5)
    shared = " ".join(f"menu{number}" for number in range(30))
    items = [(n, f"{shared} " + " ".join(f"w{dice.randrange(40)}" for _ in range(20))) for n in range(120)]
    with partitioned([items], Config(num_perm=32)) as partitions:
        walk_plan = asked_of(partitions[0], 0.5, "minhash", 1)
        plan = walk_plan.plan
        words, _ = partitions[0].sketches(np.arange(partitions[0].ranks.total, dtype=np.uint32))
        runs = defaultdict[tuple[int, int], list[int]](list)
        for number, row in enumerate((words & plan.masks).tolist()):
            for table_and_word in enumerate(row):
                runs[table_and_word].append(number)
        most = sorted(set(map(len, runs.values())))[-4]
        walk_plan = replace(walk_plan, plan=replace(plan, max_run=most), hands_on="pairs")
        found = list(walk_range(walk_plan, MergedTables(partitions), 0, 1 << 20))
    short = [run for run in runs.values() if len(run) <= most]
    long = [run for run in runs.values() if len(run) > most]
    rows = words.astype("<u8").view(np.uint8)
    agree = (rows[:, None] == rows[None]).sum(axis=2)
    pairs = sorted((row["a"], row["b"]) for some in found for row in some.pairs)
    of_short = {pair for run in short for pair in combinations(run, 2)}
    assert pairs == sorted(pair for pair in of_short if agree[pair] >= plan.min_agree)
    assert set(pairs) & {pair for run in long for pair in combinations(run, 2)}
    waiting = sorted(number for some in found for number in some.waiting.tolist())
    assert waiting == sorted(number for run in long for number in run)


@settings(max_examples=25, deadline=None)
@given(documents, st.sampled_from([None, TINY]), st.integers(1, 9), st.integers(1, 20), st.data())
def test_slices_of_a_table_are_the_table(
    contents: Any, layout: Any, count: int, capacity: int, data: st.DataObject
) -> None:
    config = Config(num_perm=16, simhash=None)
    removed = data.draw(st.lists(st.integers(0, 40), max_size=5, unique=True))
    with partitioned([list(enumerate(contents))], config, layout, removed) as (pinned,):
        table = data.draw(st.integers(0, pinned.scheme.tables.count - 1))

        def entries(first: int, end: int, capacity: int) -> list[tuple[int, int]]:
            found = []
            for piece in pinned.pieces(table, first, end, capacity):
                assert 0 < len(piece[0]) <= capacity
                found += list(zip(*(column.tolist() for column in piece), strict=True))
            return found

        whole = entries(0, EVERY_KEY, 1_000)
        assert whole == sorted(whole)
        bounds = [bounds_of(index, count, 24) for index in range(count)]
        assert [first for first, _ in bounds] == [0, *(end for _, end in bounds[:-1])]
        assert bounds[-1][1] == EVERY_KEY
        assert [entry for bound in bounds for entry in entries(*bound, capacity)] == whole
        some = data.draw(st.sampled_from([key for key, _ in whole] or [5]))
        assert entries(some, some + 1, capacity) == [entry for entry in whole if entry[0] == some]


class Equals:
    """Sketches by number, of which every seventh one is like the first."""

    def sketches(self, doc_ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        words = np.repeat(doc_ids[:, None].astype(np.uint64) % 7, 4, axis=1)
        words[:, 0] = 5
        return words, doc_ids.astype(np.uint64)


def test_equal_sketches_are_found_from_one_buffer_to_the_next() -> None:
    scheme = scheme_of_config(Config(num_perm=32, simhash=None))
    plan = plan_pairs(scheme, 0.7, None, None, None, False, False, "first", 20, 1 << 20)
    keys, doc_ids = np.full(300, 5, dtype=np.uint64), np.arange(300, dtype=np.uint32)
    entries = ((keys[at : at + 40], doc_ids[at : at + 40]) for at in range(0, 300, 40))
    equal = EqualSketches(plan, entries, partial(Sketches, Equals(), scheme.tables))
    rows = [row for rows in equal.steps() for row in rows[["a", "b", "agree"]].tolist()]
    assert rows == [(number % 7, number, 32) for number in range(7, 300)]


def test_sketches_of_many_are_those_of_each() -> None:
    items = [(key, frozenset(f"{key} {number}" for number in range(9))) for key in range(50)]
    with partitioned([items], Config(num_perm=32)) as (pinned,):
        ranks = np.arange(0, 50, 3, dtype=np.uint32)
        words, fingerprints = pinned.sketches(ranks)
        for rank, row, bits in zip(pinned.ranks.doc_ids(ranks).tolist(), words, fingerprints, strict=True):
            alone = pinned.read(lambda view, number=rank: view.directory.read_sketches(np.array([number])))  # type: ignore[misc]
            assert np.array_equal(alone[0], [row])
            assert alone[1] == [bits]
        with pytest.raises(CorruptIndexError, match="expected a stored sketch"):
            pinned.read(lambda view: view.directory.read_sketches(np.array([3, 10**6])))
