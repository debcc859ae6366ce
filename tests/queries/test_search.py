"""Searching through the index: complete within k bits, equal to brute force over all fingerprints."""

import math
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.samples import sample_of
from support.truth import (
    CAT,
    FOX,
    SEED,
    assert_matches,
    brute_force,
    flipped,
    open_with,
    pairs_of_similarity,
    simhash_only,
    sketches,
)

import simindex
from simindex import Config, Index, Match, Matches, Sketch, Sketcher

MASK = 2**64 - 1

Cluster = tuple[Path, np.ndarray]


def with_neighbours(
    rng: np.random.Generator, count: int, max_distance: int, num_queries: int = 40
) -> tuple[np.ndarray, list[int]]:
    """(fingerprints, queries): uniform ones, with two neighbours of each query at every distance 0..k+2."""
    uniform = rng.integers(0, 2**64, count, dtype=np.uint64)
    queries = uniform[:num_queries]
    planted = [
        flipped(query, rng.choice(64, distance, replace=False))
        for query in queries
        for distance in range(max_distance + 3)
        for _ in range(2)
    ]
    fingerprints = np.concatenate([uniform, np.array(planted, dtype=np.uint64)])
    rng.shuffle(fingerprints)
    return fingerprints, queries.tolist()


def assert_complete(path: Path, count: int, max_distance: int, blocks: int) -> None:
    rng = np.random.default_rng(SEED + 100 * max_distance + blocks)
    fingerprints, queries = with_neighbours(rng, count, max_distance)
    strangers = rng.integers(0, 2**64, 10, dtype=np.uint64).tolist()
    with open_with(path, fingerprints, simhash_only(max_distance, blocks)) as index:
        assert index.stats().permutation_tables == math.comb(blocks, max_distance)
        for distance in {max_distance, max(0, max_distance - 1)}:
            found = index.query_simhash_many(sketches(queries + strangers), distance)
            for query, matches in zip(queries + strangers, found, strict=True):
                assert_matches(matches, brute_force(fingerprints, query, distance))
            # Each query is stored, and two neighbours of it at each distance.
            assert all(len(matches) >= 1 + 2 * (distance + 1) for matches in found[: len(queries)])


# ---- complete within k bits ----


@pytest.mark.parametrize(
    ("max_distance", "blocks"),
    sample_of([(1, 2), (3, 5), (6, 8)], [(1, 4), (2, 4), (2, 5), (4, 5), (4, 6), (5, 6), (5, 7), (6, 7)]),
)
def test_query_simhash_equals_brute_force_over_100_000(
    tmp_path: Path, max_distance: int, blocks: int
) -> None:
    assert_complete(tmp_path / "i", 100_000, max_distance, blocks)


@pytest.mark.long
def test_query_simhash_equals_brute_force_over_a_million(tmp_path: Path) -> None:
    """Takes 10 to 20 seconds; nearly all of it goes into the inserts."""
    assert_complete(tmp_path / "i", 1_000_000, 3, 4)


