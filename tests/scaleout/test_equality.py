"""Many partitions answer as one index does, whatever their number and the order of inserts."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.hosts import Cluster
from support.samples import sample_of

import simindex
from simindex import Config, Index, Matches, SimHashConfig
from simindex.scaleout import ScaledIndex
from simindex.scaleout import index as index_module

CONFIG = Config(num_perm=64, simhash=SimHashConfig(3), keep_shingles=40)


def texts() -> list[str]:
    """Groups of texts that are alike, some of them equal."""
    choose = random.Random(5)
    words = [f"word{number}" for number in range(300)]
    found = []
    for _ in range(60):
        base = choose.choices(words, k=30)
        found.append(" ".join(base))
        for _ in range(choose.randrange(6)):
            other = list(base)
            for _ in range(choose.randrange(4)):
                other[choose.randrange(30)] = choose.choice(words)
            found.append(" ".join(other))
    return found


TEXTS = texts()
KEYS: list[Any] = [[f"k{n}", n, b"%d" % n][n % 3] for n in range(len(TEXTS))]
ITEMS = [
    (key, text, {"n": n} if n % 2 else None) for n, (key, text) in enumerate(zip(KEYS, TEXTS, strict=True))
]
ASKED = [*TEXTS[::3], "nothing like it anywhere in the collection", ""]


@contextmanager
def many_places(folder: Path, partitions: int, places: int) -> Iterator[ScaledIndex]:
    with Cluster(folder, "abc"[:places], partitions, CONFIG) as cluster:
        yield cluster.handle()


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with simindex.open(tmp_path_factory.mktemp("one") / "i", config=CONFIG) as index:
        index.insert_many(ITEMS)
        yield index


@pytest.fixture(
    scope="module", params=sample_of([(8, 1), (64, 3)], [((256, 2),)]), ids=lambda shape: f"{shape[0]}"
)
def many(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScaledIndex]:
    partitions, places = request.param
    with many_places(tmp_path_factory.mktemp("many"), partitions, places) as index:
        shuffled = random.Random(partitions).sample(ITEMS, len(ITEMS))
        assert index.insert_many(shuffled, batch_size=97) == (len(ITEMS), 0, 0)
        yield index


def told(matches: Matches) -> set[tuple[Any, ...]]:
    return {
        (repr(m.key), m.similarity, m.distance, repr(m.metadata), m.exact, m.standard_error) for m in matches
    }


@pytest.mark.parametrize("sizes", [(1, 1), (3, 16), (20, 70)])
def test_batches_of_any_size_give_the_answers_of_one(
    many: ScaledIndex, sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [told(matches) for matches in many.query_many(ASKED, 0.6)]
    monkeypatch.setattr(index_module, "_FIRST_BATCH", sizes[0])
    monkeypatch.setattr(index_module, "_QUERY_BATCH", sizes[1])
    assert [told(matches) for matches in many.query_many(iter(ASKED), 0.6)] == expected


def figures(matches: Matches) -> list[tuple[Any, ...]]:
    return [(match.similarity, match.distance) for match in matches]


@pytest.mark.parametrize("asked", [{"threshold": 0.5}, {"threshold": 0.8}, {"threshold": 0.6, "exact": True}])
def test_queries_find_what_one_index_finds(one: Index, many: ScaledIndex, asked: dict[str, Any]) -> None:
    answers = many.query_many(ASKED, **asked)
    assert (answers.partial, answers.missing) == ((), {})
    expected = one.query_many(ASKED, **asked)
    assert sum(map(len, expected)) > len(ASKED)
    for text, found, wanted in zip(ASKED, answers, expected, strict=True):
        assert told(found) == told(wanted)
        assert [m.similarity for m in found] == [m.similarity for m in wanted]
        assert told(many.query(text, **asked)) == told(wanted)


def test_queries_by_simhash_find_what_one_index_finds(one: Index, many: ScaledIndex) -> None:
    for text, found in zip(ASKED, many.query_simhash_many(ASKED), strict=True):
        wanted = one.query_simhash(text)
        assert told(found) == told(many.query_simhash(text)) == told(wanted)
        assert [m.distance for m in found] == [m.distance for m in wanted]
        near = many.query_simhash(text, 1)
        assert told(near) == told(one.query_simhash(text, 1))


@pytest.mark.parametrize("limit", [1, 3])
def test_queries_with_a_limit_have_equal_figures(one: Index, many: ScaledIndex, limit: int) -> None:
    for found, wanted in zip(
        many.query_many(ASKED, 0.5, limit), one.query_many(ASKED, 0.5, limit), strict=True
    ):
        assert figures(found) == figures(wanted)
    for text in ASKED:
        assert [m.distance for m in many.query_simhash(text, limit=limit)] == [
            m.distance for m in one.query_simhash(text, limit=limit)
        ]


def test_nearest_is_at_least_as_similar(one: Index, many: ScaledIndex) -> None:
    for text in ASKED:
        found, wanted = many.nearest(text, 5), one.nearest(text, 5)
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            assert (ours.similarity or 0) >= (theirs.similarity or 0)
        by_simhash = many.nearest(text, 5, by="simhash")
        assert [m.distance for m in by_simhash] == [m.distance for m in one.nearest(text, 5, by="simhash")]


def test_order_of_equal_figures_does_not_depend_on_partitions(many: ScaledIndex, tmp_path: Path) -> None:
    with many_places(tmp_path, 5, 2) as other:
        other.insert_many(reversed(ITEMS))
        for found, again in zip(many.query_many(ASKED, 0.5), other.query_many(ASKED, 0.5), strict=True):
            assert [match.key for match in found] == [match.key for match in again]


def test_container_holds_what_one_index_holds(one: Index, many: ScaledIndex) -> None:
    assert len(many) == len(one)
    assert set(many) == set(one)
    assert len(list(many)) == len(one)
    for key in KEYS[::20]:
        assert key in many
        assert many[key].metadata == one[key].metadata
        assert many[key].sketch == one[key].sketch
    assert many.get("no such key", 7) == many.get(1.5, 7) == 7
    assert 1.5 not in many
    with pytest.raises(KeyError):
        many["no such key"]


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((7, 3), {}),
        ((3, 1), {"on_conflict": "replace"}),
        ((4, 2), {"on_conflict": "skip", "by": "simhash"}),
    ],
)
def test_if_new_decides_as_one_index_does(
    tmp_path: Path, shape: tuple[int, int], options: dict[str, Any]
) -> None:
    items: list[Any] = [*ITEMS, *ITEMS[::5], *((f"k{n}", text) for n, text in enumerate(reversed(TEXTS)))]
    random.Random(1).shuffle(items)
    if not options:
        items = [(number, item[1]) for number, item in enumerate(items)]
    one_told, many_told = list[Any](), list[Any]()
    with simindex.open(tmp_path / "one", config=CONFIG) as one, many_places(tmp_path, *shape) as many:
        report = one.insert_many_if_new(
            items, batch_size=60, on_match=lambda *found: one_told.append(found), **options
        )
        assert report == many.insert_many_if_new(
            items, batch_size=60, on_match=lambda *found: many_told.append(found), **options
        )
        assert report.skipped > 50
        assert [(key, told(found)) for key, found in one_told] == [
            (key, told(found)) for key, found in many_told
        ]
        assert set(one) == set(many)


def test_if_new_takes_a_batch_that_is_all_alike(tmp_path: Path) -> None:
    with many_places(tmp_path, 3, 2) as index:
        items = [(n, TEXTS[0]) for n in range(300)]
        assert index.insert_many_if_new(items) == (1, 0, 299)
        assert list(index) == [0]
        assert index.insert_if_new("other", TEXTS[0])[0].key == 0
        assert index.insert_if_new("new", "something else that nobody has said before") == []
        assert set(index) == {0, "new"}
