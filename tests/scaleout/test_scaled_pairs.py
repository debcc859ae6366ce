"""Pairs and clusters of partitions against those of one index, without Ray."""

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from support.hosts import LocalTasks

import simindex
from simindex import ClosedError, Config, SimHashConfig
from simindex.format.keys import Key
from simindex.maintenance import merge
from simindex.pairs.plan import plan_pairs
from simindex.pairs.walk_plan import scheme_of_config
from simindex.scaleout.pair_job import Partitions, ScaledPairs, Walk, clusters_of
from simindex.scaleout.wire import partition_of
from simindex.sketching.sketch import HAS_FINGERPRINT, HAS_SIGNATURE

CONFIG = Config(num_perm=64, simhash=SimHashConfig(3, shingles=simindex.WordShingles(1)))


def documents() -> list[tuple[Key, str]]:
    """Texts of which many are alike, some in chains, and some equal."""
    random, words = Random(11), [f"w{number}" for number in range(300)]
    texts: list[list[str]] = []
    for _ in range(600):
        kind = random.random()
        text = list(random.choice(texts[-30:])) if texts and kind < 0.6 else random.choices(words, k=40)
        for _ in range(random.randint(1, 3) if 0.2 < kind < 0.6 else 0):
            text[random.randrange(len(text))] = random.choice(words)
        texts.append(text)
    return [(f"d{number}", " ".join(text)) for number, text in enumerate(texts)]


REMOVED = [f"d{number}" for number in range(0, 600, 7)]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[simindex.Index]:
    with simindex.open(tmp_path_factory.mktemp("one") / "one", config=CONFIG) as index:
        index.insert_many(documents())
        index.remove_many(REMOVED)
        yield index


