"""Pairs and clusters of several indexes against those of one index, without Ray."""

import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest
from support.faults import set_bound
from support.stages import LocalTasks

import simindex
from simindex import Config, ConfigMismatchError, Key, SimHashConfig, SimIndexError, scaleout
from simindex.all_pairs.candidates import verified
from simindex.scaleout import pair_job

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


COPIES: list[Any] = ["all", "first"]
LINKAGES: list[Any] = ["components", "star"]
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
        dealt[int(str(key)[1:]) * 7 % 10 % request.param].append((key, text))
    for number, some in enumerate(dealt):
        with simindex.open(tmp_path / f"{number}", config=CONFIG) as index:
            for first in range(0, len(some), 40):
                index.insert_many(some[first : first + 40])
            index.remove_many(key for key in REMOVED if key in index)
    return [str(tmp_path / f"{number}") for number in range(request.param)]


@pytest.fixture(autouse=True)
def tasks() -> Iterator[LocalTasks]:
    """Ranges are walked as by tasks of others."""
    with mock.patch.object(pair_job, "tasks_on", side_effect=lambda *_: nullcontext(tasks)):
        tasks = LocalTasks()
        yield tasks


def of_method(by: str) -> dict[str, Any]:
    return {"threshold": 0.7, "by": by} if by == "minhash" else {"by": by}


def figures(pairs: Any) -> list[tuple[frozenset[Key], float | None, int | None]]:
    return [(frozenset((pair.a, pair.b)), pair.similarity, pair.distance) for pair in pairs]


@pytest.mark.parametrize("by", ["minhash", "simhash"])
def test_all_pairs_are_those_of_one_index_each_once(paths: list[str], one: simindex.Index, by: Any) -> None:
    with scaleout.pairs(paths, **of_method(by)) as pairs:
        found = figures(pairs)
    wanted = figures(one.pairs(copies="all", **of_method(by)))
    assert len(found) == len(set(found))
    assert set(found) == set(wanted)
    assert len(wanted) > 200


@pytest.mark.parametrize("by", ["minhash", "simhash"])
def test_of_equal_documents_the_first_alone_is_paired_with_others(
    paths: list[str], one: simindex.Index, by: Any
) -> None:
    found = figures(scaleout.pairs(paths, copies="first", **of_method(by)))
    wanted = figures(one.pairs(copies="first", **of_method(by)))
    assert len(found) == len(set(found)) == len(wanted)
    assert set(found) < set(figures(one.pairs(copies="all", **of_method(by))))


def test_pairs_that_are_closed_early_end(paths: list[str], tmp_path: Path) -> None:
    pairs = scaleout.pairs(paths, 0.7, work=tmp_path / "work")
    next(pairs)
    pairs.close()
    pairs.close()
    assert list(pairs) == []
    assert list((tmp_path / "work").iterdir()) == []


def test_components_are_those_of_one_index(paths: list[str], one: simindex.Index) -> None:
    seen: list[tuple[int, int]] = []
    clusters = scaleout.clusters(paths, 0.7, progress=lambda done, total: seen.append((done, total)))
    found = [frozenset(keys) for keys in clusters]
    assert len(found) == len(set(found))
    assert set(found) == {frozenset(keys) for keys in one.clusters(0.7)}
    assert max(map(len, found)) > 10
    assert seen[-1][0] == seen[-1][1]


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[str], simindex.Index]]:
    """Several indexes, and one index of all that they hold, in their order."""
    folder, random, items = tmp_path_factory.mktemp("sent"), Random(3), documents()
    paths, parts = [], [items[:100], items[100:110], items[110:400], items[400:]]
    for number, part in enumerate(parts):
        paths.append(str(folder / f"{number}"))
        with simindex.open(paths[-1], config=CONFIG) as index:
            for first in range(0, len(part), 29):
                index.insert_many(part[first : first + 29])
            others = [(key, items[at][1]) for at, (key, _) in enumerate(random.sample(part, 5))]
            index.insert_many(others, on_conflict="replace")
            index.remove_many(key for key in REMOVED if key in index)
    simindex.merge(paths, folder / "one")
    with simindex.open(folder / "one") as one:
        yield paths, one


@pytest.mark.parametrize("by", ["minhash", "simhash"])
def test_stars_and_first_pairs_are_those_of_one_index(
    sent: tuple[list[str], simindex.Index], by: Any
) -> None:
    paths, one = sent
    stars = list(one.clusters(linkage="star", **of_method(by)))
    assert list(scaleout.clusters(paths, linkage="star", **of_method(by))) == stars
    assert len(stars) > 20
    firsts = list(one.pairs(copies="first", **of_method(by)))
    found = list(scaleout.pairs(paths, copies="first", **of_method(by)))
    assert len(found) == len(firsts) > 100
    assert set(found) == set(firsts)


@pytest.mark.parametrize("seed", [3, 5, 12, 18])
def test_components_of_copies_whose_first_one_is_removed(seed: int, tmp_path: Path) -> None:
    """Few texts, each near some others and stored many times; most are removed again. A partition was merged
    of two."""
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
        expected = {frozenset(keys) for keys in one.clusters(0.8)}
    assert {frozenset(keys) for keys in scaleout.clusters(paths, 0.8)} == expected
    assert expected


