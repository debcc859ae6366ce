"""The standard error that a match states is that of its similarity, whatever the length of the documents."""

import gzip
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import simindex
from simindex import Config, Match, Sketch, Sketcher, textbook
from simindex.formulas.estimator import standard_error

LICENSES = Path(__file__).parents[1] / "data" / "licenses.jsonl.gz"


def share_held(matches: list[tuple[Match, float]]) -> float:
    """The share of matches whose interval of 95 % holds the exact similarity."""
    held = [bool(abs(match.similarity - exact) <= 1.96 * match.standard_error) for match, exact in matches]
    return sum(held) / len(held)


def found_pairs(
    path: Path, config: Config, pairs: list[tuple[set[int], set[int]]]
) -> list[tuple[Match, float]]:
    """What queries say of pairs, and their exact similarities; the threshold is far below these."""
    with simindex.open(path, "x", config) as index:
        index.insert_many(enumerate(stored for stored, _ in pairs))
        answers = index.query_many([asked for _, asked in pairs], 0.2)
    return [
        (match, textbook.jaccard(*pairs[number]))
        for number, found in enumerate(answers)
        for match in found
        if match.key == number
    ]


@pytest.mark.parametrize(("size", "count"), [(20, 500), (130, 500), (1_500, 250)])
def test_stated_intervals_hold_as_many_similarities_as_they_say(
    tmp_path: Path, size: int, count: int
) -> None:
    """So many pairs at each of six similarities: in 0.93 to 0.97 of cases, four standard errors of a share of
    0.95 of 3,000 and three of 1,500, to both sides; where nothing is known of the length it is 0.98 at 20 and
    0.99 at 130. A chance of a false alarm of 1 in 300 at worst, were the seed not fixed."""
    rng, pairs = np.random.default_rng(11), []
    for similarity in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95):
        common = min(round(2 * size * similarity / (1 + similarity)), size - 1)
        for _ in range(count):
            members = rng.integers(0, 2**62, 2 * size - common).tolist()
            pairs.append((set(members[:size]), set(members[:common] + members[size:])))
    matches = found_pairs(tmp_path / "i", Config(simhash=None), pairs)
    assert len(matches) == len(pairs)
    assert 0.93 <= share_held(matches) <= 0.97


def test_stated_intervals_hold_those_of_real_texts(tmp_path: Path) -> None:
    """All pairs of licences from 0.4 up, by 20 seeds: in 0.93 to 0.975 of cases. What two seeds say is
    independent, what two pairs of one text say is not, which a share of so many takes to 0.01 at most."""
    with gzip.open(LICENSES, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    cut = (textbook.words(textbook.normalize(text, ("fold", "whitespace"))) for text in texts)
    shingles = [set(textbook.word_shingles(words, 3)) for words in cut]
    exact = {
        (a, b): similarity
        for a, b in combinations(range(len(texts)), 2)
        if 0.4 <= (similarity := textbook.jaccard(shingles[a], shingles[b])) < 1
    }
    matches = []
    for seed in range(20):
        with simindex.open(tmp_path / f"{seed}", "x", Config(simhash=None, seed=seed)) as index:
            index.insert_many(enumerate(texts))
            for a, found in enumerate(index.query_many(texts, 0.1)):
                pairs = ((match, (a, int(match.key))) for match in found)
                matches += [(match, exact[pair]) for match, pair in pairs if pair in exact]
    assert len(matches) > 19 * len(exact) > 1_000
    assert 0.93 <= share_held(matches) <= 0.975


def test_the_number_of_shingles_is_estimated_within_a_half() -> None:
    """200 documents of each size, with repeats: within five standard errors of 0.085, where the tail is long
    above, and on average within 0.03, five of the error of a mean. A chance of a false alarm of 1 in 100,
    were the seed not fixed."""
    rng = np.random.default_rng(5)
    for size in (1, 20, 130, 1_500, 20_000):
        documents = [tuple(rng.integers(0, 2**62, size).tolist()) * 2 for _ in range(200)]
        found = Sketcher(Config(simhash=None)).sketch_many(documents).num_shingles / size
        assert np.abs(found - 1).max() <= 0.43
        assert abs(found.mean() - 1) <= 0.03


def test_whatever_makes_an_index_anew_keeps_what_is_stated(tmp_path: Path) -> None:
    text = " ".join(f"word{n}" for n in range(100))
    near = text.replace("word50", "other")
    with simindex.open(tmp_path / "a", "x") as index:
        index.insert("a", text)
        (before,) = index.query(near)
        index.insert("b", near)
        (pair,) = index.pairs(0.5)
        index.touch("a")
        assert {m.key: m.standard_error for m in index.query(near)}["a"] == before.standard_error
        assert pair.standard_error == before.standard_error
        assert index["a"].sketch.num_shingles == Sketcher().sketch(text).num_shingles
        (stored,) = index.query_key("b")
        assert stored.standard_error == before.standard_error
        index.backup(f"file://{tmp_path}/backup")
    simindex.merge([tmp_path / "a"], tmp_path / "merged")
    simindex.repair(tmp_path / "a", tmp_path / "repaired")
    simindex.restore(f"file://{tmp_path}/backup", tmp_path / "restored")
    for name in ("merged", "repaired", "restored"):
        with simindex.open(tmp_path / name, "r") as index:
            assert {m.key: m.standard_error for m in index.query(near)}["a"] == before.standard_error
    simindex.resketch(tmp_path / "a", tmp_path / "fewer", num_perm=64)
    with simindex.open(tmp_path / "fewer", "r") as index:
        assert index["a"].sketch.num_shingles == Sketcher().sketch(text).num_shingles


def test_of_sketches_brought_in_the_error_of_independent_rows_is_stated(tmp_path: Path) -> None:
    config = Config(simhash=None)
    sketch = Sketcher(config).sketch({*range(130)})
    assert sketch.rows is not None
    brought_in = Sketch.from_rows(sketch.rows, config=config)
    assert (sketch.num_shingles > 0, brought_in.num_shingles) == (True, 0)
    with simindex.open(tmp_path / "i", "x", config) as index:
        index.insert("brought in", brought_in)
        index.insert("own", {*range(1, 131)})
        found = {match.key: match for match in index.query({*range(130)}, 0.5)}
        agree = round(((found["brought in"].similarity) * (1 - 1 / 256) + 1 / 256) * 128)
        assert found["brought in"].standard_error == standard_error(agree, 128)
        agree = round(((found["own"].similarity) * (1 - 1 / 256) + 1 / 256) * 128)
        assert found["own"].standard_error < 0.9 * standard_error(agree, 128)
