"""The documents that the benchmark is run on: the same each time, of the promised sizes and similarities."""

import functools
import gzip
import importlib.util
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TOOL = Path(__file__).parents[2] / "tools" / "benchmarks" / "corpus.py"
NUM_DOCUMENTS = 4_000


@pytest.fixture(scope="module")
def corpus() -> Any:
    spec = importlib.util.spec_from_file_location("corpus", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def texts(corpus: Any) -> list[str]:
    return [text for _, text in corpus.documents(NUM_DOCUMENTS)]


@pytest.fixture(scope="module")
def origins(corpus: Any) -> list[int]:
    origins: list[int] = corpus.originals(np.arange(NUM_DOCUMENTS)).tolist()
    return origins


@functools.cache
def shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[place : place + 3]) for place in range(len(words) - 2)}


def similarity(one: str, other: str) -> float:
    first, second = shingles(one), shingles(other)
    return len(first & second) / len(first | second)


def test_documents_are_the_same_each_time_and_for_every_count(corpus: Any, texts: list[str]) -> None:
    second = list(corpus.documents(1_500))
    assert [text for _, text in second] == texts[:1_500]
    assert [key for key, _ in second] == [corpus.key_of(number) for number in range(1_500)]
    assert [text for _, text in corpus.documents(100, seed=2)] != texts[:100]


def test_documents_have_the_promised_lengths(texts: list[str]) -> None:
    # Bounds of at least four standard errors of 4,000 draws from the log-normal distribution.
    lengths = np.array([len(text) for text in texts])
    assert 940 < lengths.mean() < 1_060
    assert 755 < np.median(lengths) < 845
    assert 235 < np.percentile(lengths, 5) < 305
    assert 2_150 < np.percentile(lengths, 95) < 2_700


def test_one_document_in_five_is_a_copy_of_an_earlier_original(origins: list[int]) -> None:
    # Five standard errors of a share of 0.2 in 4,000.
    copies = [number for number, origin in enumerate(origins) if origin != number]
    assert 0.168 < len(copies) / NUM_DOCUMENTS < 0.232
    assert all(origins[number] < number for number in copies)
    assert all(origins[origins[number]] == origins[number] for number in copies)


def test_copies_are_as_similar_as_drawn(texts: list[str], origins: list[int]) -> None:
    measured = np.array(
        [
            similarity(texts[number], texts[origin])
            for number, origin in enumerate(origins)
            if number != origin
        ]
    )
    exact = measured == 1.0
    assert 0.04 < exact.mean() < 0.16
    edited = measured[~exact]
    assert edited.min() > 0.2
    # Uniform from 0.3 to 1.0: a mean of 0.65, a standard deviation of 0.202, the deciles 0.07 apart.
    assert abs(edited.mean() - 0.65) < 0.045
    assert abs(edited.std() - 0.202) < 0.025
    assert np.abs(np.percentile(edited, range(10, 100, 10)) - np.arange(0.37, 0.99, 0.07)).max() < 0.08


def test_queries_are_by_turns_copies_and_fresh(corpus: Any, texts: list[str]) -> None:
    queries = list(corpus.queries(30, 100))
    assert queries == list(corpus.queries(30, 100))
    nearest = [max(similarity(query, text) for text in texts[:100]) for query in queries]
    assert min(nearest[::2]) > 0.2
    assert max(nearest[1::2]) < 0.2


def test_fingerprints_are_uniform_and_repeatable(corpus: Any) -> None:
    values = corpus.fingerprints(10_000)
    assert values.dtype == np.uint64
    assert np.array_equal(values, corpus.fingerprints(10_000))
    # Each of 64 bits is set in half of 10,000: six standard errors.
    set_bits = np.unpackbits(values.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.abs(set_bits - 0.5).max() < 0.03


@pytest.mark.parametrize("shared_bits", [0, 1, 48, 64])
def test_clustered_fingerprints_share_their_highest_bits_only(corpus: Any, shared_bits: int) -> None:
    values = corpus.clustered_fingerprints(2_000, shared_bits)
    differing = int(np.bitwise_or.reduce(values ^ values[0]))
    assert differing == (1 << (64 - shared_bits)) - 1


@pytest.mark.parametrize(
    ("name", "opener"), [("a.jsonl", open), ("a.jsonl.gz", gzip.open), ("a.xz", lzma.open)]
)
def test_read_jsonl_reads_plain_and_packed_files(
    corpus: Any, tmp_path: Path, name: str, opener: Callable[..., Any]
) -> None:
    with opener(tmp_path / name, "wt", encoding="utf-8") as lines:
        lines.write('{"id": 7, "text": "naïve", "more": 1}\n\n{"id": "b", "text": ""}\n')
    assert list(corpus.read_jsonl(tmp_path / name)) == [("7", "naïve"), ("b", "")]


@pytest.mark.parametrize("line", ['{"id": "a"}', "[1]", "{", "7"])
def test_read_jsonl_says_which_line_is_wrong(corpus: Any, tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "text": "b"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a\.jsonl, line 2: expected an object with 'id' and 'text'"):
        list(corpus.read_jsonl(path))
