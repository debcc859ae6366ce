"""Fingerprints in an index and brute force over them, and settings with one method or both."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import simindex
from simindex import Config, Index, Matches, SimHashConfig, Sketch

SEED = 20070508
FOX = "the quick brown fox jumps over the lazy dog near the old river bank"
CAT = "the quick brown fox jumps over the lazy cat near the old river bank"


def simhash_only(max_distance: int, blocks: int | None = None) -> Config:
    return Config(num_perm=0, simhash=SimHashConfig(max_distance, blocks))


def sketches(fingerprints: Iterable[int]) -> list[Sketch]:
    return [Sketch.from_fingerprint(fingerprint) for fingerprint in fingerprints]


def open_with(
    path: Path, fingerprints: np.ndarray, config: Config, batch_size: int = 50_000, **options: Any
) -> Index:
    """An index whose keys are the places of the fingerprints."""
    index = simindex.open(path, "x", config, **options)
    items = enumerate(map(Sketch.from_fingerprint, fingerprints.tolist()))
    index.insert_many(items, batch_size=batch_size)
    return index


def brute_force(fingerprints: np.ndarray, query: int, max_distance: int) -> dict[int, int]:
    """place -> distance, of every fingerprint within that many bits."""
    distances = np.bitwise_count(fingerprints ^ np.uint64(query))
    near = np.flatnonzero(distances <= max_distance)
    return dict(zip(near.tolist(), distances[near].tolist(), strict=True))


def assert_matches(matches: Matches, expected: dict[Any, int]) -> None:
    """Just the expected documents with their distances, each once, nearest first."""
    assert {match.key: match.distance for match in matches} == expected
    assert len(matches) == len(expected)
    assert [match.distance for match in matches] == sorted(expected.values())
    assert not matches.truncated
    assert matches.candidates is not None
    assert matches.candidates >= 0


def flipped(fingerprint: int, bits: Iterable[int]) -> int:
    return int(fingerprint) ^ sum(1 << int(bit) for bit in bits)


BOTH = Config(num_perm=64)
MINHASH_ONLY = Config(num_perm=64, simhash=None)
SIMHASH_ONLY = Config(num_perm=0)
CONFIGS = {"both": BOTH, "minhash": MINHASH_ONLY, "simhash": SIMHASH_ONLY}
