"""The clusters of an index against components and stars of all pairs, by brute force and by exact truth."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.faults import around, set_bound
from support.truth import (
    BY_LINKAGE,
    CHAIN_CONFIGS,
    document,
    extract,
    index_of,
    matching_pairs,
    removals,
    starts,
)

import simindex
from simindex import Config, TransactionOpenError

FOX = "the quick brown fox jumps over the lazy dog and runs into the dark wood"
EACH_LINKAGE = pytest.mark.parametrize("linkage", BY_LINKAGE)


@pytest.mark.parametrize("name", CHAIN_CONFIGS)
@settings(max_examples=40)
@given(begins=starts, removed=removals, batch_size=st.integers(1, 25), data=st.data())
def test_clusters_are_the_groups_of_all_pairs_that_queries_find(
    name: str, begins: list[int], removed: set[int], batch_size: int, data: st.DataObject
) -> None:
    options: dict[str, Any] = {}
    linkage: Any
    if name != "simhash":
        options["threshold"] = data.draw(st.sampled_from([0.5, 0.7, 0.8, 1.0]))
    if name == "kept":
        options["exact"] = True
    with index_of(CHAIN_CONFIGS[name], begins, removed, batch_size) as index:
        pairs = matching_pairs(index, **options)
        for linkage, grouped in BY_LINKAGE.items():
            assert list(index.clusters(linkage=linkage, **options)) == grouped(pairs)
        members_of = {key: members for members in BY_LINKAGE["components"](pairs) for key in members}
        for key in index:
            found = index.cluster_of(key, **options)
            assert (found, found.truncated) == (members_of.get(key, [key]), False)


@EACH_LINKAGE
@settings(max_examples=25)
@given(begins=starts, texts=st.sampled_from([0.5, 0.6, 0.8, 1.0]))
def test_clusters_by_texts_are_the_groups_of_exact_pairs(
    linkage: Any, begins: list[int], texts: float
) -> None:
    """256 rows at a threshold that is lower find what is as similar by its texts."""
    config = Config(simhash=None, num_perm=256)
    documents = {key: document(position) for key, position in enumerate(begins)}
    with index_of(config, begins, set(), 25) as index:
        found = index.clusters(texts, linkage, recall=0.999999, texts=documents)
        pairs = [
            (a, b)
            for a in documents
            for b in range(a)
            if len(documents[a] & documents[b]) / len(documents[a] | documents[b]) >= texts
        ]
        assert list(found) == BY_LINKAGE[linkage](pairs)


def test_star_keeps_what_insert_many_if_new_stores(tmp_path: Path) -> None:
    config = Config(simhash=None)
    with simindex.open(tmp_path / "new", config=config) as kept:
        kept.insert_many_if_new(extract().items(), threshold=0.7)
        stored = list(kept)
    with simindex.open(tmp_path / "all", config=config) as index:
        index.insert_many(extract().items())
        dropped = {key for members in index.clusters(0.7, "star") for key in members[1:]}
        assert [key for key in index if key not in dropped] == stored
        assert 0 < len(stored) < len(index)


@EACH_LINKAGE
def test_an_older_document_than_the_first_of_its_group_that_lives_is_found(
    tmp_path: Path, linkage: Any
) -> None:
    """The leader of a group of copies is gone, and a document in between is equal in its rows alone."""
    config = Config(num_perm=64)
    rows = list(range(64))

    def sketch(fingerprint: int) -> simindex.Sketch:
        return simindex.Sketch.from_rows(rows, fingerprint)

    with simindex.open(tmp_path / "i", config=config) as index:
        index.insert("leader", sketch(7))
        index.insert("middle", sketch(8))
        index.insert_many((f"copy {n}", sketch(7)) for n in range(3))
        index.remove_many(["leader", "copy 0"])
        assert list(index.clusters(linkage=linkage)) == [["middle", "copy 1", "copy 2"]]


def test_a_large_cluster_comes_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "members of a cluster in memory", 10)
    with simindex.open(tmp_path / "i") as index:
        index.insert_many((key, FOX) for key in range(70_000))
        index.insert_many(
            [("a", "another text that is said twice"), ("b", "another text that is said twice")]
        )
        assert list(index.clusters()) == [list(range(70_000)), ["a", "b"]]


def test_edges_of_stars_that_do_not_fit_lie_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small: list[Any] = []

    def sorted_edges(edges: Any, _memory_bytes: int) -> Any:
        small.append(edges(800))
        return small[-1]

    with simindex.open(tmp_path / "i") as index:
        index.insert_many((key, document(key)) for key in range(200))
        expected = list(index.clusters(0.5, "star"))
        around(monkeypatch, "sort edges", sorted_edges)
        assert list(index.clusters(0.5, "star")) == expected
        assert small[0].num_spilled > 100
        assert len(expected) > 20


def test_bounded_runs_are_counted(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=Config(simhash=None)) as index:
        index.insert_many((key, frozenset(range(300)) | {1000 + key}) for key in range(120))
        clusters = index.clusters(0.8, max_run=16)
        assert list(clusters) == [list(range(120))]
        assert clusters.bounded.runs > 0
        assert clusters.compared > 0
        whole = index.clusters(0.8)
        assert list(whole) == [list(range(120))]
        assert whole.bounded == (0, 0)


def test_an_empty_index_has_no_clusters(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        assert list(index.clusters()) == []
        index.insert("a", FOX)
        assert list(index.clusters(linkage="star")) == []


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    wrong: Any = "stars"
    with simindex.open(tmp_path / "i") as index:
        with pytest.raises(ValueError, match='linkage: expected "components" or "star", found \'stars\''):
            index.clusters(linkage=wrong)
        with index.transaction(), pytest.raises(TransactionOpenError, match="clusters: expected no open"):
            index.clusters()
