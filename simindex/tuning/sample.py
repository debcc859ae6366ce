"""Read a sample of texts; say what it is: lengths, shingles, scripts, copies, boilerplate; find its pairs.

The pairs are those of an index with 1,024 rows, compared by the texts themselves; some of them are drawn.
"""

from __future__ import annotations

import os
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from simindex import index as face
from simindex.config import Config, Shingles
from simindex.corpus.entries import entries_of
from simindex.distinct import distinct
from simindex.errors import SimIndexError
from simindex.format.keys import Key
from simindex.sketching.shingles import shingle_hashes
from simindex.tuning.report import BINS, LEAST_SIMILARITY, Quantiles, SampleFigures, SamplePair, tenth_of

LEAST_TEXTS = 100
"""A sample of fewer says nothing: it has 4,950 pairs at most, and few of them are similar."""

_MOST_TEXTS, _MOST_CHARACTERS = 100_000, 500_000_000
_LOOKED_INTO = 10_000
"""Texts whose shingles are counted."""

_COMMON = 0.01
_MOST_SCRIPTS = 5
_SHARES = 5, 25, 50, 75, 95


@dataclass
class Sample:
    """Texts by their place, and notes of what was left out."""

    keys: list[Key] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def places(self) -> dict[Key, list[int]]:
        """Return the places of each key: a sample may have one more than once."""
        found: dict[Key, list[int]] = {}
        for place, key in enumerate(self.keys):
            found.setdefault(key, []).append(place)
        return found


def read_sample(documents: Any, progress: Callable[[int], object] | None) -> Sample:
    """Return the first texts of what a caller gave, 100,000 at most; refuse ready shingles, and too few."""
    sample, room = Sample(), _MOST_CHARACTERS
    for entry in entries_of(documents):
        if not isinstance(entry.document, str):
            raise TypeError(
                f"{entry.name}:{entry.row}: expected a text, found {type(entry.document).__name__}; "
                "a sample shows how texts are best cut into shingles, and this one is cut already"
            )
        room -= len(entry.document)
        if len(sample.keys) == _MOST_TEXTS or (room < 0 and len(sample.keys) >= LEAST_TEXTS):
            sample.notes.append(
                f"The first {len(sample.keys):,} texts are the sample; the others are not read."
            )
            break
        sample.keys.append(entry.key)
        sample.texts.append(entry.document)
        if progress is not None:
            progress(len(sample.keys))
    if len(sample.keys) < LEAST_TEXTS:
        raise SampleError(
            f"sample: expected {LEAST_TEXTS} texts or more, found {len(sample.keys)}; "
            "so few have hardly any similar pairs, and say nothing about the others"
        )
    return sample


class SampleError(SimIndexError, ValueError):
    """A sample, or its labels, that nothing can be said about."""


def figures_of(sample: Sample, shingles: Shingles) -> SampleFigures:
    """Return what a sample is. Cost: some 50 us a text of 1,000 characters."""
    texts = sample.texts
    step = -(-len(texts) // _LOOKED_INTO)
    looked_into: list[np.ndarray] = []
    sizes = []
    for place, text in enumerate(texts):
        hashes = distinct(shingle_hashes(text, shingles, 0))
        sizes.append(len(hashes))
        if place % step == 0 and len(hashes):
            looked_into.append(hashes)
    if not looked_into:
        raise SampleError(
            f"sample: expected texts with shingles, found {len(texts):,} without a letter, digit or symbol"
        )
    return SampleFigures(
        documents=len(texts),
        without_shingles=sizes.count(0),
        copies=len(texts) - len(set(texts)),
        characters=_quantiles([len(text) for text in texts]),
        shingles=_quantiles(sizes),
        scripts=_scripts(texts[::step]),
        common_share=_common_share(looked_into),
    )


def _quantiles(sizes: Sequence[int]) -> Quantiles:
    found: Quantiles = tuple(np.percentile(sizes, _SHARES, method="nearest").astype(int).tolist())
    return found


def _scripts(texts: Sequence[str]) -> dict[str, float]:
    """Return the share of letters of each script: the first word of their names in Unicode."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    scripts: Counter[str] = Counter()
    for letter, count in counts.items():
        if letter.isalpha():
            scripts[unicodedata.name(letter, "other").split()[0].lower()] += count
    letters = scripts.total()
    return {script: round(count / letters, 4) for script, count in scripts.most_common(_MOST_SCRIPTS)}


def _common_share(texts: list[np.ndarray]) -> float:
    """Return the mean share of a text's shingles that many of the texts have, and two at least."""
    known, same = np.unique(np.concatenate(texts), return_inverse=True)
    owners = np.bincount(same, minlength=len(known))
    is_common = owners[same] >= max(2, _COMMON * len(texts))
    ends = np.cumsum([len(text) for text in texts])
    commons = np.diff(np.append(0, np.cumsum(is_common)[ends - 1]))
    return float(np.mean(commons / np.diff(np.append(0, ends))))


# ---- its pairs ----

NUM_PERM = 1024
_MOST_PAIRS = 1_000_000
_SEED = 1

EXAMPLES_A_TENTH = 3
LABELS, LABELS_A_TENTH = 60, 10


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
