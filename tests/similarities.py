"""Exact similarities of the pairs of a collection, and what many seeds make of the same texts.

A deviation of one signature is shared by all pairs of a family of documents (they hold the same
sentences), so pairs of one seed are far from independent. Every figure is therefore averaged over many
seeds, which are. The seeds are fixed: a test either always passes or never. The chance of a false alarm
is the one that a new hashing contract, equally good, would have.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

from simindex import Config, Sketcher, WordShingles
from simindex.sketching.shingles import shingle_hashes
from simindex.sketching.sketch import SketchBatch

NUM_PERM = 128
BANDS = 16


def exact_similarities(
    texts: Iterable[str], lowest: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first, second, similarity) of the pairs that share a shingle, three arrays; counted, not estimated."""
    sets = [frozenset(shingle_hashes(text, WordShingles(3), 1).tolist()) for text in texts]
    holders: dict[int, list[int]] = {}
    for number, members in enumerate(sets):
        for member in members:
            holders.setdefault(member, []).append(number)
    common: Counter[tuple[int, int]] = Counter()
    for group in holders.values():
        common.update(combinations(group, 2))
    pairs = [(a, b, n / (len(sets[a]) + len(sets[b]) - n)) for (a, b), n in common.items()]
    kept = [pair for pair in pairs if pair[2] >= lowest]
    first, second, similarity = (np.array(column) for column in zip(*kept, strict=True))
    return first, second, similarity


def rows_of_seed(texts: Sequence[str], seed: int) -> np.ndarray:
    """uint8, shape (documents, rows)."""
    batch: SketchBatch = Sketcher(Config(seed=seed, simhash=None)).sketch_many(texts)
    return batch.words.astype(">u8").view(np.uint8).reshape(len(texts), NUM_PERM)


def shares_prefix(left: np.ndarray, right: np.ndarray, prefix_bits: int) -> np.ndarray:
    """Whether signatures, uint8 in the last axis, begin with the same bits in some band of eight rows."""
    different = np.ascontiguousarray(left ^ right).view(">u8").astype(np.uint64)
    return np.asarray((different >> np.uint64(64 - prefix_bits) == 0).any(axis=-1))


def tenths(similarities: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum((similarities * 10).astype(int), 9))


def pairs_of_similarity(
    count: int, common: int, union: int, *, seed: int
) -> list[tuple[list[str], list[str]]]:
    """Pairs of sets of shingles whose exact similarity is common / union; all shingles are new."""
    pairs = []
    for place in range(count):
        shingles = [f"{seed} {place} {number}" for number in range(union)]
        middle = common + (union - common) // 2
        pairs.append((shingles[:middle], shingles[:common] + shingles[middle:]))
    return pairs
