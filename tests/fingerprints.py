"""Fingerprints in an index and brute force over them, and settings with one method or both."""

import numpy as np

import simindex
from simindex import Config, SimHashConfig, Sketch

SEED = 20070508
FOX = "the quick brown fox jumps over the lazy dog near the old river bank"
CAT = "the quick brown fox jumps over the lazy cat near the old river bank"


def simhash_only(max_distance, blocks=None):
    return Config(num_perm=0, simhash=SimHashConfig(max_distance, blocks))


def sketches(fingerprints):
    return [Sketch.from_fingerprint(fingerprint) for fingerprint in fingerprints]


def open_with(path, fingerprints, config, batch_size=50_000, **options):
    """An index whose keys are the places of the fingerprints."""
    index = simindex.open(path, "x", config, **options)
    items = enumerate(map(Sketch.from_fingerprint, fingerprints.tolist()))
    index.insert_many(items, batch_size=batch_size)
    return index


def brute_force(fingerprints, query, max_distance):
    """place -> distance, of every fingerprint within that many bits."""
    distances = np.bitwise_count(fingerprints ^ np.uint64(query))
    near = np.flatnonzero(distances <= max_distance)
    return dict(zip(near.tolist(), distances[near].tolist(), strict=True))


def assert_matches(matches, expected):
    """Just the expected documents with their distances, each once, nearest first."""
    assert {match.key: match.distance for match in matches} == expected
    assert len(matches) == len(expected)
    assert [match.distance for match in matches] == sorted(expected.values())
    assert not matches.truncated
    assert matches.candidates >= 0


def flipped(fingerprint, bits):
    return int(fingerprint) ^ sum(1 << int(bit) for bit in bits)


BOTH = Config(num_perm=64)
MINHASH_ONLY = Config(num_perm=64, simhash=None)
SIMHASH_ONLY = Config(num_perm=0)
CONFIGS = {"both": BOTH, "minhash": MINHASH_ONLY, "simhash": SIMHASH_ONLY}
