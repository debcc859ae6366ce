"""`where=` in every question and in both if-new calls: by brute force over what was stored."""

import random
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.faults import set_bound

import simindex
from simindex import Config, ContainmentMatches, Index

CONFIG = Config(num_perm=64, containment=1)
WORDS = [f"word{number}" for number in range(40)]
WHERES: list[Any] = [
    {"user": "u1"},
    {"user": ["u1", "u2"]},
    {"user": ("u3",), "lang": {"fr", "de"}},
    {"lang": "fr"},
    {"page": 3},
    {"page": [True, 1.0]},
    {"none": None},
    {"user": []},
    {},
    lambda metadata: metadata is not None and metadata.get("page") == "3",
]


METHODS: list[Any] = ["minhash", "simhash"]
COPIES: list[Any] = ["all", "first"]
LINKAGES: list[Any] = ["components", "star"]


def passes(where: Any, metadata: Any) -> bool:
    """What `where` asks for, as a reader of the docs would write it down."""
    if not isinstance(where, Mapping):
        return bool(where(metadata))
    for field, value in where.items():
        values = list(value) if isinstance(value, list | tuple | set) else [value]
        if not isinstance(metadata, dict) or field not in metadata:
            return False
        found = metadata[field]
        if not any(type(found) is type(each) and found == each for each in values):
            return False
    return True


