"""Histograms of an index for `simindex stats`, and the bars and shares that overviews have, too."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from simindex.all_pairs.pairs import Pairs
from simindex.index import Index

_MOST_STEPS = 60
_STEP_PERCENT = 2
_AGES = 20

Bars = list[tuple[str, int]]
"""Label and count of each bar, in order."""


class Histograms(NamedTuple):
    """What is stored, in bars."""

    similarities: Bars  # pairs by similarity, or by distance without MinHash, copies with the first of them
    buckets: Bars  # buckets by the number of sketches in them: 1, 2 to 3, 4 to 7 and so on
    ages: Bars  # documents by the time of their last touch or insert, in equal stretches of time, UTC


def histograms_of(index: Index, threshold: float) -> Histograms:
    """Return the histograms of an index, with the pairs of `pairs_to_count`. Without documents `ages` is
    empty. Cost: that of `Index.pairs`, and one reading of all records."""
    with pairs_to_count(index, threshold) as pairs:
        sizes = pairs.bucket_sizes()
        steps = Counter(step_of(pair.similarity, pair.distance) for pair in pairs)
    by_similarity = bool(index.config.num_perm)
    similarities = labelled(steps, by_similarity, threshold, most_bits(index))
    return Histograms(similarities, _by_powers(sizes), _ages(index))


def pairs_to_count(index: Index, threshold: float) -> Pairs:
    """Return the pairs of an index from the threshold on, or without MinHash, whatever the threshold, those
    within the distance that it is built for; each copy of a sketch is paired with the first of them only."""
    if index.config.num_perm:
        return index.pairs(threshold, copies="first")
    return index.pairs(copies="first")


def most_bits(index: Index) -> int:
    """Return the distance that an index is built for; 0 without SimHash."""
    return 0 if index.config.simhash is None else index.config.simhash.max_distance


def step_of(similarity: float | None, distance: int | None) -> int:
    """Return the bar of a pair: the similarity in hundredths, rounded down to an even number; or without one
    the distance in bits; 0 without either."""
    if similarity is None:
        return distance or 0
    return int(similarity * 100 + 1e-9) // _STEP_PERCENT * _STEP_PERCENT


def labelled(histogram: Counter[int], by_similarity: bool, threshold: float, most: int) -> Bars:
    """Return the count of each bar by its label, empty bars too: similarities from the threshold, or from the
    least below it, up to "1.00"; or, whatever the threshold, distances from `most` bits down to 0."""
    if not by_similarity:
        return [(f"{step} bits", histogram[step]) for step in range(most, -1, -1)]
    first = min(min(histogram, default=100), int(threshold * 100)) // _STEP_PERCENT * _STEP_PERCENT
    return [(f"{step / 100:.2f}", histogram[step]) for step in range(first, 101, _STEP_PERCENT)]


def fresh_shares(num_documents: int, later: Iterable[int]) -> list[float]:
    """Cut the documents, in their order, into 60 equal parts, or as many as there are documents, and return
    the share of each that is no duplicate. `later`: the numbers of the duplicates, from 0 on."""
    num_steps = min(_MOST_STEPS, num_documents)
    edges = [step * num_documents // max(num_steps, 1) for step in range(num_steps + 1)]
    old, _ = (
        np.histogram(np.fromiter(later, dtype=np.int64), bins=edges) if num_steps else (np.zeros(0), None)
    )
    return [1 - int(count) / (edges[step + 1] - edges[step]) for step, count in enumerate(old)]


def _by_powers(sizes: Counter[int]) -> Bars:
    """Return how many of the sizes, each 1 or more, lie in 1, 2-3, 4-7 and so on up to the largest."""
    bars: Counter[int] = Counter()
    for size, count in sizes.items():
        bars[size.bit_length() - 1] += count
    return [
        (f"{1 << power}-{(2 << power) - 1}" if power else "1", bars[power])
        for power in range(max(bars, default=-1) + 1)
    ]


def _ages(index: Index) -> Bars:
    seconds = array("d", (record.seen_at.timestamp() for record in index.values()))
    if not seconds:
        return []
    counts, edges = np.histogram(seconds, bins=_AGES if min(seconds) < max(seconds) else 1)
    begins = (datetime.fromtimestamp(edge, UTC) for edge in edges.tolist())
    return [
        (f"{begin:%Y-%m-%d %H:%M:%S}", count) for begin, count in zip(begins, counts.tolist(), strict=False)
    ]
