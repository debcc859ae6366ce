"""`query` by threshold and `max_distance`: what is within both, by brute force over sketches."""

import random
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support.truth import extract

import simindex
from simindex import Config, Sketch, Sketcher, WordShingles

FRUIT = {"a": "apple " * 40 + "banana " * 2, "b": "apple " * 2 + "banana " * 40}
KEPT = Config(num_perm=256, keep_shingles=10_000)


def _edited(count: int) -> dict[Any, str]:
    """Random texts with copies of which some words were replaced, and some repeated."""
    dice = random.Random(5)
    words = [f"word{number}" for number in range(500)]
    found: dict[Any, str] = {}
    for number in range(0, count, 4):
        text = dice.choices(words, k=dice.randint(20, 200))
        for copy in range(4):
            own = list(text)
            for _ in range(copy):
                own[dice.randrange(len(own))] = dice.choice(words)
            found[number + copy] = " ".join(own + own[-1:] * dice.choice([0, 0, 3, 30]))
    return found


def _licenses(count: int) -> dict[Any, str]:
    return dict(list(extract().items())[:count])


COLLECTIONS = {"random": _edited, "licenses": _licenses}


Figures = dict[tuple[Any, Any], tuple[float, int]]


@cache
def _compared(collection: str) -> tuple[dict[Any, str], Figures]:
    """200 texts, and the similarity and the distance of every two, by their sketches with all shingles."""
    texts = COLLECTIONS[collection](200)
    batch: Any = Sketcher(KEPT).sketch_many(texts.values())
    shingles = {key: set(sketch.kept.tolist()) for key, sketch in zip(texts, batch, strict=True)}
    bits = {key: sketch.fingerprint for key, sketch in zip(texts, batch, strict=True)}
    return texts, {
        (a, b): (
            len(shingles[a] & shingles[b]) / len(shingles[a] | shingles[b]),
            (bits[a] ^ bits[b]).bit_count(),
        )
        for a, b in product(texts, texts)
    }


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize(("threshold", "max_distance"), [(0.8, 3), (0.5, 0), (0.5, 10), (0.9, 63)])
def test_matches_are_within_both_and_the_first_of_them_where_limited(
    tmp_path: Path, collection: str, threshold: float, max_distance: int
) -> None:
    texts, figures = _compared(collection)
    near: dict[Any, dict[Any, int]] = {key: {} for key in texts}
    for (a, b), (similarity, distance) in figures.items():
        if similarity >= threshold and distance <= max_distance:
            near[a][b] = distance
    whole: dict[str, Any] = {"max_distance": max_distance, "recall": 1 - 1e-9, "exact": True}
    with simindex.open(tmp_path / "i", config=KEPT) as index:
        index.insert_many(texts.items())
        answers = index.query_many(list(texts.values()), threshold, **whole)
        for (key, text), found in zip(texts.items(), answers, strict=True):
            assert {match.key: match.distance for match in found} == near[key]
            assert index.query_key(key, threshold, **whole) == [m for m in found if m.key != key]
            by_estimate = index.query(text, threshold, recall=0.9)
            within = [match for match in by_estimate if (match.distance or 0) <= max_distance]
            both: dict[str, Any] = {"max_distance": max_distance, "recall": 0.9}
            assert index.query(text, threshold, **both) == within
            assert index.query(text, threshold, 2, **both) == within[:2]
        assert sum(map(len, answers)) > len(texts)


def test_repeated_words_are_told_apart(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i", config=Config(WordShingles(1))) as index:
        index.insert("a", FRUIT["a"])
        assert [match.similarity for match in index.query(FRUIT["b"])] == [1.0]
        assert index.query(FRUIT["b"], max_distance=8) == []
        assert [match.key for match in index.query(FRUIT["a"], max_distance=0)] == ["a"]
        assert index.insert_if_new("b", FRUIT["b"], max_distance=8) == []
        assert [m.key for m in index.insert_if_new("c", FRUIT["b"] + "!", max_distance=8)] == ["b"]
        report = index.insert_many_if_new([("d", FRUIT["a"]), ("e", "a cherry")], max_distance=8)
        assert (report.inserted, report.skipped) == (1, 1)


def test_what_has_no_fingerprint_is_within_no_distance(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index:
        rows = [Sketch.from_rows(range(128), print_) for print_ in (None, 7, 7, 7)]
        index.insert_many(enumerate(rows))
        assert [match.key for match in index.query(rows[1], max_distance=63)] == [1, 2, 3]
        assert [match.key for match in index.query(rows[1], limit=2, max_distance=63)] == [1, 2]
        assert [match.key for match in index.query(rows[1])] == [1, 2, 3, 0]
        assert index.query(rows[0], max_distance=63) == []