def changes_of(seed: int, share: float) -> Iterator[tuple[str, list[Any]]]:
    """Inserts of pages of two templates, many equal, and removals of a share of the first of these."""
    random, texts, live = Random(seed), dict[int, str](), list[int]()
    shared = [" ".join(f"s{template}w{number}" for number in range(30)) for template in range(2)]
    own = [
        [f"{random.choice('abcdefghij')}{index}" for index in range(random.randint(1, 3))] for _ in range(90)
    ]
    pages = [" ".join([shared[random.random() < 0.2], *words]) for words in own]
    for _ in range(14):
        rows = [(len(texts) + number, random.choice(pages)) for number in range(random.randint(1, 30))]
        yield "insert_many", rows
        texts |= rows
        live += [key for key, _ in rows]
        firsts = {texts[key]: key for key in reversed(live)}
        removed = {key for key in firsts.values() if random.random() < share}
        yield "remove_many", sorted(removed)
        live = [key for key in live if key not in removed]


@pytest.fixture(scope="module", params=[(3, 0), (1, 0.1), (2, 0.2), (3, 0.1)])
def of_templates(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[list[str], simindex.Index]]:
    """Several indexes that take the batches in turn, and one index that the same was done to."""
    folder = tmp_path_factory.mktemp("templates")
    paths = [str(folder / f"{number}") for number in range(4)]
    with simindex.open(folder / "one", config=CONFIG) as one, ExitStack() as stack:
        many = [stack.enter_context(simindex.open(path, config=CONFIG)) for path in paths]
        for number, (call, rows) in enumerate(changes_of(*request.param)):
            getattr(one, call)(rows)
            if call == "insert_many":
                many[number % 4].insert_many(rows)
            else:
                for index in many:
                    index.remove_many(rows)
        yield paths, one


@pytest.mark.parametrize("max_run", [16, 30])
@pytest.mark.parametrize("how", [{"threshold": 0.7}, {"threshold": 0.25}, {"by": "simhash"}], ids=repr)
def test_long_runs_are_treated_and_counted_as_in_one_index(
    of_templates: tuple[list[str], simindex.Index],
    how: dict[str, Any],
    max_run: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_bound(monkeypatch, "entries whose sketches are in memory", 50)
    (paths, one), how = of_templates, {**how, "max_run": max_run}
    for copies in COPIES:
        pairs, of_one = scaleout.pairs(paths, copies=copies, **how), one.pairs(copies=copies, **how)
        found, wanted = figures(pairs), figures(of_one)
        assert len(found) == len(set(found)) == len(wanted) > 20
        assert set(found) == set(wanted)
        assert pairs.bounded == of_one.bounded
        assert of_one.bounded.runs or "by" in how or max_run > 16
    for linkage in LINKAGES:
        clusters = scaleout.clusters(paths, linkage=linkage, **how)
        clusters_of_one = one.clusters(linkage=linkage, **how)
        groups, groups_of_one = list(clusters), list(clusters_of_one)
        assert set(map(frozenset, groups)) == set(map(frozenset, groups_of_one))
        assert groups == groups_of_one or linkage == "components"
        assert clusters.bounded == clusters_of_one.bounded


def test_equal_documents_are_paired_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_bound(monkeypatch, "edges of equal documents in memory", 1_000)
    monkeypatch.setattr(pair_job, "verified", partial(verified, pairs=1_000))
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    for path in paths:
        with simindex.open(path, config=Config(num_perm=64, keep_shingles=16)) as index:
            index.insert_many((number, "this page was not found") for number in range(400))
    tracemalloc.start()
    try:
        with scaleout.pairs(paths, max_run=16, memory_bytes=1 << 20) as pairs:
            next(pairs)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 30 << 20, f"{most >> 20} MiB"  # 800 times 800 edges at once take 44 MiB


def test_ranges_hand_on_no_more_pairs_than_hold_documents_together(tmp_path: Path, tasks: LocalTasks) -> None:
    shared = " ".join(f"w{number}" for number in range(60))
    paths = []
    for number in range(2):
        paths.append(str(tmp_path / f"{number}"))
        with simindex.open(paths[-1], config=CONFIG) as index:
            index.insert_many((key, f"{shared} {key}") for key in range(number * 100, number * 100 + 100))
    num_pairs = len(list(scaleout.pairs(paths, 0.7, copies="first")))
    num_ranges, tasks.num_edges = tasks.num_jobs["compare_range"], 0
    (cluster,) = scaleout.clusters(paths, 0.7)
    assert len(cluster) == 200
    assert 0 < tasks.num_edges < num_ranges * len(cluster) < num_pairs


def test_indexes_that_cannot_be_compared_together_are_named(paths: list[str], tmp_path: Path) -> None:
    other = tmp_path / "other"
    simindex.open(other, config=Config(num_perm=32)).close()
    with pytest.raises(ConfigMismatchError, match=r"/other: .*num_perm: stored 32, asked for 64"):
        scaleout.pairs([*paths, other], 0.7)
    with pytest.raises(ValueError, match="indexes: expected one folder or more"):
        scaleout.pairs([], 0.7)
    with pytest.raises(FileNotFoundError, match="none"):
        scaleout.clusters(tmp_path / "none")


def test_an_index_that_changes_while_it_is_compared_is_an_error(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=CONFIG) as index:
        index.insert_many((number, f"the same words {number // 2}") for number in range(40))
        pairs = scaleout.pairs(tmp_path / "i", 0.7)
        index.insert("late", "a document that comes late")
        with pytest.raises(SimIndexError, match="the index was changed meanwhile"):
            list(pairs)
