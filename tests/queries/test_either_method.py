"""Calls that ask by MinHash or by SimHash: `query_key` and `nearest`."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.truth import CAT, CONFIGS, FOX, SEED, brute_force, open_with, simhash_only

import simindex
from simindex import Config, Index, Matches, Sketch


def figures(matches: Matches) -> list[tuple[Any, int | None]]:
    return [(match.key, match.distance) for match in matches]


@pytest.fixture(scope="module")
def fingerprints() -> np.ndarray:
    """3,000 fingerprints, each of 100 with 29 others within a few bits."""
    rng = np.random.default_rng(SEED)
    around = np.repeat(rng.integers(0, 2**64, 100, dtype=np.uint64), 30)
    for _ in range(3):
        around ^= np.uint64(1) << rng.integers(0, 64, len(around), dtype=np.uint64)
    return around


def test_nearest_by_simhash_are_the_k_smallest_distances(tmp_path: Path, fingerprints: np.ndarray) -> None:
    with open_with(tmp_path / "i", fingerprints, simhash_only(5)) as index:
        for query in fingerprints[::97].tolist():
            expected = sorted(brute_force(fingerprints, query, 5).values())
            for k in (1, 7, 10_000):
                found = index.nearest(Sketch.from_fingerprint(query), k)
                assert [match.distance for match in found] == expected[:k]
                assert found == index.nearest(Sketch.from_fingerprint(query), k, by="simhash")


def test_key_is_asked_by_simhash_without_itself(tmp_path: Path, fingerprints: np.ndarray) -> None:
    with open_with(tmp_path / "i", fingerprints, simhash_only(5)) as index:
        for key in range(0, 3_000, 97):
            for distance in (None, 0, 2):
                near = brute_force(fingerprints, fingerprints[key], 5 if distance is None else distance)
                del near[key]
                found = index.query_key(key, max_distance=distance)
                assert dict(figures(found)) == near
                assert figures(index.query_key(key, max_distance=distance, limit=3)) == figures(found)[:3]


@pytest.mark.parametrize("name", CONFIGS)
def test_method_is_by_default_what_the_index_has_minhash_first(tmp_path: Path, name: str) -> None:
    config = CONFIGS[name]
    default: Any = "minhash" if config.num_perm else "simhash"
    with simindex.open(tmp_path / "i", config=config) as index:
        index.insert_many([("fox", FOX), ("cat", CAT), ("other", "nothing that is like the others")])
        assert index.query_key("fox") == index.query_key("fox", by=default)
        assert index.nearest(FOX) == index.nearest(FOX, by=default)
        assert index.nearest(FOX)[0].key == "fox"
        assert index.insert_if_new("new", FOX) == index.insert_if_new("new", FOX, by=default)
        assert "new" not in index


WITH_RECALL: dict[str, tuple[Any, ...]] = {
    "query_key": ("fox",),
    "cluster_of": ("fox",),
    "pairs": (),
    "clusters": (),
}
BY_BOTH: dict[str, tuple[Any, ...]] = {
    "query_key": ("fox",),
    "insert_if_new": ("new", FOX),
    "insert_many_if_new": ([("new", FOX)],),
}
BY_ONE = {call: WITH_RECALL[call] for call in ("cluster_of", "pairs", "clusters")}
EVERY = WITH_RECALL | BY_BOTH


@pytest.mark.parametrize(
    ("calls", "config", "options", "message"),
    [
        (
            EVERY,
            "both",
            {"by": "simhash", "threshold": 0.5},
            "{}: threshold is MinHash's, and this compares by SimHash",
        ),
        (EVERY, "simhash", {"threshold": 0.9}, "{}: threshold is MinHash's, and this compares by"),
        (
            BY_ONE,
            "both",
            {"max_distance": 2},
            '{}: max_distance is SimHash\'s; expected threshold=, or by="simhash"',
        ),
        (BY_ONE, "both", {"by": "minhash", "max_distance": 2}, "{}: max_distance is SimHash's"),
        (BY_BOTH, "both", {"max_distance": 64}, "max_distance: expected 0..63, found 64"),
        (
            BY_BOTH,
            "minhash",
            {"max_distance": 2},
            "expected an index with SimHash, found one built with Config(simhash=None)",
        ),
        (EVERY, "both", {"by": "cosine"}, 'by: expected "minhash", "simhash" or None, found \'cosine\''),
        (EVERY, "both", {"by": "simhash", "max_distance": 4}, "max_distance: expected 0..3, which this"),
        (EVERY, "both", {"threshold": 2}, "threshold: expected a number"),
        (
            EVERY,
            "simhash",
            {"by": "minhash"},
            "expected an index with MinHash, found one built with Config(num_perm=0)",
        ),
        (
            EVERY,
            "minhash",
            {"by": "simhash"},
            "expected an index with SimHash, found one built with Config(simhash=None)",
        ),
        (WITH_RECALL, "both", {"by": "simhash", "recall": 0.9}, "{}: recall is MinHash's"),
        (WITH_RECALL, "both", {"by": "simhash", "exact": True}, "{}: exact is MinHash's"),
        (
            WITH_RECALL,
            "both",
            {"exact": True},
            "expected kept shingle hashes for exact=True, found that this index keeps none",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_does_not_fit_the_method_is_refused_by_every_call(
    tmp_path: Path, calls: dict[str, tuple[Any, ...]], config: str, options: dict[str, Any], message: str
) -> None:
    with simindex.open(tmp_path / "i", config=CONFIGS[config]) as index:
        index.insert("fox", FOX)
        for call, arguments in calls.items():
            with pytest.raises(ValueError, match=f"^{re.escape(message.format(call))}"):
                getattr(index, call)(*arguments, **options)
        assert list(index) == ["fox"]


def test_nearest_refuses_what_does_not_fit_its_method(index: Index) -> None:
    with pytest.raises(ValueError, match="nearest: recall is MinHash's"):
        index.nearest(FOX, by="simhash", recall=0.9)
    for threshold in (0.5, 0.8):
        with pytest.raises(ValueError, match="nearest: threshold is MinHash's"):
            index.nearest(FOX, by="simhash", threshold=threshold)
    assert index.query_key("fox", by="simhash", threshold=0.8) == []


def test_nearest_refuses_a_sketch_without_the_half_that_it_compares(index: Index) -> None:
    bare, rows = Sketch.from_fingerprint(5), Sketch.from_rows(range(128))
    with pytest.raises(
        ValueError, match=r"nearest: expected MinHash rows, found a sketch that was brought in"
    ):
        index.nearest(bare)
    with pytest.raises(ValueError, match=r"nearest: expected a fingerprint, found a sketch that was"):
        index.nearest(rows, by="simhash")
    assert index.nearest(bare, by="simhash") == []


# ---- fingerprints in and out ----


def test_fingerprints_go_out_and_come_in_again(tmp_path: Path, fingerprints: np.ndarray) -> None:
    with (
        open_with(tmp_path / "a", fingerprints, simhash_only(5)) as one,
        simindex.open(tmp_path / "b", config=simhash_only(5)) as other,
    ):
        for key in (5, 2_999):
            one.remove(key)
        parts = list(one.export_fingerprints())
        for keys, array in parts:
            assert array.dtype == np.uint64
            assert len(keys) == len(array) <= 1_000
            other.insert_many(zip(keys, Sketch.from_fingerprints(array), strict=True))
        assert np.array_equal(
            np.concatenate([array for _, array in parts]), np.delete(fingerprints, [5, 2_999])
        )
        assert list(other) == [key for keys, _ in parts for key in keys] == list(one)
        batch = Sketch.from_fingerprints(fingerprints[:50])
        assert other.query_simhash_many(batch) == one.query_simhash_many(list(batch))
        assert other.query_simhash(batch[7]) == one.query_simhash(batch[7])


def test_documents_without_a_fingerprint_are_left_out_of_an_export(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many([("empty", ""), ("fox", FOX)])
        ((keys, array),) = index.export_fingerprints()
        assert (keys, array.tolist()) == (["fox"], [index["fox"].sketch.fingerprint])
        with index.transaction():
            index.insert("cat", CAT)
            assert [keys for keys, _ in index.export_fingerprints()] == [["fox", "cat"]]
    with (
        simindex.open(tmp_path / "m", config=Config(simhash=None)) as no_simhash,
        pytest.raises(ValueError, match="expected an index with SimHash, found one built"),
    ):
        no_simhash.export_fingerprints()


BARE = "holds bare fingerprints alone"


def test_question_by_minhash_of_bare_fingerprints_alone_is_refused(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        assert index.query(FOX) == [] == index.nearest(FOX)  # nothing is stored
        index.insert_many(enumerate(Sketch.from_fingerprints([1, 2, 3])))
        calls: list[Callable[[], object]] = [
            lambda: index.query(FOX),
            lambda: index.query_many([FOX, CAT]),
            lambda: index.query_many([FOX] * 1_200, workers=2),
            lambda: index.query_many(iter([FOX])),
            lambda: index.nearest(FOX),
            lambda: index.query_key(1),
            lambda: index.pairs(),
            lambda: index.insert_if_new("fox", FOX),
            lambda: index.insert_many_if_new([("fox", FOX), ("cat", CAT)]),
        ]
        for call in calls:
            with pytest.raises(ValueError, match=BARE):
                call()
        assert len(index) == 3
        assert [(pair.a, pair.b) for pair in index.pairs(by="simhash")] == [(0, 1), (0, 2), (1, 2)]
        assert index.query_simhash(FOX) == [] == index.insert_if_new("fox", FOX, by="simhash")
        assert [match.key for match in index.query(FOX)] == ["fox"]


def test_question_inside_a_transaction_sees_that_texts_have_come(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert("bare", Sketch.from_fingerprint(1))
        with index.transaction():
            with pytest.raises(ValueError, match=BARE):
                index.insert_if_new("cat", CAT)
            index.insert("fox", FOX)
            assert [match.key for match in index.query(FOX)] == ["fox"]
            assert [match.key for match in index.insert_if_new("fox too", FOX)] == ["fox"]
            assert index.insert_many_if_new([("cat", CAT), ("cats", CAT)]).inserted == 1


def test_key_is_refused_by_the_half_that_was_not_brought_in(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "t") as index:
        index.insert_many([("bare", Sketch.from_fingerprint(1)), ("fox", FOX), ("empty", "")])
        with pytest.raises(
            ValueError, match=r"^key 'bare': expected MinHash rows, .* without; .*by=\"simhash\""
        ):
            index.query_key("bare")
        assert index.query_key("bare", by="simhash") == []
        assert (
            index.query_key("fox") == [] == index.query_key("empty") == index.query_key("empty", by="simhash")
        )
    with simindex.open(tmp_path / "r") as index:
        index.insert_many([("rows", Sketch.from_rows(range(128))), ("both", Sketch.from_rows(range(128), 5))])
        with pytest.raises(ValueError, match=r"^key 'rows': expected a fingerprint, .*by=\"minhash\""):
            index.query_key("rows", by="simhash")
        assert [match.key for match in index.query_key("rows")] == ["both"]


def test_text_without_words_is_no_sketch_that_was_brought_in(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=Config(shingles=simindex.CharShingles(3))) as index:
        index.insert("marks", "?!?!?!")
        assert index.query_key("marks", by="simhash") == []


def test_fingerprint_read_back_is_still_one_that_was_brought_in(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        index.insert_many([("bare", Sketch.from_fingerprint(1)), ("fox", FOX)])
        assert index["bare"].sketch.origin is None
        assert index["fox"].sketch.origin is not None
        with pytest.raises(ValueError, match="expected MinHash rows"):
            index.query(index["bare"].sketch)
