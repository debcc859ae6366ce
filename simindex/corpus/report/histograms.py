"""Histograms of an index for `simindex stats`: similarities of pairs, sizes of buckets, ages of documents."""

from __future__ import annotations

from array import array
from collections import Counter
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from simindex.corpus.report.overview import labelled, step_of
from simindex.index import Index

_AGES = 20

Bars = list[tuple[str, int]]
"""Label and count of each bar, in order."""


class Histograms(NamedTuple):
    """What is stored, in bars.

    Attributes:
        similarities: pairs by their similarity, or by their distance without MinHash, copies of one document
            paired with the first of them alone.
        buckets: buckets by the number of sketches in them: 1, 2 to 3, 4 to 7 and so on.
        ages: documents by the time of their last touch, or of their insert, in equal stretches of time, UTC.
    """

    similarities: Bars
    buckets: Bars
    ages: Bars


def histograms_of(index: Index, threshold: float) -> Histograms:
    """Return the histograms. Cost: that of `Index.pairs`, and a reading of all records.

    Args:
        threshold: least similarity of a pair; what a bucket is follows from it, too. Without MinHash pairs
            within the configured distance count.
    """
    by_similarity, simhash = bool(index.config.num_perm), index.config.simhash
    with index.pairs(threshold, copies="first") if by_similarity else index.pairs(copies="first") as pairs:
        sizes = pairs.bucket_sizes()
        steps = Counter(step_of(pair.similarity, pair.distance) for pair in pairs)
    return Histograms(
        labelled(steps, by_similarity, threshold, simhash.max_distance if simhash else 0),
        _by_powers(sizes),
        _ages(index),
    )


def _by_powers(sizes: Counter[int]) -> Bars:
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
