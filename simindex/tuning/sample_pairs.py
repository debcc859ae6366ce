"""The similar pairs of a sample, their histogram and its valley, and which of them are shown and labelled.

The pairs are those of an index with 1,024 rows, compared by the texts themselves; some of them are drawn.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import numpy as np

from simindex import index as face
from simindex.config import Config, Shingles
from simindex.tuning.sample import Sample

LEAST_SIMILARITY = 0.2
"""Pairs of a sample that are less similar are not looked for."""

BINS = 80
"""Bars of the histogram, a hundredth each: 0.20 up to and with 1.00."""

_NUM_PERM = 1024
_MOST_PAIRS = 1_000_000
_SEED = 1
_EXAMPLES_A_TENTH, _LABELS_A_TENTH = 3, 10
LABELS = 60
"""So many pairs, of the most similar tenths, are enough; the others are for those who want to label more."""


class SamplePair(NamedTuple):
    """Two texts of the sample; of `copies` of one text the first stands for all in pairs with others.

    Attributes:
        a, b: their keys.
        similarity: exact Jaccard similarity, 0..1.
    """

    a: Any
    b: Any
    similarity: float
    text_a: str
    text_b: str


@dataclass(frozen=True)
class SamplePairs:
    """The pairs of a similarity of 0.2 or more, in the order of their texts; see `pairs_of_sample`."""

    ends: np.ndarray  # int64, shape (n, 2): the indexes in `Sample.texts` of both texts, the earlier first
    similarities: np.ndarray  # exact Jaccard similarities, float64, shape (n,)

    def histogram(self) -> tuple[int, ...]:
        """Return how many pairs each hundredth of similarity has from 0.20 on: 80 counts, 1.0 in the last."""
        bins = np.minimum(((self.similarities - LEAST_SIMILARITY) * 100 + 1e-9).astype(np.int64), BINS - 1)
        return tuple(np.bincount(bins, minlength=BINS).tolist())


def pairs_of_sample(sample: Sample, shingles: Shingles) -> SamplePairs:
    """Return the similar pairs of a sample by these shingles. Of texts with equal shingles the first stands
    for all in pairs with others; empty texts are in none.

    Where there are more than a million pairs those among a random quarter of the texts are returned, or among
    a quarter of these, and so on; `sample.notes` gets a sentence for each step, and one if pairs may be
    missing. An index in a temporary folder finds them.
    """
    rows = [row for row, text in enumerate(sample.texts) if text]
    while True:
        found = _pairs_among(sample, rows, shingles)
        if found is not None:
            return found
        rows = sorted(Random(_SEED).sample(rows, len(rows) // 4))
        sample.notes.append(
            f"There are more than {_MOST_PAIRS:,} similar pairs: those among {len(rows):,} texts, drawn at "
            "random, are counted."
        )


def _pairs_among(sample: Sample, rows: list[int], shingles: Shingles) -> SamplePairs | None:
    """Return the pairs among the texts at the indexes `rows`, or None where there are more than a million; a
    note says where some may be missing."""
    found: list[tuple[int, int, float]] = []
    config = Config(shingles=shingles, num_perm=_NUM_PERM, simhash=None)
    texts = sample.texts
    with (
        tempfile.TemporaryDirectory(prefix="simindex-tune-") as folder,
        face.open(os.path.join(folder, "sample"), "x", config) as index,
    ):
        index.insert_many((row, texts[row]) for row in rows)
        pairs = index.pairs(LEAST_SIMILARITY, texts=texts.__getitem__, copies="first")
        for pair in pairs:
            if len(found) == _MOST_PAIRS:
                pairs.close()
                return None
            first, second = sorted((pair.a, pair.b))
            found.append((int(first), int(second), pair.similarity or 0.0))
        if pairs.bounded.runs:
            sample.notes.append(
                f"{pairs.bounded.runs:,} groups of texts with much in common were not compared all with all, "
                "so pairs may be missing."
            )
    found.sort()  # the same however the index was laid out
    ends = np.array([(first, second) for first, second, _ in found], dtype=np.int64)
    return SamplePairs(
        ends.reshape(-1, 2), np.array([similarity for *_, similarity in found], dtype=np.float64)
    )


def examples(sample: Sample, pairs: SamplePairs) -> tuple[SamplePair, ...]:
    """Return three pairs of each tenth of similarity, or all that it has, drawn at random, the least similar
    first."""
    rows = sorted(_drawn(pairs, _EXAMPLES_A_TENTH), key=pairs.similarities.__getitem__)
    return tuple(_pair(sample, pairs, row) for row in rows)


def pairs_to_label(sample: Sample, pairs: SamplePairs) -> tuple[SamplePair, ...]:
    """Return ten pairs of each tenth of similarity, or all that it has, drawn at random: first 60, from the
    most similar tenth down, shuffled, then the others, shuffled. Equal input gives an equal draw."""
    rows = _drawn(pairs, _LABELS_A_TENTH)
    first, others = rows[:LABELS], rows[LABELS:]
    for some in first, others:
        Random(_SEED).shuffle(some)
    return tuple(_pair(sample, pairs, row) for row in first + others)


def _drawn(pairs: SamplePairs, most: int) -> list[int]:
    """Return the rows in `pairs` of at most so many pairs of each tenth, the most similar tenth first; equal
    pairs give equal rows."""
    random, rows, tenths = Random(_SEED), list[int](), tenths_of(pairs.similarities)
    for tenth in range(9, -1, -1):
        of_tenth = np.flatnonzero(tenths == tenth).tolist()
        rows += random.sample(of_tenth, min(most, len(of_tenth)))
    return rows


def _pair(sample: Sample, pairs: SamplePairs, row: int) -> SamplePair:
    a, b = pairs.ends[row].tolist()
    keys, texts = sample.keys, sample.texts
    return SamplePair(keys[a], keys[b], float(pairs.similarities[row]), texts[a], texts[b])


def valley_of(histogram: tuple[int, ...]) -> float | None:
    """Return the similarity at which a histogram, a count for each hundredth from 0.2 on, is lowest between
    two heaps that stand over it by more than three times what chance moves both, in bars of 0.05; of several
    equal bars the middle, to two decimals. ``None``: nowhere."""
    bars = np.array(histogram).reshape(-1, 5).sum(axis=1)
    depths = []
    for bar in range(1, len(bars) - 1):
        heap = min(bars[:bar].max(), bars[bar + 1 :].max())
        depths.append((heap - bars[bar] - 3 * (heap + bars[bar]) ** 0.5, bar))
    deepest = max(depth for depth, _ in depths)
    if deepest <= 0:
        return None
    lowest = [bar for depth, bar in depths if depth == deepest]
    return round(LEAST_SIMILARITY + 0.05 * (lowest[0] + lowest[-1] + 1) / 2, 2)


def tenths_of(similarities: np.ndarray) -> np.ndarray:
    """Return which tenth of 0..1 each similarity lies in, int64: 0 below 0.1, ... 9 for 0.9 to 1.0."""
    return np.minimum((similarities * 10 + 1e-9).astype(np.int64), 9)


def in_tenths(histogram: tuple[int, ...]) -> np.ndarray:
    """Return how many pairs each tenth of similarity has: int64, shape (10,), the first two 0. `histogram`:
    counts of the 80 hundredths from 0.20 on."""
    return np.append([0, 0], np.array(histogram).reshape(-1, 10).sum(axis=1))
