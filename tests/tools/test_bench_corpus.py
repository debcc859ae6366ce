"""The documents that the benchmark is run on: the same each time, of the promised sizes and similarities."""

import functools
import re

import numpy as np
from support.commands import tool

corpus = tool("benchmarks/corpus.py")
NUM_DOCUMENTS = 4_000


@functools.cache
def shingles(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[index : index + 3]) for index in range(len(words) - 2)}


def similarity(one: str, other: str) -> float:
    first, second = shingles(one), shingles(other)
    return len(first & second) / len(first | second)


def test_documents_are_the_same_each_time_and_as_long_and_alike_as_promised() -> None:
    """Bounds of at least four standard errors of so many draws."""
    texts = [text for _, text in corpus.documents(NUM_DOCUMENTS)]
    assert list(corpus.documents(1_500)) == [(corpus.key_of(n), texts[n]) for n in range(1_500)]
    assert [text for _, text in corpus.documents(100, seed=2)] != texts[:100]
    lengths = np.array([len(text) for text in texts])
    assert 940 < lengths.mean() < 1_060
    assert 755 < np.median(lengths) < 845
    origins = enumerate(corpus.originals(np.arange(NUM_DOCUMENTS)).tolist())
    measured = np.array([similarity(texts[n], texts[origin]) for n, origin in origins if n != origin])
    assert 0.168 < len(measured) / NUM_DOCUMENTS < 0.232
    exact = measured == 1.0
    assert 0.04 < exact.mean() < 0.16
    # Uniform from 0.3 to 1.0: the deciles are 0.07 apart.
    deciles = np.percentile(measured[~exact], range(10, 100, 10))
    assert np.abs(deciles - np.arange(0.37, 0.99, 0.07)).max() < 0.08
