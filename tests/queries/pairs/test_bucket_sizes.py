"""`Pairs.bucket_sizes`, beside a count of the stored words."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import simindex
from simindex import ClosedError, Config, Sketch

ROWS = 40_000


def test_bucket_sizes_are_those_of_the_prefixes(tmp_path: Path) -> None:
    rows = np.random.default_rng(5).integers(0, 4, (ROWS, 16), dtype=np.uint8)
    sketches = list(map(Sketch.from_rows, rows))
    with simindex.open(tmp_path / "i", config=Config(num_perm=16, simhash=None)) as index:
        for first in range(0, ROWS, ROWS // 2):
            index.insert_many(enumerate(sketches[first : first + ROWS // 2], first))
        index.remove_many(range(100))
        pairs = index.pairs(0.9, memory_bytes=1 << 20)  # a table does not fit into memory
        bits = simindex.tuning.compared_bits(0.9, 2)
        # Rows of two bands that are equal as a whole are copies, and count once.
        words = {sketch.words.tobytes() for sketch in sketches[100:] if sketch.words is not None}
        stored = np.frombuffer(b"".join(words), dtype=np.uint64).reshape(-1, 2)
        prefixes = stored >> np.uint64(64 - bits)
        expected = Counter(size for band in prefixes.T for size in Counter(band.tolist()).values())
        assert pairs.bucket_sizes() == expected
        assert max(expected) > 1
        pairs.close()
        with pytest.raises(ClosedError):
            pairs.bucket_sizes()


def test_bucket_sizes_of_an_empty_index_are_none(tmp_path: Path) -> None:
    with simindex.open(tmp_path / "i") as index, index.pairs() as pairs:
        assert pairs.bucket_sizes() == {}