@pytest.fixture(scope="module", params=[1, 3, 8])
def paths(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    tmp_path = tmp_path_factory.mktemp("partitions")
    dealt: list[list[tuple[Key, str]]] = [[] for _ in range(request.param)]
    for key, text in documents():
        dealt[partition_of(key, request.param)].append((key, text))
    for number, some in enumerate(dealt):
        with simindex.open(tmp_path / f"{number}", config=CONFIG) as index:
            for first in range(0, len(some), 40):
                index.insert_many(some[first : first + 40])
            index.remove_many(key for key in REMOVED if key in index)
    return [str(tmp_path / f"{number}") for number in range(request.param)]


def walk_of(paths: list[str], by: Any, copies: Any, *, forests: bool = False, threshold: float = 0.7) -> Walk:
    given = threshold if by == "minhash" else 0.8
    plan = plan_pairs(scheme_of_config(CONFIG), given, by, None, None, False, False, copies, 1_000, 1 << 20)
    half = HAS_SIGNATURE if by == "minhash" else HAS_FINGERPRINT
    walkers = Partitions(paths, CONFIG, half, LocalTasks(), os.path.dirname(paths[0]))
    return Walk(walkers, CONFIG, plan, None, forests=forests)


def is_open(walk: Walk) -> bool:
    try:
        walk.walkers.keys(np.zeros(1, np.uint32))
    except ClosedError:
        return False
    return True


def figures(pairs: Any) -> list[tuple[frozenset[Key], float | None, int | None]]:
    return [(frozenset((pair.a, pair.b)), pair.similarity, pair.distance) for pair in pairs]


@pytest.mark.parametrize("by", ["minhash", "simhash"])
def test_all_pairs_are_those_of_one_index_each_once(paths: list[str], one: simindex.Index, by: Any) -> None:
    given: dict[str, Any] = {"threshold": 0.7} if by == "minhash" else {}
    walk = walk_of(paths, by, "all")
    with ScaledPairs(walk) as pairs:
        found = figures(pairs)
        assert pairs.compared > 0
        assert pairs.bounded.runs == 0
    wanted = figures(one.pairs(by=by, copies="all", **given))
    assert len(found) == len(set(found))
    assert set(found) == set(wanted)
    assert len(wanted) > 200
    assert not is_open(walk)


@pytest.mark.parametrize("by", ["minhash", "simhash"])
def test_of_equal_documents_the_first_alone_is_paired_with_others(
    paths: list[str], one: simindex.Index, by: Any
) -> None:
    given: dict[str, Any] = {"threshold": 0.7} if by == "minhash" else {}
    found = figures(ScaledPairs(walk_of(paths, by, "first")))
    wanted = figures(one.pairs(by=by, copies="first", **given))
    assert len(found) == len(set(found)) == len(wanted)
    every = set(figures(one.pairs(by=by, copies="all", **given)))
    assert set(found) <= every
    assert set(found) < every


def test_components_are_those_of_one_index(paths: list[str], one: simindex.Index) -> None:
    told: list[tuple[int, int]] = []
    walk = walk_of(paths, "minhash", "first", forests=True)
    walk._progress = lambda done, total: told.append((done, total))
    found = [frozenset(keys) for keys in clusters_of(walk, "components", 1 << 20)]
    assert len(found) == len(set(found))
    assert set(found) == {frozenset(keys) for keys in one.clusters(0.7)}
    assert max(map(len, found)) > 10
    assert told[-1][0] == told[-1][1]
    assert not is_open(walk)


def one_in_order(folder: Path, paths: list[str]) -> simindex.Index:
    """One index of what partitions hold, in the order of partitions and of age in each."""
    texts = dict(documents())
    index = simindex.open(folder / "in-order", config=CONFIG)
    for path in paths:
        with simindex.open(path, "r") as partition:
            index.insert_many((key, texts[str(key)]) for key in partition)
    return index


@pytest.mark.parametrize("by", ["minhash", "simhash"])
def test_stars_are_those_of_one_index_in_the_order_of_partitions(
    paths: list[str], by: Any, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"threshold": 0.7} if by == "minhash" else {}
    walk = walk_of(paths, by, "first")
    found = list(clusters_of(walk, "star", 1 << 10))  # a KiB of edges: the others lie on the disk
    with one_in_order(tmp_path, paths) as one:
        assert found == list(one.clusters(linkage="star", by=by, **given))
        groups = list(one.clusters(linkage="components", by=by, **given))
    assert {key for star in found for key in star} < {key for group in groups for key in group}
    assert len(found) > 10
    assert not is_open(walk)


@pytest.mark.parametrize("seed", [3, 5, 12, 18])
def test_stars_of_copies_whose_first_one_is_removed(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few texts, each near some others and stored many times; most are removed again. A partition was merged
    of two, so that equal documents of it are not all stored as copies of one of them."""
    monkeypatch.setattr(merge, "FEW", 0)
    random, words = Random(seed), [f"w{number}" for number in range(60)]
    texts = [" ".join(words[at : at + 40]) for at in (0, 2, 4, 6)]
    rows = [(number, random.choice(texts)) for number in range(60)]
    removed = set(random.sample(range(60), 45))
    halves = [tmp_path / name for name in "cd"]
    for half, first in zip(halves, (0, 15), strict=True):
        with simindex.open(half, config=CONFIG) as index:
            index.insert_many(rows[first : first + 15])
    paths = [str(tmp_path / name) for name in "ab"]
    simindex.merge(halves, paths[0])
    for path, first in zip(paths, (30, 45), strict=True):
        with simindex.open(path, config=CONFIG) as index:
            index.insert_many(rows[first : first + 15])
            index.remove_many(removed & set(index))
    with simindex.open(tmp_path / "one", config=CONFIG) as one:
        one.insert_many(row for row in rows if row[0] not in removed)
        expected = list(one.clusters(0.8, "star"))
    assert list(clusters_of(walk_of(paths, "minhash", "first", threshold=0.8), "star", 1 << 20)) == expected
    assert expected


def test_ranges_hand_on_no_more_pairs_than_hold_documents_together(tmp_path: Path) -> None:
    shared = " ".join(f"w{number}" for number in range(60))
    paths = []
    for number in range(2):
        paths.append(str(tmp_path / f"{number}"))
        with simindex.open(paths[-1], config=CONFIG) as index:
            index.insert_many((key, f"{shared} {key}") for key in range(number * 100, number * 100 + 100))
    every, forest = walk_of(paths, "minhash", "first"), walk_of(paths, "minhash", "first", forests=True)
    num_pairs = len(list(ScaledPairs(every)))
    emitted = sum(len(found.pairs) + len(found.copies) for found in forest.found())
    (cluster,) = clusters_of(forest, "components", 1 << 20)
    assert len(cluster) == 200
    tables, ranges = 8, 4
    most = tables * ranges * len(cluster)
    assert 0 < emitted < most < num_pairs
