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

NUM_PERM = 1024
_MOST_PAIRS = 1_000_000
_SEED = 1
EXAMPLES_A_TENTH = 3
LABELS, LABELS_A_TENTH = 60, 10


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

    @property
    def tenth(self) -> int:
        """The tenth of similarity that it is in, 0..9; that of 1.0 is 9."""
        return tenth_of(self.similarity)


@dataclass(frozen=True)
class SamplePairs:
    """The pairs of a similarity of 0.2 or more: the places of their texts, int64, shape (n, 2), the earlier
    one first, and their exact similarities."""

    ends: np.ndarray
    similarities: np.ndarray

    def histogram(self) -> tuple[int, ...]:
        """Return how many have each hundredth of similarity."""
        bins = np.minimum(((self.similarities - LEAST_SIMILARITY) * 100 + 1e-9).astype(np.int64), BINS - 1)
        return tuple(np.bincount(bins, minlength=BINS).tolist())

    def tenths(self) -> dict[int, list[int]]:
        """Return the pairs of each tenth of similarity that has any."""
        found: dict[int, list[int]] = {}
        for place, similarity in enumerate(self.similarities.tolist()):
            found.setdefault(tenth_of(similarity), []).append(place)
        return found


def pairs_of_sample(sample: Sample, shingles: Shingles) -> SamplePairs:
    """Return the similar pairs; where there are too many, those of a random quarter of the texts."""
    places = [place for place, text in enumerate(sample.texts) if text]
    while True:
        found = _pairs_among(sample, places, shingles)
        if found is not None:
            return found
        places = sorted(Random(_SEED).sample(places, len(places) // 4))
        sample.notes.append(
            f"There are more than {_MOST_PAIRS:,} similar pairs: those among {len(places):,} texts, drawn at "
            "random, are counted."
        )


def _pairs_among(sample: Sample, places: list[int], shingles: Shingles) -> SamplePairs | None:
    ends: list[tuple[int, int]] = []
    similarities: list[float] = []
    config = Config(shingles=shingles, num_perm=NUM_PERM, simhash=None)
    texts = sample.texts
    with (
        tempfile.TemporaryDirectory(prefix="simindex-tune-") as folder,
        face.open(os.path.join(folder, "sample"), "x", config) as index,
    ):
        index.insert_many((place, texts[place]) for place in places)
        pairs = index.pairs(LEAST_SIMILARITY, texts=texts.__getitem__, copies="first")
        for pair in pairs:
            if len(ends) == _MOST_PAIRS:
                pairs.close()
                return None
            first, second = sorted((pair.a, pair.b))
            ends.append((int(first), int(second)))
            similarities.append(pair.similarity or 0.0)
        if pairs.bounded.runs:
            sample.notes.append(
                f"{pairs.bounded.runs:,} groups of texts with much in common were not compared all with all, "
                "so pairs may be missing."
            )
    order = sorted(range(len(ends)), key=ends.__getitem__)  # the same however the index was laid out
    return SamplePairs(
        np.array(ends, dtype=np.int64).reshape(-1, 2)[order], np.array(similarities, dtype=np.float64)[order]
    )


def examples(sample: Sample, pairs: SamplePairs) -> tuple[SamplePair, ...]:
    """Return three pairs of each tenth of similarity, drawn at random, the least similar first."""
    places = sorted(_drawn(pairs, EXAMPLES_A_TENTH), key=pairs.similarities.__getitem__)
    return tuple(_pair(sample, pairs, place) for place in places)


def pairs_to_label(sample: Sample, pairs: SamplePairs) -> tuple[SamplePair, ...]:
    """Return ten pairs of each tenth of similarity, at random: 60 from 1 down, mixed, then the others."""
    places = _drawn(pairs, LABELS_A_TENTH)
    first, others = places[:LABELS], places[LABELS:]
    for some in first, others:
        Random(_SEED).shuffle(some)
    return tuple(_pair(sample, pairs, place) for place in first + others)


def _drawn(pairs: SamplePairs, most: int) -> list[int]:
    """Return at most so many pairs of each tenth, the most similar tenth first."""
    random, places = Random(_SEED), list[int]()
    for _, of_tenth in sorted(pairs.tenths().items(), reverse=True):
        places += random.sample(of_tenth, min(most, len(of_tenth)))
    return places


def _pair(sample: Sample, pairs: SamplePairs, place: int) -> SamplePair:
    a, b = pairs.ends[place].tolist()
    keys, texts = sample.keys, sample.texts
    return SamplePair(keys[a], keys[b], float(pairs.similarities[place]), texts[a], texts[b])


def valley_of(histogram: tuple[int, ...]) -> float | None:
    """Return where a histogram is lowest, by twentieths, between two heaps that stand over it by more than
    three times what chance moves both; ``None``: nowhere."""
    bars = np.array(histogram).reshape(-1, 5).sum(axis=1)
    depths = []
    for place in range(1, len(bars) - 1):
        heap = min(bars[:place].max(), bars[place + 1 :].max())
        depths.append((heap - bars[place] - 3 * (heap + bars[place]) ** 0.5, place))
    deepest = max(depth for depth, _ in depths)
    if deepest <= 0:
        return None
    lowest = [place for depth, place in depths if depth == deepest]
    return round(LEAST_SIMILARITY + 0.05 * (lowest[0] + lowest[-1] + 1) / 2, 2)


def tenth_of(similarity: float) -> int:
    """Return which tenth of 0..1 a similarity lies in: 0 for less than 0.1, ... 9 for 0.9 to 1.0."""
    return min(9, int(similarity * 10 + 1e-9))


def in_tenths(histogram: tuple[int, ...]) -> np.ndarray:
    """Return how many pairs of a histogram each tenth of similarity has: int64, shape (10,)."""
    return np.append([0, 0], np.array(histogram).reshape(-1, 10).sum(axis=1))