class Twins:
    """Two indexes with the same documents: one whose bounds are hit by a few, and one with wide ones."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.small = simindex.open(folder / "small", config=CONFIG, max_candidates=8)
        self.large = simindex.open(folder / "large", config=CONFIG)
        self.dice, self.count, self.texts = dice, 0, dict[Any, str]()

    def each(self, change: Callable[[Index], object]) -> None:
        for index in (self.small, self.large):
            change(index)

    def text(self) -> str:
        """A near copy of one text, or now and then that text itself."""
        words = list(WORDS)
        for _ in range(self.dice.choice([0, 1, 1, 2, 3])):
            words[self.dice.randrange(len(words))] = f"other{self.dice.randrange(50)}"
        return " ".join(words)

    def metadata(self) -> Any:
        dice = self.dice
        if dice.random() < 0.05:
            return None
        found: dict[str, Any] = {"user": f"u{dice.randrange(6)}", "lang": dice.choice(["fr", "de", "en"])}
        found["page"] = dice.choice([1, 3, 5, True, 1.0, "3"])
        return found | ({"none": None} if dice.random() < 0.1 else {})

    def insert(self, count: int) -> None:
        items = [(self.count + at, self.text(), self.metadata()) for at in range(count)]
        self.count += count
        self.texts |= {key: text for key, text, _ in items}
        self.each(lambda index: index.insert_many(items))

    def remove(self, count: int) -> None:
        keys = self.dice.sample(list(self.large), count)
        self.each(lambda index: index.remove_many(keys))


@pytest.fixture
def twins(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    made = Twins(tmp_path, random.Random(request.param))
    yield made
    made.each(Index.close)


def figures(matches: Any, where: Any = None) -> list[tuple[Any, ...]]:
    return [
        (match.key, match.similarity, getattr(match, "distance", None), match.metadata)
        for match in matches
        if where is None or passes(where, match.metadata)
    ]


def compare(twins: Twins) -> None:
    """Each question with each filter, against all answers without one."""
    text = twins.text()
    for where in WHERES:
        limit = twins.dice.choice([None, 1, 3])
        threshold = twins.dice.choice([0.5, 0.7, 0.9])
        key = twins.dice.choice(list(twins.large))
        small, large = twins.small, twins.large
        pairs: list[tuple[Any, Any]] = [
            (small.query(text, threshold, limit, where=where), large.query(text, threshold)),
            (small.query_many([text] * 2, threshold, limit, where=where)[1], large.query(text, threshold)),
            (small.query_key(key, threshold, limit, where=where), large.query_key(key, threshold)),
            (small.query_simhash(text, limit=limit, where=where), large.query_simhash(text)),
            (
                small.query_containment(text, threshold, limit=limit, where=where),
                large.query_containment(text, threshold),
            ),
        ]
        for answer, everything in pairs:
            assert not everything.truncated
            expected = figures(everything, where)[:limit]
            if answer.truncated:  # a callable says which documents pass only as they are found
                assert callable(where) or not where or isinstance(answer, ContainmentMatches)
                assert set(map(repr, figures(answer))) <= set(map(repr, figures(everything, where)))
            else:
                assert figures(answer) == expected


@pytest.mark.parametrize("twins", range(4), indirect=True)
@pytest.mark.parametrize("looks_first", [True, False])
def test_where_is_brute_force_over_inserts_removals_transactions_and_compaction(
    twins: Twins, looks_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not looks_first:
        set_bound(monkeypatch, "sketches of a scope compared before tables are looked at", 0)
    twins.insert(150)
    compare(twins)
    twins.remove(40)
    twins.insert(60)
    compare(twins)
    with twins.small.transaction(), twins.large.transaction():
        twins.insert(30)
        twins.remove(20)
        compare(twins)
    twins.each(Index.compact)
    twins.remove(30)
    compare(twins)


@pytest.mark.parametrize("twins", range(2), indirect=True)
def test_a_pinned_snapshot_is_asked_as_it_was(twins: Twins) -> None:
    twins.insert(120)
    with simindex.open(twins.small.path, "r", refresh="manual", max_candidates=8) as pinned:
        text, where = twins.text(), {"user": "u1"}
        before = figures(twins.large.query(text, 0.5), where)
        twins.remove(60)
        assert twins.small.query(text, 0.5, where=where)
        assert figures(pinned.query(text, 0.5, where=where)) == before
        pinned.refresh()
        after = figures(twins.large.query(text, 0.5), where)
        assert figures(pinned.query(text, 0.5, where=where)) == after != before


def test_a_small_scope_among_many_near_copies_is_found_whole(tmp_path: Path) -> None:
    dice, texts = random.Random(3), list[str]()
    for _ in range(20_000):
        words = list(WORDS)
        words[dice.randrange(40)] = f"other{dice.randrange(10_000)}"
        texts.append(" ".join(words))
    with simindex.open(tmp_path / "i", config=Config(num_perm=64)) as index:
        own = set(dice.sample(range(20_000), 30))
        metadata = [{"user": "me" if key in own else "another"} for key in range(20_000)]
        index.insert_many(zip(range(20_000), texts, metadata, strict=True))
        asked = " ".join(WORDS)
        assert index.query(asked, 0.5).truncated
        for _ in range(2):
            found = index.query(asked, 0.5, where={"user": "me"})
            assert (found.truncated, {match.key for match in found}) == (False, own)
            nearest = index.nearest(asked, 5, where={"user": "me"})
            assert (nearest.truncated, len(nearest)) == (False, 5)
            by_call = index.nearest(asked, 5, where=lambda metadata: metadata["user"] == "me")
            assert len(by_call) == 5


def test_nearest_gives_k_of_those_that_pass(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=CONFIG, max_candidates=8) as index:
        index.insert_many([(n, " ".join(WORDS[n % 7 :]), {"even": n % 2 == 0}) for n in range(100)])
        for by in ("minhash", "simhash"):
            found = index.nearest(" ".join(WORDS), 5, by=by, where={"even": False})
            assert [match.metadata["even"] for match in found] == [False] * 5
        assert index.nearest(" ".join(WORDS), 5, where={"even": 0}) == []


@pytest.mark.parametrize("twins", range(3), indirect=True)
@pytest.mark.parametrize("by", ["minhash", "simhash"])
def test_if_new_compares_with_what_passes_one_by_one_or_in_batches(twins: Twins, by: Any) -> None:
    twins.insert(40)
    items = [(f"n{at}", twins.text(), twins.metadata()) for at in range(80)]
    where = {"user": ["u1", "u2"], "lang": "fr"}
    matched = []
    for key, text, metadata in items:
        asked = twins.large.query(text, 0.7) if by == "minhash" else twins.large.query_simhash(text)
        expected = {key for key, *_ in figures(asked, where)}
        found = twins.large.insert_if_new(
            key, text, 0.8 if by == "simhash" else 0.7, metadata, by=by, where=where
        )
        assert {match.key for match in found} == expected
        if found:
            matched.append((key, [match.key for match in found]))
    seen: list[Any] = []
    twins.small.insert_many_if_new(
        items,
        0.8 if by == "simhash" else 0.7,
        by=by,
        where=where,
        batch_size=30,
        on_match=lambda key, found: seen.append((key, [match.key for match in found])),
    )
    assert seen == matched
    assert list(twins.small) == list(twins.large)


@pytest.mark.parametrize("twins", range(3), indirect=True)
def test_pairs_and_clusters_are_those_of_an_index_of_what_passes(twins: Twins, tmp_path: Path) -> None:
    twins.insert(120)
    twins.remove(30)
    for number, where in enumerate(WHERES):
        index = twins.small if where else twins.large
        with simindex.open(tmp_path / f"own{number}", config=CONFIG) as own:
            for key, record in index.items():
                if passes(where, record.metadata):
                    own.insert(key, twins.texts[key], record.metadata)
            for by, copies in product(METHODS, COPIES):
                found = {frozenset((p.a, p.b)) for p in index.pairs(by=by, copies=copies, where=where)}
                assert found == {frozenset((p.a, p.b)) for p in own.pairs(by=by, copies=copies)}
            for by, linkage in product(METHODS, LINKAGES):
                clusters = index.clusters(by=by, linkage=linkage, where=where)
                assert list(clusters) == list(own.clusters(by=by, linkage=linkage))
            for key in list(own)[:2]:
                assert index.cluster_of(key, where=where) == own.cluster_of(key)


def test_where_that_is_none_is_refused(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        for where, message in (("lang", "where: expected a mapping"), ({1: 2}, "where: expected names of")):
            with pytest.raises(TypeError, match=message):
                index.query("a text", where=where)  # type: ignore[arg-type]