@pytest.mark.parametrize(("max_distance", "blocks"), [(8, 12), (6, 12), (8, 14)])
def test_query_simhash_searches_any_number_of_tables(tmp_path: Path, max_distance: int, blocks: int) -> None:
    """In a process of its own, since an overrun of the kernel would end it: 495, 924 and 3,003 tables."""
    code = (
        "import sys\n"
        "from simindex import Config, SimHashConfig, Sketch, open\n"
        "path, k, m = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])\n"
        "index = open(path, 'x', Config(num_perm=0, simhash=SimHashConfig(k, m)))\n"
        "near = [(1 << n) - 1 for n in range(k + 3)]\n"
        "index.insert_many(enumerate(map(Sketch.from_fingerprint, near)))\n"
        "print([match.key for match in index.query_simhash(Sketch.from_fingerprint(0))])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "i"), str(max_distance), str(blocks)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, str(list(range(max_distance + 1)))), done.stderr


# ---- clustered fingerprints ----


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """(path, fingerprints): 100,000 that share 48 bits and hence three blocks of four."""
    rng = np.random.default_rng(SEED)
    fingerprints = np.uint64(0xC0FFEE123456 << 16) | rng.integers(0, 2**16, 100_000, dtype=np.uint64)
    path = tmp_path_factory.mktemp("cluster") / "i"
    open_with(path, fingerprints, simhash_only(3, 4)).close()
    return path, fingerprints


def test_query_simhash_of_clustered_fingerprints_equals_brute_force(cluster: Cluster) -> None:
    path, fingerprints = cluster
    rng = np.random.default_rng(SEED + 1)
    stored = [int(fingerprints[number]) for number in (0, 50_000, 99_999)]
    outside = [flipped(stored[0], [63, 40]), flipped(stored[1], [20, 21, 22, 23])]
    any_others = rng.integers(0, 2**64, 3, dtype=np.uint64).tolist()
    with simindex.open(path, "r") as index:
        for query in (*stored, *outside, *any_others):
            assert_matches(
                index.query_simhash(Sketch.from_fingerprint(query)), brute_force(fingerprints, query, 3)
            )


def test_query_simhash_of_clustered_fingerprints_reports_its_candidates(cluster: Cluster) -> None:
    path, fingerprints = cluster
    distinct = len(set(fingerprints.tolist()))
    with simindex.open(path, "r") as index:
        entries = index.stats().entries["permutations"] // 4
        # Equal sketches are entered once; those of one commit at least.
        assert distinct <= entries <= 100_000
        matches = index.query_simhash(Sketch.from_fingerprint(int(fingerprints[0])))
        assert matches.candidates is not None
        # Three of the four tables have nothing but entries of this prefix.
        assert 3 * entries < matches.candidates < 3 * entries + 100
        assert matches.candidates > 100 * index.stats().expected_candidates
        far = index.query_simhash(Sketch.from_fingerprint(~int(fingerprints[0]) & MASK))
        assert far.candidates is not None
        assert far.candidates < 100


@pytest.mark.parametrize("max_candidates", [1, 10, 100])
def test_query_simhash_beyond_its_candidates_is_truncated(cluster: Cluster, max_candidates: int) -> None:
    path, fingerprints = cluster
    query = int(fingerprints[0])
    expected = brute_force(fingerprints, query, 3)
    with simindex.open(path, "r", max_candidates=max_candidates) as index:
        matches = index.query_simhash(Sketch.from_fingerprint(query))
        assert matches.truncated
        assert matches.candidates is not None
        assert matches.candidates > 0
        assert len(matches) < len(expected)
        assert {match.key: match.distance for match in matches}.items() <= expected.items()
        far = Sketch.from_fingerprint(~query & MASK)
        assert_matches(index.query_simhash(far), {})


# ---- stored documents and their copies ----


@pytest.fixture
def foxes(tmp_path: Path) -> Iterator[Index]:
    """A text, two copies of it, one that is like it, and one that is not."""
    with simindex.open(tmp_path / "i", "x", Config(num_perm=64)) as index:
        for key in ("fox", "copy", "copy too"):
            index.insert(key, FOX)
        index.insert("cat", CAT)
        index.insert("other", "nothing that anybody would call alike")
        yield index


def keys_of(matches: Iterable[Match]) -> list[object]:
    return [match.key for match in matches]


@pytest.mark.parametrize("options", [{"threshold": 0.5}, {"by": "simhash"}], ids=["minhash", "simhash"])
@pytest.mark.parametrize("key", ["fox", "copy", "copy too"])
def test_query_of_a_stored_document_leaves_itself_out_and_not_its_copies(
    foxes: Index, options: Any, key: str
) -> None:
    matches = foxes.query_key(key, **options)
    everything = keys_of(foxes.query(FOX, 0.5) if "threshold" in options else foxes.query_simhash(FOX))
    assert key in everything
    assert keys_of(matches) == [other for other in everything if other != key]
    assert {"fox", "copy", "copy too"} - {key} <= set(keys_of(matches))
    for gone in ([], ["other"]):  # where something was removed, no more of a group is read than is wanted
        foxes.remove_many(gone)
        for limit in (1, 2):
            assert foxes.query_key(key, limit=limit, **options) == matches[:limit]
    with pytest.raises(KeyError, match="'absent'"):
        foxes.query_key("absent", **options)


def test_exact_query_compares_kept_shingles_and_not_estimates(tmp_path: Path) -> None:
    config = Config(num_perm=64, keep_shingles=1_000)
    words = [f"word {n}" for n in range(40)]
    with simindex.open(tmp_path / "i", "x", config) as index:
        for common in (40, 36, 32, 20):
            index.insert(common, words[:common])
        matches = index.query(words, 0.8, exact=True)
        assert [(m.key, m.similarity) for m in matches] == [(40, 1.0), (36, 0.9), (32, 0.8)]
        assert index.query(words, 0.8, 2, exact=True) == matches[:2]


@pytest.mark.parametrize("limit", [2**62, 2**64 - 1, 2**64, 2**200])
def test_limit_beyond_any_number_of_documents_means_all(tmp_path: Path, limit: int) -> None:
    text = "The quick brown fox jumps over the lazy dog near the old river bank"
    with simindex.open(tmp_path / "x", "x") as index:
        index.insert_many((number, text) for number in range(40))
        for matches in (
            index.query(text, limit=limit),
            index.query_many([text], limit=limit)[0],
            index.query_simhash(text, limit=limit),
            index.nearest(text, limit),
        ):
            assert [match.key for match in matches] == list(range(40))
        assert [match.key for match in index.query_key(3, limit=limit)] == [n for n in range(40) if n != 3]


# ---- recall ----


@pytest.mark.parametrize("call", ["query", "query_many", "query_key"])
def test_recall_returns_what_the_estimate_put_below_the_threshold(tmp_path: Path, call: str) -> None:
    """400 pairs right at the threshold: about half of them without a recall, 0.98 or more with one of 0.99.

    0.98 is two standard errors below 0.99.
    """
    pairs = pairs_of_similarity(400, 80, 100, seed=1)
    with simindex.open(tmp_path / "i", "x", Config(simhash=None)) as index:
        index.insert_many((number, stored) for number, (stored, _) in enumerate(pairs))
        if call == "query_key":
            index.insert_many((1_000 + number, asked) for number, (_, asked) in enumerate(pairs))

        def found(recall: float | None) -> list[Matches]:
            asked = [document for _, document in pairs]
            if call == "query_many":
                return index.query_many(asked, 0.8, recall=recall)
            if call == "query_key":
                return [index.query_key(1_000 + number, 0.8, recall=recall) for number in range(400)]
            return [index.query(document, 0.8, recall=recall) for document in asked]

        cut, wide = found(None), found(0.99)
    assert 0.4 <= sum(map(bool, cut)) / 400 <= 0.6
    assert sum(map(bool, wide)) / 400 >= 0.98
    similarities = [match.similarity or 0.0 for matches in wide for match in matches]
    assert min(similarities) < 0.75
    assert all(match.similarity >= 0.8 - 1e-12 for matches in cut for match in matches if match.similarity)
    for some, more in zip(cut, wide, strict=True):
        assert set(some) <= set(more)
        assert list(more) == sorted(more, key=lambda match: -(match.similarity or 0.0))


# ---- exact, and as near as it goes ----


def test_exact_is_said_of_a_match_only_where_all_shingles_were_kept(tmp_path: Path) -> None:
    """Documents of 10 to 40 shingles with 30 kept: 30 of 30 may be all, but nobody can know."""
    words = [f"word {n}" for n in range(40)]
    with simindex.open(tmp_path / "i", "x", Config(keep_shingles=30)) as index:
        index.insert_many((count, words[:count]) for count in (10, 20, 29, 30, 40))
        for asked in (29, 40):
            found = {match.key: match for match in index.query(words[:asked], 0.2, exact=True)}
            assert found.keys() == {10, 20, 29, 30, 40}
            for count, match in found.items():
                assert match.exact == (asked < 30 and count in {10, 20, 29})
                assert (match.standard_error == 0) == match.exact
                if match.exact:
                    assert match.similarity == min(asked, int(count)) / max(asked, int(count))
            assert found[asked].similarity == 1.0
        assert not any(match.exact for match in index.query(words[:10], 0.2))


@pytest.mark.parametrize(
    ("keep", "common", "gain"), [(16, 80, 1.0), (60, 80, 0.8), (89, 80, 0.8), (16, 50, 1.0), (32, 98, 1.0)]
)
def test_exact_of_long_documents_is_nearer_than_the_estimate_and_cut_by_it(
    tmp_path: Path, keep: int, common: int, gain: float
) -> None:
    """1,000 pairs of known similarity, some 90 shingles each, with rows and kept hashes of their own.

    Asked for 0.3 below their similarity every pair comes back: six standard errors away or more. The mean is
    within five of its standard errors. That 16 kept are better on average is the least that 1,000 pairs can
    show (4 %), 60 are better by a fifth: 128 rows are as good as 233 that are independent, at so few
    shingles. Two standard errors hold 0.9545 of a normal error; the bounds are four deviations of 1,000
    pairs.
    """
    pairs, similarity = pairs_of_similarity(1_000, common, 100, seed=1_000 * keep + common), common / 100
    asked = [document for _, document in pairs]
    with simindex.open(tmp_path / "i", "x", Config(simhash=None, keep_shingles=keep)) as index:
        index.insert_many((number, stored) for number, (stored, _) in enumerate(pairs))
        by_rows = index.query_many(asked, similarity - 0.3)
        nearer = index.query_many(asked, similarity - 0.3, exact=True)
        cut = index.query_many(asked, similarity, exact=True)
        wide = index.query_many(asked, similarity, exact=True, recall=0.95)
    assert [len(matches) for matches in nearer] == [len(matches) for matches in by_rows] == [1] * 1_000
    assert not any(m.exact for (m,) in nearer)
    off = [np.array([m.similarity - similarity for (m,) in found]) for found in (nearer, by_rows)]
    assert abs(off[0].mean()) < 5 * off[0].std() / math.sqrt(1_000)
    assert np.mean(off[0] ** 2) < gain**2 * np.mean(off[1] ** 2)
    said = np.array([m.standard_error for (m,) in nearer])
    assert 0.92 <= np.mean(np.abs(off[0]) <= 2 * said) <= 0.985
    assert said.min() > 0
    for some, all_of_it in zip(cut, nearer, strict=True):
        assert list(some) == [m for m in all_of_it if m.similarity >= similarity - 1e-12][: len(some)]
    if keep < 89:  # with one hash of 90 unknown most errors are small ones to one side
        assert 0.4 <= sum(map(bool, cut)) / 1_000 <= 0.6
    assert sum(map(bool, wide)) / 1_000 >= 0.94


def test_exact_cuts_what_is_exact_at_the_threshold_whatever_the_recall(tmp_path: Path) -> None:
    words = [f"word {n}" for n in range(100)]
    with simindex.open(tmp_path / "i", "x", Config(keep_shingles=200)) as index:
        index.insert_many((count, words[:count]) for count in range(70, 101))
        found = index.query(words, 0.8, exact=True, recall=0.999)
        assert [match.key for match in found] == list(range(100, 79, -1))
        assert all(match.exact for match in found)


@pytest.mark.parametrize("keep", [0, 4, 40, 400])
@pytest.mark.parametrize("made_with", [0, 4, 40, 400])
def test_sketches_that_kept_another_number_of_shingles_are_compared_by_what_they_tell(
    tmp_path: Path, made_with: int, keep: int
) -> None:
    """As when an index is filled out of one with other `keep_shingles`."""
    words = [f"word {n}" for n in range(60)]
    documents: dict[Any, set[str]] = {count: set(words[:count]) for count in (3, 30, 60)}
    documents |= {-count: set(words[-count:]) for count in (3, 30)}
    with (
        simindex.open(tmp_path / "from", config=Config(keep_shingles=made_with)) as source,
        simindex.open(tmp_path / "to", config=Config(keep_shingles=keep)) as index,
    ):
        source.insert_many(documents.items())
        index.insert_many((key, stored.sketch) for key, stored in source.items())
        assert not index.check().problems
        for document in documents.values():
            for match in index.query(document, 0.02, exact=keep > 0):
                other = documents[match.key]
                is_all = max(len(document), len(other)) < keep and (
                    made_with >= keep or len(other) < made_with
                )
                assert match.exact == is_all
                true = len(document & other) / len(document | other)
                assert match.similarity == pytest.approx(true, abs=0 if is_all else 0.2)
        for key, stored in source.items():
            if keep <= made_with or len(documents[key]) < made_with:
                assert index.query(stored.sketch, 0.02, exact=keep > 0)
            elif keep:
                with pytest.raises(
                    ValueError, match=f"a sketch without kept shingles, or with fewer than the {keep} of"
                ):
                    index.query(stored.sketch, 0.02, exact=True)


def test_exact_takes_the_rows_of_sketches_that_were_brought_in_without_shingles(tmp_path: Path) -> None:
    config = Config(simhash=None, keep_shingles=1_000)
    rows = Sketcher(config).sketch(FOX).rows
    assert rows is not None
    with simindex.open(tmp_path / "i", "x", config) as index:
        index.insert("brought", Sketch.from_rows(rows))
        (match,) = index.query(
            Sketch(128, Sketcher(config).sketch(FOX).words, None, np.array([], "u4")), exact=True
        )
        assert (match.key, match.similarity, match.exact) == ("brought", 1.0, False)
        assert (match.standard_error or 0) > 0
