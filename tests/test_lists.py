"""Indexes in memory, and lists of documents without an index."""

import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import simindex
from simindex.textbook import jaccard, word_shingles, words


def test_index_in_memory_has_all_calls_and_goes_with_its_handle() -> None:
    with simindex.open(":memory:") as index, simindex.open(":memory:", "x") as other:
        folder = Path(index.path)
        index.insert("a", "the quick brown fox jumps over the lazy dog", {"lang": "en"})
        with index.transaction():
            index.insert("b", "the quick brown fox jumps over the lazy dog again")
        assert [(pair.a, pair.b) for pair in index.pairs(0.7)] == [("a", "b")]
        index.remove("a")
        assert list(index) == ["b"]
        index.compact()
        assert simindex.check(index.path).ok
        assert list(other) == []
        with simindex.open(index.path, "r") as reader:
            assert list(reader) == ["b"]
    assert not folder.exists()
    assert not Path(other.path).exists()


def test_index_in_memory_goes_where_its_handle_is_lost() -> None:
    script = "import simindex; index = simindex.open(':memory:'); print(index.path)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).exists()


def test_index_in_memory_of_a_killed_process_goes_with_the_next_one() -> None:
    script = (
        "import os, signal, simindex; index = simindex.open(':memory:'); print(index.path, flush=True); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    left = Path(done.stdout.strip())
    assert left.exists()
    with simindex.open(":memory:") as one, simindex.open(":memory:"):
        assert Path(one.path).exists()
        assert not left.exists()


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_index_in_memory_is_always_a_new_one(mode: str) -> None:
    with pytest.raises(ValueError, match='mode: expected "a" or "x" of a new index in memory'):
        simindex.open(":memory:", mode)  # type: ignore[arg-type]


def test_index_in_memory_has_no_path_for_other_calls() -> None:
    with pytest.raises(ValueError, match="path: expected a folder, found ':memory:'; an index in memory is"):
        simindex.check(":memory:")


def test_path_of_that_name_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with simindex.open("./:memory:") as index:
        index.insert("a", "some words")
    assert (tmp_path / ":memory:" / "data.mdb").exists()


@pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
def test_unique_keeps_what_no_kept_one_before_it_is_like(threshold: float) -> None:
    rng, texts = random.Random(5), list[str]()
    for _ in range(25):
        drawn = [f"w{rng.randrange(1000)}" for _ in range(60)]
        for _ in range(rng.randrange(1, 7)):
            texts.append(" ".join(drawn))
            if rng.random() < 0.6:  # else an equal one follows
                drawn[rng.randrange(60)] = f"w{rng.randrange(1000)}"
    rng.shuffle(texts)
    kept = list[str]()
    for text in texts:
        shingles = word_shingles(words(text), 3)
        if all(jaccard(shingles, word_shingles(words(other), 3)) < threshold for other in kept):
            kept.append(text)
    assert len(kept) < len(texts)
    config = simindex.Config(shingles=simindex.WordShingles(3))
    assert simindex.unique(texts, threshold, config=config) == kept


@pytest.mark.parametrize("threshold", [0.6, 0.9])
def test_pairs_of_a_list_are_those_of_brute_force(threshold: float) -> None:
    rng = random.Random(6)
    texts = list[str]()
    for _ in range(12):
        drawn = [f"w{rng.randrange(1000)}" for _ in range(60)]
        for _ in range(4):
            texts.append(" ".join(drawn))
            drawn[rng.randrange(60)] = f"w{rng.randrange(1000)}"
    texts += texts[:3]
    sets = [word_shingles(words(text), 3) for text in texts]
    expected = [
        (a, b, jaccard(sets[a], sets[b]))
        for a in range(len(sets))
        for b in range(a + 1, len(sets))
        if jaccard(sets[a], sets[b]) >= threshold
    ]
    config = simindex.Config(shingles=simindex.WordShingles(3))
    found = simindex.pairs(iter(texts), threshold, config=config)
    assert [(pair.a, pair.b, pair.similarity) for pair in found] == expected
    assert expected
    assert simindex.pairs([]) == []


def test_unique_takes_ready_shingles_and_nothing_at_all() -> None:
    sets = [{"a", "b"}, {"b", "a"}, {"c"}]
    assert simindex.unique(sets) == [sets[0], sets[2]]
    assert simindex.unique([]) == []
    with pytest.raises(TypeError, match="key 1"):
        simindex.unique(["a text", 7])  # type: ignore[type-var]


@pytest.mark.parametrize("of_list", [simindex.pairs, simindex.unique])
@pytest.mark.parametrize("documents", ["one page", b"one page", {"a": "one page"}, 3])
def test_list_that_is_no_list_is_refused(of_list: Callable[[Any], object], documents: object) -> None:
    found = f"expected an iterable of documents, found {type(documents).__name__}; "
    with pytest.raises(TypeError, match=found):
        of_list(documents)
